//! Hostile programs as a state machine: bytes say what they do next, beside an honest one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{Receiver, channel};

use syscollect_model::{ClockSource, LaneKind};
use syscollect_records::ZoneChunk;
use syscollect_store::Chunk;
use syscollect_zone_protocol::arena::{LOG_BYTES, MAX_RINGS, RING_BYTES};
use syscollect_zone_protocol::log::EntryKind;
use syscollect_zone_protocol::{ItemKind, item_words};

use super::ZoneNotice;
use super::fake::{FakeProgram, FakeThread};
use super::source::Follower;
use super::survey::Survey;
use super::taken::Arenas;
use super::watch::{Takeover, WatchEvent};
use crate::clock::ticks_now;
use crate::stage::CHUNK_BYTES;

/// Programs of an input, and rings of each.
const PROGRAMS: usize = 3;
const RINGS: usize = 6;
/// The honest program's thread.
const HONEST: u32 = 7001;

/// The recorder's part without its threads.
struct Recorder {
    takeover: Takeover,
    survey: Survey,
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

/// Has programs do what `data` says. Whatever that is, nothing panics, what is recorded are whole
/// items in chunks of bounded size, and the honest program's zones are all there.
///
/// # Panics
///
/// Where that does not hold.
pub fn hostile_programs(data: &[u8]) {
    let mut input = Input(data);
    let mut recorder = Recorder::new();
    let honest = FakeProgram::new();
    let thread = honest.thread(HONEST);
    recorder.told(honest.announcement(&thread));
    let programs: Vec<FakeProgram> = (0..PROGRAMS).map(|_| FakeProgram::new()).collect();
    let mut rings: Vec<FakeThread<'_>> = programs
        .iter()
        .flat_map(|program| (0..RINGS as u32).map(|tid| program.thread(8000 + tid)))
        .collect();
    let mut zones = 0u64;
    while !input.0.is_empty() {
        let which = usize::from(input.byte());
        let (program, ring) = (&programs[which % PROGRAMS], which % rings.len());
        step(&mut input, &mut recorder, program, &mut rings[ring]);
        if which & 0x80 != 0 {
            zones += u64::from(thread.zone(1));
        }
    }
    recorder.drain(true);
    recorder.check(zones);
}

fn step(
    input: &mut Input<'_>,
    recorder: &mut Recorder,
    program: &FakeProgram,
    ring: &mut FakeThread<'_>,
) {
    let (header, arena) = (ring.header(), program.memory().header());
    match input.byte() % 18 {
        0 => recorder.told(program.announcement(ring)),
        1 => recorder.told(ZoneNotice::Announcement {
            ticks: 0,
            pid: program.pid(),
            tid: input.byte().into(),
            descriptor: program.descriptor(),
            ring: input.number(),
        }),
        2 => recorder.told(ZoneNotice::ClientFile { pid: program.pid() }),
        3 => recorder.survey(),
        4 | 5 => recorder.drain(false),
        6 => _ = ring.zone(input.byte().into()),
        7 => _ = ring.write(&[input.number()]),
        8 => {
            let kind = ItemKind::from_number(input.byte() % 0x20).unwrap_or(ItemKind::Plot) as u64;
            let first = input.number() << 8 | kind;
            let words = item_words(first).unwrap_or(1);
            let item: Vec<u64> =
                std::iter::once(first).chain((1..words).map(|_| input.number())).collect();
            ring.write(&item);
        }
        9 => header.head.store(header.head.load(Relaxed).wrapping_add(input.number()), Release),
        10 => header.tail.store(input.number(), Release),
        11 => header.state.store(u32::from(input.byte() % 4), Release),
        12 => _ = header.owner.fetch_add(1, Release),
        13 => {
            arena.rings.store(input.number() as u32, Release);
            arena.claims.fetch_add(1, Release);
        }
        14 => {
            let words = usize::from(input.byte() % 8);
            let at = program.memory().header().log_taken.load(Relaxed);
            if at < LOG_BYTES as u64 / 2 && at.is_multiple_of(8) {
                let at = program.reserve(&vec![input.number(); words], EntryKind::Counter);
                program.complete(at, usize::from(input.byte()));
            }
        }
        15 => arena.log_taken.store(input.number(), Release),
        16 => program.punch(usize::from(input.byte()) * 4096, RING_BYTES),
        _ => *ring = FakeThread { number: u32::from(input.byte()) % MAX_RINGS as u32, ..*ring },
    }
}

impl Recorder {
    fn new() -> Self {
        let (send, found) = channel();
        let arenas = Arc::new(Arenas::new(Path::new("/"), ClockSource::Tsc, send));
        let (takeover, survey) = (Takeover::new(arenas.clone()), Survey::new(arenas));
        Self { takeover, survey, found, follower: Follower::new(CHUNK_BYTES), chunks: Vec::new() }
    }

    fn told(&mut self, notice: ZoneNotice) {
        if let Some(job) = self.takeover.notice(notice) {
            self.survey.add(job);
        }
        self.survey();
    }

    fn survey(&mut self) {
        self.survey.look();
        // A program may have taken rings of which each look finds more; it ends with the last of
        // them.
        for _ in 0..1000 {
            self.survey.do_next();
        }
    }

    fn drain(&mut self, all: bool) {
        for found in self.found.try_iter() {
            self.follower
                .found(found, ticks_now(ClockSource::Tsc), &mut |chunk| self.chunks.push(chunk));
        }
        self.follower.drain(all, &mut self.chunks);
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
    }
}
