//! Two recorders of the same programs: one holds their arenas, the other observes.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use proptest::prelude::*;
use syscollect_model::{ClockSource, LaneKind, LossCause};
use syscollect_records::RecordKind;
use syscollect_store::LostRecord;
use syscollect_zone_protocol::arena::RING_BYTES;
use syscollect_zone_protocol::log::EntryKind;
use syscollect_zone_protocol::{ItemKind, item_words};

use super::ZoneNotice;
use super::fake::{FakeProgram, FakeThread};
use super::tests::{Recorder, alone, items, zones};
use crate::clock::ticks_now;

/// Items that fill a ring.
const RING_ITEMS: u64 = RING_BYTES as u64 / 32;

/// Writes events with those numbers, each in two places; returns how many fitted.
fn numbered(thread: FakeThread<'_>, numbers: Range<u64>) -> u64 {
    numbers.map(|number| u64::from(thread.write(&event(number)))).sum()
}

fn event(number: u64) -> [u64; 4] {
    let ticks = ticks_now(ClockSource::Tsc).0 << 8;
    [ticks | ItemKind::Alloc as u64, number, !number, 3]
}

/// A thread says that it ends, and ends.
fn end(thread: FakeThread<'_>) {
    assert!(thread.write(&[ticks_now(ClockSource::Tsc).0 << 8 | ItemKind::ThreadEnd as u64]));
    thread.end();
}

impl Recorder {
    /// The numbers of a thread's events.
    fn numbers(&self, tid: u32) -> Vec<u64> {
        let words = self.words(tid);
        let events =
            items(&words).into_iter().filter(|item| item[0] as u8 == ItemKind::Alloc as u8);
        events
            .map(|item| {
                assert_eq!(item[1], !item[2], "an item of two rounds of the ring");
                item[1]
            })
            .collect()
    }

    /// Events that were lost, as far as is known.
    fn lost_events(&self) -> u64 {
        self.lost(LostRecord::ZoneItem, LossCause::LaneFull)
    }

    /// Rings of which nobody knows how much was lost.
    fn lost_rings(&self) -> u64 {
        self.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken)
    }

    fn hear(&mut self, program: &FakeProgram, thread: FakeThread<'_>) {
        self.notify(program.announcement(&thread));
    }
}

/// Two recorders, of which the first holds what was announced to it first.
fn two() -> (Recorder, Recorder) {
    (Recorder::new(), Recorder::another())
}

#[test]
fn both_of_two_recorders_see_every_zone_once_and_in_order() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    program.define(&[11], EntryKind::String);
    zones(thread, 1..3);
    first.hear(&program, thread);
    first.drain(false);
    second.hear(&program, thread);
    for round in 1..5 {
        zones(thread, round * 3..round * 3 + 3);
        first.drain(false);
        second.drain(true);
    }
    first.drain(true);
    for recorder in [&first, &second] {
        assert_eq!(recorder.locations(7001), [1, 2].into_iter().chain(3..15).collect::<Vec<_>>());
        assert!(recorder.follower.losses().is_empty());
        let logs =
            recorder.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::ZoneLog);
        assert_eq!(logs.count(), 1, "its names, too");
    }
    let of_others = "instrumented_programs_of_other_recorders";
    assert_eq!(second.follower.statistics().get(of_others), Some(&1));
    assert_eq!(first.follower.statistics().get(of_others), None);
}

#[test]
fn an_observer_that_is_ahead_of_the_holder_writes_nothing_into_the_arena() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    first.hear(&program, thread);
    second.hear(&program, thread);
    zones(thread, 1..10);
    end(thread);
    second.drain(true);
    second.follower.drain(crate::stage::Flush::All, &mut second.chunks);
    assert_eq!(second.locations(7001), (1..10).collect::<Vec<_>>());
    let header = thread.header();
    assert_eq!((header.tail.load(Acquire), header.state.load(Acquire)), (0, 2));
    assert_eq!(program.memory().header().attached.load(Acquire), 1, "the first one's number");
    first.drain(true);
    assert_eq!(first.locations(7001), (1..10).collect::<Vec<_>>());
    assert_eq!(header.state.load(Acquire), 0);
}

