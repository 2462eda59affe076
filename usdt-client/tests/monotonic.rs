//! A machine without an invariant time stamp counter.

mod common;

use std::sync::atomic::Ordering;
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::zone;
use syscollect_zone_protocol::arena::ClockKind;

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn without_an_invariant_counter_ticks_are_nanoseconds_and_the_arena_says_so() {
    testing::refuse_counter();
    common::record();
    let mut drain = Drain::open().expect("an arena");
    assert_eq!(drain.header().clock.load(Ordering::Relaxed), ClockKind::Monotonic as u32);
    let number = common::ring_of(&drain, common::thread_id()).unwrap();
    drain.take(number);
    let before = now();
    drop(zone!("zone"));
    let after = now();
    let stamps: Vec<u64> = drain.take(number).iter().map(|item| item[0] >> 8).collect();
    assert_eq!(stamps.len(), 2);
    assert!(
        before <= stamps[0] && stamps[0] <= stamps[1] && stamps[1] <= after,
        "{before} {stamps:?} {after}"
    );
}
