//! What a thread had open before this recorder came, told by what its ring holds of before.
//!
//! A thread that goes on states that again by itself when it sees another recorder. One that hangs
//! does not; but its ring still has what it wrote for the recorder before. Where that has come
//! round, nobody knows where an item begins: items that begin at different words soon meet at one
//! word, and from there on it is known.

use std::collections::BTreeMap;

use syscollect_records::Stamp;
use syscollect_zone_protocol::arena::{MAX_GROUP_BYTES, RING_BYTES};
use syscollect_zone_protocol::{Event, Item, MAX_ITEM_WORDS, ended_depth, item_words};

/// Words of a copy of a ring: its items, of which the last may end in the slack.
pub(super) const RING_WORDS: usize = RING_BYTES / 8 + MAX_ITEM_WORDS - 1;
/// Bytes before the head that a writer leaves alone until it has published another head.
const INTACT_BYTES: u64 = (RING_BYTES - MAX_GROUP_BYTES) as u64;

/// Zones that are told at most, the innermost: as many as a thread states itself.
const MOST_OPEN: usize = 64;

/// Items of a thread as they lie in its ring, up to the ring's head.
pub(super) struct RingHistory<'a> {
    /// All of the ring: [`RING_WORDS`].
    pub(super) ring: &'a [u64],
    /// Bytes that were ever written.
    pub(super) head: u64,
}

/// A zone that was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenedZone {
    location: u32,
    began: u64,
}

impl RingHistory<'_> {
    /// What states at `now` that which is open, as the thread itself would; empty where nothing is,
    /// or nothing is known.
    pub(super) fn restatement(&self, now: u64) -> Vec<u64> {
        let zones = self.open_zones(now);
        let Some((innermost, _)) = zones.last_key_value() else { return Vec::new() };
        let attached = Event::Attached { depth: innermost.saturating_add(1) };
        let too_many = zones.len().saturating_sub(MOST_OPEN);
        let open = zones.iter().skip(too_many).map(|(depth, OpenedZone { location, began })| {
            Event::OpenZone { location: *location, depth: *depth, began: *began }
        });
        let events = std::iter::once(attached).chain(open);
        events.flat_map(|event| Item::Stamped { ticks: now, event }.encode().to_vec()).collect()
    }

    /// The zones that are open, by their depths.
    fn open_zones(&self, now: u64) -> BTreeMap<u32, OpenedZone> {
        let mut open = BTreeMap::new();
        let mut at = self.first_item();
        while let Some(item) = self.item(at) {
            at += size_of_val(item) as u64;
            if let Some(Item::Stamped { event, .. }) = Item::decode(item) {
                let stamped = Stamp(item[0]).ticks_near(now);
                apply(event, stamped, &mut open);
            }
        }
        // An item that is none: whatever was open may have ended behind it.
        if at == self.head { open } else { BTreeMap::new() }
    }

    /// A position where an item begins: the first that is known.
    fn first_item(&self) -> u64 {
        let Some(start) = self.head.checked_sub(INTACT_BYTES).filter(|start| *start > 0) else {
            return 0;
        };
        // One of so many words is the beginning of an item.
        let mut candidates: Vec<u64> =
            (0..MAX_ITEM_WORDS as u64).map(|word| start + word * 8).collect();
        loop {
            candidates.sort_unstable();
            candidates.dedup();
            let [behind, _, ..] = candidates[..] else {
                return candidates.first().copied().unwrap_or(self.head);
            };
            // The one that lags behind goes on, or is none.
            match self.item(behind) {
                Some(item) => candidates[0] = behind + size_of_val(item) as u64,
                None => drop(candidates.remove(0)),
            }
        }
    }

    /// The item that begins at that position and ends before the head.
    fn item(&self, position: u64) -> Option<&[u64]> {
        let start = (position % RING_BYTES as u64) as usize / 8;
        let words = item_words(*self.ring.get(start)?)?;
        let ends = position.saturating_add(words as u64 * 8);
        self.ring.get(start..start + words).filter(|_| ends <= self.head)
    }
}

