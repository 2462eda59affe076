//! Threads that end before a collector comes: their rings wait for it, but not for ever.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::{message, zone};
use syscollect_zone_protocol::arena::{MAX_RINGS, RingState};

/// A thread that marks one zone; its number, when it has ended.
fn short_thread() -> u32 {
    std::thread::spawn(work).join().unwrap()
}

fn work() -> u32 {
    drop(zone!("short"));
    common::thread_id()
}

#[test]
fn rings_of_ended_threads_wait_for_a_collector_but_not_for_ever() {
    testing::raise();
    threads_that_end_at_once_are_all_there_for_a_collector_that_comes_a_moment_later();
    the_ring_of_a_thread_that_ended_long_ago_is_used_again_and_what_it_held_is_counted();
    when_all_rings_are_taken_the_ended_ones_do_not_wait();
    with_a_reader_no_ring_is_taken_away();
}

fn threads_that_end_at_once_are_all_there_for_a_collector_that_comes_a_moment_later() {
    let tids = [short_thread(), short_thread(), short_thread()];
    for tid in tids {
        assert_eq!(
            common::scenario_of(tid)[1..],
            ["begin short at 0", "end 0", "ThreadEnd"],
            "thread {tid}"
        );
    }
    let drain = Drain::open().unwrap();
    assert_eq!((drain.rings(), drain.header().events_unread.load(Relaxed)), (3, 0));
    // The collector gives emptied rings back.
    (0..3).for_each(|number| drain.ring(number).state.store(RingState::Free as u32, Relaxed));
}

fn the_ring_of_a_thread_that_ended_long_ago_is_used_again_and_what_it_held_is_counted() {
    let drain = Drain::open().unwrap();
    let old = common::ring_of(&drain, short_thread()).unwrap();
    let ended = drain.ring(old).ended.load(Acquire) - 1_000_000_000;
    drain.ring(old).ended.store(ended, Relaxed);
    // As if two more had found it full.
    drain.ring(old).lost.fetch_add(2, Relaxed);
    // The other free ones first.
    let tids = [short_thread(), short_thread(), short_thread()];
    assert_eq!(common::ring_of(&drain, tids[2]), Some(old));
    let header = drain.header();
    // The beginning, the end, the thread's end, and the two.
    assert_eq!((header.events_unread.load(Relaxed), header.unread_until.load(Relaxed)), (5, ended));
    assert_eq!((drain.rings(), drain.ring(old).lost.load(Relaxed)), (3, 0));
    assert_eq!(common::scenario_of(tids[2])[1..], ["begin short at 0", "end 0", "ThreadEnd"]);
}

fn when_all_rings_are_taken_the_ended_ones_do_not_wait() {
    let before = Drain::open().unwrap().header().events_unread.load(Relaxed);
    let tids: Vec<u32> = (0..MAX_RINGS).map(|_| short_thread()).collect();
    assert_eq!(
        common::scenario_of(tids[MAX_RINGS - 1])[1..],
        ["begin short at 0", "end 0", "ThreadEnd"]
    );
    let drain = Drain::open().unwrap();
    let unread = drain.header().events_unread.load(Relaxed) - before;
    assert_eq!(drain.header().threads_without_ring.load(Relaxed), 0);
    // Three threads came before these; the ring of one was emptied. (On a slow machine more rings
    // have waited too long.)
    assert!(unread >= 3 * 2 && unread.is_multiple_of(3), "{unread}");
}

fn with_a_reader_no_ring_is_taken_away() {
    let _reader = testing::lock_arena().unwrap();
    let before = unread();
    let drain = Drain::open().unwrap();
    (0..drain.rings()).for_each(|number| drain.ring(number).ended.store(1, Relaxed));
    std::thread::spawn(|| message!("nowhere")).join().unwrap();
    assert_eq!(unread(), before);
}

fn unread() -> u64 {
    Drain::open().unwrap().header().events_unread.load(Relaxed)
}
