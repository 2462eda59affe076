//! Lists of addresses, each kept once.

use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// A row of [`AddressLists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ListId(NonZeroU32);

impl ListId {
    /// Rows are numbered from 1, so that an optional id takes no more room.
    fn new(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Deduplicated lists of addresses: over 99 of 100 stacks were there before.
///
/// Lists are told apart by their addresses, not only by a hash: what a file
/// says can collide on purpose.
#[derive(Debug, Default)]
pub(super) struct AddressLists {
    addresses: Vec<u64>,
    rows: Vec<Row>,
    /// The last row of each hash; the others hang behind it.
    by_hash: FxHashMap<u64, u32>,
}

#[derive(Debug)]
struct Row {
    /// Where it ends in `addresses`; it begins where the row before ends.
    end: u32,
    /// Another row of the same hash.
    next: u32,
}

const NO_ROW: u32 = u32::MAX;
/// Rows of one hash that are looked at: more come only of lists made to collide.
const LONGEST_CHAIN: usize = 16;

impl AddressLists {
    /// The row of a list, added if it is new.
    pub(super) fn intern(&mut self, addresses: &[u64]) -> ListId {
        let hash = hash(addresses);
        let first = self.by_hash.get(&hash).copied().unwrap_or(NO_ROW);
        let mut at = first;
        for _ in 0..LONGEST_CHAIN {
            if at == NO_ROW {
                break;
            }
            if self.get(ListId::new(at)) == addresses {
                return ListId::new(at);
            }
            at = self.rows[at as usize].next;
        }
        let id = self.rows.len() as u32;
        self.addresses.extend_from_slice(addresses);
        self.rows.push(Row { end: self.addresses.len() as u32, next: first });
        self.by_hash.insert(hash, id);
        ListId::new(id)
    }

    /// The addresses of a row.
    pub(super) fn get(&self, id: ListId) -> &[u64] {
        let start = id.index().checked_sub(1).map_or(0, |before| self.rows[before].end);
        &self.addresses[start as usize..self.rows[id.index()].end as usize]
    }
}

/// Mixes every bit of every address: addresses of one module differ in few.
fn hash(addresses: &[u64]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    addresses.iter().fold(addresses.len() as u64, |hash, address| {
        let product = u128::from(hash ^ address) * u128::from(FACTOR);
        (product as u64) ^ ((product >> 64) as u64).rotate_left(23) ^ hash.rotate_left(5)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_that_comes_again_has_its_row() {
        let mut lists = AddressLists::default();
        let (one, none) = (lists.intern(&[1, 2]), lists.intern(&[]));
        assert_eq!(lists.intern(&[1, 2]), one);
        assert_eq!(lists.intern(&[]), none);
        assert_ne!(lists.intern(&[2, 1]), one);
        assert_eq!((lists.get(one), lists.get(none)), (&[1, 2][..], &[][..]));
    }

    proptest! {
        #[test]
        fn every_row_gives_back_what_was_put_in(
            lists in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..5), 0..50),
        ) {
            let mut table = AddressLists::default();
            let ids: Vec<ListId> = lists.iter().map(|list| table.intern(list)).collect();
            for (id, list) in ids.iter().zip(&lists) {
                prop_assert_eq!(table.get(*id), &list[..]);
            }
        }
    }
}
