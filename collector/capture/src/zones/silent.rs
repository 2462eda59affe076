//! Threads that hang while a recorder comes: what they have open is told for them.

use std::time::Duration;

use syscollect_model::ClockSource;
use syscollect_zone_protocol::arena::RING_BYTES;
use syscollect_zone_protocol::{Event, Item};

use super::ZoneNotice;
use super::fake::{FakeProgram, FakeThread};
use super::tests::{Recorder, items, zones};
use crate::clock::ticks_now;

/// A thread that is silent for so long is told for.
const SILENT: Duration = Duration::from_millis(600);

/// Begins a zone and leaves it open; when.
fn begin(thread: FakeThread<'_>, location: u32, depth: u32) -> u64 {
    let ticks = ticks_now(ClockSource::Tsc).0;
    let event = Event::ZoneBegin { location, depth };
    assert!(thread.write(&Item::Stamped { ticks, event }.encode()));
    ticks
}

impl Recorder {
    /// What was stated of a thread: depth, location and beginning of zones.
    fn stated(&self, tid: u32) -> Vec<(u32, u32, u64)> {
        let words = self.words(tid);
        let open = items(&words).into_iter().filter_map(|item| match Item::decode(item)? {
            Item::Stamped { event: Event::OpenZone { location, depth, began }, .. } => {
                Some((depth, location, began))
            }
            _ => None,
        });
        open.collect()
    }
}

#[test]
fn a_recorder_that_is_restarted_knows_the_open_zones_of_a_thread_that_hangs() {
    let mut before = Recorder::new();
    let program = FakeProgram::new();
    let (hangs, works) = (program.thread(7001), program.thread(7002));
    for thread in [hangs, works] {
        before.notify(program.announcement(&thread));
    }
    let request = begin(hangs, 1, 0);
    let wait = begin(hangs, 2, 1);
    begin(works, 1, 0);
    before.drain(false);
    drop(before);

    let mut restarted = Recorder::new();
    for thread in [hangs, works] {
        restarted.notify(program.announcement(&thread));
    }
    restarted.drain(false);
    assert_eq!(restarted.stated(7001), [], "it may go on, and state it itself");
    std::thread::sleep(SILENT);
    zones(works, 3..4);
    restarted.drain(false);
    std::thread::sleep(SILENT);
    restarted.drain(false);
    restarted.drain(true);
    assert_eq!(restarted.stated(7001), [(0, 1, request), (1, 2, wait)]);
    assert_eq!(restarted.stated(7002), [], "its zone has ended");
}

#[test]
fn a_second_recorder_knows_them_also_where_the_ring_came_round_many_times() {
    let mut first = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(program.pid());
    first.notify(program.announcement(&thread));
    for _ in 0..100 {
        (0..1000).for_each(|number| assert!(thread.zone(number)));
        first.drain(false);
    }
    assert!(
        thread.header().head.load(std::sync::atomic::Ordering::Relaxed) > 2 * RING_BYTES as u64
    );
    let began = begin(thread, 9, 0);
    first.drain(false);
    let mut second = Recorder::another();
    second.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None });
    second.drain(true);
    assert_eq!(second.stated(program.pid()), [(0, 9, began)]);
    let lost = second.follower.losses();
    assert!(lost.is_empty(), "what was before is not missing: {lost:?}");
}

#[test]
fn in_the_next_file_of_a_recording_such_a_thread_has_its_zones_too() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    let began = begin(thread, 9, 0);
    recorder.drain(true);
    assert_eq!(recorder.stated(7001), [], "it was there when the zone began");
    recorder.follower.file_began();
    recorder.drain(false);
    std::thread::sleep(SILENT);
    recorder.drain(false);
    recorder.drain(true);
    assert_eq!(recorder.stated(7001), [(0, 9, began)]);
}
