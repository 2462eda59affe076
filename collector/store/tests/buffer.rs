//! The trace buffer between lanes and disk: bounded, and every record is
//! either written or counted.

mod scenario;

use proptest::prelude::*;
use scenario::chunk;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use syscollect_model::{Lane, LaneKind, LossCause, Ticks};
use syscollect_records::{RecordKind, StackHeader, Stamp};
use syscollect_store::{
    BufferMode, CaptureReader, CaptureWriter, Chunk, ChunkHeader, Damage, Fold, FoldBounds, Popped,
    Producer, StoreError, TraceBuffer, drain_to,
};

const SCHED: Lane = Lane::new(LaneKind::Sched, 1);
const HITS: Lane = Lane::new(LaneKind::Probe, 1);
const STACK: Lane = Lane::new(LaneKind::SchedStack, 1);
const LOG: Lane = Lane::new(LaneKind::ZoneLog, 1);
const TASK: Lane = Lane::new(LaneKind::Task, 1);

/// Bytes that one chunk of 64 records of 16 bytes takes in the buffer.
const ONE: usize = size_of::<Chunk>() + 1024;

fn event(sequence: u64) -> Chunk {
    let mut chunk = chunk(SCHED, sequence, sequence * 64, 64, 16);
    chunk.data.shrink_to_fit();
    chunk
}

fn hits(sequence: u64) -> Chunk {
    let header = ChunkHeader { lane: HITS, ..event(sequence).header };
    Chunk { header, ..event(sequence) }
}

fn pop_all(buffer: &TraceBuffer) -> Vec<Chunk> {
    std::iter::from_fn(|| match buffer.pop(Duration::ZERO) {
        Popped::Chunk(chunk) => Some(chunk),
        Popped::Encoded(chunk) => panic!("nobody encoded {:?}", chunk.header()),
        Popped::Empty | Popped::Closed => None,
    })
    .collect()
}

fn sequences(chunks: &[Chunk]) -> Vec<(LaneKind, u64)> {
    chunks.iter().map(|chunk| (chunk.header.lane.kind, chunk.header.sequence)).collect()
}

#[test]
fn discard_drops_the_newest_events_and_counts_them() {
    let buffer = TraceBuffer::new(3 * ONE, BufferMode::Discard);
    (0..5).for_each(|sequence| buffer.push(event(sequence)));
    assert_eq!(buffer.buffered(), 3 * ONE);
    assert_eq!(buffer.losses(), [(SCHED, LossCause::BufferFull, 128)]);
    assert_eq!(sequences(&pop_all(&buffer)), [0, 1, 2].map(|n| (LaneKind::Sched, n)));
    assert_eq!(buffer.buffered(), 0);
    buffer.push(event(5));
    assert_eq!(sequences(&pop_all(&buffer)), [(LaneKind::Sched, 5)], "there is room again");
}

/// The `sequence`th chunk of an instrumented program's only thread.
fn of_program(program: u16, sequence: u64) -> Chunk {
    let mut chunk = chunk(Lane::new(LaneKind::Zone, program), sequence, sequence * 64, 64, 16);
    chunk.data.shrink_to_fit();
    chunk
}

fn producer(user: u32, program: u32) -> Producer {
    Producer { user, program }
}

#[test]
fn a_buffer_of_seconds_forgets_what_came_before_them() {
    let span = Duration::from_millis(50);
    let buffer = TraceBuffer::new(8 * ONE, BufferMode::Overwrite).spanning(Some(span));
    (0..3).for_each(|sequence| buffer.push(event(sequence)));
    std::thread::sleep(2 * span);
    (3..5).for_each(|sequence| buffer.push(event(sequence)));
    assert_eq!(buffer.losses(), [(SCHED, LossCause::Overwritten, 3 * 64)]);
    assert_eq!(buffer.short_span(), None, "all of its time had room");
    buffer.close();
    assert_eq!(sequences(&pop_all(&buffer)), [3, 4].map(|n| (LaneKind::Sched, n)));
}

#[test]
fn a_buffer_without_room_for_its_seconds_tells_how_far_back_it_reaches() {
    let span = Duration::from_secs(3600);
    let buffer = TraceBuffer::new(3 * ONE, BufferMode::Overwrite).spanning(Some(span));
    (0..3).for_each(|sequence| buffer.push(event(sequence)));
    assert_eq!(buffer.short_span(), None);
    buffer.push(event(3));
    assert!(buffer.short_span().is_some_and(|reach| reach < span));
    buffer.close();
    assert_eq!(sequences(&pop_all(&buffer)), [1, 2, 3].map(|n| (LaneKind::Sched, n)));
}

