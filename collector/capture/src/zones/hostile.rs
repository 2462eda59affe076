//! Programs that lie, by mistake or on purpose: they spoil what is theirs.

use std::sync::atomic::Ordering::{Acquire, Release};

use proptest::prelude::*;
use syscollect_model::LossCause;
use syscollect_store::LaneKind;
use syscollect_usdt_client::protocol::{EntryKind, ItemKind, RING_BYTES};

use super::ZoneNotice;
use super::fake::{FakeProgram, Making};
use super::tests::{Recorder, zones};

#[test]
fn what_is_no_arena_is_not_taken() {
    let mut recorder = Recorder::new();
    let good = Making::default();
    let wrong = [
        Making { sealed: false, ..good },
        Making { bytes: good.bytes - 4096, ..good },
        Making { magic: 1, ..good },
        Making { version: 99, ..good },
    ];
    for making in wrong {
        let program = FakeProgram::made(making);
        recorder.told(program.announcement(&program.thread(7001)));
        assert_eq!(program.memory().header().attached.load(Acquire), 0);
    }
    let not_a_memfd = tempfile::tempfile().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&not_a_memfd) as u64;
    recorder.told(ZoneNotice::Announcement { ticks: 0, pid: std::process::id(), tid: 1, descriptor, ring: 0 });
    recorder.drain(true);
    assert!(recorder.clients().is_empty());
    assert_eq!(recorder.lost("ring", LossCause::NotTaken), 5);
}

#[test]
fn a_ring_that_lies_is_given_up_and_no_other() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let threads: Vec<_> = (0..6).map(|n| program.thread(7000 + n)).collect();
    for thread in &threads {
        zones(*thread, 1..3);
        recorder.told(program.announcement(thread));
    }
    threads[0].header().head.store(RING_BYTES as u64 + 8, Release);
    threads[1].header().head.fetch_add(4, Release);
    threads[2].write(&[0x7f]);
    threads[3].write(&[ItemKind::Text as u64 | 200 << 16]);
    threads[4].header().state.store(17, Release);
    recorder.drain(true);
    zones(threads[5], 3..4);
    recorder.drain(true);
    assert_eq!(recorder.locations(7005), [1, 2, 3]);
    assert_eq!(recorder.locations(7002), [1, 2], "what was good is kept");
    assert_eq!(recorder.lost("ring", LossCause::Undecodable), 5);
}

#[test]
fn a_log_that_lies_ends_there() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    program.define(&[1], EntryKind::String);
    let at = program.reserve(&[2], EntryKind::String);
    program.complete(at, 100_000);
    program.define(&[3], EntryKind::String);
    recorder.told(program.announcement(&thread));
    recorder.drain(true);
    recorder.drain(true);
    let entries: u32 = recorder
        .chunks
        .iter()
        .filter(|chunk| chunk.header.lane.kind == LaneKind::ZoneLog)
        .map(|chunk| chunk.header.records)
        .sum();
    assert_eq!((entries, recorder.lost("ring", LossCause::Undecodable)), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a ring and its header hold: no panic, no hang, a bounded number
    /// of bytes, only whole items, and the other ring's are untouched.
    #[test]
    fn nothing_that_a_program_writes_harms_more_than_its_own_lane(
        words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..0x20, 0xc0u64..0x100], 1..400),
        tail in prop_oneof![Just(0), any::<u64>(), 0..(RING_BYTES as u64 * 2)],
        ahead in prop_oneof![0..4000u64, any::<u64>()],
        state in 0..4u32,
        rings in any::<u32>(),
        log_taken in any::<u64>(),
        log in prop::collection::vec(any::<u64>(), 1..50),
    ) {
        let mut recorder = Recorder::new();
        let program = FakeProgram::new();
        let (hostile, honest) = (program.thread(7001), program.thread(7002));
        zones(honest, 1..3);
        for word in &log {
            program.reserve(&[*word], EntryKind::String);
        }
        for word in &words {
            hostile.write(&[*word]);
        }
        let header = hostile.header();
        header.tail.store(tail, Release);
        header.head.store(tail.wrapping_add(ahead), Release);
        recorder.told(program.announcement(&hostile));
        recorder.told(program.announcement(&honest));
        header.state.store(state, Release);
        program.memory().header().rings.store(rings, Release);
        program.memory().header().log_taken.store(log_taken, Release);
        recorder.watcher.survey();
        for _ in 0..3 {
            recorder.drain(false);
        }
        recorder.drain(true);
        prop_assert_eq!(recorder.locations(7002), [1, 2]);
        prop_assert!(recorder.words(7001).len() <= RING_BYTES / 8);
        let total: u64 = recorder.follower.losses().iter().map(|loss| loss.count).sum();
        prop_assert!(total < u64::MAX / 2);
    }
}
