//! Programs that lie, by mistake or on purpose: they spoil what is theirs.

use std::sync::atomic::Ordering::{Acquire, Release};

use proptest::prelude::*;
use syscollect_model::{LaneKind, LossCause};
use syscollect_records::RecordKind;
use syscollect_store::{Chunk, LostRecord, Producer};
use syscollect_zone_protocol::ItemKind;
use syscollect_zone_protocol::arena::{MAX_RINGS, RING_BYTES};
use syscollect_zone_protocol::log::EntryKind;

use super::fake::{FakeArenaOptions, FakeProgram};
use super::tests::{Recorder, zones};
use super::{AnnouncedFile, Announcement, ZoneNotice};
use crate::source::ProgramChunks;
use crate::stage::Flush;

#[test]
fn what_is_no_arena_is_not_taken() {
    let mut recorder = Recorder::new();
    let good = FakeArenaOptions::default();
    let wrong = [
        FakeArenaOptions { sealed: false, ..good },
        FakeArenaOptions { bytes: good.bytes - 4096, ..good },
        FakeArenaOptions { magic: 1, ..good },
        FakeArenaOptions { version: 99, ..good },
    ];
    for making in wrong {
        let program = FakeProgram::made(making);
        recorder.notify(program.announcement(&program.thread(7001)));
        assert_eq!(program.memory().header().attached.load(Acquire), 0);
    }
    let not_a_memfd = tempfile::tempfile().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&not_a_memfd) as u64;
    recorder.notify(ZoneNotice::Announcement(Announcement {
        ticks: 0,
        pid: std::process::id(),
        tid: 1,
        descriptor,
        ring: 0,
        user: 1001,
        file: AnnouncedFile::Unknown,
        is_young: true,
    }));
    recorder.drain(true);
    assert!(recorder.clients().is_empty());
    assert_eq!(recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken), 5);
}

#[test]
fn what_was_not_taken_says_whose_program_it_was() {
    let mut recorder = Recorder::new();
    let (good, gone) = (FakeProgram::new(), u32::MAX - 1);
    let honest = good.thread(7001);
    for pid in 0..100 {
        recorder.notify(ZoneNotice::Announcement(Announcement {
            ticks: 0,
            pid: gone - pid,
            tid: gone - pid,
            descriptor: 3,
            ring: 0,
            user: 1001,
            file: AnnouncedFile::Other,
            is_young: true,
        }));
    }
    recorder.notify(good.announcement(&honest));
    recorder.drain(true);
    assert_eq!(recorder.clients().len(), 1);
    let losses = recorder.follower.losses();
    let lost: Vec<_> = losses.iter().map(|loss| (loss.user, loss.count)).collect();
    assert_eq!(lost, [(Some(1001), 100)]);
    let notes = recorder.follower.notes_for_tests();
    assert!(notes.len() < 16 && notes.iter().all(|note| note.starts_with("user 1001: ")));
}

#[test]
fn a_ring_of_an_arena_that_is_read_is_told_without_a_look_at_its_process() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let threads = [program.thread(7001), program.thread(7002)];
    recorder.notify(program.announcement(&threads[0]));
    let ZoneNotice::Announcement(Announcement { file, .. }) = program.announcement(&threads[1])
    else {
        unreachable!("an announcement")
    };
    recorder.notify(ZoneNotice::Announcement(Announcement {
        ticks: 0,
        pid: u32::MAX - 1,
        tid: 7002,
        descriptor: 3,
        ring: u64::from(threads[1].number),
        user: 1001,
        file,
        is_young: true,
    }));
    zones(threads[1], 1..4);
    recorder.drain(true);
    assert_eq!(recorder.locations(7002), [1, 2, 3]);
    assert!(recorder.follower.losses().is_empty());
}