#[test]
fn hits_of_probes_have_room_as_long_as_they_leave_most_of_the_buffer_to_others() {
    let buffer = TraceBuffer::new(40 * ONE, BufferMode::Discard);
    (0..11).for_each(|sequence| buffer.push(hits(sequence)));
    assert!(!buffer.has_room_for_hits(), "a quarter is theirs");
    assert!(matches!(buffer.pop(Duration::ZERO), Popped::Chunk(_)));
    assert!(buffer.has_room_for_hits());
    (0..26).for_each(|sequence| buffer.push(event(sequence)));
    assert!(!buffer.has_room_for_hits(), "the last eighth is for others");
    assert_eq!(buffer.losses(), []);
    let overwriting = TraceBuffer::new(40 * ONE, BufferMode::Overwrite);
    (0..100).for_each(|sequence| overwriting.push(hits(sequence)));
    assert!(overwriting.has_room_for_hits(), "the oldest give way");
}

#[test]
fn a_program_that_floods_leaves_room_for_the_kernel_and_for_other_programs() {
    let buffer = TraceBuffer::new(8 * ONE, BufferMode::Discard);
    let flood = producer(1001, 7);
    (0..100).for_each(|sequence| buffer.push_of(flood, of_program(7, sequence)));
    assert_eq!(
        buffer.buffered(),
        3 * ONE,
        "its user has as much as is free, and may have more for another program"
    );
    assert!(!buffer.has_room_for(flood) && buffer.has_room_for(producer(1002, 9)));
    buffer.push_of(producer(1001, 8), of_program(8, 0));
    buffer.push_of(producer(1002, 9), of_program(9, 0));
    (0..3).for_each(|sequence| buffer.push(event(sequence)));
    assert_eq!(buffer.buffered(), 8 * ONE);
    buffer.push(chunk(STACK, 0, 0, 1, 72));
    let lost = [(Lane::new(LaneKind::Zone, 7), LossCause::BufferFull, 98 * 64)];
    assert_eq!(buffer.losses(), lost, "who floods loses, and nobody else");
    assert_eq!(pop_all(&buffer).len(), 8);
    buffer.push_of(flood, of_program(7, 100));
    assert_eq!(buffer.buffered(), ONE, "what was written is no longer its own");
}

#[test]
fn a_program_that_floods_a_buffer_that_overwrites_overwrites_itself() {
    let buffer = TraceBuffer::new(8 * ONE, BufferMode::Overwrite);
    buffer.push(event(0));
    buffer.push_of(producer(1002, 9), of_program(9, 0));
    (0..100).for_each(|sequence| buffer.push_of(producer(1001, 7), of_program(7, sequence)));
    buffer.push(event(1));
    buffer.close();
    let kept = pop_all(&buffer);
    assert_eq!(
        kept.iter().filter(|chunk| is_honest(chunk)).count(),
        3,
        "who floods loses, and nobody else"
    );
    assert_eq!((kept.len(), kept[6].header.sequence), (8, 99), "and of its own the oldest");
    let lost = [(Lane::new(LaneKind::Zone, 7), LossCause::Overwritten, 95 * 64)];
    assert_eq!(buffer.losses(), lost);
}

fn is_honest(chunk: &Chunk) -> bool {
    chunk.header.lane == SCHED || chunk.header.lane.index == 9
}

#[test]
fn a_user_with_many_programs_has_no_more_of_the_buffer_than_one_with_one() {
    let buffer = TraceBuffer::new(64 * ONE, BufferMode::Discard);
    for sequence in 0..100 {
        (0..50).for_each(|program| {
            buffer.push_of(producer(1001, program.into()), of_program(program, sequence));
        });
    }
    assert!(
        buffer.buffered() <= 28 * ONE,
        "half of what programs may have: {}",
        buffer.buffered() / ONE
    );
    let honest = (0..100).take_while(|_| buffer.has_room_for(producer(1002, 99)));
    let pushed =
        honest.map(|sequence| buffer.push_of(producer(1002, 99), of_program(99, sequence))).count();
    assert!(pushed >= 2, "{pushed} chunks of somebody else");
    let lost = buffer.losses().iter().filter(|(lane, ..)| lane.index == 99).count();
    assert_eq!(lost, 0, "what there was room for is there");
}

