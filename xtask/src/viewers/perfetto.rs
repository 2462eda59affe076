//! The figures by SQL, in Perfetto's trace_processor.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use syscollect_tests::reference_capture::Figures;

use crate::engine::Engine;

/// CPU samples: other stacks are sessions of their own.
pub(super) const SAMPLES: &str = "perf_session_id in (select perf_session_id from \
                                  perf_counter_track where name = 'CPU samples')";

/// Single figures, and the query of each.
const NUMBERS: [(&str, &str); 18] = [
    // What runs where nothing was recorded has an id of its own, and is no switch.
    ("switches", "select count(*) from sched join thread using (utid) where tid != 2147483647"),
    (
        "runs",
        "select count(*) from sched join thread using (utid) where tid not in (0, 2147483647)",
    ),
    (
        "wakeups",
        "select count(*) from ftrace_event where name in ('sched_waking', 'sched_wakeup_new')",
    ),
    ("messages", "select count(*) from slice where category = 'message' and dur = 0"),
    (
        "values of queue",
        "select count(*) from counter join track on track.id = track_id where name = 'queue'",
    ),
    (
        "sum of queue",
        "select cast(sum(value) as int) from counter join track on track.id = track_id where name \
         = 'queue'",
    ),
    (
        "frames Render",
        "select count(*) from slice join track on track.id = track_id where track.name = 'Render'",
    ),
    (
        "times that cache was held",
        "select count(*) from slice join track on track.id = track_id where track.name = 'cache'",
    ),
    ("waits for cache", "select count(*) from slice where name = 'waiting for cache'"),
    (
        "allocations",
        "select count(*) from (select value - lag(value, 1, 0) over (partition by track_id order \
         by ts) as growth from counter join track on track.id = track_id where name = 'heap') \
         where growth > 0",
    ),
    (
        "bytes held",
        "select cast(sum(value) as int) from (select value, lead(1) over (partition by track_id \
         order by ts) as later from counter join track on track.id = track_id where name = 'heap') \
         where later is null",
    ),
    // One on the thread's track, and one where it is seen at once.
    ("crashes", "select count(*) / 2 from slice where name = 'SIGSEGV'"),
    (
        "frames CRTC 0",
        "select count(*) from slice join track on track.id = track_id where track.name = 'CRTC 0'",
    ),
    ("time of waits for a fence", "select sum(dur) from slice where category = 'fence wait'"),
    (
        "GPU jobs that failed",
        "select count(*) from slice where extract_arg(arg_set_id, 'debug.end') = 'failed'",
    ),
    (
        "GPU jobs that never ended",
        "select count(*) from slice where extract_arg(arg_set_id, 'debug.end') glob 'not ended*'",
    ),
    (
        "GPU jobs without a beginning",
        "select count(*) from slice where extract_arg(arg_set_id, 'debug.end') glob 'ended \
         before*'",
    ),
    ("errors", "select count(*) from stats where severity in ('error', 'data_loss') and value > 0"),
];

/// Figures that have their names from the trace, which may hold anything: in hexadecimal.
const LISTS: [(&str, &str); 5] = [
    (
        "fences signaled by ",
        "select hex(by), count(*) from (select extract_arg(arg_set_id, 'debug.signaled by') as by \
         from slice) where by is not null group by by",
    ),
    ("zone ", "select hex(name), count(*) from slice where dur > 0 group by name"),
    ("message ", "select hex(name), count(*) from slice where category = 'message' group by name"),
    ("marker ", "select hex(name), count(*) from slice where dur = 0 group by name"),
    (
        "runs of ",
        "select hex(p.name || ' / ' || t.name), count(*) from sched join thread t using (utid) \
         join process p using (upid) where tid != 0 group by utid",
    ),
];

