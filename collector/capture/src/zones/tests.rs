//! Scenarios of instrumented programs, told by fake ones in this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

use syscollect_model::{ClockSource, LaneKind, LossCause, ProgramTicks};
use syscollect_records::{RecordKind, ZoneChunk, ZoneLogChunk};
use syscollect_store::{Chunk, ClientDefinition, Definition, LostRecord};
use syscollect_zone_protocol::arena::RING_BYTES;
use syscollect_zone_protocol::log::EntryKind;
use syscollect_zone_protocol::{ItemKind, ValueType, item_words};

use super::ZoneNotice;
use super::arena::FoundArena;
use super::discovery::Discovery;
use super::fake::{FakeProcess, FakeProgram, FakeThread};
use super::source::Follower;
use super::taken::Arenas;
use super::watch::{Takeover, WatchEvent};
use crate::clock::ticks_now;
use crate::stage::Flush;

/// Tests look through this process's descriptors, so they go one by one.
static ALONE: Mutex<()> = Mutex::new(());

/// No other test has arenas until this is dropped.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the trace buffer that bound what is kept.
pub(super) const BUFFER: usize = 64 << 20;

/// What looks for arenas and takes them over, without threads.
pub(super) struct Watcher {
    arenas: Arc<Arenas>,
    takeover: Takeover,
    discovery: Discovery,
}

impl Watcher {
    fn new(found: Sender<WatchEvent>) -> Self {
        let arenas = Arc::new(Arenas::new(Path::new("/"), ClockSource::Tsc, found));
        Self {
            takeover: Takeover::new(arenas.clone()),
            discovery: Discovery::new(arenas.clone()),
            arenas,
        }
    }

    fn notice(&mut self, notice: ZoneNotice) {
        if let Some(job) = self.takeover.notice(notice) {
            self.discovery.add(job);
        }
        self.discover();
    }

    pub(super) fn discover(&mut self) {
        self.discovery.poll_arenas();
        while self.discovery.has_jobs() {
            self.discovery.do_next();
        }
    }

    /// Whether a look at all arenas finds something to do.
    pub(super) fn finds_something_to_do(&mut self) -> bool {
        self.discovery.poll_arenas();
        self.discovery.has_jobs()
    }

    fn roll_call(&mut self) {
        self.discovery.poll_arenas();
        self.discovery.roll_call().into_iter().for_each(|job| self.discovery.add(job));
        self.discover();
    }

    /// Two threads that have both found an arena take it; under which numbers they have it.
    fn take_at_once(&self, program: &FakeProgram) -> [u32; 2] {
        let path = PathBuf::from(format!("/proc/self/fd/{}", program.descriptor()));
        let both_found = Barrier::new(2);
        let take = || {
            let found = FoundArena::at(&path).expect("it is there");
            both_found.wait();
            self.arenas.take(program.pid(), &path, &found, None).expect("it can be had").client
        };
        std::thread::scope(|threads| {
            let other = threads.spawn(take);
            [take(), other.join().expect("it takes it")]
        })
    }

    fn set_root(&self, root: &Path) {
        self.arenas.set_root(root);
    }

    /// As if it had found this: this process, which plays the programs, has them still.
    fn found_for_tests(&self, found: WatchEvent) {
        self.arenas.send(found);
    }
}

