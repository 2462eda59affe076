//! `kill -9` at any moment: while it starts, records, names or exports.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;

use super::{Field, RoundCounts};
use crate::privileged::context::{signal, wait};

/// Starting takes some tenths of a second, and so do naming and exporting what the short ones
/// recorded.
const LONGEST: Duration = Duration::from_millis(1_500);
/// What is recorded, and where to. Those that end by themselves are killed while they export, too.
const WAYS: [&[&str]; 7] = [
    &["-o", "x.syscap"],
    &["-o", "x.syscap", "--stacks", "samples,offcpu,wakers"],
    &["-o", "x.syscap", "--overwrite", "--buffer", "8M"],
    &["-o", "x.syscap", "--rotate", "1s", "--keep", "2"],
    &["-o", "x.pftrace", "-d", "0.3"],
    &["-o", "x.json.gz", "-d", "0.2"],
    &["-o", "x.syscap", "-d", "0.4", "--", "/bin/sh", "-c", "while :; do /bin/true; done"],
];

/// One recorder.
pub(super) fn round(field: &mut Field<'_>, counts: &mut RoundCounts) -> Result<()> {
    let (way, moment) = (field.random.one_of(&WAYS), field.random.shorter_than(LONGEST));
    let attach = field.random.one_of(&["links", "events"]);
    let mut command = field.context.command(&[]);
    command.arg("record").args(way).env("SYSCOLLECT_UPROBES", attach).current_dir(&field.folder);
    let mut recorder =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    std::thread::sleep(moment);
    if recorder.try_wait()?.is_some() {
        counts.finished += 1;
    } else {
        signal(recorder.id(), libc::SIGKILL);
    }
    // What it launched lives on, and has its output open.
    recorder.wait()?;
    field.end_launched();
    wait(recorder)?;
    field.check(counts)
}
