//! When scheduling records are missing.

/// Windows are joined rather than kept apart beyond this many.
const MAX_WINDOWS: usize = 1 << 16;

/// A time in which scheduling records are missing, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: u64,
    end: u64,
    /// The length of all windows up to this one's end.
    sum: u64,
}

/// The times in which scheduling records of some CPU are missing: apart from
/// each other and ascending.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    windows: Vec<Window>,
}

impl Gaps {
    /// Adds a window; windows come in the order of their ends.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start.min(end), end);
        while let Some(last) = self.windows.last() {
            if last.end < start && self.windows.len() < MAX_WINDOWS {
                break;
            }
            (start, end) = (start.min(last.start), end.max(last.end));
            self.windows.pop();
        }
        let before = self.windows.last().map_or(0, |last| last.sum);
        self.windows.push(Window { start, end, sum: before + (end - start) });
    }

    /// How much of the time from `since` to `now` records are missing for.
    #[inline]
    pub(crate) fn missing(&self, since: u64, now: u64) -> u64 {
        match self.windows.last() {
            Some(last) if last.end > since => self.up_to(now).saturating_sub(self.up_to(since)),
            _ => 0,
        }
    }

    /// Where the first window begins that reaches beyond `since`.
    pub(crate) fn first(&self, since: u64) -> Option<u64> {
        let index = self.windows.partition_point(|window| window.end <= since);
        self.windows.get(index).map(|window| window.start)
    }

    /// The length of all windows before `time`.
    fn up_to(&self, time: u64) -> u64 {
        let begun = self.windows.partition_point(|window| window.start < time);
        let last = begun.checked_sub(1).and_then(|index| self.windows.get(index));
        last.map_or(0, |last| last.sum - last.end.saturating_sub(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(windows: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps::default();
        windows.iter().for_each(|(start, end)| gaps.add(*start, *end));
        gaps
    }

    #[test]
    fn what_is_missing_of_a_time_is_its_part_within_the_windows() {
        assert_eq!(gaps(&[]).missing(5, 100), 0);
        let gaps = gaps(&[(20, 30), (50, 65)]);
        assert_eq!(gaps.missing(5, 10), 0, "before the first");
        assert_eq!(gaps.missing(5, 100), 25);
        assert_eq!(gaps.missing(25, 55), 5 + 5, "from within one to within the next");
        assert_eq!(gaps.missing(22, 24), 2);
        assert_eq!(gaps.missing(30, 50), 0);
        assert_eq!(gaps.missing(65, 100), 0);
    }

    #[test]
    fn the_first_window_is_one_that_reaches_beyond() {
        let gaps = gaps(&[(20, 30), (50, 60)]);
        assert_eq!(
            [0, 25, 30, 59, 60].map(|since| gaps.first(since)),
            [Some(20), Some(20), Some(50), Some(50), None]
        );
    }

    #[test]
    fn windows_of_several_cpus_overlap() {
        let gaps = gaps(&[(20, 30), (40, 50), (25, 55), (60, 60), (70, 80)]);
        assert_eq!(gaps.missing(0, 100), 35 + 10);
        assert_eq!(gaps.first(56), Some(60), "an event may be missing within no time at all");
    }

    #[test]
    fn their_number_is_bounded() {
        let mut gaps = Gaps::default();
        (0..2 * MAX_WINDOWS as u64).for_each(|index| gaps.add(index * 10, index * 10 + 1));
        assert!(gaps.windows.len() <= MAX_WINDOWS);
        assert_eq!(gaps.missing(0, 100), 10, "the early ones are still exact");
    }
}
