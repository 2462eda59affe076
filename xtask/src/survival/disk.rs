//! A disk of any size that is full before the recording is over.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::{EMPTY_CAPTURE_BYTES, Field, RoundCounts};
use crate::privileged::context::wait;
use crate::privileged::failures::Mounted;

const SMALLEST: u64 = 4 << 10;
const LARGEST: u64 = 8 << 20;
const LONGEST: Duration = Duration::from_millis(700);
const OUTPUTS: [&str; 3] = ["x.syscap", "x.pftrace", "x.json.gz"];

/// One recorder on one disk.
pub(super) fn round(field: &mut Field<'_>, counts: &mut RoundCounts) -> Result<()> {
    let size = field.random.of_any_size(SMALLEST, LARGEST) / 4096 * 4096;
    let long = field.random.shorter_than(LONGEST) + Duration::from_millis(50);
    let output = field.random.one_of(&OUTPUTS);
    let disk = Mounted::tmpfs(field.folder.join("disk"), &format!("size={size}"))?;
    let mut command = field.context.command(&[]);
    let seconds = format!("{:.3}", long.as_secs_f64());
    command
        .args(["record", "-o", output, "--stacks", "offcpu,wakers", "-d", &seconds])
        .current_dir(disk.folder());
    let recorder =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let recorder = wait(recorder)?;
    let reported =
        format!("{size} bytes, {output}, {seconds} s: {}\n{}", recorder.status, recorder.stderr);
    match recorder.status.code() {
        Some(0) => counts.finished += 1,
        Some(1) => {
            let why = ["No space left", "full"].iter().any(|words| recorder.stderr.contains(words));
            ensure!(why, "the message does not say why: {reported}");
        }
        _ => bail!("neither success nor an error: {reported}"),
    }
    // The disk has no room for what reading makes.
    for entry in fs::read_dir(disk.folder())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(".syscap") {
            ensure!(
                fs::metadata(&path)?.len() > EMPTY_CAPTURE_BYTES,
                "{name} holds nothing: {reported}"
            );
            fs::copy(&path, field.folder.join(&name))?;
        } else if recorder.status.code() == Some(1) {
            bail!("an export that did not finish was left as {name}: {reported}");
        }
    }
    let folder = disk.folder().to_path_buf();
    drop(disk);
    fs::remove_dir(folder)?;
    field.check(counts).context(reported)
}