#[test]
fn a_recorder_that_comes_later_takes_what_is_of_its_time_although_another_has_taken_it() {
    let mut first = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(std::process::id());
    first.hear(&program, thread);
    zones(thread, 1..4);
    first.drain(true);
    let mut second = Recorder::another();
    zones(thread, 4..6);
    first.drain(true);
    second.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None });
    zones(thread, 6..8);
    second.drain(true);
    first.drain(true);
    assert_eq!(second.locations(std::process::id()), [4, 5, 6, 7]);
    assert!(second.follower.losses().is_empty());
}

#[test]
fn a_recorder_that_comes_when_its_first_events_are_overwritten_says_that_it_knows_not_how_many() {
    let mut first = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(std::process::id());
    first.hear(&program, thread);
    let mut second = Recorder::another();
    for round in 0..3 {
        numbered(thread, round * RING_ITEMS..(round + 1) * RING_ITEMS);
        first.drain(false);
    }
    second.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None });
    numbered(thread, 9..11);
    second.drain(true);
    assert_eq!(second.numbers(std::process::id()), [9, 10]);
    assert_eq!((second.lost_events(), second.lost_rings()), (0, 1));
    assert!(second.follower.notes_for_tests()[0].contains("it is not known how many"));
}

#[test]
fn a_recorder_that_comes_when_nothing_of_its_time_is_overwritten_has_lost_nothing() {
    let mut first = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(std::process::id());
    first.hear(&program, thread);
    for round in 0..3 {
        numbered(thread, round * RING_ITEMS..(round + 1) * RING_ITEMS);
        first.drain(false);
    }
    numbered(thread, 5..7);
    let mut second = Recorder::another();
    second.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None });
    numbered(thread, 9..11);
    second.drain(true);
    assert_eq!(second.numbers(std::process::id()), [9, 10]);
    assert!(second.follower.losses().is_empty());
}

#[test]
fn an_observer_that_was_too_late_counts_what_it_missed_and_goes_on_with_the_holder() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    first.hear(&program, thread);
    second.hear(&program, thread);
    let mut written = numbered(thread, 0..100);
    second.drain(false);
    // Three rounds of the ring.
    for _ in 0..30 {
        written += numbered(thread, written..written + RING_ITEMS / 10);
        first.drain(false);
    }
    written += numbered(thread, written..written + 10);
    second.drain(true);
    first.drain(true);
    let numbers = second.numbers(7001);
    assert_eq!(numbers[..100], (0..100).collect::<Vec<_>>());
    assert_eq!(numbers[100..], (written - 10..written).collect::<Vec<_>>());
    assert_eq!(second.lost_events(), written - 110);
    assert!(first.follower.losses().is_empty());
    let words = second.words(7001);
    let marked: Vec<u64> = items(&words)
        .into_iter()
        .filter(|item| item[0] as u8 == ItemKind::Lost as u8)
        .map(|item| item[1])
        .collect();
    assert_eq!(marked, [written - 110], "and says where they are missing");
}

#[test]
fn an_observer_that_is_not_too_late_reads_behind_the_holder() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    first.hear(&program, thread);
    second.hear(&program, thread);
    let mut written = 0;
    for _ in 0..20 {
        for _ in 0..5 {
            written += numbered(thread, written..written + RING_ITEMS / 10);
            first.drain(false);
        }
        second.drain(false);
    }
    second.drain(true);
    assert!(second.numbers(7001).into_iter().eq(0..written));
    assert!(second.follower.losses().is_empty());
}

#[test]
fn an_observer_becomes_the_holder_when_the_first_has_ended_and_has_nothing_twice() {
    for is_ahead in [false, true] {
        let (mut first, mut second) = two();
        let program = FakeProgram::new();
        let thread = program.thread(std::process::id());
        first.hear(&program, thread);
        second.hear(&program, thread);
        zones(thread, 1..4);
        if is_ahead { &mut second } else { &mut first }.drain(false);
        zones(thread, 4..6);
        // The first one is killed, whatever it had read.
        let alone = first._alone.take();
        drop(first);
        second.watcher.discover();
        assert_eq!(program.memory().header().attached.load(Acquire), 2, "its threads are told");
        zones(thread, 6..8);
        second.drain(false);
        zones(thread, 8..9);
        second.drain(true);
        assert_eq!(second.locations(std::process::id()), (1..9).collect::<Vec<_>>());
        let header = thread.header();
        assert_eq!(header.tail.load(Acquire), header.head.load(Acquire), "it gives room back");
        assert!(second.follower.losses().is_empty());
        drop(alone);
    }
}

