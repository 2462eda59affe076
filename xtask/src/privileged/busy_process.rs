//! Programs that spend their time in one function of code that they make while they run, with a
//! name that is known.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, NOBODY, ends_with_us, signal, text};

/// How long they run that are killed, milliseconds.
pub(super) const LONG: &str = "600000";
/// Of 100 samples of such a program so many are in the function: the rest are of its start.
const IN_FUNCTION: u64 = 75;
/// The same where all is emulated, and a start takes many seconds.
const IN_FUNCTION_EMULATED: u64 = 50;

/// A process that spends its time in one function.
pub(super) struct BusyProcess<'a> {
    /// Its name or its number.
    pub(super) process: &'a str,
    pub(super) function: &'a str,
    /// Samples that it has at least.
    pub(super) least: u64,
}

impl BusyProcess<'_> {
    /// How many of its samples are in the function.
    pub(super) fn share(&self, context: &Context, capture: &Path) -> Result<String> {
        let Self { process, function, least } = self;
        let folded = context.path("share.folded");
        let drawn = ["flamegraph", text(capture)?, "-o", text(&folded)?, "--process", process];
        context.succeed(&drawn)?;
        let (mut all, mut found) = (0, 0);
        for line in fs::read_to_string(&folded)?.lines() {
            let (stack, count) = line.rsplit_once(' ').context("a line without a count")?;
            let count: u64 = count.parse()?;
            all += count;
            found += if stack.contains(*function) { count } else { 0 };
        }
        let (least, of_100) =
            if context.is_emulated() { (1, IN_FUNCTION_EMULATED) } else { (*least, IN_FUNCTION) };
        ensure!(all >= least, "only {all} samples are of {process}");
        ensure!(found * 100 >= all * of_100, "only {found} of {all} samples are in {function}");
        Ok(format!("{found} of {all} samples"))
    }
}

/// A program that is killed when this is dropped.
pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        ends_with_us(command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("{command:?} cannot be started"))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        signal(self.0.id(), libc::SIGKILL);
        let _ = self.0.wait();
        // What a killed program leaves: the list of its code, and what it was asked for that by.
        let pid = self.0.id();
        for left in
            [format!("perf-{pid}.map"), format!(".java_pid{pid}"), format!(".attach_pid{pid}")]
        {
            let _ = fs::remove_file(Path::new("/tmp").join(left));
        }
    }
}

/// What runs a shell's `script` with these arguments in a container: `nobody`'s, with a `/tmp` and
/// process numbers of its own. `None` where users may have none.
pub(super) fn contained(script: &str, arguments: &[&str]) -> Option<Command> {
    let command = |program: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-Urmpf", "--mount-proc", "--kill-child"]).args(program);
        command.uid(NOBODY).gid(NOBODY);
        command
    };
    let is_offered = command(&["true"]).status().is_ok_and(|status| status.success());
    is_offered.then(|| command(&[&["sh", "-c", script, "sh"], arguments].concat()))
}
