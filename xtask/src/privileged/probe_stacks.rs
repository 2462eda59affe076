//! Who calls a function: the user stacks of its hits.

use std::collections::BTreeMap;
use std::convert::Infallible;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Sample, StackId, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number};
use super::probes::ways;

const FUNCTION: &str = "probed_function";
const BETWEEN: &str = "probed_between";
/// It lies behind the function's return.
const NEVER: &str = "probed_never";
const CALLS: u64 = 1_000;

/// Each call of a function has the stack that led to it, whole, however it is attached to; by frame
/// pointers, of which its callers keep none, it has its caller at least; and none that was not
/// asked for.
pub(crate) fn stacks(context: &Context) -> Result<String> {
    let mut reported = Vec::new();
    for way in ways(context) {
        if context.offered.has("unwind_tables") {
            let calls = record(context, way, &["--stacks", "probes", "--unwind", "tables"])?;
            for (caller, count) in
                [("probed_caller_often", calls.often), ("probed_caller_rarely", calls.rarely)]
            {
                let whole = calls.whole.get(caller).copied().unwrap_or_default();
                ensure!(
                    context.is_emulated() || whole == count,
                    "{way}: {caller} led to {count} calls, whole stacks have {whole}: {calls:?}"
                );
            }
            let whole: u64 = calls.whole.values().sum();
            ensure!(calls.wrong.is_none(), "{way}: a wrong stack: {calls:?}");
            ensure!(whole + calls.cut == calls.all, "{way}: calls without a stack: {calls:?}");
            // An emulated machine is so slow that some stacks find no room before tables are made;
            // without CAP_SYS_NICE whoever makes these waits for the load, too.
            let is_slow = context.is_emulated() && !super::is_root();
            ensure!(is_slow || whole * 100 >= calls.all * 95, "{way}: cut stacks: {calls:?}");
            reported.push(format!("{way}: {:?}, {} cut", calls.whole, calls.cut));
        }
        let calls = record(context, way, &["--stacks", "probes", "--unwind", "frame-pointer"])?;
        ensure!(
            calls.with_caller == calls.all,
            "{way}: by frame pointers direct callers are lost: {calls:?}"
        );
    }
    let Some(way) = ways(context).first().copied() else { return Ok("no way to attach".into()) };
    let calls = record(context, way, &["--stacks", "off-cpu"])?;
    ensure!(calls.with_stack == 0, "stacks that nobody asked for: {calls:?}");
    Ok(reported.join("; "))
}

/// Samples of a function whose probes take most of its time: in their breakpoints and in the copies
/// of its instructions, too, it is known which function that is, and who called it.
pub(crate) fn samples(context: &Context) -> Result<String> {
    let function = format!("{}:{FUNCTION}", context.load.display());
    let options = ["--freq", "997", "--stacks", "samples", "--function", &function];
    let calls = if context.is_emulated() { "3000" } else { "200000" };
    let mut reported = Vec::new();
    for way in ways(context) {
        let capture = context.path("probe-samples.syscap");
        let lines = context.record_by(way, &capture, &options, &["probed", calls])?;
        let line = lines.first().context("the load printed nothing")?;
        let mut samples = Samples { pid: number(line, "pid")? as u32, ..Samples::default() };
        Session::open(CaptureReader::open(&capture)?)?.play(&mut samples)?;
        let Samples { all, in_function, in_never, cut, .. } = samples;
        let least = if context.is_emulated() { 20 } else { 200 };
        ensure!(in_function >= least, "{way}: of {all} samples {in_function} in the function");
        ensure!(in_never == 0, "{way}: {in_never} of {all} samples are of what nobody calls");
        if context.offered.has("unwind_tables") && !context.is_emulated() {
            ensure!(cut * 100 <= all, "{way}: {cut} of {all} stacks lack their outer frames");
        }
        reported.push(format!("{way}: {in_function} of {all} samples, {cut} cut"));
    }
    Ok(reported.join("; "))
}

/// Samples of a process.
#[derive(Debug, Default)]
struct Samples {
    pid: u32,
    all: u64,
    in_function: u64,
    /// In the function behind it.
    in_never: u64,
    /// Without outer frames.
    cut: u64,
}

impl Exporter for Samples {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        let Event::Sample(Sample { thread, stack: Some(stack), .. }) = event else { return Ok(()) };
        if tables.process(tables.thread(*thread).process).pid != self.pid {
            return Ok(());
        }
        let frames = tables.stack(*stack);
        let has = |name: &str| frames.iter().any(|frame| tables.frame_label(*frame) == name);
        self.all += 1;
        self.in_function += u64::from(has(FUNCTION));
        self.in_never += u64::from(has(NEVER));
        self.cut += u64::from(frames.iter().any(|frame| tables.truncated_by(*frame).is_some()));
        Ok(())
    }
}

fn record(context: &Context, way: &str, options: &[&str]) -> Result<Calls> {
    let function = format!("{}:{FUNCTION}", context.load.display());
    let load = ["probed", &CALLS.to_string()];
    let capture = context.path("probe-stacks.syscap");
    let options = [&["--freq", "0", "--function", &function], options].concat();
    let lines = context.record_by(way, &capture, &options, &load)?;
    let line = lines.first().context("the load printed nothing")?;
    let (often, rarely) = (number(line, "often")?, number(line, "rarely")?);
    let mut calls = Calls { often, rarely, ..Calls::default() };
    Session::open(CaptureReader::open(&capture)?)?.play(&mut calls)?;
    // There the load may have begun before all was attached.
    let are_all = context.is_emulated() || calls.all == often + rarely;
    ensure!(are_all, "{way}, {options:?}: calls are missing: {calls:?}");
    Ok(calls)
}

/// What the load says, and what the recording shows.
#[derive(Debug, Default)]
struct Calls {
    often: u64,
    rarely: u64,
    all: u64,
    with_stack: u64,
    /// Those whose stack begins with the function and its direct caller.
    with_caller: u64,
    /// Those with a whole stack, by who called the direct caller.
    whole: BTreeMap<String, u64>,
    /// Those whose stack says that it lacks its outer frames.
    cut: u64,
    /// A stack that is neither.
    wrong: Option<Vec<String>>,
}

impl Calls {
    fn add(&mut self, stack: Option<StackId>, tables: &Tables) {
        self.all += 1;
        let Some(stack) = stack else { return };
        self.with_stack += 1;
        let frames = tables.stack(stack);
        let labels: Vec<String> = frames.iter().map(|frame| tables.frame_label(*frame)).collect();
        let cut = frames.iter().position(|frame| tables.truncated_by(*frame).is_some());
        self.cut += u64::from(cut.is_some());
        let known = [FUNCTION, BETWEEN].into_iter().take(cut.unwrap_or(usize::MAX));
        let is_right = known.eq(labels.iter().take(cut.unwrap_or(2).min(2)));
        self.with_caller += u64::from(is_right && cut.is_none_or(|at| at >= 2));
        match labels.get(2) {
            Some(caller) if is_right && cut.is_none() => {
                *self.whole.entry(caller.clone()).or_default() += 1;
            }
            _ if is_right && cut.is_some() => {}
            _ => self.wrong = Some(labels),
        }
    }
}

impl Exporter for Calls {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::SliceBegin(_, slice) = event
            && tables.strings.get(slice.name) == FUNCTION
        {
            self.add(slice.stack, tables);
        }
        Ok(())
    }
}