/// What an event means for what is open.
fn apply(event: Event, stamped: u64, open: &mut BTreeMap<u32, OpenedZone>) {
    let (depth, zone) = match event {
        Event::ZoneBegin { location, depth } => (depth, Some((location, stamped))),
        Event::OpenZone { location, depth, began } => (depth, Some((location, began))),
        Event::Attached { depth } => (depth, None),
        Event::ThreadEnd => (0, None),
        Event::ZoneEnd { depth } => {
            let innermost = open.last_key_value().map(|(depth, _)| *depth);
            match innermost.and_then(|innermost| ended_depth(innermost, depth)) {
                Some(depth) => (depth, None),
                None => return,
            }
        }
        _ => return,
    };
    // What lies deeper has ended.
    open.split_off(&depth);
    if let Some((location, began)) = zone {
        open.insert(depth, OpenedZone { location, began });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syscollect_zone_protocol::Value;

    /// Far from where 56 bits of ticks come round.
    const NOW: u64 = 1 << 40;

    /// A ring, and what was written to it.
    struct Ring {
        words: Vec<u64>,
        head: u64,
    }

    impl Ring {
        /// One that so many bytes have gone through.
        fn behind(head: u64) -> Self {
            Self { words: vec![0; RING_WORDS], head }
        }

        fn write(&mut self, ticks: u64, event: Event) {
            let item = Item::Stamped { ticks, event }.encode();
            let start = (self.head % RING_BYTES as u64) as usize / 8;
            self.words[start..start + item.len()].copy_from_slice(&item);
            self.head += item.len() as u64 * 8;
        }

        fn open(&self) -> Vec<(u32, OpenedZone)> {
            let Self { words, head } = self;
            let history = RingHistory { ring: words, head: *head };
            history.open_zones(NOW).into_iter().collect()
        }
    }

    #[test]
    fn a_thread_that_hangs_has_the_zones_open_that_it_began_and_did_not_end() {
        let mut ring = Ring::behind(0);
        ring.write(1, Event::ZoneBegin { location: 9, depth: 0 });
        ring.write(2, Event::ThreadEnd);
        ring.write(10, Event::ZoneBegin { location: 1, depth: 0 });
        ring.write(20, Event::ZoneBegin { location: 2, depth: 1 });
        ring.write(30, Event::ZoneEnd { depth: 1 });
        ring.write(40, Event::Message { string: 1, color: 0 });
        ring.write(50, Event::ZoneBegin { location: 3, depth: 1 });
        let zone = |location, began| OpenedZone { location, began };
        assert_eq!(ring.open(), [(0, zone(1, 10)), (1, zone(3, 50))]);
        let Ring { words, head } = &ring;
        let told = RingHistory { ring: words, head: *head }.restatement(NOW);
        let stated = |event| Item::Stamped { ticks: NOW, event }.encode().to_vec();
        let expected = [
            stated(Event::Attached { depth: 2 }),
            stated(Event::OpenZone { location: 1, depth: 0, began: 10 }),
            stated(Event::OpenZone { location: 3, depth: 1, began: 50 }),
        ];
        assert_eq!(told, expected.concat());
    }

    #[test]
    fn a_ring_that_holds_what_is_no_item_tells_nothing() {
        let mut ring = Ring::behind(0);
        ring.write(10, Event::ZoneBegin { location: 1, depth: 0 });
        ring.words[2] = 0x02;
        ring.head += 8;
        assert_eq!(ring.open(), []);
        ring.head = u64::MAX - 7;
        assert_eq!(ring.open(), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Wherever a ring begins again, and whatever was written: of the zones that are open those
        /// are known that began where items are known.
        #[test]
        fn what_a_ring_holds_after_many_rounds_is_read_from_where_it_can_be(
            words in 2 * RING_BYTES as u64 / 8..4 * RING_BYTES as u64 / 8,
            kinds in prop::collection::vec(0..5u8, 20..400),
        ) {
            let mut ring = Ring::behind(words * 8);
            // As many as a ring has room for, and more.
            let mut open = Vec::new();
            for (number, kind) in kinds.iter().cycle().take(60_000).enumerate() {
                let (ticks, depth) = (number as u64 + 1, open.len() as u32);
                match kind {
                    0 if depth < 40 => {
                        let location = number as u32;
                        ring.write(ticks, Event::ZoneBegin { location, depth });
                        open.push((depth, OpenedZone { location, began: ticks }));
                    }
                    1 if depth > 0 => {
                        open.pop();
                        ring.write(ticks, Event::ZoneEnd { depth: depth as u8 - 1 });
                    }
                    2 => ring.write(ticks, Event::Plot { plot: 1, value: Value::Unsigned(ticks) }),
                    3 => ring.write(ticks, Event::Alloc { address: ticks, bytes: 1, pool: 0 }),
                    _ => ring.write(ticks, Event::Message { string: 1, color: 0 }),
                }
            }
            let known = ring.open();
            prop_assert!(open.ends_with(&known), "{known:?} of {open:?}");
            let recent: Vec<_> =
                open.iter().filter(|(_, zone)| zone.began > 50_000).copied().collect();
            prop_assert!(known.ends_with(&recent), "{known:?} lacks of {recent:?}");
        }
    }
}
