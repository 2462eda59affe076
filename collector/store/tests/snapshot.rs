//! A buffer that overwrites: what it keeps takes less room than it came in, and can be written while
//! the recording goes on.

mod scenario;

use scenario::chunk;
use std::time::{Duration, Instant};
use syscollect_model::{Lane, LaneKind};
use syscollect_records::{RecordKind, StackHeader, Stamp};
use syscollect_store::{
    BufferMode, BufferSnapshot, CaptureReader, CaptureWriter, Chunk, Damage, Fold, FoldBounds,
    Producer, StoreError, TraceBuffer, drain_to,
};

const SCHED: Lane = Lane::new(LaneKind::Sched, 1);
const STACK: Lane = Lane::new(LaneKind::SchedStack, 1);
const LOG: Lane = Lane::new(LaneKind::ZoneLog, 1);
const TASK: Lane = Lane::new(LaneKind::Task, 1);
const ZONES: Lane = Lane::new(LaneKind::Zone, 1);
const PATIENCE: Duration = Duration::from_secs(20);

/// Leaves all as it is, but for what happened before the oldest event.
struct KeepSince;

impl Fold for KeepSince {
    fn fold(&mut self, chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        chunks.into_iter().filter(|chunk| chunk.header.last >= bounds.oldest).collect()
    }
}

fn event(sequence: u64) -> Chunk {
    chunk(SCHED, sequence, sequence * 1024, 1024, 16)
}

/// The `sequence`th chunk of stacks: one, of two frames.
fn stack(sequence: u64) -> Chunk {
    let mut chunk = chunk(STACK, sequence, sequence, 1, 0);
    let stamp = Stamp::new(chunk.header.first.0, RecordKind::Stack);
    let id = sequence as u32 + 1;
    let header = StackHeader { stamp, id, tgid: 7, frames: 2, ..Default::default() };
    chunk.data = [header.as_bytes(), &[1; 16]].concat();
    chunk.header.length = chunk.data.len() as u32;
    chunk
}

/// The snapshot as a file has it, and the records that it lacks.
fn written_with_losses(snapshot: BufferSnapshot) -> (CaptureReader, Vec<(Lane, u64)>) {
    let written = (|| {
        let mut writer = CaptureWriter::create(Vec::new())?;
        let losses = snapshot.write_to(&mut writer, &mut KeepSince)?;
        Ok::<_, StoreError>((CaptureReader::from_bytes(writer.finish()?)?, losses))
    })();
    let (reader, losses) = written.expect("it goes to memory");
    // What is overwritten lies before all that is there.
    let inside = reader.damage().iter().find(|one| !matches!(one, Damage::Gap { after: None, .. }));
    assert_eq!(inside, None);
    (reader, losses.records.into_iter().map(|(lane, _, records)| (lane, records)).collect())
}

fn written(snapshot: BufferSnapshot) -> CaptureReader {
    written_with_losses(snapshot).0
}

fn data(reader: &CaptureReader, lane: Lane) -> Vec<Vec<u8>> {
    let chunks = reader.chunks(lane).iter().map(|entry| reader.read(entry).expect("it is whole"));
    chunks.map(|chunk| chunk.data).collect()
}

fn sequences(reader: &CaptureReader, lane: Lane) -> Vec<u64> {
    reader.chunks(lane).iter().map(|entry| entry.sequence).collect()
}

fn overwriting(bytes: usize) -> TraceBuffer {
    TraceBuffer::new(bytes, BufferMode::Overwrite).retaining(true)
}

#[test]
fn what_waits_for_the_end_takes_less_room_and_reads_as_it_was() {
    let buffer = overwriting(1 << 20);
    (0..32).for_each(|sequence| buffer.push(event(sequence)));
    let before = buffer.buffered();
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut writer = CaptureWriter::create(Vec::new()).unwrap();
            drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)).unwrap();
            writer.finish().unwrap()
        });
        let end = Instant::now() + PATIENCE;
        while buffer.buffered() > before / 2 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(buffer.buffered() <= before / 2, "{} of {before} bytes", buffer.buffered());
        // More than would have fitted in as it came.
        (32..96).for_each(|sequence| {
            buffer.push(event(sequence));
            std::thread::sleep(Duration::from_millis(1));
        });
        let snapshot = written(buffer.snapshot(None));
        buffer.close();
        let reader = CaptureReader::from_bytes(writer.join().unwrap()).unwrap();
        let expected: Vec<Vec<u8>> = (0..96).map(|sequence| event(sequence).data).collect();
        assert_eq!((data(&reader, SCHED), data(&snapshot, SCHED)), (expected.clone(), expected));
        assert!(buffer.losses().is_empty());
    });
}

