//! Hostile programs as a state machine: bytes say what they do next, beside an honest one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{Receiver, channel};

use syscollect_model::{ClockSource, LaneKind, Ticks};
use syscollect_records::ZoneChunk;
use syscollect_store::{Chunk, Fold, FoldBounds};
use syscollect_zone_protocol::arena::{LOG_BYTES, MAX_RINGS, RING_BYTES};
use syscollect_zone_protocol::log::EntryKind;
use syscollect_zone_protocol::{ItemKind, item_words};

use super::discovery::Discovery;
use super::fake::{FakeProgram, FakeThread};
use super::source::Follower;
use super::taken::Arenas;
use super::watch::{Takeover, WatchEvent};
use super::{AnnouncedFile, Announcement, ZoneNotice};
use crate::clock::ticks_now;
use crate::fold::ZoneFold;
use crate::stage::{CHUNK_BYTES, Flush};

/// Programs of an input, and rings of each.
const PROGRAMS: usize = 3;
const RINGS: usize = 6;
/// The honest program's thread.
const HONEST: u32 = 7001;

/// What a step may be: a byte of the input, modulo their number.
const ANNOUNCE: u8 = 0;
/// With a thread and a number of a ring.
const ANNOUNCE_ANY: u8 = 1;
const FILE_SEEN: u8 = 2;
const DISCOVER: u8 = 3;
const DRAIN: u8 = 4;
/// Twice as likely as others: only what is read can go wrong.
const DRAIN_AGAIN: u8 = 5;
const ZONES: u8 = 6;
const WRITE_WORD: u8 = 7;
/// A kind, a first word, and the words of its size.
const WRITE_ITEM: u8 = 8;
const MOVE_HEAD: u8 = 9;
const SET_TAIL: u8 = 10;
const SET_STATE: u8 = 11;
const NEXT_OWNER: u8 = 12;
const CLAIM: u8 = 13;
/// Words of a definition, and how many of them are complete.
const DEFINE: u8 = 14;
const SET_LOG: u8 = 15;
/// A page from which on pages are taken out.
const PUNCH: u8 = 16;
/// All others: the thread has another ring, of that number.
const MOVE_RING: u8 = 17;
const STEPS: u8 = MOVE_RING + 1;

/// The recorder's part without its threads.
struct Recorder {
    takeover: Takeover,
    discovery: Discovery,
    found: Receiver<WatchEvent>,
    follower: Follower,
    chunks: Vec<Chunk>,
}

/// What is left of an input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number of any size; small ones are likely.
    fn number(&mut self) -> u64 {
        let bytes = self.byte() % 9;
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }
}

/// Has programs do what `data` says, before two recorders. Whatever that is, nothing panics, what
/// is recorded are whole items in chunks of bounded size, and the honest program's zones are all
/// there.
///
/// # Panics
///
/// Where that does not hold.
#[cfg_attr(not(feature = "fuzzing"), allow(unreachable_pub))]
pub fn hostile_programs(data: &[u8]) {
    let mut input = Input(data);
    let (mut recorder, mut observer) = (Recorder::new(), Recorder::new());
    let honest = FakeProgram::new();
    let thread = honest.thread(HONEST);
    recorder.notify(honest.announcement(&thread));
    observer.notify(honest.announcement(&thread));
    let programs: Vec<FakeProgram> = (0..PROGRAMS).map(|_| FakeProgram::new()).collect();
    let mut rings: Vec<FakeThread<'_>> = programs
        .iter()
        .flat_map(|program| (0..RINGS as u32).map(|tid| program.thread(8000 + tid)))
        .collect();
    let mut zones = 0u64;
    while !input.0.is_empty() {
        let which = usize::from(input.byte());
        let (program, ring) = (&programs[which % PROGRAMS], which % rings.len());
        step(&mut input, [&mut recorder, &mut observer], program, &mut rings[ring]);
        if which & 0x80 != 0 {
            zones += u64::from(thread.zone(1));
        }
    }
    for mut recorder in [recorder, observer] {
        recorder.drain(true);
        recorder.check(zones);
    }
}