#[test]
fn a_holder_that_was_an_observer_counts_on_for_the_next_one() {
    let (mut first, mut second) = two();
    let mut third = Recorder::another();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    for recorder in [&mut first, &mut second, &mut third] {
        recorder.hear(&program, thread);
    }
    let mut written = 0;
    for _ in 0..10 {
        written += numbered(thread, written..written + RING_ITEMS / 4);
        first.drain(false);
        second.drain(false);
    }
    let alone = first._alone.take();
    drop(first);
    second.watcher.discover();
    for _ in 0..10 {
        written += numbered(thread, written..written + RING_ITEMS / 4);
        second.drain(false);
    }
    written += numbered(thread, written..written + 1);
    third.drain(true);
    second.drain(true);
    assert!(second.numbers(7001).into_iter().eq(0..written));
    assert_eq!(third.lost_events() + third.numbers(7001).len() as u64, written);
    drop(alone);
}

#[test]
fn threads_that_had_the_ring_one_after_the_other_are_told_apart_by_a_late_observer() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    first.hear(&program, thread);
    second.hear(&program, thread);
    zones(thread, 1..3);
    end(thread);
    first.drain(false);
    for number in 1..4 {
        let thread = program.thread(7001 + number);
        assert_eq!(thread.number, 0, "the ring was given back");
        first.hear(&program, thread);
        zones(thread, number * 10..number * 10 + 2);
        if number < 3 {
            end(thread);
        }
        first.drain(false);
        // The second hears of each only when the next one may have the ring.
        if number > 1 {
            let before = FakeThread { tid: 7001 + number - 1, ..thread };
            second.hear(&program, before);
        }
        second.hear(&program, thread);
    }
    second.drain(true);
    first.drain(true);
    for recorder in [&first, &second] {
        let of_each = [7001, 7002, 7003, 7004].map(|tid| recorder.locations(tid));
        assert_eq!(of_each, [vec![1, 2], vec![10, 11], vec![20, 21], vec![30, 31]]);
        assert!(recorder.follower.losses().is_empty());
    }
}

#[test]
fn items_of_a_thread_that_did_not_say_where_it_ends_are_nobodys_for_a_late_observer() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    first.hear(&program, thread);
    second.hear(&program, thread);
    zones(thread, 1..3);
    thread.end();
    first.drain(false);
    let next = program.thread(7002);
    first.hear(&program, next);
    second.hear(&program, next);
    zones(next, 5..6);
    first.drain(true);
    zones(next, 6..8);
    second.drain(true);
    assert_eq!(second.locations(7001), [0; 0]);
    assert_eq!(second.locations(7002), [6, 7]);
    assert_eq!(second.lost(LostRecord::ItemOfUnknownThread, LossCause::NotTaken), 6);
}

#[test]
fn what_follows_a_thread_that_an_observer_has_read_to_its_end_is_the_next_ones() {
    for says_where_it_ends in [true, false] {
        let (mut first, mut second) = two();
        let program = FakeProgram::new();
        let thread = program.thread(7001);
        first.hear(&program, thread);
        second.hear(&program, thread);
        zones(thread, 1..3);
        if says_where_it_ends {
            end(thread);
        } else {
            thread.end();
        }
        second.drain(false);
        // The holder takes what is there twice before the observer looks again.
        for tid in [7002, 7003] {
            first.drain(false);
            let next = program.thread(tid);
            first.hear(&program, next);
            second.hear(&program, next);
            zones(next, tid..tid + 2);
            end(next);
        }
        first.drain(true);
        second.drain(true);
        for recorder in [&first, &second] {
            assert_eq!(recorder.locations(7001), [1, 2]);
            assert_eq!(recorder.locations(7002), [7002, 7003]);
            assert_eq!(recorder.locations(7003), [7003, 7004]);
        }
    }
}

