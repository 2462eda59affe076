//! Which queries of a pool are in use: books only, of any programming interface.

use core::array;
use core::ops::Range;

/// Pairs of queries that are read at one time.
const BATCH: usize = 64;

/// The pairs of a pool of time stamp queries: each zone takes one, in turn, and gives it back when
/// its two values were read.
///
/// The pool has `2 * PAIRS` queries, of which pair 0 is 0 and 1. Choose `PAIRS` larger than all
/// zones of the frames that are in flight. Where all pairs are taken, a zone gets none, and that
/// is counted: a query whose value was not read is never written again.
///
/// ```
/// use syscollect_usdt_client::gpu::QueryRing;
///
/// let mut ring = QueryRing::<&str, 2>::new();
/// let shadows = ring.take("shadows").expect("a free pair");
/// assert_eq!((shadows.begin(), shadows.end()), (0, 1));
/// assert!(ring.take("lights").is_some() && ring.take("post").is_none());
/// assert_eq!(ring.refused(), 1);
///
/// // The GPU has written the first pair only.
/// let mut told = Vec::new();
/// ring.resolve(
///     |queries, values| {
///         for (query, value) in queries.zip(values) {
///             *value = (query < 2).then_some(u64::from(query) * 10);
///         }
///     },
///     |zone, times| told.push((zone, times.began, times.ended)),
/// );
/// assert_eq!(told, [("shadows", 0, 10)]);
/// assert!(ring.take("post").is_some());
/// ```
#[derive(Debug)]
pub struct QueryRing<T, const PAIRS: usize> {
    slots: [Slot<T>; PAIRS],
    books: QueryBooks,
}

/// The books of a ring, wherever its slots lie: at least one, and always the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryBooks {
    /// Pairs that were ever taken, and of these given back; both count on.
    taken: u64,
    given_back: u64,
    refused: u64,
}

/// A pair's place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot<T> {
    /// Nobody has it, or its values were read.
    Free,
    /// That zone's.
    Taken(T),
}

/// Two queries of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryPair(u32);

impl QueryPair {
    /// The query of the zone's beginning.
    pub fn begin(self) -> u32 {
        self.0 * 2
    }

    /// The query of its end.
    pub fn end(self) -> u32 {
        self.0 * 2 + 1
    }

    /// Both. Reset them before the GPU writes them again, and before they are read again.
    pub fn queries(self) -> Range<u32> {
        self.begin()..self.begin() + 2
    }
}

/// The values of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryTimes {
    /// The GPU's ticks when it began.
    pub began: u64,
    /// The GPU's ticks when it ended.
    pub ended: u64,
}

impl<T: Copy, const PAIRS: usize> QueryRing<T, PAIRS> {
    /// All pairs are free.
    pub fn new() -> Self {
        const { assert!(PAIRS > 0 && PAIRS <= (u32::MAX / 2) as usize) }
        Self { slots: array::from_fn(|_| Slot::Free), books: QueryBooks::default() }
    }

    /// Takes a pair for the zone; `None`, counted, where the next was not read yet.
    pub fn take(&mut self, zone: T) -> Option<QueryPair> {
        self.books.take(&mut self.slots, |_| zone)
    }

    /// Reads what is there, and tells of zones whose two values are. `read` is given queries and
    /// as many values, all `None`, and puts in those that the GPU has written, without waiting
    /// for the others. Pairs are read from the oldest on, in batches, until there is a batch of
    /// which no value is there.
    pub fn resolve(
        &mut self,
        mut read: impl FnMut(Range<u32>, &mut [Option<u64>]),
        tell: impl FnMut(T, QueryTimes),
    ) {
        self.books.resolve(&mut self.slots, |batch, values| read(batch.queries(), values), tell);
    }

    /// No value comes any more (the device is lost): tells of all zones whose values were not
    /// read, and all pairs are free.
    pub fn abandon(&mut self, tell: impl FnMut(T)) {
        self.books.abandon(&mut self.slots, tell);
    }

    /// Zones that found no pair.
    pub fn refused(&self) -> u64 {
        self.books.refused()
    }

    /// Pairs from the oldest that was not read to the newest.
    pub fn outstanding(&self) -> usize {
        self.books.outstanding()
    }
}

