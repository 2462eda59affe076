//! Samples and their stacks against a program that knows where it spent its time.

use std::convert::Infallible;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Sample, StackId, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number, statistic};
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
        self.thirty += u64::from(has(tables, stack, "caller_thirty"));
        self.seventy += u64::from(has(tables, stack, "caller_seventy"));
        self.whole += u64::from(has(tables, stack, "main"));
    }
}

fn has(tables: &Tables, stack: StackId, word: &str) -> bool {
    tables.stack(stack).iter().any(|frame| tables.frame_label(*frame).contains(word))
}

impl Exporter for Split {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::Sample(sample) = event {
            self.sample(sample, tables);
        }
        Ok(())
    }
}

fn split(capture: &Path, pid: u32) -> Result<Split> {
    let mut split = Split { pid, ..Split::default() };
    Session::open(CaptureReader::open(capture)?)?.play(&mut split)?;
    Ok(split)
}

/// Of 1,000 samples so many show the caller, and reach `main`, by unwind tables: all but those that
/// were taken while the program was loaded, or read the clock.
const BY_TABLES: u64 = 995;
/// By frame pointers: where a function begins or ends it has no frame, and its caller is left out.
/// How many samples hit those instructions is the CPU's choice: 972 to 998 of 1,000 show the caller
/// on those that this was run on.
const BY_FRAME_POINTERS: u64 = 950;
/// In an emulated machine files come slowly: the program is loaded for longer before `main`.
const EMULATED: u64 = 940;
/// And takes long to read the clock, in `main`.
const EMULATED_CALLERS: u64 = 950;
/// What a capture says where stacks cannot be walked by tables.
const NO_TABLES: &str = "user stacks are walked by frame pointers";

/// Two callers of equal frame size share a burner 30 to 70; as most people record.
pub(crate) fn callers(context: &Context) -> Result<String> {
    let by_tables = context.offered.has("unwind_tables");
    let least = if by_tables { BY_TABLES } else { BY_FRAME_POINTERS };
    let capture = context.path("callers.syscap");
    let found = shares_of_callers(context, &capture, "auto", &["callers", "10"], least)?;
    let info = context.info(&capture)?;
    let notes = info.pointer("/recording/notes").and_then(serde_json::Value::as_array);
    let notes = notes.context("info has no notes")?;
    let is_told =
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains(NO_TABLES)));
    ensure!(is_told != by_tables, "unwind tables: {by_tables}, but the capture says {notes:?}");
    Ok(found)
}

/// The same by frame pointers.
pub(crate) fn callers_by_frame_pointers(context: &Context) -> Result<String> {
    let capture = context.path("callers-frame-pointers.syscap");
    shares_of_callers(context, &capture, "frame-pointer", &["callers", "10"], BY_FRAME_POINTERS)
}

/// The same of a program that lies in memory alone, to which no name leads.
pub(crate) fn callers_in_memory(context: &Context) -> Result<String> {
    let capture = context.path("callers-in-memory.syscap");
    shares_of_callers(context, &capture, "auto", &["from-memory", "callers", "10"], BY_TABLES)
}

fn shares_of_callers(
    context: &Context,
    capture: &Path,
    unwind: &str,
    load: &[&str],
    least: u64,
) -> Result<String> {
    let options = ["--freq", "999", "--stacks", "samples", "--unwind", unwind];
    let lines = context.record(capture, &options, load)?;
    let line = lines.first().context("the load printed nothing")?;
    let (thirty, seventy) =
        (number(line, "caller_thirty_ns")? as f64, number(line, "caller_seventy_ns")? as f64);
    let truth = thirty / (thirty + seventy);
    let split = split(capture, number(line, "pid")? as u32)?;
    let named = split.thirty + split.seventy;
    ensure!(
        split.all >= if context.is_emulated() { 1_000 } else { 9_000 },
        "{} samples of about 10,000",
        split.all
    );
    let (inside, reach, least) = if context.is_emulated() {
        (split.whole, EMULATED, EMULATED_CALLERS)
    } else {
        (split.all, least, least)
    };
    ensure!(
        split.whole * 1000 >= split.all * reach,
        "{} of {} stacks reach main",
        split.whole,
        split.all
    );
    ensure!(
        named * 1000 >= inside * least,
        "{named} of {inside} samples show a caller, {} in all",
        split.all
    );
    let share = split.thirty as f64 / named as f64;
    ensure!((share - truth).abs() <= 0.02, "{share:.4} of the samples, {truth:.4} of the time");
    Ok(format!(
        "{} samples, {named} with a caller, {:.1} % against {:.1} % in truth",
        split.all,
        share * 100.0,
        truth * 100.0
    ))
}

/// Every stack id that an event carries was sent, and before the event; stacks that are answered
/// without a walk, the kernel's and users', are those that a walk finds.
pub(crate) fn stacks(context: &Context) -> Result<String> {
    let capture = context.path("stacks.syscap");
    let times = context.times(50_000);
    let options = ["--freq", "999", "--stacks", "samples,off-cpu,wakers", "--cross-check", "3"];
    context.record(&capture, &options, &["ping-pong", &times.to_string()])?;
    let recorded = Recorded::read(&capture)?;
    let unresolved = recorded
        .uses
        .iter()
        .filter(|(id, ticks)| recorded.stacks.get(id).is_none_or(|sent| sent > ticks));
    let (missing, uses) = (unresolved.count(), recorded.uses.len());
    ensure!(uses as u64 > times, "only {uses} stacks were used");
    ensure!(missing == 0, "{missing} of {uses} stack ids were not sent before their event");

    let info = context.info(&capture)?;
    let (checked, different) = (
        statistic(&info, "kernel_stacks_cross_checked")?,
        statistic(&info, "kernel_stacks_different")?,
    );
    let answers = ["bpf_loop", "bpf_task_pt_regs"].iter().all(|name| context.offered.has(name));
    ensure!(checked > 0 || !answers, "no kernel stack was walked both ways");
    ensure!(different == 0, "{different} of {checked} kernel stacks differ from a real walk");
    // By unwind tables, and only on kernels that count changes of mappings: not on 6.1 to 6.3.
    let (verified, again, wrongly) = (
        statistic(&info, "user_stacks_verified")?,
        statistic(&info, "user_stacks_walked_again")?,
        statistic(&info, "user_stacks_verified_wrongly")?,
    );
    ensure!(verified == 0 || again > 0, "{verified} user stacks were verified, none walked again");
    ensure!(wrongly == 0, "{wrongly} of {again} user stacks differ from a real walk");
    let sent = recorded.stacks.len();
    Ok(format!(
        "{uses} uses of {sent} stacks resolve; walked both ways: {checked} of kernels, {again} of \
         users, 0 different"
    ))
}