#[test]
fn a_snapshot_has_what_the_buffer_holds_then_and_the_recording_goes_on() {
    let buffer = overwriting(1 << 20);
    buffer.push(chunk(LOG, 0, 0, 1, 72));
    for sequence in 0..3 {
        buffer.push(stack(sequence));
        buffer.push(chunk(TASK, sequence, sequence, 1, 64));
        buffer.push(event(sequence));
    }
    let first = buffer.snapshot(None);
    for sequence in 3..5 {
        buffer.push(stack(sequence));
        buffer.push(event(sequence));
    }
    let second = written(buffer.snapshot(None));
    let first = written(first);
    for (reader, count) in [(first, 3), (second, 5)] {
        assert_eq!(sequences(&reader, SCHED), (0..count).collect::<Vec<_>>());
        let stacks: Vec<u8> = data(&reader, STACK).concat();
        let ids = stacks.chunks(40).filter_map(StackHeader::from_bytes).map(|stack| stack.id);
        assert_eq!(ids.collect::<Vec<_>>(), (1..=count as u32).collect::<Vec<_>>());
        assert_eq!((sequences(&reader, LOG), sequences(&reader, TASK)), (vec![0], vec![0, 1, 2]));
    }
}

#[test]
fn a_snapshot_of_the_last_moment_has_no_older_events_and_no_stacks_that_only_those_need() {
    let buffer = overwriting(1 << 20);
    buffer.push(stack(0));
    buffer.push(chunk(TASK, 0, 0, 1, 64));
    buffer.push(event(0));
    buffer.begin_stacks_anew();
    buffer.stacks_begun_anew();
    std::thread::sleep(Duration::from_millis(300));
    buffer.push(stack(1));
    buffer.push(chunk(TASK, 1, 1, 1, 64));
    buffer.push(event(1));
    let (reader, lacks) = written_with_losses(buffer.snapshot(Some(Duration::from_millis(200))));
    assert_eq!(sequences(&reader, SCHED), [1]);
    assert_eq!(data(&reader, STACK).concat(), stack(1).data);
    assert_eq!(sequences(&reader, TASK), [1], "folded up to its oldest event");
    assert_eq!(lacks, [(SCHED, 1024), (TASK, 1), (STACK, 1)]);
    let (all, lacks) = written_with_losses(buffer.snapshot(None));
    assert_eq!((sequences(&all, SCHED), lacks), (vec![0, 1], Vec::new()), "the buffer has all");
}

#[test]
fn a_snapshot_that_is_written_too_slowly_gives_back_the_oldest_that_the_buffer_has_no_more() {
    let limit = 1 << 20;
    let buffer = overwriting(limit);
    let mut sequence = 0;
    let mut record = |count: u64| {
        for _ in 0..count {
            buffer.push(event(sequence));
            sequence += 1;
        }
    };
    // 16 KiB each: 60 are held.
    record(60);
    buffer.push(stack(0));
    let hung = buffer.snapshot(None);
    record(20);
    let fast = buffer.snapshot(None);
    record(10);
    let (fast, lacks) = written_with_losses(fast);
    let held = fast.chunks(SCHED).len() as u64;
    assert!(held > 55 && lacks.iter().all(|(lane, _)| *lane == SCHED), "{held} {lacks:?}");
    record(10);
    let (hung, lacks) = written_with_losses(hung);
    let events = sequences(&hung, SCHED);
    let gone = 60 - events.len() as u64;
    assert!((1..15).contains(&gone), "half of the buffer may be held twice: {events:?}");
    assert_eq!((events, lacks), (Vec::from_iter(gone..60), vec![(SCHED, gone * 1024)]));
    assert_eq!(data(&hung, STACK).concat(), stack(0).data);
    let again = written(buffer.snapshot(None));
    assert!(again.chunks(SCHED).len() > 55 && again.chunks(STACK).len() == 1, "the buffer has all");
}

