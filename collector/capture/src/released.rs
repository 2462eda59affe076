//! What is said of files that were let go because only this program kept them from being freed.

use std::collections::BTreeMap;

/// Users of whom it is said by their numbers that files of theirs were released.
const RELEASED_USERS_MAX: usize = 8;

/// Files that were released because they had been deleted, of each user; of the last ones together.
pub(crate) fn released_notes(released: &BTreeMap<u32, usize>) -> Vec<String> {
    let users = released.iter().take(RELEASED_USERS_MAX);
    let mut notes: Vec<String> =
        users.map(|(user, files)| not_held(*files, &format!("user {user}"))).collect();
    let others = released.len().saturating_sub(RELEASED_USERS_MAX);
    if others > 0 {
        let files = released.values().skip(RELEASED_USERS_MAX).sum();
        notes.push(not_held(files, &format!("{others} more users")));
    }
    notes
}

fn not_held(files: usize, whose: &str) -> String {
    format!(
        "{files} files of code that programs of {whose} have deleted were not held: only that \
         kept them from being freed, and they were too large together; their functions have no \
         names"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_released_are_said_of_each_user_or_of_many_together() {
        let released: BTreeMap<u32, usize> = (1000..1010).map(|user| (user, 3)).collect();
        let notes = released_notes(&released);
        assert_eq!(notes.len(), RELEASED_USERS_MAX + 1);
        assert!(notes[0].starts_with("3 files of code that programs of user 1000 have deleted"));
        assert!(
            notes[RELEASED_USERS_MAX].starts_with("6 files of code that programs of 2 more users")
        );
    }
}