#[test]
fn overwrite_drops_the_oldest_events_and_keeps_the_rest_until_the_end() {
    let buffer = TraceBuffer::new(3 * ONE, BufferMode::Overwrite);
    (0..3).for_each(|sequence| buffer.push(event(sequence)));
    buffer.push(chunk(LOG, 0, 0, 1, 72));
    assert_eq!(
        buffer.losses(),
        [(SCHED, LossCause::Overwritten, 64)],
        "the definition took the oldest one's room"
    );
    assert_eq!(
        sequences(&pop_all(&buffer)),
        [(LaneKind::ZoneLog, 0)],
        "only definitions come while recording"
    );
    (3..5).for_each(|sequence| buffer.push(event(sequence)));
    assert_eq!(buffer.losses(), [(SCHED, LossCause::Overwritten, 128)]);
    buffer.close();
    assert_eq!(sequences(&pop_all(&buffer)), [2, 3, 4].map(|n| (LaneKind::Sched, n)));
    assert!(matches!(buffer.pop(Duration::ZERO), Popped::Closed));
}

#[test]
fn definitions_go_through_a_full_buffer_and_memory_keeps_its_bound() {
    for mode in [BufferMode::Discard, BufferMode::Overwrite] {
        let buffer = TraceBuffer::new(ONE, mode);
        buffer.push(event(0));
        let (records, mut most) = (4_096, 0);
        for sequence in 0..200 {
            buffer.push(chunk(LOG, sequence, sequence * u64::from(records), records, 32));
            most = most.max(buffer.buffered());
        }
        assert!(most <= buffer.most_memory(), "{most} bytes held");
        let lost: BTreeMap<_, _> =
            buffer.losses().into_iter().map(|(lane, _, lost)| (lane, lost)).collect();
        assert_eq!(lost[&SCHED], 64, "the event made room");
        let there = pop_all(&buffer).len() as u64;
        assert!(there > 14, "{there} definitions of 128 KiB fit into 2 MiB");
        assert_eq!(there * u64::from(records) + lost[&LOG], 200 * u64::from(records));
    }
}

#[test]
fn stacks_without_end_take_half_of_the_buffer_from_events_and_not_more() {
    let buffer = TraceBuffer::new(64 * ONE, BufferMode::Discard);
    (0..64).for_each(|sequence| buffer.push(event(sequence)));
    for sequence in 0..200 {
        let mut stacks = chunk(STACK, sequence, sequence * 64, 64, 16);
        stacks.data.shrink_to_fit();
        buffer.push(stacks);
    }
    let cause = LossCause::BufferFull;
    assert_eq!(buffer.losses(), [(SCHED, cause, 32 * 64), (STACK, cause, (200 - 32) * 64)]);
    buffer.close();
    assert_eq!(pop_all(&buffer).len(), 64);
    assert_eq!(buffer.buffered(), 0);
}

/// The `sequence`th chunk of a lane of stacks, `records` of two frames after as many as were
/// `before`, of this process; each is another.
fn stacks(process: u32, sequence: u64, before: u64, records: u32) -> Chunk {
    let first = before as u32 + 1;
    stacks_of(process, sequence, before, first..first + records)
}

/// The same of stacks that are these.
fn stacks_of(process: u32, sequence: u64, before: u64, frames: std::ops::Range<u32>) -> Chunk {
    let records = frames.len() as u32;
    let mut chunk = chunk(STACK, sequence, before, records, 0);
    chunk.data = (0..records)
        .zip(frames)
        .flat_map(|(number, frame)| {
            let id = before as u32 + number + 1;
            let stamp = Stamp::new(chunk.header.first.0 + u64::from(number), RecordKind::Stack);
            let header = StackHeader { stamp, id, tgid: process, frames: 2, ..Default::default() };
            [header.as_bytes(), &[u64::from(frame).to_ne_bytes(); 2].concat()].concat()
        })
        .collect();
    chunk.header.length = chunk.data.len() as u32;
    chunk
}

fn stack_ids(chunks: &[Chunk], process: u32) -> Vec<u32> {
    let of_stacks = chunks.iter().filter(|chunk| chunk.header.lane == STACK);
    let records = of_stacks.flat_map(|chunk| chunk.data.chunks(40));
    let headers = records.filter_map(StackHeader::from_bytes);
    headers.filter(|header| header.tgid == process).map(|header| header.id).collect()
}

/// Asks as the collector does: the programs forget at once.
fn follow(buffer: &TraceBuffer) -> bool {
    let wants = buffer.wants_stacks_anew();
    if wants {
        buffer.begin_stacks_anew();
        buffer.stacks_begun_anew();
    }
    wants
}