#[test]
fn losses_that_cannot_be_are_claims_of_their_program_and_hide_none_of_others() {
    let mut recorder = Recorder::new();
    let [hostile, honest] = [FakeProgram::new(), FakeProgram::new()];
    let (lies, loses) = (hostile.thread(7001), honest.thread(7002));
    recorder.notify(hostile.announcement(&lies));
    recorder.notify(honest.announcement(&loses));
    recorder.drain(false);
    // It writes over its counts.
    lies.header().lost.store(1 << 60, Release);
    hostile.memory().header().events_without_ring.store(u64::MAX - 1, Release);
    hostile.memory().header().definitions_lost.store(1 << 50, Release);
    loses.header().lost.store(15, Release);
    recorder.drain(true);
    assert_eq!(recorder.lost(LostRecord::ZoneItem, LossCause::LaneFull), 15);
    let claims = recorder.lost(LostRecord::UnbelievableClaim, LossCause::Undecodable);
    assert_eq!(claims, 3, "of a ring, and of two counts that all its threads have");
    let losses = recorder.follower.losses();
    assert_eq!(losses.iter().map(|loss| loss.count).sum::<u64>(), 18, "{losses:?}");
    assert!(losses.iter().all(|loss| loss.user.is_some()), "{losses:?}");
    let notes = recorder.follower.notes_for_tests();
    let claimed = |note: &&String| note.contains("more than it can have written");
    assert_eq!(notes.iter().filter(claimed).count(), 2, "each of its kind once: {notes:?}");
}

#[test]
fn a_ring_that_lies_is_given_up_and_no_other() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let threads: Vec<_> = (0..6).map(|n| program.thread(7000 + n)).collect();
    for thread in &threads {
        zones(*thread, 1..3);
        recorder.notify(program.announcement(thread));
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
    assert_eq!(recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::Undecodable), 5);
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
    recorder.notify(program.announcement(&thread));
    recorder.drain(true);
    recorder.drain(true);
    let entries: u32 = recorder
        .chunks
        .iter()
        .filter(|chunk| chunk.header.lane.kind == LaneKind::ZoneLog)
        .map(|chunk| chunk.header.records)
        .sum();
    assert_eq!(
        (entries, recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::Undecodable)),
        (1, 1)
    );
}

#[test]
fn rings_that_claim_what_was_never_written_cost_no_memory() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let threads: Vec<_> = (0..MAX_RINGS as u32).map(|tid| program.thread(tid + 1)).collect();
    for thread in &threads {
        thread.header().head.store(RING_BYTES as u64, Release);
        recorder.notify(program.announcement(thread));
    }
    let before = program.allocated_bytes();
    while recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::Undecodable)
        < MAX_RINGS as u64
    {
        recorder.drain(false);
    }
    assert_eq!(program.allocated_bytes(), before, "no page was made by looking at it");
    assert_eq!(recorder.follower.lanes_in_use(), 0, "what was given up holds nothing");
}

impl Recorder {
    fn says_who_wrote_too_much(&self) -> bool {
        self.follower.notes_for_tests().iter().any(|note| note.contains("share of --buffer"))
    }
}

/// A trace buffer in which programs' shares are used up.
struct FullBuffer(Vec<Chunk>);

impl ProgramChunks for FullBuffer {
    fn push(&mut self, _: Producer, chunk: Chunk) {
        self.0.push(chunk);
    }

    fn ended(&mut self, _: u32) {}

    fn has_room_for(&self, _: Producer) -> bool {
        false
    }

    fn has_room_for_hits(&self) -> bool {
        false
    }
}

#[test]
fn what_has_no_room_stays_in_its_ring_and_is_taken_when_there_is_some() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    zones(thread, 1..4);
    recorder.take_in_found();
    let mut full = FullBuffer(Vec::new());
    assert_eq!(recorder.follower.drain(Flush::USUAL, &mut full), 0.0, "there is no hurry");
    assert_eq!(full.0.len(), 0);
    recorder.drain(true);
    assert_eq!(recorder.locations(7001), [1, 2, 3]);
    assert!(!recorder.says_who_wrote_too_much(), "who only had to wait lost nothing");
}

#[test]
fn whose_rings_were_full_while_there_was_no_room_is_said() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    recorder.take_in_found();
    recorder.follower.drain(Flush::USUAL, &mut FullBuffer(Vec::new()));
    thread.header().lost.store(5, Release);
    zones(thread, 1..4);
    recorder.drain(false);
    assert!(recorder.says_who_wrote_too_much());
}

#[test]
fn mappings_count_with_arenas_and_not_with_rings() {
    let mut recorder = Recorder::new();
    let programs: Vec<_> = (0..4).map(|_| FakeProgram::new()).collect();
    let threads: Vec<_> = programs
        .iter()
        .flat_map(|program| (0..200).map(move |tid| (program, program.thread(tid + 1))))
        .collect();
    let before = mapped_arenas();
    for (program, thread) in &threads {
        recorder.notify(program.announcement(thread));
    }
    recorder.drain(false);
    assert_eq!(recorder.clients().len(), 4);
    assert!(mapped_arenas() <= before + 4, "{} mappings more", mapped_arenas() - before);
}

