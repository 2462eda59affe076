//! Running other programs, and finding the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
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

/// Runs a command to its end; a failure carries the command line and what it said.
pub(crate) fn output_of(command: &mut Command) -> Result<Output> {
    let line = words(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        bail!("`{line}` failed ({}):\n{}{}", output.status, printed.trim_start(), said.trim_end());
    }
    Ok(output)
}

/// Does `work` with each item, with as many at a time as there are CPUs; the results in the items'
/// order.
pub(crate) fn on_all_cpus<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cpus.min(items.len()) {
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
        let slower_first = |item: &u64| {
            std::thread::sleep(std::time::Duration::from_millis(20 - item));
            item * 2
        };
        let items: Vec<u64> = (0..20).collect();
        assert_eq!(
            on_all_cpus(&items, slower_first),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(on_all_cpus(&[], slower_first).is_empty());
    }
}