/// Watcher and follower without their threads.
pub(super) struct Recorder {
    pub(super) watcher: Watcher,
    found: Receiver<WatchEvent>,
    pub(super) follower: Follower,
    pub(super) chunks: Vec<Chunk>,
    pub(super) _alone: Option<MutexGuard<'static, ()>>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self { _alone: Some(alone()), ..Self::another() }
    }

    /// A second one beside the first.
    pub(super) fn another() -> Self {
        let (send, found) = channel();
        let watcher = Watcher::new(send);
        Self { watcher, found, follower: Follower::new(BUFFER), chunks: Vec::new(), _alone: None }
    }

    pub(super) fn notify(&mut self, notice: ZoneNotice) {
        self.watcher.notice(notice);
    }

    pub(super) fn drain(&mut self, all: bool) -> f64 {
        self.take_in_found();
        self.follower.drain(if all { Flush::All } else { Flush::USUAL }, &mut self.chunks)
    }

    /// What the watcher found, without a turn.
    pub(super) fn take_in_found(&mut self) {
        let Self { found, follower, chunks, .. } = self;
        for found in found.try_iter() {
            follower.found(found, ticks_now(ClockSource::Tsc), &mut |chunk| chunks.push(chunk));
        }
    }

    pub(super) fn clients(&self) -> Vec<ClientDefinition> {
        let definitions =
            self.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Definition);
        let clients = definitions.filter_map(|chunk| match serde_json::from_slice(&chunk.data) {
            Ok(Definition::Clients(clients)) => Some(clients),
            _ => None,
        });
        clients.flatten().collect()
    }

    /// The chunks of zones: lane, prefix, words, records.
    fn zones(&self) -> Vec<(u16, ZoneChunk, Vec<u64>)> {
        let zones = self.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Zone);
        let parts = zones.map(|chunk| {
            let prefix = ZoneChunk::from_bytes(&chunk.data).unwrap();
            assert_eq!(chunk.header.current_tid, prefix.tid);
            let words = words_of(&chunk.data[ZoneChunk::SIZE..]);
            assert_eq!(chunk.header.records as usize, items(&words).len());
            (chunk.header.lane.index, prefix, words)
        });
        parts.collect()
    }

    /// All words of a thread's zones.
    pub(super) fn words(&self, tid: u32) -> Vec<u64> {
        self.zones()
            .into_iter()
            .filter(|(_, prefix, _)| prefix.tid == tid)
            .flat_map(|(.., words)| words)
            .collect()
    }

    /// The locations of the zones that a thread began.
    pub(super) fn locations(&self, tid: u32) -> Vec<u64> {
        let words = self.words(tid);
        let begun =
            items(&words).into_iter().filter(|item| item[0] as u8 == ItemKind::ZoneBegin as u8);
        begun.map(|item| item[1]).collect()
    }

    pub(super) fn lost(&self, record: LostRecord, cause: LossCause) -> u64 {
        let losses = self.follower.losses();
        let matching = losses.iter().filter(|loss| loss.record == record && loss.cause == cause);
        matching.map(|loss| loss.count).sum()
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

pub(super) fn items(words: &[u64]) -> Vec<&[u64]> {
    let (mut at, mut found) = (0, Vec::new());
    while at < words.len() {
        let length = item_words(words[at]).unwrap();
        found.push(&words[at..at + length]);
        at += length;
    }
    found
}

pub(super) fn zones(thread: FakeThread<'_>, locations: std::ops::Range<u32>) {
    locations.for_each(|location| assert!(thread.zone(location)));
}

#[test]
fn what_a_thread_wrote_before_it_was_announced_is_taken_with_what_follows() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    zones(thread, 1..4);
    recorder.notify(program.announcement(&thread));
    zones(thread, 4..6);
    recorder.drain(false);
    zones(thread, 6..8);
    recorder.drain(true);
    assert_eq!(recorder.locations(7001), [1, 2, 3, 4, 5, 6, 7]);
    let clients = recorder.clients();
    assert_eq!(
        (clients.len(), clients[0].pid, &clients[0].clock),
        (1, std::process::id(), &ProgramTicks::Tsc)
    );
    assert!(recorder.follower.losses().is_empty());
}

#[test]
fn chunks_say_when_their_items_were_written() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    let before = ticks_now(ClockSource::Tsc).0;
    zones(thread, 1..3);
    let after = ticks_now(ClockSource::Tsc).0;
    recorder.notify(program.announcement(&thread));
    recorder.drain(true);
    let zone =
        recorder.chunks.iter().find(|chunk| chunk.header.lane.kind == LaneKind::Zone).unwrap();
    let (first, last) = (zone.header.first.0, zone.header.last.0);
    assert!(before <= first && first < last && last <= after, "{before} {first} {last} {after}");
}

#[test]
fn the_program_is_told_that_somebody_reads() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    assert_eq!(program.memory().header().attached.load(Acquire), 0);
    recorder.notify(program.announcement(&thread));
    assert_eq!(program.memory().header().attached.load(Acquire), 1);
    drop(recorder);
    let mut later = Recorder::new();
    later.notify(program.announcement(&thread));
    assert_eq!(program.memory().header().attached.load(Acquire), 2);
}

#[test]
fn a_recording_that_begins_later_takes_what_is_new_and_leaves_what_is_old() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(std::process::id());
    program.memory().header().attached.store(4, Relaxed);
    zones(thread, 1..4);
    thread.header().lost.store(99, Relaxed);
    recorder.follower = Follower::new(BUFFER);
    zones(thread, 4..6);
    recorder.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None });
    recorder.drain(false);
    zones(thread, 6..7);
    thread.header().lost.fetch_add(5, Relaxed);
    recorder.drain(true);
    assert_eq!(recorder.locations(std::process::id()), [4, 5, 6]);
    assert_eq!(
        recorder.lost(LostRecord::ZoneItem, LossCause::LaneFull),
        5,
        "the earlier 99 are not this recording's"
    );
    assert_eq!(program.memory().header().attached.load(Acquire), 5);
}