fn step(
    input: &mut Input<'_>,
    [recorder, observer]: [&mut Recorder; 2],
    program: &FakeProgram,
    ring: &mut FakeThread<'_>,
) {
    let (header, arena) = (ring.header(), program.memory().header());
    match input.byte() % STEPS {
        ANNOUNCE => {
            recorder.notify(program.announcement(ring));
            observer.notify(program.announcement(ring));
        }
        ANNOUNCE_ANY => {
            let (tid, ring) = (input.byte().into(), input.number());
            recorder.notify(ZoneNotice::Announcement(Announcement {
                ticks: 0,
                pid: program.pid(),
                tid,
                descriptor: program.descriptor(),
                ring,
                user: tid,
                file: match tid % 3 {
                    0 => AnnouncedFile::Unknown,
                    1 => AnnouncedFile::Other,
                    _ => AnnouncedFile::Arena(ring),
                },
                is_young: tid & 1 != 0,
            }));
        }
        FILE_SEEN => recorder.notify(ZoneNotice::ClientFile { pid: program.pid(), user: None }),
        DISCOVER => {
            recorder.discover();
            observer.discover();
        }
        DRAIN => {
            recorder.drain(false);
            observer.drain(false);
        }
        DRAIN_AGAIN => {
            observer.drain(false);
            recorder.drain(false);
        }
        ZONES => _ = ring.zone(input.byte().into()),
        WRITE_WORD => _ = ring.write(&[input.number()]),
        WRITE_ITEM => {
            let kind = ItemKind::from_number(input.byte() % 0x20).unwrap_or(ItemKind::Plot) as u64;
            let first = input.number() << 8 | kind;
            let words = item_words(first).unwrap_or(1);
            let item: Vec<u64> =
                std::iter::once(first).chain((1..words).map(|_| input.number())).collect();
            ring.write(&item);
        }
        MOVE_HEAD => {
            header.head.store(header.head.load(Relaxed).wrapping_add(input.number()), Release);
        }
        SET_TAIL => header.tail.store(input.number(), Release),
        SET_STATE => header.state.store(u32::from(input.byte() % 4), Release),
        NEXT_OWNER => _ = header.owner.fetch_add(1, Release),
        CLAIM => {
            arena.rings.store(input.number() as u32, Release);
            arena.claims.fetch_add(1, Release);
        }
        DEFINE => {
            let words = usize::from(input.byte() % 8);
            let at = program.memory().header().log_taken.load(Relaxed);
            if at < LOG_BYTES as u64 / 2 && at.is_multiple_of(8) {
                let at = program.reserve(&vec![input.number(); words], EntryKind::Counter);
                program.complete(at, usize::from(input.byte()));
            }
        }
        SET_LOG => arena.log_taken.store(input.number(), Release),
        PUNCH => program.punch(usize::from(input.byte()) * 4096, RING_BYTES),
        _ => *ring = FakeThread { number: u32::from(input.byte()) % MAX_RINGS as u32, ..*ring },
    }
}

impl Recorder {
    fn new() -> Self {
        let (send, found) = channel();
        let arenas = Arc::new(Arenas::new(Path::new("/"), ClockSource::Tsc, send));
        let (takeover, discovery) = (Takeover::new(arenas.clone()), Discovery::new(arenas));
        Self {
            takeover,
            discovery,
            found,
            follower: Follower::new(CHUNK_BYTES),
            chunks: Vec::new(),
        }
    }

    fn notify(&mut self, notice: ZoneNotice) {
        if let Some(job) = self.takeover.notice(notice) {
            self.discovery.add(job);
        }
        self.discover();
    }

    fn discover(&mut self) {
        self.discovery.poll_arenas();
        // A program may have taken rings of which each look finds more; it ends with the last of
        // them.
        for _ in 0..1000 {
            self.discovery.do_next();
        }
    }

    fn drain(&mut self, all: bool) {
        for found in self.found.try_iter() {
            self.follower
                .found(found, ticks_now(ClockSource::Tsc), &mut |chunk| self.chunks.push(chunk));
        }
        self.follower.drain(if all { Flush::All } else { Flush::USUAL }, &mut self.chunks);
    }