/// Pairs that are read at one time, one after the other in the pool.
pub(crate) struct Batch<'a, T> {
    first: u32,
    /// What has them; some were read before.
    pub(crate) slots: &'a [Slot<T>],
}

impl<T> Batch<'_, T> {
    fn queries(&self) -> Range<u32> {
        self.first * 2..(self.first + self.slots.len() as u32) * 2
    }
}

impl QueryBooks {
    /// Takes a pair for what is made of it; `None`, counted, where the next was not read yet.
    pub(crate) fn take<T>(
        &mut self,
        slots: &mut [Slot<T>],
        zone: impl FnOnce(QueryPair) -> T,
    ) -> Option<QueryPair> {
        if self.outstanding() >= slots.len() {
            self.refused += 1;
            return None;
        }
        let place = place(self.taken, slots);
        let pair = QueryPair(place as u32);
        slots[place] = Slot::Taken(zone(pair));
        self.taken += 1;
        Some(pair)
    }

    /// As [`QueryRing::resolve`].
    pub(crate) fn resolve<T: Copy>(
        &mut self,
        slots: &mut [Slot<T>],
        mut read: impl FnMut(Batch<'_, T>, &mut [Option<u64>]),
        mut tell: impl FnMut(T, QueryTimes),
    ) {
        let mut next = self.given_back;
        while next < self.taken {
            let first = place(next, slots);
            let left = (self.taken - next).min(BATCH as u64) as usize;
            let pairs = left.min(slots.len() - first);
            let mut values = [None; BATCH * 2];
            let values = &mut values[..pairs * 2];
            let batch = &mut slots[first..first + pairs];
            read(Batch { first: first as u32, slots: batch }, values);
            let (times, _) = values.as_chunks::<2>();
            for (slot, times) in batch.iter_mut().zip(times) {
                if let (Slot::Taken(zone), [Some(began), Some(ended)]) = (*slot, *times) {
                    tell(zone, QueryTimes { began, ended });
                    *slot = Slot::Free;
                }
            }
            if values.iter().all(Option::is_none) {
                break;
            }
            next += pairs as u64;
        }
        self.give_back(slots);
    }

    /// As [`QueryRing::abandon`].
    pub(crate) fn abandon<T>(&mut self, slots: &mut [Slot<T>], mut tell: impl FnMut(T)) {
        for number in self.given_back..self.taken {
            let place = place(number, slots);
            let slot = &mut slots[place];
            if let Slot::Taken(zone) = core::mem::replace(slot, Slot::Free) {
                tell(zone);
            }
        }
        self.given_back = self.taken;
    }

    /// As [`QueryRing::refused`].
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// As [`QueryRing::outstanding`].
    pub(crate) fn outstanding(&self) -> usize {
        (self.taken - self.given_back) as usize
    }

    /// Goes on to the oldest pair that was not read.
    fn give_back<T>(&mut self, slots: &[Slot<T>]) {
        while self.given_back < self.taken
            && matches!(slots[place(self.given_back, slots)], Slot::Free)
        {
            self.given_back += 1;
        }
    }
}

fn place<T>(number: u64, slots: &[Slot<T>]) -> usize {
    (number % slots.len() as u64) as usize
}

impl<T: Copy, const PAIRS: usize> Default for QueryRing<T, PAIRS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // helpers of tests fail as tests do
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// What a program does.
    #[derive(Clone, Debug)]
    enum RingOperation {
        /// It begins so many zones.
        Take(u8),
        /// The GPU writes what this picks of all that is outstanding.
        Write(u64),
        Resolve,
        Abandon,
    }

    fn step() -> impl Strategy<Value = RingOperation> {
        prop_oneof![
            4 => (1..40_u8).prop_map(RingOperation::Take),
            4 => any::<u64>().prop_map(RingOperation::Write),
            4 => Just(RingOperation::Resolve),
            1 => Just(RingOperation::Abandon),
        ]
    }

    /// A pool of a GPU, which complains where a query is written that was not read.
    #[derive(Default)]
    struct Pool {
        /// The zones whose queries are taken, and not yet written.
        pending: BTreeMap<u32, u64>,
        written: BTreeMap<u32, u64>,
    }