#[test]
fn an_arena_that_a_child_has_inherited_is_not_the_childs() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    program.memory().header().pid.store(1, Relaxed);
    recorder.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None });
    recorder.drain(true);
    assert!(recorder.clients().is_empty());
    assert_eq!(program.memory().header().attached.load(Acquire), 0);
}

#[test]
fn items_go_on_over_the_end_of_the_ring_for_many_rounds() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    let mut written = Vec::new();
    for round in 0..40_u64 {
        // 32 and 24 bytes: the end of the data is met at every remainder.
        for n in 0..2_500 {
            let ticks = ticks_now(ClockSource::Tsc).0 << 8;
            let long = [ticks | ItemKind::Alloc as u64, round, n, 3];
            let short = [ticks | ItemKind::Plot as u64, round, n];
            for item in [&long[..], &short[..(if n % 7 == 0 { 3 } else { 0 })]] {
                if !item.is_empty() {
                    assert!(thread.write(item), "the ring is full in round {round}");
                    written.extend_from_slice(item);
                }
            }
        }
        recorder.drain(false);
    }
    recorder.drain(true);
    assert!(written.len() * 8 > 3 * RING_BYTES);
    assert!(recorder.words(7001) == written);
    assert!(
        recorder.chunks.iter().all(|chunk| chunk.data.len() <= (64 << 10) + ZoneChunk::SIZE + 64)
    );
    assert_eq!(thread.header().tail.load(Acquire), thread.header().head.load(Acquire));
}

#[test]
fn a_ring_whose_thread_has_ended_is_emptied_and_serves_the_next_thread() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let first = program.thread(7001);
    recorder.notify(program.announcement(&first));
    zones(first, 1..3);
    first.end();
    recorder.drain(false);
    let second = program.thread(7002);
    assert_eq!(second.number, first.number, "the ring was given back");
    zones(second, 3..5);
    recorder.drain(false);
    assert!(recorder.locations(7002).is_empty(), "nobody has said whose they are");
    recorder.notify(program.announcement(&second));
    recorder.drain(true);
    assert_eq!((recorder.locations(7001), recorder.locations(7002)), (vec![1, 2], vec![3, 4]));
    let lanes: Vec<_> =
        recorder.zones().iter().map(|(lane, prefix, _)| (*lane, prefix.owner)).collect();
    assert_eq!(lanes, [(0, 1), (1, 1)], "a lane of its own");
    let sequences: Vec<_> =
        recorder.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Zone).collect();
    assert_eq!((sequences[1].header.sequence, sequences[1].header.records_before), (0, 0));
}

#[test]
fn a_ring_that_nobody_announced_is_found() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let (announced, other) =
        (program.thread(std::process::id()), program.thread(std::process::id()));
    zones(announced, 1..2);
    recorder.notify(program.announcement(&announced));
    zones(other, 2..3);
    recorder.watcher.discover();
    recorder.drain(true);
    assert_eq!(recorder.locations(std::process::id()), [1, 2]);
}

#[test]
fn a_program_that_died_is_read_to_the_end() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    zones(thread, 1..3);
    recorder.drain(false);
    zones(thread, 3..5);
    drop(program);
    recorder.watcher.found_for_tests(WatchEvent::Gone { client: 1 });
    recorder.drain(false);
    assert_eq!(recorder.locations(7001), [1, 2, 3, 4]);
    recorder.drain(true);
    assert_eq!(recorder.zones().len(), 1, "and then forgotten");
    assert!(recorder.follower.losses().is_empty());
}

#[test]
fn a_second_ring_of_a_program_that_died_meanwhile_is_read_too() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let first = program.thread(7001);
    recorder.notify(program.announcement(&first));
    let second = program.thread(7002);
    zones(second, 1..3);
    let late = program.announcement(&second);
    drop(program);
    recorder.notify(late);
    recorder.drain(true);
    assert_eq!(recorder.locations(7002), [1, 2]);
}

#[test]
fn a_program_that_died_before_it_was_taken_is_one_loss() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    zones(thread, 1..3);
    // A thread that nobody reads announces its ring several times.
    let late = [(); 3].map(|()| program.announcement(&thread));
    drop(program);
    late.into_iter().for_each(|late| recorder.notify(late));
    recorder.drain(true);
    assert_eq!(recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken), 1);
}

