//! SIGSTOP at any moment: nobody waits for a recorder that stands still, and it ends well when it
//! goes on.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Field, RoundCounts};
use crate::privileged::context::{signal, wait};

const LONGEST: Duration = Duration::from_millis(1_500);

/// One recorder, standing still for a while.
pub(super) fn round(field: &mut Field<'_>, counts: &mut RoundCounts) -> Result<()> {
    let (moment, long) = (field.random.shorter_than(LONGEST), field.random.shorter_than(LONGEST));
    let mut command = field.context.command(&[]);
    command.args(["record", "-o", "x.syscap"]).current_dir(&field.folder);
    let recorder =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    sleep(moment);
    signal(recorder.id(), libc::SIGSTOP);
    let before = field.load.number()?;
    sleep(long);
    let turns = field.load.number()? - before;
    signal(recorder.id(), libc::SIGCONT);
    sleep(Duration::from_millis(300));
    signal(recorder.id(), libc::SIGINT);
    let output = wait(recorder)?;
    // A turn of the instrumented program sleeps for 50 us; on a crowded machine for some
    // milliseconds.
    let least = long.as_millis() as u64 / 50;
    ensure!(
        turns >= least,
        "the instrumented program did {turns} turns in {long:?} while the recorder stood still"
    );
    // A recorder that is told to stop before it listens is ended by the signal itself.
    let is_told = output.stderr.contains("stopped before the recording began");
    let early = (is_told || output.status.code().is_none())
        && std::fs::read_dir(&field.folder)?.next().is_none();
    ensure!(
        output.status.success() || early,
        "it ended with {}:\n{}",
        output.status,
        output.stderr
    );
    if output.status.success() {
        counts.finished += 1;
    }
    field.check(counts)
}