    impl Pool {
        fn is_unread(&self, query: u32) -> bool {
            self.pending.contains_key(&query) || self.written.contains_key(&query)
        }

        fn write(&mut self, mut pick: u64) {
            let queries: Vec<u32> = self.pending.keys().copied().collect();
            for query in queries {
                pick = pick.rotate_left(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                if pick & 3 != 0 {
                    let zone = self.pending.remove(&query).unwrap();
                    self.written.insert(query, zone * 10 + u64::from(query % 2));
                }
            }
        }
    }

    fn plays<const PAIRS: usize>(steps: &[RingOperation]) -> Result<(), TestCaseError> {
        let mut ring = QueryRing::<u64, PAIRS>::new();
        let (mut pool, mut zones, mut open) = (Pool::default(), 0_u64, BTreeSet::new());
        let (mut refused, mut told) = (0, BTreeSet::new());
        for step in steps.iter().chain([&RingOperation::Write(u64::MAX), &RingOperation::Resolve]) {
            match step {
                RingOperation::Take(count) => {
                    for _ in 0..*count {
                        zones += 1;
                        let full = ring.outstanding() == PAIRS;
                        let Some(pair) = ring.take(zones) else {
                            prop_assert!(full, "one was refused though a pair was free");
                            refused += 1;
                            continue;
                        };
                        for query in pair.queries() {
                            prop_assert!(!pool.is_unread(query), "query {} was not read", query);
                            pool.pending.insert(query, zones);
                        }
                        open.insert(zones);
                    }
                }
                RingOperation::Write(pick) => pool.write(*pick),
                RingOperation::Resolve => {
                    let written = &pool.written;
                    let mut read = BTreeSet::new();
                    ring.resolve(
                        |queries, values| {
                            assert_eq!(queries.len(), values.len());
                            for (query, value) in queries.zip(values) {
                                assert!(value.is_none());
                                *value = written.get(&query).copied();
                            }
                        },
                        |zone, times| {
                            assert_eq!((times.began, times.ended), (zone * 10, zone * 10 + 1));
                            assert!(read.insert(zone) && open.remove(&zone), "told twice");
                        },
                    );
                    pool.written.retain(|_, value| !read.contains(&(*value / 10)));
                    told.extend(read);
                }
                RingOperation::Abandon => {
                    ring.abandon(|zone| assert!(open.remove(&zone), "told twice"));
                    prop_assert!(open.is_empty());
                    pool = Pool::default();
                }
            }
            prop_assert_eq!(ring.refused(), refused);
            prop_assert!(ring.outstanding() <= PAIRS);
        }
        prop_assert!(told.len() as u64 + refused <= zones);
        Ok(())
    }

    proptest! {
        #[test]
        fn no_query_is_written_before_it_was_read_and_none_is_told_twice(
            steps in prop::collection::vec(step(), 0..40),
        ) {
            plays::<1>(&steps)?;
            plays::<7>(&steps)?;
            plays::<200>(&steps)?;
        }
    }

    #[test]
    fn batches_end_at_the_end_of_the_pool_and_where_nothing_is_written() {
        let mut ring = QueryRing::<u32, 100>::new();
        let all = |_: Range<u32>, values: &mut [Option<u64>]| values.fill(Some(1));
        (0..90).for_each(|zone| assert!(ring.take(zone).is_some()));
        ring.resolve(all, |_, _| {});
        (0..100).for_each(|zone| assert!(ring.take(zone).is_some()));
        let mut asked = Vec::new();
        ring.resolve(|queries, _| asked.push(queries), |_, _| {});
        assert_eq!(asked, vec![180..200_u32], "nothing is there, so nothing else is asked for");
        asked.clear();
        let mut zones = Vec::new();
        ring.resolve(
            |queries, values| {
                asked.push(queries.clone());
                all(queries, values);
            },
            |zone, _| zones.push(zone),
        );
        assert_eq!(asked, [180..200, 0..128, 128..180]);
        assert_eq!(zones, (0..100).collect::<Vec<_>>());
        assert_eq!(ring.outstanding(), 0);
    }
}