#[test]
fn a_ring_that_is_announced_again_after_it_was_read_to_the_end_is_no_loss() {
    let (mut recorder, process) = (Recorder::new(), FakeProcess::new());
    recorder.watcher.set_root(process.root());
    let program = FakeProgram::new();
    process.runs(&program);
    zones(program.thread(7001), 1..3);
    recorder.notify(announced_now());
    let again = announced_now();
    process.ends();
    recorder.watcher.roll_call();
    recorder.notify(again);
    recorder.drain(true);
    assert_eq!(recorder.locations(7001), [1, 2]);
    assert_eq!(recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken), 0);
    // Later the process had another arena there, which is gone as well.
    recorder.notify(announced_now());
    recorder.drain(true);
    assert_eq!(recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken), 1);
}

fn announced_now() -> ZoneNotice {
    FakeProcess::announces(ticks_now(ClockSource::Tsc).0)
}

#[test]
fn a_process_that_runs_many_programs_one_after_the_other_is_read_in_each() {
    let (mut recorder, process) = (Recorder::new(), FakeProcess::new());
    recorder.watcher.set_root(process.root());
    for number in 0..40 {
        let program = FakeProgram::new();
        let thread = program.thread(7001);
        zones(thread, number..number + 1);
        // Each has its arena where the one before had its own, and nobody has called the roll.
        process.runs(&program);
        recorder.notify(FakeProcess::announces(0));
        recorder.drain(true);
    }
    assert_eq!(recorder.locations(7001), (0..40).collect::<Vec<u64>>());
    assert_eq!(recorder.lost(LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken), 0);
}

#[test]
fn a_full_ring_counts_what_it_lost_and_goes_on() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    let fitted = (0..70_000).filter(|_| thread.write(&frame())).count();
    let lost = 70_000 - fitted as u64;
    assert!(lost > 0);
    assert!(recorder.drain(false) >= 1.0, "a full ring makes the collector hurry");
    assert!(thread.write(&frame()), "there is room again");
    recorder.drain(true);
    assert_eq!(items(&recorder.words(7001)).len(), fitted + 1);
    assert_eq!(recorder.lost(LostRecord::ZoneItem, LossCause::LaneFull), lost);
    program.memory().header().events_without_ring.store(7, Relaxed);
    program.memory().header().definitions_lost.store(3, Relaxed);
    assert_eq!(recorder.lost(LostRecord::ItemWithoutRing, LossCause::LaneFull), 7);
    assert_eq!(recorder.lost(LostRecord::ZoneDefinition, LossCause::LaneFull), 3);
}

fn frame() -> [u64; 2] {
    [ticks_now(ClockSource::Tsc).0 << 8 | ItemKind::Frame as u64, 0]
}

#[test]
fn events_of_threads_that_ended_unread_are_lost_only_if_the_recording_had_begun() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    recorder.notify(program.announcement(&thread));
    recorder.drain(true);
    let header = program.memory().header();
    header.events_unread.store(7, Relaxed);
    header.unread_until.store(1_000, Relaxed);
    assert_eq!(unread(&recorder), 0, "a microsecond after the machine's start nobody recorded");
    header.unread_until.store(ticks_now(ClockSource::Monotonic).0, Relaxed);
    assert_eq!(unread(&recorder), 7);
}

fn unread(recorder: &Recorder) -> u64 {
    recorder.lost(LostRecord::ItemUnread, LossCause::NotTaken)
}

#[test]
fn what_a_ring_lost_before_its_first_reader_came_is_counted_also_when_the_ring_had_another_thread_before()
 {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    zones(thread, 1..4);
    let header = thread.header();
    // What the program does when it gives the ring of a thread that has ended to this one.
    header.tail.store(header.head.load(Relaxed), Relaxed);
    zones(thread, 4..6);
    header.lost.store(3, Relaxed);
    recorder.notify(program.announcement(&thread));
    recorder.drain(true);
    assert_eq!(recorder.locations(7001), [4, 5]);
    assert_eq!(recorder.lost(LostRecord::ZoneItem, LossCause::LaneFull), 3);
}

