//! A tracepoint that fires as often as a busy driver's, and far more often: what was recorded and
//! what the recorder says was lost are together what was fired.
//!
//! The tracepoint is one that nothing else on the machine reaches, and that needs no GPU: the
//! kernel tells of `prctl` calls that it does not know, with their arguments. One of them is the
//! call's number here, so the gaps in what was recorded are counted, too.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syscollect_model::LaneKind;
use syscollect_records::{RecordKind, TracepointRecord};
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, number};
use crate::report::Outcome;

/// The tracepoint (6.14), and the field with the number of the call.
const TRACEPOINT: &str = "task:task_prctl_unknown";
const NUMBER: &str = "arg2";
/// No kernel knows this option.
const OPTION: libc::c_int = 0x5ca1_ab1e;
const PER_SECOND: u64 = 200_000;
const SECONDS: u64 = 5;
/// Calls as fast as they go: more than lanes hold, and not more than the engine that judges the
/// trace.
const FASTEST: u64 = 1_000_000;
/// Between two bursts of calls.
const TICK: Duration = Duration::from_millis(1);

/// How fast events are fired.
#[derive(Clone, Copy)]
enum Pace {
    PerSecond(u64),
    AsFastAsItGoes,
}

/// A busy driver's rate, then all that the machine gives.
pub(crate) fn rate(context: &Context) -> Result<Outcome> {
    if !Path::new("/sys/kernel/tracing/events").join(TRACEPOINT.replace(':', "/")).exists() {
        return Ok(Outcome::NotOffered(format!(
            "this kernel has no tracepoint {TRACEPOINT} (6.14)"
        )));
    }
    if context.is_emulated() {
        return Ok(Outcome::NotOffered("emulated CPUs are not fast enough".to_owned()));
    }
    let paced = recorded(context, "rate", Pace::PerSecond(PER_SECOND))?;
    let fastest = recorded(context, "fastest", Pace::AsFastAsItGoes)?;
    Ok(Outcome::Passed(format!("{paced}; {fastest}")))
}

/// Records while events are fired; what was seen, in words.
fn recorded(context: &Context, name: &str, pace: Pace) -> Result<String> {
    let capture = context.path(&format!("gpu-{name}.syscap"));
    let recorder = context
        .start(&capture, &["--stacks", "none", "--freq", "0", "--tracepoint", TRACEPOINT])?;
    let start = Instant::now();
    let fired = fire(pace);
    let per_second = fired as f64 / start.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(200));
    let stderr = context.stop(recorder)?.stderr;
    let numbers = RecordedNumbers::of(&capture)?;
    let lost = reported_losses(context, &capture, &stderr, numbers.records == fired)?;
    ensure!(
        numbers.records + lost == fired,
        "{} recorded + {lost} lost are not {fired}",
        numbers.records
    );
    ensure!(
        numbers.gaps(fired) == lost,
        "{lost} lost, but {} numbers are missing",
        numbers.gaps(fired)
    );
    Ok(format!("{per_second:.0}/s: {} recorded + {lost} lost of {fired}", numbers.records))
}

/// Calls the kernel; how often.
fn fire(pace: Pace) -> u64 {
    let Pace::PerSecond(rate) = pace else {
        (0..FASTEST).for_each(call);
        return FASTEST;
    };
    let start = Instant::now();
    let mut fired = 0;
    while fired < rate * SECONDS {
        let due = ((start.elapsed().as_secs_f64() * rate as f64) as u64).min(rate * SECONDS);
        (fired..due).for_each(call);
        fired = fired.max(due);
        std::thread::sleep(TICK);
    }
    fired
}

fn call(number: u64) {
    // SAFETY: an option that no kernel knows, and numbers: nothing is read or written.
    unsafe { libc::prctl(OPTION, number, 0, 0, 0) };
}

