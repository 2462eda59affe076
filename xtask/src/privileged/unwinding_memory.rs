//! User stacks that come before any table of their code was made: larger than what is sent of a
//! stack, and of threads that end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, SleepState, StackCut, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::chains::stacks::StackKind;
use super::context::{Context, finish, json_lines, number};

/// Programs, each in a file of its own: nobody has made tables of it.
const PROGRAMS: u64 = 12;
/// How often each of its two threads sleeps: while tables are made. Where all is emulated, and slow,
/// the program has ended otherwise before its file is opened.
const SLEEPS: &str = "4";
const SLEEPS_EMULATED: &str = "200";
/// The function with the large frame, and what sleeps below it.
const LARGE: &str = "large_frame";
const SLEEPER: &str = "sleep_below";
/// Of 100 stacks so many are whole: on a busy machine the file is not known at the first.
const WHOLE_OF_100: u64 = 90;

/// Programs that begin while a recording goes on sleep below a frame of 600 KB: their stacks are
/// whole all the same. Threads that end have no off-CPU stack, and what they wake on their way has
/// a stack of which it is said that the memory was gone, not that it cannot be unwound.
pub(crate) fn memory(context: &Context) -> Result<String> {
    let capture = context.path("unwinding-memory.syscap");
    let options = ["--freq", "0", "--stacks", "off-cpu,wakers", "--unwind", "tables"];
    let recorder = context.start(&capture, &options)?;
    let sleeps = if context.is_emulated() { SLEEPS_EMULATED } else { SLEEPS };
    let mut found = LargeFrameStacks::default();
    for index in 0..PROGRAMS {
        let program = context.path(&format!("large-frame-{index}"));
        fs::copy(&context.load, &program).context("cannot copy the load")?;
        let output = finish(Command::new(&program).args(["large-frame", sleeps]))?;
        ensure!(output.status.success(), "the load failed:\n{}", output.stderr);
        let lines = json_lines(&output.stdout)?;
        found.pids.push(number(lines.first().context("the load printed nothing")?, "pid")? as u32);
    }
    context.stop(recorder)?;
    Session::open(CaptureReader::open(&capture)?)?.play(&mut found)?;
    let summary = found.to_string();
    ensure!(found.ended >= PROGRAMS * 2, "too few threads that ended: {summary}");
    ensure!(found.ended_with_stack == 0, "threads that ended have an off-CPU stack: {summary}");
    ensure!(found.gone > 0, "no thread woke another on its way to the end: {summary}");
    let no_information = found.cut_at.get(StackCut::NoUnwindInformation.reason());
    ensure!(no_information.is_none(), "no unwind information: {summary}");
    // Without CAP_SYS_NICE whoever opens files waits for the programs, and an emulated machine is so
    // slow that they have ended by then.
    if context.is_emulated() && !super::is_root() {
        return Ok(summary);
    }
    let (whole, all) = (found.whole, found.whole + found.cut);
    ensure!(all >= PROGRAMS * 4, "too few stacks below the large frame: {summary}");
    ensure!(whole * 100 >= all * WHOLE_OF_100, "too few stacks are whole: {summary}");
    Ok(summary)
}

#[derive(Debug, Default)]
struct LargeFrameStacks {
    pids: Vec<u32>,
    /// Off-CPU stacks below the large frame.
    whole: u64,
    cut: u64,
    /// By why they are cut, and after which function; of those, and of wakers.
    cut_at: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// Stacks of which the memory was gone.
    gone: u64,
    ended: u64,
    ended_with_stack: u64,
}

impl fmt::Display for LargeFrameStacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, cut, gone, ended, ended_with_stack, .. } = self;
        write!(
            f,
            "{whole} whole below a large frame, {cut} cut; {ended} threads ended, \
             {ended_with_stack} of them with a stack, {gone} stacks of memory that was gone"
        )?;
        for (why, functions) in &self.cut_at {
            write!(f, "; {why}: {functions:?}")?;
        }
        Ok(())
    }
}

impl LargeFrameStacks {
    fn add(&mut self, kind: StackKind, stack: StackId, tables: &Tables) {
        let frames = tables.stack(stack);
        let labels: Vec<String> = frames.iter().map(|frame| tables.frame_label(*frame)).collect();
        let cut = frames.last().and_then(|frame| tables.truncated_by(*frame));
        let sleeps = labels.iter().position(|label| label.ends_with(SLEEPER));
        match (kind, sleeps, cut) {
            (StackKind::OffCpu, Some(at), None) => {
                let below = labels.get(at + 1).is_some_and(|label| label.ends_with(LARGE));
                self.whole += u64::from(below);
                self.cut += u64::from(!below);
            }
            (StackKind::OffCpu, Some(_), Some(_)) => self.cut += 1,
            _ => {}
        }
        let Some(cut) = cut else { return };
        self.gone += u64::from(cut == StackCut::MemoryGone);
        let place = labels.iter().rev().nth(1).cloned().unwrap_or_default();
        *self.cut_at.entry(cut.reason()).or_default().entry(place).or_default() += 1;
    }

    fn is_ours(&self, thread: ThreadId, tables: &Tables) -> bool {
        self.pids.contains(&tables.process(tables.thread(thread).process).pid)
    }
}

impl Exporter for LargeFrameStacks {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::Switch(switch) = event
            && let Some(thread) = switch.previous
            && self.is_ours(thread, tables)
            && switch.off_cpu.state == SleepState::Dead
        {
            self.ended += 1;
            self.ended_with_stack += u64::from(switch.off_cpu.stack.is_some());
        }
        if let Some((kind, thread, stack)) = StackKind::of(event)
            && self.is_ours(thread, tables)
        {
            self.add(kind, stack, tables);
        }
        Ok(())
    }
}