#[test]
fn definitions_come_in_their_order_and_only_when_they_are_complete() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    let number = program.define(&[11], EntryKind::String);
    let late = program.reserve(&[22, 23], EntryKind::String);
    program.define(&[33], EntryKind::String);
    zones(thread, number..number + 1);
    recorder.notify(program.announcement(&thread));
    recorder.drain(true);
    program.complete(late, 2);
    recorder.drain(true);
    let logs: Vec<_> = recorder
        .chunks
        .iter()
        .filter(|chunk| chunk.header.lane.kind == LaneKind::ZoneLog)
        .collect();
    let parts: Vec<_> = logs
        .iter()
        .map(|chunk| {
            let prefix = ZoneLogChunk::from_bytes(&chunk.data).unwrap();
            (prefix.position, chunk.header.records, words_of(&chunk.data[ZoneLogChunk::SIZE..]))
        })
        .collect();
    assert_eq!(
        parts,
        [
            (0, 1, vec![string_header(16), 11]),
            (16, 2, vec![string_header(24), 22, 23, string_header(16), 33])
        ]
    );
}

#[test]
fn what_items_name_goes_on_before_them_however_fast_they_come() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let threads = [program.thread(7001), program.thread(7002)];
    threads.iter().for_each(|thread| recorder.notify(program.announcement(thread)));
    for turn in 0..20 {
        // Far more than a chunk of items, and at times more than one visit takes of definitions.
        let definitions = if turn % 4 == 3 { 100 } else { 1 };
        (0..definitions).for_each(|_| _ = program.define(&[7; 1000], EntryKind::String));
        let number = program.define(&[turn], EntryKind::String);
        threads.iter().for_each(|thread| while thread.zone(number) {});
        recorder.drain(false);
    }
    recorder.drain(true);
    let (mut known, mut named) = (0, 0);
    for chunk in &recorder.chunks {
        match chunk.header.lane.kind {
            LaneKind::ZoneLog => {
                let prefix = ZoneLogChunk::from_bytes(&chunk.data).unwrap();
                known = u64::from(prefix.position) + (chunk.data.len() - ZoneLogChunk::SIZE) as u64;
            }
            LaneKind::Zone => {
                let words = words_of(&chunk.data[ZoneChunk::SIZE..]);
                let begun = items(&words).into_iter();
                for item in begun.filter(|item| item[0] as u8 == ItemKind::ZoneBegin as u8) {
                    assert!((item[1] - 1) * 8 < known, "definition {} came later", item[1]);
                    named += 1;
                }
            }
            _ => {}
        }
    }
    assert!(named > 100_000, "{named} zones");
}

fn string_header(bytes: u64) -> u64 {
    bytes | (EntryKind::String as u64) << 32
}

#[test]
fn counters_of_an_application_become_plots_of_its_process() {
    let mut recorder = Recorder::new();
    let program = FakeProgram::new();
    let thread = program.thread(7001);
    let value = std::sync::atomic::AtomicU64::new(42);
    let number =
        program.define(&[ValueType::Unsigned as u64, value.as_ptr() as u64, 0], EntryKind::Counter);
    recorder.notify(program.announcement(&thread));
    let words = plotted(&mut recorder, 42);
    assert_eq!((words[0] as u8, words[1]), (ItemKind::Plot as u8, u64::from(number) | 1 << 32));
    value.store(43, Release);
    plotted(&mut recorder, 43);
}

/// What was recorded of this process's counters when one of them was `wanted`.
fn plotted(recorder: &mut Recorder, wanted: u64) -> Vec<u64> {
    let pid = std::process::id();
    for _ in 0..200 {
        recorder.drain(true);
        let words = recorder.words(pid);
        if items(&words).iter().any(|item| item[2] == wanted) {
            return words;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{wanted} was never seen: {:?}", recorder.words(pid));
}

#[test]
fn two_programs_in_one_process_are_two_clients() {
    let mut recorder = Recorder::new();
    let (one, other) = (FakeProgram::new(), FakeProgram::new());
    let (a, b) = (one.thread(7001), other.thread(7001));
    zones(a, 1..2);
    zones(b, 2..3);
    recorder.notify(one.announcement(&a));
    recorder.notify(other.announcement(&b));
    recorder.drain(true);
    assert_eq!(recorder.clients().len(), 2);
    let by_client: Vec<_> =
        recorder.zones().iter().map(|(_, prefix, words)| (prefix.client, words[1])).collect();
    assert_eq!(by_client, [(1, 1), (2, 2)]);
}

#[test]
fn an_arena_that_is_found_twice_at_once_is_read_once() {
    for _ in 0..50 {
        let mut recorder = Recorder::new();
        let program = FakeProgram::new();
        let thread = program.thread(7001);
        let [first, second] = recorder.watcher.take_at_once(&program);
        assert_eq!(first, second);
        recorder.notify(program.announcement(&thread));
        zones(thread, 1..4);
        recorder.drain(true);
        assert_eq!(recorder.locations(7001), [1, 2, 3]);
    }
}
