//! What the machine is busy with meanwhile: tasks that switch, one that is instrumented,
//! programs that come and go.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::privileged::context::{Context, ends_with_us, text, until};
use crate::privileged::semaphores::semaphores;

/// Turns of a load that is ended before it has done them.
const ENDLESS: &str = "1000000000000";
const HOURS: &str = "100000";

/// Loads that run until this is dropped.
pub(crate) struct Workload {
    running: Vec<Child>,
    program: PathBuf,
    /// Where the instrumented program writes how far it is.
    numbers: PathBuf,
}

impl Workload {
    /// Starts all of them.
    pub(crate) fn start(context: &Context) -> Result<Self> {
        let numbers = context.path("numbers");
        let mut load =
            Self { running: Vec::new(), program: context.load.clone(), numbers: numbers.clone() };
        // The instrumented program is the first.
        load.run(Command::new(&context.load).args(["numbered", text(&numbers)?, HOURS]))?;
        load.run(Command::new(&context.load).args(["ping-pong", ENDLESS]))?;
        load.run(Command::new("/bin/sh").args(["-c", "while :; do /bin/true; sleep 0.02; done"]))?;
        until("the loads to begin", || load.number().ok())?;
        Ok(load)
    }

    fn run(&mut self, command: &mut Command) -> Result<()> {
        // A group of its own: what a shell has started ends with it.
        ends_with_us(command);
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        self.running.push(command.spawn().context("cannot start a load")?);
        Ok(())
    }

    /// How many zones the instrumented program has ended.
    pub(crate) fn number(&self) -> Result<u64> {
        fs::read_to_string(&self.numbers)?.trim().parse().context("no number in the load's file")
    }

    /// Waits until the instrumented program is told by its semaphores that nobody records.
    pub(super) fn semaphores_are_down(&self) -> Result<()> {
        let pid = self.running.first().context("no load")?.id();
        let down = until("semaphores to be down", || {
            semaphores(pid, &self.program).ok()?.values().all(|value| *value == 0).then_some(())
        });
        down.with_context(|| format!("they are {:?}", semaphores(pid, &self.program)))
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        for child in &mut self.running {
            // SAFETY: kill takes plain numbers; the group is the child's own and the child was not
            // waited for.
            unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
            let _ = child.wait();
        }
    }
}
