//! Who had an id, and when.

use rustc_hash::FxHashMap;

/// The first and the last tick of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// 0 where it was there before the recording.
    pub since: u64,
    /// `u64::MAX` where no end was seen.
    pub until: u64,
}

impl Lifetime {
    /// A lifetime of which nothing is known.
    pub const UNKNOWN: Self = Self { since: 0, until: u64::MAX };

    /// The tick within that is nearest.
    #[inline]
    pub fn limit(&self, ticks: u64) -> u64 {
        ticks.min(self.until).max(self.since)
    }
}

/// Rows of processes or threads by id, one after the other: ids are given out again.
#[derive(Clone, Debug)]
pub struct Lifetimes<R> {
    rows: FxHashMap<u32, Vec<(R, Lifetime)>>,
}

impl<R> Default for Lifetimes<R> {
    fn default() -> Self {
        Self { rows: FxHashMap::default() }
    }
}

impl<R: Copy + PartialEq> Lifetimes<R> {
    fn last(&mut self, id: u32) -> Option<&mut (R, Lifetime)> {
        self.rows.get_mut(&id)?.last_mut()
    }

    /// The id means this row since these ticks; begins come in order of time.
    pub fn begin(&mut self, id: u32, row: R, since: u64) {
        if let Some((last, lifetime)) = self.last(id)
            && *last == row
        {
            // It was known to be there; now its beginning was seen.
            lifetime.since = since;
            return;
        }
        self.end(id, since);
        let lifetime = Lifetime { since, ..Lifetime::UNKNOWN };
        self.rows.entry(id).or_default().push((row, lifetime));
    }

    /// Who has the id ends at these ticks. What it did comes before that it ended.
    pub fn end(&mut self, id: u32, ticks: u64) {
        if let Some((_, lifetime)) = self.last(id) {
            lifetime.until = lifetime.until.min(ticks.saturating_sub(1));
        }
    }

    /// Forgets who ended before these ticks.
    pub fn forget_before(&mut self, ticks: u64) {
        self.rows.retain(|_, list| {
            list.retain(|(_, lifetime)| lifetime.until >= ticks);
            list.shrink_to(list.len() * 2);
            !list.is_empty()
        });
    }

    /// How many are known.
    pub fn held(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }

    /// Whether anything had this id.
    pub fn contains(&self, id: u32) -> bool {
        self.rows.contains_key(&id)
    }

    /// Who has the id, if its end was not seen.
    pub fn living(&self, id: u32) -> Option<R> {
        let (row, lifetime) = self.rows.get(&id)?.last()?;
        (lifetime.until == u64::MAX).then_some(*row)
    }

    /// When the last one of this id had ended: the next cannot have begun before.
    pub fn free_since(&self, id: u32) -> u64 {
        let last = self.rows.get(&id).and_then(|list| list.last());
        last.map_or(0, |(_, lifetime)| lifetime.until.saturating_add(1))
    }

    /// The last who had the id at that time or before, ended or not; before all of them, the first.
    pub fn last_at(&self, id: u32, ticks: u64) -> Option<(R, Lifetime)> {
        let list = self.rows.get(&id)?;
        let after = list.partition_point(|(_, lifetime)| lifetime.since <= ticks);
        list.get(after.saturating_sub(1)).copied()
    }

    /// The lifetime of who had this id at that time, or after it if nobody had it before. Who tells
    /// of a time after one's end and before the next has a beginning that was lost.
    pub fn at(&self, id: u32, ticks: u64) -> Lifetime {
        match self.last_at(id, ticks) {
            Some((_, lifetime)) if ticks <= lifetime.until => lifetime,
            _ => Lifetime::UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_given_out_again_means_another_from_then_on() {
        let mut lifetimes = Lifetimes::default();
        lifetimes.begin(7, 'a', 10);
        lifetimes.end(7, 20);
        assert_eq!((lifetimes.living(7), lifetimes.free_since(7)), (None, 20));
        lifetimes.begin(7, 'b', 30);
        assert_eq!(lifetimes.living(7), Some('b'));
        let rows = [5, 10, 25, 30, 90].map(|ticks| lifetimes.last_at(7, ticks).unwrap().0);
        assert_eq!(rows, ['a', 'a', 'a', 'b', 'b']);
        let first = Lifetime { since: 10, until: 19 };
        let second = Lifetime { since: 30, until: u64::MAX };
        let lived = [5, 19, 25, 30].map(|ticks| lifetimes.at(7, ticks));
        assert_eq!(lived, [first, first, Lifetime::UNKNOWN, second], "nobody lived at 25");
    }

    #[test]
    fn who_has_ended_is_forgotten_and_who_has_the_id_now_is_not() {
        let mut lifetimes = Lifetimes::default();
        for (row, since) in [('a', 10), ('b', 30), ('c', 50)] {
            lifetimes.begin(7, row, since);
        }
        lifetimes.begin(8, 'd', 5);
        lifetimes.end(8, 20);
        lifetimes.forget_before(40);
        assert_eq!((lifetimes.contains(8), lifetimes.living(7)), (false, Some('c')));
        assert_eq!(lifetimes.at(7, 45), Lifetime { since: 30, until: 49 });
    }

    #[test]
    fn who_is_not_seen_to_end_has_ended_when_the_next_begins() {
        let mut lifetimes = Lifetimes::default();
        lifetimes.begin(7, 'a', 0);
        lifetimes.begin(7, 'a', 4);
        lifetimes.begin(7, 'b', 9);
        assert_eq!(lifetimes.at(7, 5), Lifetime { since: 4, until: 8 });
        assert_eq!((lifetimes.contains(7), lifetimes.contains(8)), (true, false));
        assert_eq!(lifetimes.at(8, 5), Lifetime::UNKNOWN);
    }
}
