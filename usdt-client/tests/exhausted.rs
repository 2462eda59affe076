//! All rings taken, and a full log: counted, and the program goes on.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use syscollect_usdt_client::testing::Drain;
use syscollect_usdt_client::{DynamicLocation, Zone, message, zone};
use syscollect_zone_protocol::arena::{LOG_BYTES, MAX_RINGS};

/// More threads than there are rings, the test's own one included.
const TOO_MANY: usize = 10;

#[test]
fn threads_and_names_that_find_no_room_are_counted_and_do_no_harm() {
    common::record();
    threads_without_a_ring_are_counted_and_their_zones_nest();
    a_ring_that_is_free_again_is_used_again();
    names_beyond_the_log_are_counted_and_their_zones_have_none();
}

fn threads_without_a_ring_are_counted_and_their_zones_nest() {
    let count = MAX_RINGS - 1 + TOO_MANY;
    let (all_there, may_end) =
        (Arc::new(Barrier::new(count + 1)), Arc::new(Barrier::new(count + 1)));
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (all_there, may_end) = (Arc::clone(&all_there), Arc::clone(&may_end));
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread
                .spawn(move || {
                    let outer = zone!("outer");
                    let inner = zone!("inner");
                    assert_eq!((outer.token().to_number(), inner.token().to_number()), (0, 1));
                    drop(inner);
                    all_there.wait();
                    may_end.wait();
                })
                .unwrap()
        })
        .collect();
    all_there.wait();
    let drain = Drain::open().expect("an arena");
    let header = drain.header();
    assert_eq!(drain.rings(), MAX_RINGS);
    assert_eq!(header.threads_without_ring.load(Ordering::Relaxed) as usize, TOO_MANY);
    // Two begins and an end each so far.
    assert_eq!(header.events_without_ring.load(Ordering::Relaxed) as usize, 3 * TOO_MANY);
    may_end.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn a_ring_that_is_free_again_is_used_again() {
    let drain = Drain::open().expect("an arena");
    // What a collector does with the ring of a thread that has ended.
    let ring = drain.ring(500);
    ring.tail.store(ring.head.load(Ordering::Relaxed), Ordering::Relaxed);
    ring.state.store(0, Ordering::Release);
    let tid = std::thread::spawn(|| {
        message!("in a used ring");
        common::thread_id()
    });
    let tid = tid.join().unwrap();
    assert_eq!(common::ring_of(&drain, tid), Some(500));
    assert_eq!(
        common::scenario_of(tid),
        ["attached 0", "message in a used ring color 000000", "ThreadEnd"]
    );
}

fn names_beyond_the_log_are_counted_and_their_zones_have_none() {
    let drain = Drain::open().expect("an arena");
    let long = "x".repeat(900);
    let count = LOG_BYTES / 900 + 100;
    for index in 0..count {
        let name = format!("{index} {long}");
        drop(Zone::begin_dynamic(&DynamicLocation {
            name: &name,
            function: "",
            file: "",
            line: 0,
            color: 0,
        }));
    }
    assert!(drain.header().definitions_lost.load(Ordering::Relaxed) > 0);
    common::scenario();
    drop(Zone::begin_dynamic(&DynamicLocation {
        name: &long,
        function: "new",
        file: "",
        line: 0,
        color: 0,
    }));
    assert_eq!(common::scenario(), ["begin - at 0", "end 0"]);
}