#[test]
fn stacks_wait_for_the_end_in_half_of_a_buffer_that_overwrites() {
    let limit = 64 << 10;
    let buffer = TraceBuffer::new(limit, BufferMode::Overwrite);
    let (mut most, mut asked) = (0, 0);
    for sequence in 0..2_000 {
        buffer.push(event(sequence));
        buffer.push(stacks(7, sequence, sequence * 64, 64));
        asked += u32::from(follow(&buffer));
        most = most.max(buffer.buffered());
        assert!(matches!(buffer.pop(Duration::ZERO), Popped::Empty), "nothing goes to the disk");
    }
    assert!(most <= limit, "{most} bytes held");
    assert!(asked > 50, "the programs forgot {asked} times what they had sent");
    buffer.close();
    let there = pop_all(&buffer);
    let ids = stack_ids(&there, 7);
    assert_eq!(ids, (2_000 * 64 - ids.len() as u32 + 1..=2_000 * 64).collect::<Vec<_>>());
    assert!(ids.len() > 130, "{} stacks of 40 bytes in 32 KiB", ids.len());
    let events = there.iter().filter(|chunk| chunk.header.lane == SCHED).count();
    assert!(events >= (limit / 2 / ONE) - 1, "{events} chunks of events in the other half");
    assert_eq!(buffer.buffered(), 0);
}

#[test]
fn what_events_need_stays_while_somebody_makes_stacks_without_end() {
    fn user_of(process: u32) -> Option<u32> {
        Some(if process == 7 { 1001 } else { 1002 })
    }
    let buffer = TraceBuffer::new(256 << 10, BufferMode::Overwrite).asking(user_of);
    let mut sent = 0;
    let mut send = |process, sequence, records| {
        buffer.push(match process {
            // It goes on with what it does.
            7 => stacks_of(process, sequence, sent, 0..records),
            _ => stacks(process, sequence, sent, records),
        });
        sent += u64::from(records);
        sent as u32
    };
    // What the honest program has is sent once, and again when it was forgotten.
    let mut honest = 0..0;
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut writer = CaptureWriter::create(Vec::new()).unwrap();
            drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)).unwrap();
            writer.finish().unwrap()
        });
        let (mut sequence, mut again) = (0, true);
        for round in 0..1_000 {
            if again {
                let last = send(7, sequence, 200);
                honest = last - 199..last + 1;
                sequence += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            send(9, sequence, 500);
            sequence += 1;
            buffer.push(event(round));
            again = follow(&buffer);
        }
        buffer.close();
        let reader = CaptureReader::from_bytes(writer.join().unwrap()).unwrap();
        let entries = reader.chunks(STACK).iter();
        let chunks: Vec<Chunk> = entries.map(|entry| reader.read(entry).unwrap()).collect();
        let ids = stack_ids(&chunks, 7);
        assert!(honest.clone().all(|id| ids.contains(&id)), "{honest:?} of {ids:?}");
        let missing = reader.damage().iter().filter_map(|damage| match damage {
            Damage::Gap { lane: STACK, records, sequence, .. } => Some((*sequence, *records)),
            _ => None,
        });
        let losses = buffer.losses();
        let lost = losses.iter().find(|(lane, ..)| *lane == STACK).unwrap();
        assert_eq!(lost.1, LossCause::Overwritten);
        assert_eq!(missing.collect::<Vec<_>>(), [(0, Some(lost.2))], "before the first one");
    });
}

#[test]
fn records_of_tasks_wait_for_the_end_when_overwriting_and_take_no_room_from_events() {
    let buffer = TraceBuffer::new(3 * ONE, BufferMode::Overwrite);
    (0..3).for_each(|sequence| buffer.push(event(sequence)));
    // 56 bytes each: four times of what they may take.
    let (records, chunks) = (1_000, 150);
    for sequence in 0..chunks {
        buffer.push(chunk(TASK, sequence, sequence * records, records as u32, 56));
        assert!(
            matches!(buffer.pop(Duration::ZERO), Popped::Empty),
            "nothing goes to the disk before the end"
        );
        assert!(buffer.buffered() <= buffer.most_memory());
    }
    buffer.close();
    let there = pop_all(&buffer);
    let events: Vec<_> = there.iter().filter(|chunk| chunk.header.lane == SCHED).collect();
    assert_eq!(events.len(), 3, "no event gave way");
    let tasks: Vec<u64> =
        there.iter().filter(|c| c.header.lane == TASK).map(|c| c.header.sequence).collect();
    assert_eq!(tasks.last(), Some(&(chunks - 1)), "the newest are there");
    assert!(tasks.len() > 30 && tasks.len() < 40, "{} chunks of 56 kB fit into 2 MiB", tasks.len());
    assert_eq!(
        buffer.losses(),
        [(TASK, LossCause::Overwritten, (chunks - tasks.len() as u64) * records)]
    );
}