    fn check(&self, zones: u64) {
        let mut found = 0;
        for chunk in self.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Zone) {
            assert!(chunk.data.len() <= 2 * CHUNK_BYTES, "a chunk of {} bytes", chunk.data.len());
            let words: Vec<u64> = chunk.data[ZoneChunk::SIZE..]
                .chunks_exact(8)
                .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
                .collect();
            let (mut at, mut items) = (0, 0);
            while at < words.len() {
                let length =
                    item_words(words[at]).unwrap_or_else(|| panic!("{:#x} is no item", words[at]));
                found += u64::from(
                    chunk.header.current_tid == HONEST
                        && words[at] as u8 == ItemKind::ZoneBegin as u8,
                );
                (at, items) = (at + length, items + 1);
            }
            assert_eq!((at, items), (words.len(), chunk.header.records), "whole items");
        }
        assert_eq!(found, zones, "zones of the honest program");
        self.check_fold();
    }

    /// What is left of them when they are overwritten is not more than they were.
    fn check_fold(&self) {
        let zones = self.chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Zone);
        let zones: Vec<Chunk> = zones.cloned().collect();
        let items = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.header.records).sum::<u32>();
        let bounds = FoldBounds { oldest: Ticks(0), room: usize::MAX, ended: BTreeSet::new() };
        let left = ZoneFold::new(|_| None).fold(zones.clone(), &bounds);
        // A thread's name comes behind a statement of its own.
        assert!(items(&left) as usize <= items(&zones) as usize + left.len());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// An honest zone comes with a step whose first byte has this bit.
    const HONEST_ZONE: u8 = 0x80;
    const HUGE: [u8; 9] = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8];

    /// Steps of the first program, with an honest zone each.
    fn input_of(all: &[&[u8]]) -> Vec<u8> {
        all.iter().flat_map(|step| [&[HONEST_ZONE | 0x10], *step].concat()).collect()
    }

    /// The same of a program that has been announced and drained once.
    fn begun(rest: &[&[u8]]) -> Vec<u8> {
        let start: [&[u8]; 3] = [&[ANNOUNCE], &[ZONES, 3], &[DRAIN]];
        input_of(&[&start[..], rest].concat())
    }

    /// The first inputs of the fuzz target `arenas`, by the names of their files: one of each way
    /// in which a program lies, so that the search need not find these first.
    fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        let every_kind: Vec<Vec<u8>> = (0..0x20)
            .map(|kind| [&[WRITE_ITEM, kind], &[1, kind][..], &[2, 1, 0].repeat(16)].concat())
            .collect();
        let every_kind: Vec<&[u8]> = every_kind.iter().map(Vec::as_slice).collect();
        vec![
            ("honest", begun(&[&[ZONES, 200], &[DRAIN], &[DISCOVER], &[ZONES, 1], &[DRAIN_AGAIN]])),
            ("unannounced", input_of(&[&[FILE_SEEN], &[ZONES, 9], &[DISCOVER], &[DRAIN]])),
            (
                "any-ring",
                input_of(&[
                    &[ANNOUNCE_ANY, 7, 2, 4, 0],
                    &[ANNOUNCE_ANY, 0, 1, 5],
                    &[DISCOVER],
                    &[DRAIN],
                ]),
            ),
            ("head", begun(&[&[MOVE_HEAD, 3, 0x10, 0, 0], &[DRAIN], &[MOVE_HEAD, 1, 4], &[DRAIN]])),
            ("head-huge", begun(&[&[&[MOVE_HEAD], &HUGE[..]].concat(), &[DRAIN], &[ZONES, 2]])),
            ("tail", begun(&[&[SET_TAIL, 1, 8], &[DRAIN], &[&[SET_TAIL], &HUGE[..]].concat()])),
            ("no-item", begun(&[&[WRITE_WORD, 1, 0x7f], &[DRAIN], &[WRITE_WORD, 0], &[DRAIN]])),
            ("every-kind", begun(&[&every_kind[..], &[&[DRAIN]]].concat())),
            (
                "another-owner",
                begun(&[&[NEXT_OWNER], &[SET_STATE, 2], &[DISCOVER], &[SET_STATE, 3], &[DRAIN]]),
            ),
            ("another-ring", begun(&[&[MOVE_RING, 200], &[ZONES, 1], &[ANNOUNCE], &[DRAIN]])),
            ("claims", input_of(&[&[CLAIM, 4, 0xff, 0xff, 0xff, 0xff], &[DISCOVER], &[DRAIN]])),
            (
                "definitions",
                begun(&[&[DEFINE, 3, 1, 7, 3], &[DRAIN], &[DEFINE, 2, 0, 200], &[DRAIN]]),
            ),
            ("log-huge", begun(&[&[&[SET_LOG], &HUGE[..]].concat(), &[DRAIN], &[SET_LOG, 1, 3]])),
            ("punched", begun(&[&[ZONES, 100], &[PUNCH, 0], &[DRAIN], &[PUNCH, 80], &[DRAIN]])),
        ]
    }

    #[test]
    fn the_first_inputs_of_the_fuzz_target_hold() {
        let _alone = super::super::tests::alone();
        for (name, bytes) in seeds() {
            println!("{name}");
            hostile_programs(&bytes);
        }
    }

    /// `UPDATE_SEEDS=1` writes them.
    #[test]
    fn the_first_inputs_of_the_fuzz_target_are_those_of_this_test() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/arenas");
        if std::env::var_os("UPDATE_SEEDS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            for (name, bytes) in seeds() {
                std::fs::write(folder.join(name), bytes).unwrap();
            }
        }
        for (name, bytes) in seeds() {
            let found = std::fs::read(folder.join(name)).unwrap_or_default();
            assert!(found == bytes, "fuzz/seeds/arenas/{name} is another: run with UPDATE_SEEDS=1");
        }
    }
}
