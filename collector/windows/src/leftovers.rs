//! Sessions that a recorder left behind: ETW keeps them, and their buffers,
//! until somebody stops them or the machine restarts.

use crate::plan::{NAME_PREFIX, WATCH_SUFFIX};

/// The process that a session's name belongs to; `None` for a session of somebody else's.
fn owner(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let digits = digits.strip_suffix(WATCH_SUFFIX).unwrap_or(digits);
    // `+5` and `007` parse as numbers, but no recorder writes its id so.
    digits.parse().ok().filter(|pid: &u32| pid.to_string() == digits)
}

/// Of the sessions that run, those of recorders that run no more. `records` tells
/// whether a process is a recorder; `me` has not started its session yet, so one
/// with its name is of a process that had the same id.
pub(crate) fn leftovers(names: Vec<String>, me: u32, records: impl Fn(u32) -> bool) -> Vec<String> {
    names
        .into_iter()
        .filter(|name| owner(name).is_some_and(|pid| pid == me || !records(pid)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(names: &[&str], running: &[u32]) -> Vec<String> {
        leftovers(names.iter().map(ToString::to_string).collect(), 10, |pid| running.contains(&pid))
    }

    #[test]
    fn the_session_of_a_recorder_that_is_gone_is_left_over() {
        assert_eq!(left(&["syscollect-5", "syscollect-6"], &[6]), ["syscollect-5"]);
    }

    #[test]
    fn a_recorder_that_is_gone_left_its_watch_of_images_too() {
        assert_eq!(
            left(&["syscollect-5-images", "syscollect-6-images"], &[6]),
            ["syscollect-5-images"]
        );
    }

    #[test]
    fn a_session_with_our_own_id_is_of_an_earlier_process() {
        assert_eq!(left(&["syscollect-10"], &[10]), ["syscollect-10"]);
    }

    #[test]
    fn what_others_started_is_left_alone() {
        let others = [
            "NT Kernel Logger",
            "syscollect",
            "syscollect-",
            "syscollect-x5",
            "syscollect-5-backup",
        ];
        assert!(left(&others, &[]).is_empty());
        assert!(
            left(&["syscollect-+5", "syscollect-007", "syscollect-99999999999"], &[]).is_empty()
        );
    }
}