fn mapped_arenas() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().matches("syscollect-zones").count()
}

#[test]
fn a_process_has_sixteen_arenas_and_each_one_more_is_counted_once() {
    let mut recorder = Recorder::new();
    let programs: Vec<_> = (0..20).map(|_| FakeProgram::new()).collect();
    for (tid, program) in (7001..).zip(&programs) {
        let thread = program.thread(tid);
        recorder.notify(program.announcement(&thread));
        recorder.notify(program.announcement(&thread));
    }
    recorder.drain(true);
    assert_eq!(
        (
            recorder.clients().len(),
            recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken)
        ),
        (16, 4)
    );
    let notes = recorder.follower.notes_for_tests();
    assert_eq!(notes.len(), 1, "it is said once: {notes:?}");
    assert!(notes[0].contains("as many as one may have"), "{notes:?}");
}

#[test]
fn an_arena_in_which_nothing_happens_is_not_looked_through() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(std::process::id());
    recorder.notify(program.announcement(&thread));
    recorder.watcher.discover();
    program.memory().header().rings.store(u32::MAX, Release);
    assert!(!recorder.watcher.finds_something_to_do(), "nobody has taken a ring");
    program.thread(std::process::id());
    assert!(recorder.watcher.finds_something_to_do());
}

#[test]
fn a_turn_takes_so_much_and_the_next_one_goes_on() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let threads: Vec<_> = (0..8).map(|n| program.thread(7000 + n)).collect();
    for thread in &threads {
        while thread.zone(1) {}
        recorder.notify(program.announcement(thread));
    }
    let mut turns = 0;
    while threads
        .iter()
        .any(|thread| thread.header().tail.load(Acquire) < thread.header().head.load(Acquire))
    {
        let before = bytes_of(&recorder);
        assert!(recorder.drain(false) > 0.0, "it is told to come back soon");
        let taken = bytes_of(&recorder) - before;
        assert!(taken <= 4 << 20, "{taken} bytes in one turn");
        turns += 1;
    }
    assert!(turns >= 8 / 3, "{turns} turns");
    recorder.drain(true);
    // 16 bytes of a beginning and 8 of an end; the last one may have had no room for its end.
    let items = recorder.follower.statistics()["zone_items"];
    assert!(items >= 8 * (2 * RING_BYTES as u64 / 24 - 2), "{items} items");
}

fn bytes_of(recorder: &Recorder) -> usize {
    recorder.chunks.iter().map(|chunk| chunk.data.len()).sum::<usize>()
}

#[test]
fn definitions_beyond_the_share_of_a_process_are_counted_and_those_of_before_stay() {
    let mut recorder = Recorder::new();
    let programs = [FakeProgram::new(), FakeProgram::new()];
    for program in &programs {
        // Twelve MiB, of sixteen that a process may have.
        (0..1536).for_each(|_| _ = program.define(&[7; 1023], EntryKind::String));
        recorder.notify(program.announcement(&program.thread(7001)));
    }
    while kept_definitions(&recorder) + lost_definitions(&recorder) < 2 * 1500 {
        recorder.drain(false);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    recorder.drain(true);
    let (kept, lost) = (kept_definitions(&recorder), lost_definitions(&recorder));
    assert_eq!(kept + lost, 2 * 1536);
    // A few more than fit at once: what was taken is forgotten over time.
    assert!((2040..=2200).contains(&kept), "{kept} were kept");
    assert!(recorder.follower.notes_for_tests().iter().any(|note| note.contains("--buffer")));
}

fn kept_definitions(recorder: &Recorder) -> u64 {
    let logs = recorder.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::ZoneLog);
    logs.map(|chunk| u64::from(chunk.header.records)).sum::<u64>()
}

fn lost_definitions(recorder: &Recorder) -> u64 {
    recorder.lost(LostRecord::ZoneDefinitionBeyondShare, LossCause::NotTaken)
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
        recorder.notify(program.announcement(&hostile));
        recorder.notify(program.announcement(&honest));
        header.state.store(state, Release);
        program.memory().header().rings.store(rings, Release);
        program.memory().header().log_taken.store(log_taken, Release);
        recorder.watcher.discover();
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
