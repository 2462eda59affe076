//! What to report of each user: any user can have processes and files under as many numbers as
//! they like, so that few are reported one by one.

use std::ops::Add;

/// Users who are reported one by one.
pub(crate) const REPORTED_MAX: usize = 8;

/// Notes of what users have, in `words` for a value and whose it is (`of user 7`): of the first
/// users one by one, of all others together.
pub(crate) fn notes<T: Copy + Add<Output = T>>(
    of_users: impl IntoIterator<Item = (String, T)>,
    words: impl Fn(&T, &str) -> String,
) -> Vec<String> {
    let mut users = of_users.into_iter();
    let first = users.by_ref().take(REPORTED_MAX);
    let mut notes: Vec<String> = first.map(|(whose, value)| words(&value, &whose)).collect();
    let others: Vec<T> = users.map(|(_, value)| value).collect();
    let sum = others.iter().copied().reduce(T::add);
    notes.extend(sum.map(|sum| words(&sum, &format!("of {} more users", others.len()))));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_users_are_reported_one_by_one_and_the_others_together() {
        let report = |users: usize| {
            let users = (0..users).map(|user| (format!("of user {user}"), 3));
            notes(users, |count, whose| format!("{count} files {whose}"))
        };
        assert_eq!(report(REPORTED_MAX).last().unwrap(), "3 files of user 7");
        assert_eq!(report(REPORTED_MAX + 2).last().unwrap(), "6 files of 2 more users");
        assert_eq!(report(REPORTED_MAX + 2).len(), REPORTED_MAX + 1);
    }
}
