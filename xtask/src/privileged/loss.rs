//! Forced loss: recorded and reported lost together are what was produced.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::context::{Context, finish, number, signal, statistic};
use super::recorded::Recorded;
use crate::report::Outcome;

/// How events are made to find no room.
enum Obstacle {
    /// The whole recorder stands still: the lanes fill.
    StoppedRecorder,
    /// Only the thread that writes the file stands still: the trace buffer fills.
    StoppedWriter,
}

/// The lanes overflow.
pub(crate) fn full_lanes(context: &Context) -> Result<Outcome> {
    forced(context, "lanes", &Obstacle::StoppedRecorder, "lane-full")
}

/// The trace buffer overflows.
pub(crate) fn full_buffer(context: &Context) -> Result<Outcome> {
    forced(context, "buffer", &Obstacle::StoppedWriter, "buffer-full")
}

fn forced(context: &Context, name: &str, obstacle: &Obstacle, cause: &str) -> Result<Outcome> {
    let capture = context.path(&format!("loss-{name}.syscap"));
    let before = switches_of_the_machine()?;
    let recorder =
        context.start(&capture, &["--stacks", "none", "--freq", "0", "--buffer", "1M"])?;
    let start = switches_of_the_machine()?;
    let worked = disturb(context, recorder.id(), obstacle);
    let end = switches_of_the_machine()?;
    std::thread::sleep(Duration::from_millis(300));
    context.stop(recorder)?;
    let after = switches_of_the_machine()?;
    worked?;
    let produced = Produced { inner: end - start, outer: after - before };
    balance(context, &capture, cause, &produced)
}

/// Switches of the whole machine by the kernel's count, read inside and outside of the recording.
struct Produced {
    inner: u64,
    outer: u64,
}

fn balance(
    context: &Context,
    capture: &std::path::Path,
    cause: &str,
    produced: &Produced,
) -> Result<Outcome> {
    let info = context.info(capture)?;
    let lost = number(&info, "lost")?;
    let losses = info["losses"].as_array().context("info has no losses")?;
    ensure!(lost_by(losses, cause) > 0, "nothing was lost by {cause}: {}", info["losses"]);
    ensure!(
        losses.iter().filter_map(|loss| loss["count"].as_u64()).sum::<u64>() == lost,
        "the losses do not add up"
    );

    // Counters are polled by the collector: no kernel program counts them.
    let polled: u64 = losses
        .iter()
        .filter(|loss| loss["lane"] == "counters")
        .filter_map(|loss| loss["count"].as_u64())
        .sum();
    // What the kernel programs wrote, and what found no room in the lanes, is what they produced.
    let recorded = Recorded::read(capture)?;
    let decoded: u64 = recorded
        .counts
        .iter()
        .filter(|(kind, _)| from_kernel(**kind))
        .map(|(_, count)| count)
        .sum();
    let written = statistic(&info, "records_written")?;
    let in_kernel = lost_by(losses, "lane-full")
        + lost_by(losses, "nested")
        + lost_by(losses, "clock-unreadable");
    ensure!(
        decoded + lost - polled == written + in_kernel,
        "{decoded} recorded + {} lost is not {written} written + {in_kernel} that the lanes \
         refused",
        lost - polled
    );
    // And the kernel's own count of switches lies where it must.
    let switches = recorded.switches.len() as u64;
    ensure!(
        switches <= produced.outer,
        "{switches} switches recorded of {} that happened",
        produced.outer
    );
    ensure!(
        switches + lost >= produced.inner,
        "{switches} recorded and {lost} lost are less than {}",
        produced.inner
    );

    let trace = context.export(capture)?;
    let Some(engine) = context.engine() else {
        return Ok(context.without_engine(format!("{decoded} + {lost} = produced in the capture")));
    };
    let query = "select ifnull(sum(value), 0) from stats where severity = 'data_loss'";
    let [shown] = engine.numbers(&trace, [query])?;
    ensure!(shown as u64 == lost, "Perfetto's data_loss says {shown}, info says {lost}");
    Ok(Outcome::Passed(format!(
        "{decoded} recorded + {lost} lost = produced; info and Perfetto agree"
    )))
}

fn lost_by(losses: &[Value], cause: &str) -> u64 {
    let matching = losses.iter().filter(|loss| loss["cause"] == cause);
    matching.filter_map(|loss| loss["count"].as_u64()).sum()
}

/// Lanes whose records the kernel programs write and count one by one.
fn from_kernel(kind: syscollect_model::LaneKind) -> bool {
    use syscollect_model::LaneKind::{Sample, Sched, Task};
    matches!(kind, Sched | Sample | Task)
}

/// Lets two processes switch while the obstacle stands.
fn disturb(context: &Context, recorder: u32, obstacle: &Obstacle) -> Result<()> {
    let stopped = match obstacle {
        Obstacle::StoppedRecorder => {
            signal(recorder, libc::SIGSTOP);
            None
        }
        Obstacle::StoppedWriter => Some(StoppedThread::new(thread_named(recorder, "writer")?)?),
    };
    let load = finish(std::process::Command::new(&context.load).args([
        "ping-pong",
        &context.times(400_000).max(100_000).to_string(),
        "0",
    ]));
    signal(recorder, libc::SIGCONT);
    drop(stopped);
    let load = load?;
    ensure!(load.status.success(), "the load failed:\n{}", load.stderr);
    Ok(())
}

/// The number that `/proc/stat` calls `ctxt`.
fn switches_of_the_machine() -> Result<u64> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|count| count.trim().parse().ok()).context("/proc/stat has no line ctxt")
}

/// The thread of a process whose name has that word.
fn thread_named(pid: u32, word: &str) -> Result<i32> {
    let mut names = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("comm"))?;
        if name.contains(word) {
            return entry
                .file_name()
                .to_string_lossy()
                .parse()
                .context("a thread without a number");
        }
        names.push(name.trim().to_owned());
    }
    bail!("no thread of the recorder is named {word}: {names:?}")
}

/// A single thread held still, as a debugger does it; it goes on when this is dropped.
struct StoppedThread(i32);

impl StoppedThread {
    fn new(tid: i32) -> Result<Self> {
        // SAFETY: this request takes no addresses.
        let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) };
        done(seized).with_context(|| format!("cannot seize thread {tid}"))?;
        let stopped = Self(tid);
        // SAFETY: this request takes no addresses.
        let interrupted = unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) };
        done(interrupted).with_context(|| format!("cannot interrupt thread {tid}"))?;
        // SAFETY: a null status is allowed.
        unsafe { libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL) };
        Ok(stopped)
    }
}

fn done(answer: libc::c_long) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // SAFETY: the request takes no addresses.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, 0, 0) };
    }
}
