//! When scheduling records are missing.

/// Windows are joined rather than kept apart beyond this many.
const MAX_WINDOWS: usize = 1 << 16;

/// The times, nanoseconds, in which scheduling records of some CPU were lost:
/// apart from each other and ascending.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    windows: Vec<(u64, u64)>,
}

impl Gaps {
    /// Adds a window; windows come in the order of their ends.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start.min(end), end);
        while let Some(&(last_start, last_end)) = self.windows.last() {
            if last_end < start && self.windows.len() < MAX_WINDOWS {
                break;
            }
            (start, end) = (start.min(last_start), end.max(last_end));
            self.windows.pop();
        }
        self.windows.push((start, end));
    }

    /// Until when what is known at `since` is known to hold: `now`, or where
    /// the first window begins that reaches beyond `since`.
    #[inline]
    pub(super) fn known_until(&self, since: u64, now: u64) -> u64 {
        match self.windows.last() {
            Some((_, end)) if *end > since => self.first(since).map_or(now, |start| start.max(since).min(now)),
            _ => now,
        }
    }

    /// Where the first window begins that reaches beyond `since`.
    pub(super) fn first(&self, since: u64) -> Option<u64> {
        let index = self.windows.partition_point(|(_, end)| *end <= since);
        self.windows.get(index).map(|(start, _)| *start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_holds_until_records_are_missing() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.known_until(5, 100), 100, "nothing is missing");
        gaps.add(20, 30);
        gaps.add(50, 60);
        assert_eq!(gaps.known_until(5, 10), 10, "before the first");
        assert_eq!(gaps.known_until(5, 100), 20);
        assert_eq!(gaps.known_until(25, 100), 25, "inside one nothing is known");
        assert_eq!(gaps.known_until(30, 100), 50, "its end is where knowledge begins again");
        assert_eq!(gaps.known_until(60, 100), 100);
    }

    #[test]
    fn windows_of_several_cpus_overlap() {
        let mut gaps = Gaps::default();
        gaps.add(20, 30);
        gaps.add(40, 50);
        gaps.add(25, 55);
        assert_eq!(gaps.windows, [(20, 55)]);
        gaps.add(60, 60);
        assert_eq!(gaps.windows, [(20, 55), (60, 60)]);
    }

    #[test]
    fn their_number_is_bounded() {
        let mut gaps = Gaps::default();
        (0..2 * MAX_WINDOWS as u64).for_each(|index| gaps.add(index * 10, index * 10 + 1));
        assert!(gaps.windows.len() <= MAX_WINDOWS);
        assert_eq!(gaps.known_until(2, 100), 10, "the early ones are still exact");
    }
}
