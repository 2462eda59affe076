//! A machine whose tracefs nobody has mounted, as containers and minimal systems have it.

use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use super::context::{Context, ends_with_us, finish, number, text};

/// Hides what is mounted, for the program that it runs alone.
const HIDE: &str = "for folder in /sys/kernel/tracing /sys/kernel/debug; do \
                    [ ! -d $folder ] || mount -t tmpfs none $folder || exit 9; done; \
                    [ ! -e /sys/kernel/tracing/events ] || exit 9; exec \"$@\"";

/// The recorder mounts it for itself, and tracepoints are recorded.
pub(crate) fn unmounted(context: &Context) -> Result<String> {
    let capture = context.path("unmounted.syscap");
    let (program, recording) = (text(&context.syscollect)?, text(&capture)?);
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", HIDE, "sh", program]);
    command.args(["record", "-o", recording, "--tracepoint", "sched:sched_process_fork"]);
    command.args(["--", "sh", "-c", "true; true | true"]).stdin(Stdio::null());
    ends_with_us(&mut command);
    let output = finish(&mut command)?;
    if output.status.code() == Some(9) {
        bail!("tracefs cannot be hidden here:\n{}", output.stderr);
    }
    ensure!(output.status.success(), "the recording failed:\n{}", output.stderr);
    let info = context.info(&capture)?;
    let forks = number(&info["events_by_type"], "tracepoint")?;
    ensure!(forks > 0, "no tracepoint was recorded: {}", info["events_by_type"]);
    Ok(format!("{forks} events of a tracepoint, without a mounted tracefs"))
}
