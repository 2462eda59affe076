//! Processes whose first thread has ended while others live on.
//!
//! /proc/PID is the first thread's: when that has ended (`pthread_exit` in `main`), the kernel
//! shows neither memory nor files nor mounts there any more, as if the process had none. The
//! folders of the threads that live on have all of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of threads that are looked into for some that live.
const LOOKED_AT_MAX: usize = 64;
/// Living threads that are asked: one that ends meanwhile has nothing either.
const ASKED_MAX: usize = 3;

/// What `look` finds in the folder of a process in /proc, or, where nothing is found there because
/// the first thread has ended, in the folder of a thread that lives on.
///
/// # Errors
///
/// Of the process's own folder.
pub fn in_process<T, E>(
    process: &Path,
    mut look: impl FnMut(&Path) -> Result<T, E>,
) -> Result<T, E> {
    look(process)
        .or_else(|error| living_others(process).find_map(|thread| look(&thread).ok()).ok_or(error))
}

/// As [`in_process`], in the folder that has a link to the file of each mapping.
///
/// # Errors
///
/// As there.
pub fn in_map_files<T, E>(
    process: &Path,
    mut look: impl FnMut(&Path) -> Result<T, E>,
) -> Result<T, E> {
    look(&process.join("map_files")).or_else(|error| {
        // The kernel has no such folder where it lists threads, only where they stand beside
        // processes, unlisted.
        let found = living_others(process).find_map(|thread| {
            let beside = process.with_file_name(thread.file_name()?);
            let found = look(&beside.join("map_files")).ok()?;
            // If the thread has ended meanwhile, its number may be another process's.
            thread.exists().then_some(found)
        });
        found.ok_or(error)
    })
}

/// A thread of a process whose first one has ended; `None` where that lives, or none does.
pub fn living_other(process: &Path) -> Option<u32> {
    living_others(process).find_map(|thread| thread.file_name()?.to_str()?.parse().ok())
}

/// The folders of threads that live on when the first has ended; none where that lives.
fn living_others(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let threads = has_ended(process).then(|| fs::read_dir(process.join("task")).ok()).flatten();
    let folders = threads.into_iter().flatten().flatten().map(|entry| entry.path());
    folders.take(LOOKED_AT_MAX).filter(|thread| !has_ended(thread)).take(ASKED_MAX)
}

/// Whether the thread of this folder is one that has ended and still has a number.
fn has_ended(thread: &Path) -> bool {
    let stat = fs::read(thread.join("stat")).unwrap_or_default();
    // The name, which may hold anything, stands in brackets; the state is a letter behind it.
    let state = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    matches!(state.trim_ascii_start().first(), Some(b'Z' | b'X'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A /proc in which these threads of process 70 are in these states.
    fn threads(states: &[(&str, char)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("70");
        for (tid, state) in states {
            let text = format!("{tid} (a) b) {state} 1 70");
            let thread = process.join("task").join(tid);
            fs::create_dir_all(&thread).unwrap();
            fs::write(thread.join("stat"), &text).unwrap();
            if *tid == "70" {
                fs::write(process.join("stat"), &text).unwrap();
            }
        }
        proc
    }

    #[test]
    fn where_the_first_thread_has_ended_the_others_are_asked() {
        let proc = threads(&[("70", 'Z'), ("71", 'X'), ("72", 'S')]);
        let process = proc.path().join("70");
        fs::write(process.join("task/72/maps"), "of 72").unwrap();
        assert_eq!(in_process(&process, maps).unwrap(), "of 72");
        assert_eq!(living_other(&process), Some(72));
        fs::write(process.join("maps"), "its own").unwrap();
        assert_eq!(in_process(&process, maps).unwrap(), "its own", "what there is is taken");
    }

    #[test]
    fn of_a_process_whose_first_thread_lives_nobody_else_is_asked() {
        let proc = threads(&[("70", 'S'), ("71", 'S')]);
        let (process, asked) = (proc.path().join("70"), RefCell::new(0));
        let nothing = |_: &Path| {
            *asked.borrow_mut() += 1;
            Err::<(), _>("nothing")
        };
        assert_eq!(in_process(&process, nothing), Err("nothing"));
        assert_eq!(in_map_files(&process, nothing), Err("nothing"));
        assert_eq!((asked.into_inner(), living_other(&process)), (2, None));
    }

    #[test]
    fn of_very_many_threads_few_are_asked() {
        let many: Vec<_> = (71..300).map(|tid| (tid.to_string(), 'S')).collect();
        let mut states = vec![("70", 'Z')];
        states.extend(many.iter().map(|(tid, state)| (tid.as_str(), *state)));
        let (proc, mut asked) = (threads(&states), 0);
        let found = in_process(&proc.path().join("70"), |_| {
            asked += 1;
            Err::<(), _>("nothing")
        });
        assert_eq!(found, Err("nothing"));
        assert_eq!(asked, 1 + ASKED_MAX);
    }

    #[test]
    fn files_of_mappings_are_found_beside_the_process_while_the_thread_is_its() {
        let proc = threads(&[("70", 'Z'), ("72", 'S')]);
        let process = proc.path().join("70");
        let beside = proc.path().join("72/map_files");
        fs::create_dir_all(&beside).unwrap();
        fs::write(beside.join("1-2"), "code").unwrap();
        assert_eq!(in_map_files(&process, code).unwrap(), "code");
        let found = in_map_files(&process, |folder| {
            let read = code(folder);
            if read.is_ok() {
                fs::remove_dir_all(process.join("task/72")).unwrap();
            }
            read
        });
        found.expect_err("72 may be another process by now");
    }

    fn maps(folder: &Path) -> Result<String, std::io::Error> {
        fs::read_to_string(folder.join("maps"))
    }

    fn code(folder: &Path) -> Result<String, std::io::Error> {
        fs::read_to_string(folder.join("1-2"))
    }
}