/// Leaves the last chunk of all that it is given.
struct LastOnly;

impl Fold for LastOnly {
    fn fold(&mut self, mut chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        assert_eq!(bounds.oldest, Ticks(0), "where the event begins that is held");
        chunks.split_off(chunks.len().saturating_sub(1))
    }
}

/// Leaves all, of how little room it is told.
struct KeepAll(Arc<Mutex<usize>>);

impl Fold for KeepAll {
    fn fold(&mut self, chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        *self.0.lock().expect("nobody panics with it") = bounds.room;
        chunks
    }
}

#[test]
fn what_was_folded_stays_whatever_comes_and_of_that_mappings_give_way_first() {
    let told = Arc::new(Mutex::new(0));
    let fold = KeepAll(Arc::clone(&told));
    let buffer = TraceBuffer::new(3 * ONE, BufferMode::Overwrite).folding(Box::new(fold));
    let mapping = Lane::new(LaneKind::Mapping, 0);
    // 56 kB each, of 2 MiB for all: a fold is due after 15 of them.
    (0..17).for_each(|sequence| buffer.push(chunk(TASK, sequence, sequence * 1_000, 1_000, 56)));
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    std::thread::scope(|threads| {
        let writing =
            threads.spawn(|| drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)));
        let end = Instant::now() + Duration::from_secs(60);
        while *told.lock().unwrap() == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(*told.lock().unwrap(), 1 << 20, "half of the room");
        // More than there is room for.
        for sequence in 0..200 {
            buffer.push(chunk(mapping, sequence, sequence, 1, 100_000));
        }
        buffer.push(chunk(TASK, 17, 17_000, 1_000, 56));
        buffer.close();
        writing.join().unwrap().unwrap();
    });
    let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
    let sequences = |lane| reader.chunks(lane).iter().map(|entry| entry.sequence);
    assert_eq!(sequences(TASK).collect::<Vec<_>>(), Vec::from_iter(0..18));
    let losses = buffer.losses();
    let lost = losses.iter().find(|(lane, ..)| *lane == mapping).unwrap().2;
    assert_eq!((losses.len(), sequences(mapping).count() as u64 + lost), (1, 200));
}

#[test]
fn what_folding_leaves_out_is_counted_as_overwritten() {
    let buffer = TraceBuffer::new(3 * ONE, BufferMode::Overwrite).folding(Box::new(LastOnly));
    buffer.push(Chunk { header: ChunkHeader { first: Ticks(0), ..event(0).header }, ..event(0) });
    (0..20).for_each(|sequence| buffer.push(chunk(TASK, sequence, sequence * 1_000, 1_000, 56)));
    buffer.close();
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)).unwrap();
    let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
    assert_eq!(reader.chunks(TASK).iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [19]);
    assert_eq!(reader.chunks(SCHED).len(), 1);
    assert_eq!(buffer.losses(), [(TASK, LossCause::Overwritten, 19_000)]);
}

#[test]
fn what_comes_after_the_end_is_counted() {
    let buffer = TraceBuffer::new(10 * ONE, BufferMode::Discard);
    buffer.close();
    buffer.push(event(0));
    assert_eq!(buffer.losses(), [(SCHED, LossCause::BufferFull, 64)]);
}

#[test]
fn pop_waits_no_longer_than_asked_and_wakes_for_a_chunk() {
    let buffer = Arc::new(TraceBuffer::new(10 * ONE, BufferMode::Discard));
    let start = Instant::now();
    assert!(matches!(buffer.pop(Duration::from_millis(20)), Popped::Empty));
    assert!(start.elapsed() >= Duration::from_millis(20));
    let pusher = Arc::clone(&buffer);
    let thread = std::thread::spawn(move || pusher.push(event(0)));
    assert!(matches!(buffer.pop(Duration::from_secs(60)), Popped::Chunk(_)));
    thread.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(50));
}

