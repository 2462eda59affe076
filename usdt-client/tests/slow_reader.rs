//! A million zones on two threads, and a reader that is too slow.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use syscollect_usdt_client::testing::Drain;
use syscollect_usdt_client::zone;
use syscollect_zone_protocol::{ItemKind, ZONE_END, ZONE_END_DEPTH};

const THREADS: usize = 2;
const ZONES: u64 = 500_000;

/// What a reader knows of one ring.
#[derive(Default)]
struct ReadRing {
    events: u64,
    lost: u64,
    depth: u64,
    last_ticks: u64,
}

impl ReadRing {
    /// Takes an item, and checks that depth and time make sense, also after losses.
    fn take(&mut self, item: &[u64]) {
        let (kind, ticks) = (item[0] as u8, item[0] >> 8);
        assert!(ticks >= self.last_ticks, "time does not go back");
        self.last_ticks = ticks;
        if kind >= ZONE_END {
            assert_eq!(u64::from(kind & ZONE_END_DEPTH), self.depth - 1);
            self.depth -= 1;
            self.events += 1;
            return;
        }
        match ItemKind::from_number(kind).expect("a kind") {
            ItemKind::ZoneBegin => {
                assert_eq!(item[1] >> 32, self.depth);
                assert_ne!(
                    item[1] as u32, 0,
                    "the location is whole, also where an item ends in the slack"
                );
                self.depth += 1;
                self.events += 1;
            }
            ItemKind::Lost => self.lost += item[1],
            ItemKind::Attached => self.depth = item[1],
            ItemKind::OpenZone | ItemKind::ThreadEnd => {}
            other => panic!("{other:?} was not written"),
        }
    }
}

#[test]
fn of_a_million_zones_what_was_recorded_and_what_was_lost_is_what_was_produced() {
    common::record();
    let running = AtomicUsize::new(THREADS);
    let mut rings: HashMap<usize, ReadRing> = HashMap::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ZONES / 2 {
                    let _outer = zone!("outer");
                    let _inner = zone!("inner");
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut drain = Drain::open().expect("an arena");
        let mut rounds_left = 3;
        while rounds_left > 0 {
            rounds_left -= usize::from(running.load(Ordering::Relaxed) == 0);
            std::thread::sleep(Duration::from_millis(2));
            // Ring 0 is the test's own thread.
            for number in 1..drain.rings() {
                let items = drain.take(number);
                let ring = rings.entry(number).or_default();
                items.iter().for_each(|item| ring.take(item));
            }
        }
    });
    let drain = Drain::open().expect("an arena");
    let recorded: u64 = rings.values().map(|ring| ring.events).sum();
    let stated: u64 = rings.values().map(|ring| ring.lost).sum();
    assert_eq!(rings.len(), THREADS);
    // ThreadEnd may be lost as well.
    let produced = THREADS as u64 * ZONES * 2;
    assert!(
        (produced..=produced + 2).contains(&(recorded + drain.lost())),
        "{recorded} + {} lost",
        drain.lost()
    );
    assert!(drain.lost() > 0, "the reader was to be too slow");
    assert!(stated <= drain.lost());
}