/// Jobs of GPUs: they lie below a track of that name; what a thread submitted leads to them by a
/// flow.
const GPU_LISTS: [(&str, &str); 6] = [
    ("GPU jobs of ", "select hex(queue), count(*) from job group by queue"),
    (
        "GPU time of ",
        "select hex(queue), sum(dur) from job where extract_arg(arg_set_id, 'debug.ran (ns)') is \
         not null and not coalesce(extract_arg(arg_set_id, 'debug.end') glob 'not ended*', 0) \
         group by queue",
    ),
    (
        "GPU delay of ",
        "select hex(queue), sum(job.ts - submit.ts) from flow join job on job.id = slice_in \
         join slice submit on submit.id = slice_out group by queue",
    ),
    (
        "GPU errors ",
        "select hex(error), count(*) from (select extract_arg(arg_set_id, 'debug.error') as error \
         from job) where error is not null group by error",
    ),
    (
        "GPU latency of ",
        "select hex(queue), sum(job.ts + job.dur - submit.ts) from flow join job on job.id = \
         slice_in join slice submit on submit.id = slice_out \
         where not coalesce(extract_arg(job.arg_set_id, 'debug.end') glob 'not ended*', 0) group \
         by queue",
    ),
    (
        "GPU jobs by ",
        "select hex(p.name || ' / ' || th.name), count(*) from flow join job on job.id = slice_in \
         join slice submit on submit.id = slice_out join thread_track own on own.id = \
         submit.track_id join thread th using (utid) join process p using (upid) group by utid",
    ),
];
const GPU_JOBS: &str = "with job as (select slice.*, track.name as queue from slice join track on \
                        track.id = track_id join track above on above.id = track.parent_id where \
                        above.name = 'GPU') ";

/// What trace_processor finds in a trace.
pub(super) fn figures(engine: &Engine, trace: &Path) -> Result<Figures> {
    let samples = format!("select count(*) from perf_sample where {SAMPLES}");
    let by_self = format!(
        "select hex(f.name), count(*) from perf_sample join stack_profile_callsite c on c.id = \
         callsite_id join stack_profile_frame f on f.id = c.frame_id where {SAMPLES} group by 1 \
         union all select hex('[no stack]'), count(*) from perf_sample where callsite_id is null \
         and {SAMPLES}"
    );
    let by_thread = format!(
        "select hex(p.name || ' / ' || t.name), count(*) from perf_sample join thread t using \
         (utid) join process p using (upid) where tid != 0 and {SAMPLES} group by utid"
    );
    let numbers: Vec<_> = NUMBERS.into_iter().chain([("samples", samples.as_str())]).collect();
    let of_gpus = GPU_LISTS.map(|(prefix, query)| (prefix, format!("{GPU_JOBS}{query}")));
    let of_gpus = of_gpus.iter().map(|(prefix, query)| (*prefix, query.as_str()));
    let of_samples = [("self ", &*by_self), ("samples of ", &*by_thread)];
    let lists: Vec<_> = LISTS.into_iter().chain(of_gpus).chain(of_samples).collect();
    let queries: Vec<&str> = numbers.iter().chain(&lists).map(|(_, query)| *query).collect();
    let tables = engine.query(trace, &queries)?;
    let (single, named) = tables.split_at(numbers.len());
    let mut figures = Figures::new();
    for ((name, _), rows) in numbers.iter().zip(single) {
        // Nothing is held where nothing was allocated.
        let cell = rows.first().and_then(|row| row.first()).map_or("0", |cell| cell.as_str());
        figures.insert((*name).to_owned(), if cell == "null" { 0 } else { number(cell)? });
    }
    for ((prefix, _), rows) in lists.iter().zip(named) {
        for row in rows {
            let [name, count] = &row[..] else { bail!("{row:?} is no name and a count") };
            *figures.entry(format!("{prefix}{}", unhex(name)?)).or_default() += number(count)?;
        }
    }
    ensure!(figures["errors"] == 0, "trace_processor found errors in the trace");
    Ok(figures)
}

/// The text of its bytes in hexadecimal.
fn unhex(digits: &str) -> Result<String> {
    let bytes: Vec<u8> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            u8::from_str_radix(pair, 16).with_context(|| format!("{pair:?} is no byte"))
        })
        .collect::<Result<_>>()?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn number(cell: &str) -> Result<u64> {
    cell.parse().with_context(|| format!("{cell:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::unhex;

    #[test]
    fn bytes_in_hexadecimal_are_text_again() {
        assert_eq!(unhex("61094A").ok().as_deref(), Some("a\tJ"));
        assert!(unhex("6x").is_err());
    }
}
