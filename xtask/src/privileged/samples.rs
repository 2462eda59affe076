//! Samples and their stacks against a program that knows where it spent its time.

use std::convert::Infallible;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Sample, SessionInfo, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number};
use super::recorded::Recorded;

/// Counts a process's samples by the caller on their stacks.
#[derive(Default)]
struct Split {
    pid: u32,
    all: u64,
    thirty: u64,
    seventy: u64,
    whole: u64,
}

impl Split {
    fn sample(&mut self, sample: &Sample, tables: &Tables) {
        let thread = tables.thread(sample.thread);
        if tables.process(thread.process).pid != self.pid {
            return;
        }
        self.all += 1;
        let Some(stack) = sample.stack else { return };
        let has = |word: &str| {
            tables.stack(stack).iter().any(|frame| tables.frame_label(*frame).contains(word))
        };
        self.thirty += u64::from(has("caller_thirty"));
        self.seventy += u64::from(has("caller_seventy"));
        self.whole += u64::from(has("main"));
    }
}

impl Exporter for Split {
    type Error = Infallible;

    fn begin(&mut self, _: &SessionInfo, _: &Tables) -> Result<(), Infallible> {
        Ok(())
    }

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::Sample(sample) = event {
            self.sample(sample, tables);
        }
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Infallible> {
        Ok(())
    }
}

fn split(capture: &Path, pid: u32) -> Result<Split> {
    let mut split = Split { pid, ..Split::default() };
    Session::open(CaptureReader::open(capture)?)?.play(&mut split)?;
    Ok(split)
}

/// Two callers of equal frame size share a burner 30 to 70.
pub(crate) fn callers(context: &Context) -> Result<String> {
    let capture = context.path("callers.syscap");
    let lines =
        context.record(&capture, &["--freq", "999", "--stacks", "samples"], &["callers", "10"])?;
    let line = lines.first().context("the load printed nothing")?;
    let (thirty, seventy) =
        (number(line, "caller_thirty_ns")? as f64, number(line, "caller_seventy_ns")? as f64);
    let truth = thirty / (thirty + seventy);
    let split = split(&capture, number(line, "pid")? as u32)?;
    let named = split.thirty + split.seventy;
    ensure!(
        split.all >= if context.is_emulated() { 1_000 } else { 9_000 },
        "{} samples of about 10,000",
        split.all
    );
    // Where files come slowly, the program is loaded for longer before main.
    let (inside, reach) = if context.is_emulated() { (split.whole, 94) } else { (split.all, 98) };
    ensure!(
        split.whole * 100 >= split.all * reach,
        "{} of {} stacks reach main",
        split.whole,
        split.all
    );
    ensure!(
        named * 100 >= inside * 98,
        "{named} of {inside} samples show a caller, {} in all",
        split.all
    );
    let share = split.thirty as f64 / named as f64;
    ensure!((share - truth).abs() <= 0.02, "{share:.4} of the samples, {truth:.4} of the time");
    Ok(format!(
        "{} samples, {:.1} % against {:.1} % in truth",
        split.all,
        share * 100.0,
        truth * 100.0
    ))
}

/// Every stack id that an event carries was sent, and before the event; kernel stacks walked both
/// ways agree.
pub(crate) fn stacks(context: &Context) -> Result<String> {
    let capture = context.path("stacks.syscap");
    let times = context.times(50_000);
    let options = ["--freq", "999", "--stacks", "samples,off-cpu,wakers", "--cross-check", "3"];
    context.record(&capture, &options, &["ping-pong", &times.to_string()])?;
    let recorded = Recorded::read(&capture)?;
    let unresolved =
        |(id, ticks): &&(_, u64)| recorded.stacks.get(id).is_none_or(|sent| sent > ticks);
    let missing = recorded.uses.iter().filter(unresolved).count();
    let uses = recorded.uses.len();
    ensure!(uses as u64 > times, "only {uses} stacks were used");
    ensure!(missing == 0, "{missing} of {uses} stack ids were not sent before their event");

    let info = context.info(&capture)?;
    let statistic = |name: &str| {
        let value = info
            .pointer(&format!("/recorder/statistics/{name}"))
            .and_then(serde_json::Value::as_u64);
        value.with_context(|| format!("info has no statistic {name}"))
    };
    let (checked, different) =
        (statistic("kernel_stacks_cross_checked")?, statistic("kernel_stacks_different")?);
    ensure!(checked > 0, "no kernel stack was walked both ways");
    ensure!(different == 0, "{different} of {checked} kernel stacks differ from a real walk");
    let sent = recorded.stacks.len();
    Ok(format!("{uses} uses of {sent} stacks resolve; {checked} walked both ways, 0 different"))
}