#[test]
fn of_two_snapshots_that_hang_each_has_the_newest_that_may_be_held_for_both() {
    let buffer = overwriting(1 << 20);
    (0..60).for_each(|sequence| buffer.push(event(sequence)));
    let hung = [buffer.snapshot(None), buffer.snapshot(None)];
    // All that they have is the buffer's no more.
    (60..200).for_each(|sequence| buffer.push(event(sequence)));
    let events = hung.map(|hung| sequences(&written(hung), SCHED));
    let held: usize = events.iter().map(Vec::len).sum();
    assert!((28..=32).contains(&held), "16 KiB each, of 512: {events:?}");
    for events in events {
        assert!(events.len() > 12 && events.last() == Some(&59), "{events:?}");
    }
}

/// Leaves of zones the last chunk, unless program 7 has ended.
struct LastZones;

impl Fold for LastZones {
    fn fold(&mut self, mut chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        if chunks.first().is_none_or(|chunk| chunk.header.lane != ZONES) {
            return chunks;
        }
        if bounds.ended.contains(&7) { Vec::new() } else { chunks.split_off(chunks.len() - 1) }
    }
}

fn zones(sequence: u64) -> Chunk {
    chunk(ZONES, sequence, sequence * 1_000, 1_000, 16)
}

/// The chunks of zones of a snapshot, and the records of them that it lacks.
fn zones_of(snapshot: BufferSnapshot) -> (Vec<u64>, Vec<(Lane, u64)>) {
    let mut writer = CaptureWriter::create(Vec::new()).expect("it goes to memory");
    let lacks = snapshot.write_to(&mut writer, &mut LastZones).expect("it goes to memory");
    let file = writer.finish().expect("it goes to memory");
    let reader = CaptureReader::from_bytes(file).expect("it is a capture");
    let lacks = lacks.records.into_iter().map(|(lane, _, records)| (lane, records)).collect();
    (sequences(&reader, ZONES), lacks)
}

#[test]
fn of_events_that_gave_way_and_leave_a_state_a_snapshot_has_that() {
    // 16 kB each: 64 are held.
    let buffer = overwriting(1 << 20).folding(Box::new(LastZones));
    let producer = Producer { user: 1_000, program: 7 };
    (0..100).for_each(|sequence| buffer.push_of(producer, zones(sequence)));
    let (held, lacks) = zones_of(buffer.snapshot(None));
    let first = held[0];
    assert!(first > 30 && first < 45 && held == Vec::from_iter(first..100), "{held:?}");
    assert_eq!(lacks, [(ZONES, first * 1_000)], "those that another one stands for");
    std::thread::sleep(Duration::from_millis(100));
    buffer.push_of(producer, zones(100));
    let (held, lacks) = zones_of(buffer.snapshot(Some(Duration::from_millis(50))));
    assert_eq!((held, lacks), (vec![99, 100], vec![(ZONES, 99_000)]), "of the last moment, too");
    // It ends, and what is recorded from then on is all that is held at last.
    buffer.program_ended(7);
    (0..100).for_each(|sequence| buffer.push(event(sequence)));
    let (held, lacks) = zones_of(buffer.snapshot(None));
    assert_eq!(held, Vec::<u64>::new());
    assert!(lacks.contains(&(ZONES, 101_000)), "{lacks:?}");
}

#[test]
fn what_is_left_of_overwritten_events_is_in_the_file_of_the_whole_recording() {
    let buffer = TraceBuffer::new(1 << 20, BufferMode::Overwrite).folding(Box::new(LastZones));
    let mut writer = CaptureWriter::create(Vec::new()).expect("it goes to memory");
    std::thread::scope(|threads| {
        let writing =
            threads.spawn(|| drain_to(&buffer, &mut writer, &mut || Duration::from_millis(1)));
        // So much is encoded that it takes little room; what comes last needs all of it.
        (0..1_000).for_each(|sequence| buffer.push(zones(sequence)));
        buffer.push(chunk(SCHED, 0, 0, 1, 1_000_000));
        buffer.close();
        writing.join().expect("it ends").expect("memory takes every byte");
    });
    let file = writer.finish().expect("it goes to memory");
    let reader = CaptureReader::from_bytes(file).expect("it is a capture");
    let held = sequences(&reader, ZONES);
    assert_eq!(held.last(), Some(&999));
    let lost: u64 = buffer.losses().iter().map(|(.., records)| records).sum();
    assert_eq!(held.len() as u64 * 1_000 + lost, 1_000_000, "each is there or counted");
    assert_eq!(reader.chunks(SCHED).len(), 1);
}