#[test]
fn an_observer_of_a_program_that_writes_meanwhile_has_only_whole_items() {
    let (mut first, mut second) = two();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    first.hear(&program, thread);
    second.hear(&program, thread);
    let ended = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let attempts = 40 * RING_ITEMS;
            let fitted = numbered(thread, 0..attempts);
            ended.store(true, Relaxed);
            (attempts, fitted)
        });
        let mut turn = 0;
        while !ended.load(Relaxed) {
            first.drain(false);
            turn += 1;
            if turn % 7 < 4 {
                second.drain(false);
            }
        }
        writer.join().unwrap()
    });
    first.drain(true);
    second.drain(true);
    for recorder in [&first, &second] {
        let numbers = recorder.numbers(7001);
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order and none twice");
        assert_eq!(numbers.len() as u64 + recorder.lost_events(), written.0);
    }
    assert_eq!(first.numbers(7001).len() as u64, written.1);
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum RecorderStep {
    /// The thread writes so many events.
    Write(u64),
    /// The thread ends and another one takes its ring, if there is one free by then.
    NextThread,
    DrainFirst,
    DrainSecond,
    /// The first recorder is killed, and the second looks for what it has left.
    KillFirst,
    Discover,
}

fn any_step() -> impl Strategy<Value = RecorderStep> {
    prop_oneof![
        5 => (1..RING_ITEMS / 2).prop_map(RecorderStep::Write),
        2 => (1..50_u64).prop_map(RecorderStep::Write),
        2 => Just(RecorderStep::NextThread),
        6 => Just(RecorderStep::DrainFirst),
        4 => Just(RecorderStep::DrainSecond),
        1 => Just(RecorderStep::KillFirst),
        1 => Just(RecorderStep::Discover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_an_observer_has_and_what_it_counts_as_lost_is_all_there_was(
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let _alone = alone();
        let (mut first, mut second) = (Some(Recorder::another()), Recorder::another());
        let program = FakeProgram::new();
        let mut thread = program.thread(7001);
        // Events of each thread.
        let (mut written, mut ends, mut last) = (0, 0, 7001);
        first.as_mut().unwrap().hear(&program, thread);
        second.hear(&program, thread);
        for step in steps {
            match step {
                RecorderStep::Write(count) => {
                    numbered(thread, written..written + count);
                    written += count;
                }
                RecorderStep::NextThread => {
                    ends += 1;
                    let ticks = ticks_now(ClockSource::Tsc).0 << 8;
                    thread.write(&[ticks | ItemKind::ThreadEnd as u64]);
                    thread.end();
                    // Its ring is this one's when the holder has seen that; until then it has
                    // another.
                    last += 1;
                    thread = program.thread(last);
                    if let Some(first) = &mut first {
                        first.hear(&program, thread);
                    }
                    second.hear(&program, thread);
                }
                RecorderStep::DrainFirst => if let Some(first) = &mut first { first.drain(false); },
                RecorderStep::DrainSecond => _ = second.drain(false),
                RecorderStep::KillFirst => {
                    first = None;
                    second.watcher.discover();
                }
                RecorderStep::Discover => second.watcher.discover(),
            }
        }
        if let Some(first) = &mut first {
            first.drain(true);
            let numbers: Vec<u64> = (7001..=last).flat_map(|tid| first.numbers(tid)).collect();
            prop_assert!(numbers.is_sorted_by(|a, b| a < b));
            let seen = numbers.len() as u64 + thread_ends(first, last);
            prop_assert_eq!(seen + first.lost_events(), written + ends);
        }
        second.drain(true);
        second.drain(true);
        let numbers: Vec<u64> = (7001..=last).flat_map(|tid| second.numbers(tid)).collect();
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "each once, in order, its own thread's");
        let nobodys = second.lost(LostRecord::ItemOfUnknownThread, LossCause::NotTaken);
        let seen = numbers.len() as u64 + thread_ends(&second, last) + nobodys;
        prop_assert_eq!(seen + second.lost_events(), written + ends);
        prop_assert_eq!(second.lost_rings(), 0);
    }
}

fn thread_ends(recorder: &Recorder, last: u32) -> u64 {
    (7001..=last)
        .map(|tid| {
            let words = recorder.words(tid);
            let (mut at, mut ends) = (0, 0);
            while at < words.len() {
                ends += u64::from(words[at] as u8 == ItemKind::ThreadEnd as u8);
                at += item_words(words[at]).unwrap();
            }
            ends
        })
        .sum()
}