/// Events that the recorder says it has lost: in `info`, and when it stops and exports.
fn reported_losses(context: &Context, capture: &Path, stderr: &str, is_whole: bool) -> Result<u64> {
    let info = context.info(capture)?;
    let losses = info["losses"].as_array().context("info has no losses")?;
    let ours = losses.iter().filter(|loss| loss["lane"] == LaneKind::Tracepoint.name());
    let lost: u64 = ours.filter_map(|loss| loss["count"].as_u64()).sum();
    ensure!(
        is_whole == (lost == 0),
        "records are missing, and info says that {lost} were lost: {}",
        info["losses"]
    );
    if lost == 0 {
        return Ok(0);
    }
    let all = number(&info, "lost")?;
    ensure!(
        stderr.contains("LOST"),
        "the recorder says nothing of {lost} lost events when it stops:\n{stderr}"
    );
    let trace = context.export(capture)?;
    if let Some(engine) = context.engine() {
        let query = "select ifnull(sum(value), 0) from stats where severity = 'data_loss'";
        let [shown] = engine.numbers(&trace, [query])?;
        ensure!(shown as u64 == all, "Perfetto's data_loss says {shown}, info says {all}");
    }
    Ok(lost)
}

/// Our events in a capture.
#[derive(Default)]
struct RecordedNumbers {
    records: u64,
    /// Numbers in order: where each run without a gap begins, and its length.
    runs: Vec<(u64, u64)>,
}

impl RecordedNumbers {
    fn of(capture: &Path) -> Result<Self> {
        let reader = CaptureReader::open(capture)?;
        let (tracepoint, at) = number_of(&reader)?;
        let mut numbers = Vec::new();
        for lane in reader.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Tracepoint) {
            for entry in reader.chunks(lane) {
                let data = reader.read(entry)?.data;
                let mut rest = data.as_slice();
                while let Some(record) = TracepointRecord::from_bytes(rest) {
                    let end =
                        TracepointRecord::SIZE + usize::from(record.bytes).next_multiple_of(8);
                    let bytes = rest
                        .get(TracepointRecord::SIZE..end)
                        .context("a record that is cut off")?;
                    if record.tracepoint == tracepoint
                        && record.stamp.0 as u8 == RecordKind::Tracepoint as u8
                    {
                        let word = bytes
                            .get(at..)
                            .and_then(<[u8]>::first_chunk)
                            .context("a record without a number")?;
                        numbers.push(u64::from_le_bytes(*word));
                    }
                    rest = &rest[end..];
                }
            }
        }
        numbers.sort_unstable();
        let mut recorded = Self { records: numbers.len() as u64, runs: Vec::new() };
        numbers.into_iter().for_each(|number| recorded.add(number));
        Ok(recorded)
    }

    fn add(&mut self, number: u64) {
        match self.runs.last_mut() {
            Some((first, length)) if *first + *length == number => *length += 1,
            _ => self.runs.push((number, 1)),
        }
    }

    /// How many of the first so many numbers are not there; one that is there twice is no other.
    fn gaps(&self, of: u64) -> u64 {
        let mut next = 0;
        let mut gaps = 0;
        for (first, length) in &self.runs {
            gaps += first.saturating_sub(next);
            next = next.max(first + length);
        }
        gaps + of.saturating_sub(next)
    }
}

/// The tracepoint's number in a capture, and where its records have the call's.
fn number_of(reader: &CaptureReader) -> Result<(u32, usize)> {
    for definition in reader.definitions() {
        let Definition::Tracepoints(tracepoints) = definition? else { continue };
        let ours = tracepoints
            .iter()
            .find(|found| format!("{}:{}", found.system, found.name) == TRACEPOINT);
        let field = ours.and_then(|found| found.fields.iter().find(|field| field.name == NUMBER));
        if let Some((ours, field)) = ours.zip(field) {
            return Ok((ours.tracepoint, usize::from(field.offset)));
        }
    }
    bail!("the capture does not define {TRACEPOINT} with {NUMBER}")
}