/// A disk with room for so many bytes.
struct SmallDisk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room - self.bytes.len());
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.bytes.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn on_a_full_disk_recording_ends_as_usual_and_the_file_reads_to_its_last_chunk() {
    for room in (40..2_000).step_by(7) {
        let mut disk = SmallDisk { bytes: Vec::new(), room };
        let mut writer = CaptureWriter::create(&mut disk).unwrap();
        let buffer = TraceBuffer::new(1 << 20, BufferMode::Discard);
        (0..30).for_each(|sequence| buffer.push(event(sequence)));
        buffer.close();
        let error = drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, StoreError::Write { .. }), "{error}");
        assert!(writer.finish().is_err());
        let [(SCHED, LossCause::DiskFull, lost)] = buffer.losses()[..] else {
            panic!("{:?}", buffer.losses())
        };
        let there: u32 = match CaptureReader::from_bytes(disk.bytes) {
            Ok(reader) => reader
                .chunks(SCHED)
                .iter()
                .map(|entry| reader.read(entry).unwrap().header.records)
                .sum(),
            Err(error) => panic!("{room} bytes: {error}"),
        };
        assert_eq!(u64::from(there) + lost, 30 * 64, "{room} bytes");
    }
}

#[test]
fn a_chunk_that_is_too_large_stops_no_other() {
    let buffer = TraceBuffer::new(64 << 20, BufferMode::Discard);
    buffer.push(event(0));
    buffer.push(chunk(SCHED, 1, 64, 300_000, 16));
    buffer.push(chunk(SCHED, 2, 300_064, 64, 16));
    buffer.close();
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    assert!(matches!(
        drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)),
        Err(StoreError::ChunkTooLarge { .. })
    ));
    let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
    assert_eq!(reader.chunks(SCHED).len(), 2);
    assert_eq!(buffer.losses(), [(SCHED, LossCause::DiskFull, 300_000)]);
    assert!(matches!(
        reader.damage(),
        [Damage::Gap { records: Some(300_000), sequence: 1, chunks: 1, .. }]
    ));
}

/// What happens to a buffer next.
#[derive(Clone, Copy, Debug)]
enum BufferOperation {
    Push(u16, u32),
    Define(u32),
    Pop,
}

fn step() -> impl Strategy<Value = BufferOperation> {
    prop_oneof![
        4 => (0u16..3, 1u32..200).prop_map(|(cpu, records)| BufferOperation::Push(cpu, records)),
        1 => (1u32..20).prop_map(BufferOperation::Define),
        2 => Just(BufferOperation::Pop),
    ]
}

proptest! {
    #[test]
    fn recorded_and_lost_are_what_was_produced_for_every_lane(
        steps in prop::collection::vec(step(), 1..120),
        limit in 0usize..20_000,
        overwrite in any::<bool>(),
    ) {
        let mode = if overwrite { BufferMode::Overwrite } else { BufferMode::Discard };
        let buffer = TraceBuffer::new(limit, mode);
        let mut writer = CaptureWriter::create(Vec::new()).unwrap();
        let mut produced: BTreeMap<Lane, (u64, u64)> = BTreeMap::new();
        for step in steps {
            let (lane, records) = match step {
                BufferOperation::Push(cpu, records) => (Lane::new(LaneKind::Sched, cpu), records),
                BufferOperation::Define(records) => (STACK, records),
                BufferOperation::Pop => {
                    if let Popped::Chunk(chunk) = buffer.pop(Duration::ZERO) {
                        writer.write(&chunk).unwrap();
                    }
                    continue;
                }
            };
            let (sequence, before) = produced.entry(lane).or_default();
            buffer.push(match step {
                BufferOperation::Define(records) => {
                    stacks(*sequence as u32, *sequence, *before, records)
                }
                _ => chunk(lane, *sequence, *before, records, 16),
            });
            follow(&buffer);
            *sequence += 1;
            *before += u64::from(records);
        }
        buffer.close();
        drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)).unwrap();
        let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
        for (lane, (_, produced)) in produced {
            let there: u64 = reader.chunks(lane).iter().map(|entry| u64::from(entry.records)).sum();
            let lost: u64 =
                buffer.losses().iter().filter(|(of, ..)| *of == lane).map(|(.., lost)| lost).sum();
            prop_assert_eq!(there + lost, produced, "{}", lane);
            let gaps: u64 = reader
                .damage()
                .iter()
                .map(|damage| match damage {
                    Damage::Gap { lane: of, records: Some(records), .. } if *of == lane => *records,
                    _ => 0,
                })
                .sum();
            prop_assert_eq!(gaps, lost, "the file itself tells what {} lost", lane);
        }
    }
}
