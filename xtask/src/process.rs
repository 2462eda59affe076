//! Running other programs, and finding the workspace.

use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// `cargo` in the workspace, as the one that runs this.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The words of a command line, for messages.
pub(crate) fn words(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Runs a command to its end; a failure carries the command line and what it printed.
pub(crate) fn output_of(command: &mut Command) -> Result<Output> {
    let line = words(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    succeeded(&line, output)
}

/// The same of a program that may never end: after `limit` it is killed, with all that it has
/// started, and its command line is the error. What it prints goes through files, because something
/// that it leaves behind could hold a pipe open for ever.
pub(crate) fn output_within(limit: Duration, command: &mut Command) -> Result<Output> {
    let line = words(command);
    let [printed, messages] = [(); 2].map(|()| tempfile::NamedTempFile::new());
    let (printed, messages) = (printed?, messages?);
    command.process_group(0).stdout(printed.reopen()?).stderr(messages.reopen()?);
    let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    let status = wait_at_most(limit, &mut child)?;
    if status.is_none() {
        let group = libc::pid_t::try_from(child.id()).context("no process has such a number")?;
        // SAFETY: takes two numbers; the child leads this group, and its number is its own until
        // it is waited for, below.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        child.wait()?;
    }
    let [stdout, stderr] = [printed, messages].map(|file| fs::read(file.path()));
    let (stdout, stderr) = (stdout?, stderr?);
    let Some(status) = status else {
        let stderr = String::from_utf8_lossy(&stderr);
        return Err(TimedOut { line, limit, stderr: stderr.trim_end().to_owned() }.into());
    };
    succeeded(&line, Output { status, stdout, stderr })
}

/// A program that was killed because it did not end.
#[derive(Debug)]
pub(crate) struct TimedOut {
    line: String,
    limit: Duration,
    stderr: String,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, limit, stderr } = self;
        write!(to, "`{line}` did not end within {} s:\n{stderr}", limit.as_secs())
    }
}

impl std::error::Error for TimedOut {}

/// Waits for the end of a child; nothing where it still runs after `limit`.
pub(crate) fn wait_at_most(limit: Duration, child: &mut Child) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        let ended = child.try_wait().context("cannot wait for a child")?;
        if ended.is_some() || start.elapsed() > limit {
            return Ok(ended);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn succeeded(line: &str, output: Output) -> Result<Output> {
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        bail!(
            "`{line}` failed ({}):\n{}{}",
            output.status,
            printed.trim_start(),
            stderr.trim_end()
        );
    }
    Ok(output)
}

/// Does `work` with each item, with as many at a time as there are CPUs; the results in the items'
/// order.
pub(crate) fn on_all_cpus<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    on_each_cpu(1, items, work)
}

/// The same with `many` at a time on each CPU.
pub(crate) fn on_each_cpu<T: Sync, R: Send>(
    many: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..(many * cpus).min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    // A list of results is whole even if another thread panicked.
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_items() {
        let items: Vec<u64> = (0..20).collect();
        assert_eq!(
            on_all_cpus(&items, slower_first),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(on_all_cpus(&[], slower_first).is_empty());
    }

    fn slower_first(item: &u64) -> u64 {
        std::thread::sleep(std::time::Duration::from_millis(20 - item));
        item * 2
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let late = folder.path().join("late");
        let script = format!("echo why >&2; (sleep 1; touch {}) & sleep 60", late.display());
        let start = Instant::now();
        let run =
            output_within(Duration::from_millis(300), Command::new("sh").args(["-c", &script]));
        let error = run.expect_err("it runs for a minute").to_string();
        assert!(error.contains("did not end within") && error.ends_with("why"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(1_200));
        assert!(!late.exists(), "what it had started went on");
    }

    #[test]
    fn what_a_program_leaves_behind_is_not_waited_for() {
        let start = Instant::now();
        let output = output_within(
            Duration::from_secs(30),
            Command::new("sh").args(["-c", "echo done; sleep 20 &"]),
        );
        assert_eq!(output.expect("it ends").stdout, b"done\n");
        assert!(start.elapsed() < Duration::from_secs(15));
    }
}
