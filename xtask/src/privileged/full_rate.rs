//! As many switches as the machine can make, with the stacks of who blocks and who wakes, at
//! default settings: nothing is lost, or it is counted. Compared with the kernel's counts of the
//! processes that switch, once with the machine to themselves and once beside programs that
//! compute.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_model::LaneKind;

use super::context::{Context, ProgramOutput, json_lines, number, signal, statistic, wait};
use super::count::missing_switches;
use super::recorded::Recorded;

/// Times there and back of each of two pairs: some five seconds.
const ROUNDS: u64 = 400_000;
const CPUS: [&str; 2] = ["0", "1"];
const COMPUTING: usize = 4;
/// Events that may be lost of a million where the machine is busy: its host, too, may keep a CPU
/// from the recorder for longer than lanes last.
const LOST_MAX: u64 = 1_000;

/// Alone, then beside four programs that compute.
pub(crate) fn full_rate(context: &Context) -> Result<String> {
    let quiet = switched(context, 0)?;
    let busy = switched(context, COMPUTING)?;
    Ok(format!("{quiet}; beside {COMPUTING} programs that compute: {busy}"))
}

/// Programs that compute until this is dropped.
struct Computing(Vec<Child>);

impl Drop for Computing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            signal(child.id(), libc::SIGKILL);
            // It was killed.
            let _ = child.wait();
        }
    }
}

fn switched(context: &Context, computing: usize) -> Result<String> {
    let capture = context.path(&format!("full-rate-{computing}.syscap"));
    let recorder = context.start(&capture, &["--stacks", "off-cpu,wakers"])?;
    let computing = Computing(
        (0..computing).map(|_| start(context, &["use-cpu", "120"])).collect::<Result<_, _>>()?,
    );
    let rounds = context.times(ROUNDS).to_string();
    let begun = Instant::now();
    let pairs: Vec<Child> = CPUS
        .iter()
        .map(|cpu| start(context, &["ping-pong", &rounds, cpu]))
        .collect::<Result<_, _>>()?;
    let outputs = pairs.into_iter().map(wait).collect::<Result<Vec<ProgramOutput>>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    drop(computing);
    context.stop(recorder)?;
    let mut lines = Vec::new();
    for output in outputs {
        ensure!(output.status.success(), "a load failed:\n{}", output.stderr);
        lines.extend(json_lines(&output.stdout)?);
    }

    let info = context.info(&capture)?;
    let (events, lost) = (number(&info, "events")?, number(&info, "lost")?);
    let recorded = Recorded::read(&capture)?;
    everything_is_counted(&info, &recorded, lost)?;
    let missing = missing_switches(&[recorded], &lines)?;
    ensure!(
        missing <= lost,
        "{missing} switches are missing, and only {lost} events are said to be lost: {}",
        info["losses"]
    );
    let rate = events as f64 / seconds;
    let summary = format!("{events} events at {rate:.0} a second, {lost} lost");
    ensure!(lost * 1_000_000 <= events * LOST_MAX, "{summary}: {}", info["losses"]);
    Ok(summary)
}

fn start(context: &Context, arguments: &[&str]) -> io::Result<Child> {
    let mut command = Command::new(&context.load);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// What the kernel programs wrote and what they had no room for is what was recorded or is said to
/// be lost.
fn everything_is_counted(info: &Value, recorded: &Recorded, lost: u64) -> Result<()> {
    let losses = info["losses"].as_array().context("info has no losses")?;
    let lanes = ["sched", "samples", "tasks"];
    let theirs: Vec<_> =
        losses.iter().filter(|loss| lanes.iter().any(|lane| loss["lane"] == *lane)).collect();
    let causes = ["lane-full", "nested", "clock-unreadable"];
    let refused = theirs.iter().filter(|loss| causes.iter().any(|cause| loss["cause"] == *cause));
    let refused: u64 = refused.filter_map(|loss| loss["count"].as_u64()).sum();
    let theirs: u64 = theirs.iter().filter_map(|loss| loss["count"].as_u64()).sum();
    let kinds = [LaneKind::Sched, LaneKind::Sample, LaneKind::Task];
    let decoded: u64 = kinds.iter().filter_map(|kind| recorded.counts.get(kind)).sum();
    let written = statistic(info, "records_written")?;
    ensure!(
        decoded + theirs == written + refused,
        "{decoded} recorded and {theirs} lost are not {written} written and {refused} refused \
         ({lost} lost in all): {}",
        info["losses"]
    );
    Ok(())
}
