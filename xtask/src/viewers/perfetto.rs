//! The figures by SQL, in Perfetto's trace_processor.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use syscollect_tests::planted::Figures;

use crate::engine::Engine;

/// CPU samples: other stacks are sessions of their own.
const SAMPLES: &str = "perf_session_id in (select perf_session_id from perf_counter_track where name = 'CPU samples')";

/// Single figures, and the query of each.
const NUMBERS: [(&str, &str); 14] = [
    ("switches", "select count(*) from sched"),
    ("runs", "select count(*) from sched join thread using (utid) where tid != 0"),
    ("runs of the worker", "select count(*) from sched join thread using (utid) where name = 'worker'"),
    ("wakeups", "select count(*) from ftrace_event where name in ('sched_waking', 'sched_wakeup_new')"),
    ("messages", "select count(*) from slice where category = 'message' and dur = 0"),
    ("values of queue", "select count(*) from counter join track on track.id = track_id where name = 'queue'"),
    (
        "sum of queue",
        "select cast(sum(value) as int) from counter join track on track.id = track_id where name = 'queue'",
    ),
    ("frames Render", "select count(*) from slice join track on track.id = track_id where track.name = 'Render'"),
    (
        "times that cache was held",
        "select count(*) from slice join track on track.id = track_id where track.name = 'cache'",
    ),
    ("waits for cache", "select count(*) from slice where name = 'waiting for cache'"),
    (
        "allocations",
        "select count(*) from (select value - lag(value, 1, 0) over (order by ts) as growth from counter \
         join track on track.id = track_id where name = 'heap') where growth > 0",
    ),
    (
        "bytes held",
        "select cast(value as int) from counter join track on track.id = track_id where name = 'heap' \
         order by ts desc limit 1",
    ),
    // One on the thread's track, and one where it is seen at once.
    ("crashes", "select count(distinct ts) from slice where name = 'SIGSEGV'"),
    ("errors", "select count(*) from stats where severity in ('error', 'data_loss') and value > 0"),
];

/// Figures that have their names from the trace.
const LISTS: [&str; 3] = [
    "select 'zone ' || name, count(*) from slice where dur > 0 group by name",
    "select 'message ' || name, count(*) from slice where category = 'message' group by name",
    "select 'marker ' || name, count(*) from slice where dur = 0 group by name",
];

/// What trace_processor finds in a trace.
pub(super) fn figures(engine: &Engine, trace: &Path) -> Result<Figures> {
    let samples = format!("select count(*) from perf_sample where {SAMPLES}");
    let by_self = format!(
        "select 'self ' || f.name, count(*) from perf_sample join stack_profile_callsite c on c.id = callsite_id \
         join stack_profile_frame f on f.id = c.frame_id where {SAMPLES} group by 1"
    );
    let numbers = NUMBERS.iter().map(|(_, query)| *query).chain([samples.as_str()]);
    let queries: Vec<&str> = numbers.chain(LISTS).chain([by_self.as_str()]).collect();
    let tables = engine.query(trace, &queries)?;
    let (numbers, lists) = tables.split_at(NUMBERS.len() + 1);
    let mut figures = Figures::new();
    for (name, rows) in NUMBERS.iter().map(|(name, _)| *name).chain(["samples"]).zip(numbers) {
        let cell = rows.first().and_then(|row| row.first()).with_context(|| format!("no row for {name}"))?;
        figures.insert(name.to_owned(), number(cell)?);
    }
    for row in lists.iter().flatten() {
        let [name, count] = &row[..] else { continue };
        figures.insert(name.clone(), number(count)?);
    }
    ensure!(figures["errors"] == 0, "trace_processor found errors in the trace");
    Ok(figures)
}

fn number(cell: &str) -> Result<u64> {
    cell.parse().with_context(|| format!("{cell:?} is no number"))
}
