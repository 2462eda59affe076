use std::ops::Range;

use super::*;
use syscollect_model::LossCause;
use syscollect_records::Stamp;
use syscollect_store::{
    BufferMode, CaptureReader, CaptureWriter, ChunkHeader, KnownProcess, TraceBuffer, drain_to,
};

const RENAME: RecordKind = RecordKind::Rename;
/// Where the oldest event is; what is to be folded is well before.
const OLDEST: u64 = 10 << 32;

fn bounds(room: usize) -> FoldBounds {
    FoldBounds { oldest: Ticks(OLDEST), room, ended: BTreeSet::new() }
}

/// A record of a process's first thread; its start is its number.
fn record(ticks: u64, kind: RecordKind, pid: u32, parent: u32) -> TaskRecord {
    TaskRecord {
        stamp: Stamp::new(ticks, kind),
        tid: pid,
        tgid: pid,
        parent_tid: if kind == RecordKind::Fork { parent } else { 0 },
        parent_tgid: parent,
        start_time: u64::from(pid),
        ..Default::default()
    }
}

fn header(kind: LaneKind, cpu: u16, sequence: u64, before: u64, last: u64) -> ChunkHeader {
    ChunkHeader {
        lane: Lane::new(kind, cpu),
        sequence,
        first: Ticks(1),
        last: Ticks(last),
        current_tid: 0,
        stride: if kind == LaneKind::Task { TaskRecord::SIZE as u32 } else { 0 },
        records_before: before,
        records: 0,
        length: 0,
    }
}

/// Chunks of a CPU's lane of tasks, of so many records each.
fn lane(cpu: u16, records: &[TaskRecord], each: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (index, records) in records.chunks(each).enumerate() {
        let data = records.iter().flat_map(|record| record.as_bytes().to_vec()).collect::<Vec<_>>();
        let last = records.last().map_or(0, |record| record.stamp.split().0);
        let header = header(LaneKind::Task, cpu, index as u64, (index * each) as u64, last);
        let (records, length) = (records.len() as u32, data.len() as u32);
        chunks.push(Chunk { header: ChunkHeader { records, length, ..header }, data });
    }
    chunks
}

/// A PERF_RECORD_MMAP2, or with start 0 the PERF_RECORD_COMM of an exec, as the kernel writes them.
fn mapping(pid: u32, start: u64, time: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (kind, misc) = if start == 0 { (3u32, 1u16 << 13) } else { (10, 0) };
    bytes.extend(kind.to_le_bytes());
    bytes.extend(misc.to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend([pid, pid].map(u32::to_le_bytes).concat());
    bytes.extend([start, 4096, 0].map(u64::to_le_bytes).concat());
    bytes.extend([0; 32]);
    bytes.extend(*b"/bin/x\0\0");
    bytes.extend([pid, pid].map(u32::to_le_bytes).concat());
    bytes.extend(time.to_le_bytes());
    bytes.extend([0; 8]);
    let size = bytes.len() as u16;
    bytes[6..8].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn mappings(records: &[Vec<u8>]) -> Chunk {
    let data = records.concat();
    let header = header(LaneKind::Mapping, 0, 0, 0, 100);
    Chunk {
        header: ChunkHeader { records: records.len() as u32, length: data.len() as u32, ..header },
        data,
    }
}

fn fold(chunks: Vec<Chunk>) -> Vec<Chunk> {
    TaskFold::new(|_| None).fold(chunks, &bounds(usize::MAX))
}

/// Ticks, kinds and threads of what is left.
fn left(chunks: &[Chunk]) -> Vec<(u64, RecordKind, u32)> {
    let tasks = chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Task);
    let mut left: Vec<_> = tasks
        .flat_map(task_records)
        .map(|(ticks, record)| (ticks, kind(&record).unwrap(), record.tid))
        .collect();
    left.sort_by_key(|(ticks, ..)| *ticks);
    left
}

/// Process and start of the mappings that are left.
fn mapped(chunks: &[Chunk]) -> Vec<(u32, u64)> {
    let lanes = chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Mapping);
    let changes = lanes.flat_map(|chunk| changes(&chunk.data));
    changes
        .filter_map(|change| match change.what {
            Changed::Mapped { start } => Some((change.pid, start)),
            _ => None,
        })
        .collect()
}

#[test]
fn of_a_loop_of_renames_the_last_name_before_the_oldest_event_remains() {
    let mut one = vec![record(10, RecordKind::Fork, 7, 1)];
    one.extend((20..5_000).map(|ticks| record(ticks, RENAME, 7, 0)));
    let other = [
        record(15, RecordKind::Fork, 8, 1),
        record(5_000, RENAME, 7, 0),
        record(5_001, RENAME, 8, 0),
    ];
    let young = [record(OLDEST + 1, RENAME, 7, 0), record(OLDEST + 2, RENAME, 7, 0)];
    let chunks = [lane(0, &one, 100), lane(1, &[&other[..], &young].concat(), 2)].concat();
    let folded = fold(chunks);
    let (fork, exec) = (RecordKind::Fork, RENAME);
    let young = [(OLDEST + 1, RENAME, 7), (OLDEST + 2, RENAME, 7)];
    let old = [(10, fork, 7), (15, fork, 8), (5_000, exec, 7), (5_001, exec, 8)];
    assert_eq!(left(&folded), [&old[..], &young].concat());
    let of_first = folded.iter().find(|chunk| chunk.header.lane.index == 0).unwrap().header;
    assert_eq!((of_first.sequence, of_first.records_before, of_first.records), (49, 4_980, 1));
    assert_eq!(left(&fold(folded.clone())), left(&folded), "once is enough");
}

#[test]
fn who_renames_without_end_after_the_oldest_event_keeps_his_share_and_the_others_all() {
    let flood = (0..20_000).map(|index| record(OLDEST + index, RENAME, 7, 0));
    let others =
        (0..1_000).map(|index| record(OLDEST + 20 * index, RENAME, 8 + (index % 10) as u32, 0));
    let records: Vec<_> = flood.chain(others).collect();
    let left = left(&fold(lane(0, &records, 1_000)));
    let of_flood = left.iter().filter(|(.., pid)| *pid == 7);
    let of_flood: Vec<u64> = of_flood.map(|(ticks, ..)| *ticks).collect();
    assert_eq!((of_flood.len(), left.len() - of_flood.len()), (SHARE, 1_000));
    let newest = OLDEST + 20_000 - SHARE as u64;
    assert!(of_flood.iter().all(|ticks| *ticks >= newest), "the newest");
}

#[test]
fn processes_that_ended_before_leave_nothing_and_those_that_were_there_at_the_start_their_end() {
    let mut records = Vec::new();
    for pid in 100..1_100u32 {
        let at = u64::from(pid) * 10;
        let kinds = [RecordKind::Fork, RENAME, RecordKind::Exec, RecordKind::Exit];
        records.extend((0..).zip(kinds).map(|(after, kind)| record(at + after, kind, pid, 1)));
    }
    records.push(record(20_000, RecordKind::Exit, 50, 0));
    let note =
        Definition::Processes(vec![noted_process(100), noted_process(51)]).chunks().remove(0);
    let gone = mappings(&[mapping(100, 0x1000, 5), mapping(51, 0x1000, 6)]);
    let folded = fold([lane(0, &records, 64), vec![note, gone]].concat());
    assert_eq!(left(&folded), [(20_000, RecordKind::Exit, 50)]);
    assert_eq!(mapped(&folded), [(51, 0x1000)]);
    let note = folded.iter().find(|chunk| chunk.header.lane.kind == LaneKind::Definition).unwrap();
    let Ok(Definition::Processes(left)) = serde_json::from_slice(&note.data) else {
        panic!("no list of processes")
    };
    assert_eq!(left.iter().map(|process| process.pid).collect::<Vec<_>>(), [51]);
}

fn noted_process(pid: u32) -> KnownProcess {
    KnownProcess { pid, noted: Ticks(500), ..KnownProcess::default() }
}

#[test]
fn what_a_child_has_from_its_parent_stays_when_the_parent_is_gone() {
    let records = [
        record(10, RecordKind::Fork, 100, 1),
        record(11, RecordKind::Exec, 100, 0),
        record(20, RecordKind::Fork, 101, 100),
        record(30, RecordKind::Exit, 100, 0),
        // This one has a program of its own.
        record(40, RecordKind::Fork, 200, 1),
        record(41, RecordKind::Fork, 201, 200),
        record(42, RecordKind::Exec, 201, 0),
        record(43, RecordKind::Exit, 200, 0),
    ];
    let maps =
        mappings(&[mapping(100, 0x1000, 5), mapping(200, 0x1000, 6), mapping(201, 0x2000, 7)]);
    let folded = fold([lane(0, &records, 3), vec![maps]].concat());
    let pids: Vec<u32> = left(&folded).iter().map(|(.., pid)| *pid).collect();
    assert_eq!(pids, [100, 100, 101, 100, 201, 201]);
    assert_eq!(mapped(&folded), [(100, 0x1000), (201, 0x2000)]);
}

#[test]
fn mappings_that_others_replaced_go_and_those_of_the_program_before() {
    let before_exec = mapping(7, 0x9000, 1);
    let again = (10..5_000).map(|time| mapping(7, 0x1000, time));
    let records: Vec<_> = [before_exec, mapping(7, 0, 5)]
        .into_iter()
        .chain(again)
        .chain([mapping(7, 0x2000, 6)])
        .collect();
    assert_eq!(mapped(&fold(vec![mappings(&records)])), [(7, 0x1000), (7, 0x2000)]);
}

#[test]
fn a_file_of_a_recording_that_overwrites_is_bounded_whatever_renames_there_were() {
    let buffer =
        TraceBuffer::new(4 << 20, BufferMode::Overwrite).folding(Box::new(TaskFold::new(|_| None)));
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    let mut produced = 0u64;
    std::thread::scope(|scope| {
        let writing = scope
            .spawn(|| drain_to(&buffer, &mut writer, &mut || std::time::Duration::from_millis(1)));
        for (sequence, start) in (0..2_000u64).map(|index| (index, index * 1_000)) {
            let records: Vec<_> = (0..1_000)
                .map(|index| record(OLDEST + (start + index) * 4_096, RENAME, 7, 0))
                .collect();
            let mut chunk = lane(0, &records, 1_000).remove(0);
            (chunk.header.sequence, chunk.header.records_before) = (sequence, start);
            (chunk.header.first, chunk.header.last) =
                (Ticks(OLDEST + start * 4_096), Ticks(OLDEST + (start + 999) * 4_096));
            buffer.push(chunk);
            produced += 1_000;
            let most = buffer.most_memory();
            assert!(buffer.buffered() <= most, "{} bytes are held", buffer.buffered());
        }
        buffer.close();
        writing.join().unwrap().unwrap();
    });
    let file = writer.finish().unwrap();
    assert!(file.len() < 4 << 20, "{} bytes for {produced} renames", file.len());
    let reader = CaptureReader::from_bytes(file).unwrap();
    let tasks = Lane::new(LaneKind::Task, 0);
    let there: u64 = reader.chunks(tasks).iter().map(|chunk| u64::from(chunk.records)).sum();
    let lost: u64 = buffer.losses().iter().map(|(.., count)| count).sum();
    assert_eq!(there + lost, produced, "each is there or counted");
    assert!(
        buffer
            .losses()
            .iter()
            .all(|(lane, cause, _)| (*lane, *cause) == (tasks, LossCause::Overwritten))
    );
    let newest = reader.chunks(tasks).last().unwrap().last;
    assert_eq!(newest, Ticks(OLDEST + 1_999_999 * 4_096), "the newest is there");
}

/// The lives of programs that a shell begins one after the other, of so many mappings each.
fn programs(shell: u32, pids: Range<u32>, mapped: u64) -> (Vec<TaskRecord>, Vec<Vec<u8>>) {
    let (mut records, mut maps) = (Vec::new(), Vec::new());
    for pid in pids {
        let at = OLDEST + u64::from(pid) * 1_000;
        records.push(record(at, RecordKind::Fork, pid, shell));
        records.push(record(at + 1, RecordKind::Exec, pid, 0));
        records.push(record(at + 2, RecordKind::Exit, pid, 0));
        maps.extend((1..=mapped).map(|page| mapping(pid, page * 4096, u64::from(pid) * 10)));
    }
    (records, maps)
}

/// As `user_of`: processes below 1,000 are of user 1, others of user 2.
fn of_two_users(pid: u32) -> Option<u32> {
    Some(if pid < 1_000 { 1 } else { 2 })
}

/// What is left where there is room for so many bytes, and that it is no more.
fn fold_into(room: usize, chunks: Vec<Chunk>) -> Vec<Chunk> {
    let folded = TaskFold::new(of_two_users).fold(chunks, &bounds(room));
    let bytes: usize = folded.iter().map(|chunk| chunk.data.len()).sum();
    assert!(bytes <= room && bytes > room / 2, "{bytes} bytes of {room}");
    folded
}

/// Processes of which something is left, in a range.
fn among(pids: Range<u32>, left: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let left: BTreeSet<u32> = left.into_iter().filter(|pid| pids.contains(pid)).collect();
    left.into_iter().collect()
}

fn tasks_left(chunks: &[Chunk], pids: Range<u32>) -> Vec<u32> {
    among(pids, left(chunks).into_iter().map(|(.., pid)| pid))
}

fn mapped_left(chunks: &[Chunk], pids: Range<u32>) -> Vec<u32> {
    among(pids, mapped(chunks).into_iter().map(|(pid, _)| pid))
}

#[test]
fn who_begins_programs_without_end_has_the_names_of_the_last_ones_and_others_have_all_of_theirs() {
    let honest = programs(500, 501..600, 10);
    let storm = programs(5_000, 10_000..20_000, 10);
    let own = [record(5, RecordKind::Fork, 500, 1), record(5, RecordKind::Fork, 5_000, 1)];
    let records = [&own[..], &honest.0, &storm.0].concat();
    let chunks = [lane(0, &records, 1_000), vec![mappings(&honest.1), mappings(&storm.1)]].concat();
    let folded = fold_into(1 << 20, chunks);
    assert_eq!(tasks_left(&folded, 500..600), Vec::from_iter(500..600));
    assert_eq!(mapped_left(&folded, 500..600), Vec::from_iter(501..600));
    let names = tasks_left(&folded, 5_000..20_000);
    assert!(names.len() > 4_000, "names stay before mappings: {}", names.len());
    assert_eq!((names[0], names.last()), (5_000, Some(&19_999)), "its own, and the newest");
    assert!(names[1..].is_sorted_by(|a, b| a + 1 == *b), "none between them is missing");
    let lives = left(&folded).into_iter().filter(|(.., pid)| *pid >= 10_000).count();
    assert_eq!(lives, (names.len() - 1) * 3, "each whole");
}

#[test]
fn a_process_whose_number_is_given_again_stays_its_parents() {
    let honest = programs(500, 501..600, 0);
    // The numbers of the honest ones are the storm's later.
    let mut storm = Vec::new();
    for round in 1..100u64 {
        for pid in 501..600 {
            let at = OLDEST + round * 1_000_000 + u64::from(pid) * 1_000;
            for (after, kind) in [(0, RecordKind::Fork), (500, RecordKind::Exit)] {
                let record = record(at + after, kind, pid, 5_000);
                storm.push(TaskRecord { start_time: round * 1_000 + u64::from(pid), ..record });
            }
        }
    }
    let records = [honest.0, storm].concat();
    let folded = fold_into(100 << 10, lane(0, &records, 1_000));
    let execs = left(&folded).into_iter().filter(|(_, kind, _)| *kind == RecordKind::Exec);
    assert_eq!(execs.count(), 99, "the storm executes nothing");
}

#[test]
fn a_chain_of_processes_that_each_begin_the_next_and_end_is_one_owner() {
    let honest = programs(500, 501..600, 10);
    let mut chain = vec![record(5, RecordKind::Fork, 5_000, 1)];
    for pid in 10_000..30_000 {
        let at = OLDEST + u64::from(pid) * 1_000;
        let parent = if pid == 10_000 { 5_000 } else { pid - 1 };
        chain.push(record(at, RecordKind::Fork, pid, parent));
        chain.push(record(at + 500, RecordKind::Exit, pid, 0));
    }
    let records = [honest.0, chain].concat();
    let chunks = [lane(0, &records, 1_000), vec![mappings(&honest.1)]].concat();
    let folded = fold_into(1 << 20, chunks);
    assert_eq!(tasks_left(&folded, 500..600), Vec::from_iter(501..600));
    assert_eq!(mapped_left(&folded, 500..600), Vec::from_iter(501..600));
    // Again, when the beginning of the chain is not known any more.
    let again = fold_into(400 << 10, folded);
    assert_eq!(mapped_left(&again, 500..600), Vec::from_iter(501..600));
    assert_eq!(tasks_left(&again, 10_000..30_000).last(), Some(&29_999));
}

#[test]
fn a_program_that_begins_threads_without_end_keeps_itself_and_the_last_of_them() {
    let honest = programs(500, 501..600, 10);
    let own = record(5, RecordKind::Fork, 5_000, 1);
    let mut threads = vec![own];
    for tid in 10_000..30_000u32 {
        let at = OLDEST + u64::from(tid) * 1_000;
        for (after, kind) in [(0, RecordKind::Fork), (500, RecordKind::Exit)] {
            threads.push(TaskRecord { tgid: 5_000, ..record(at + after, kind, tid, 5_000) });
        }
    }
    let own_map = mappings(&[mapping(5_000, 0x1000, 5)]);
    let records = [honest.0, threads].concat();
    let chunks = [lane(0, &records, 1_000), vec![mappings(&honest.1), own_map]].concat();
    let folded = fold_into(1 << 20, chunks);
    assert_eq!(tasks_left(&folded, 500..600), Vec::from_iter(501..600));
    assert_eq!(mapped_left(&folded, 500..6_000), [Vec::from_iter(501..600), vec![5_000]].concat());
    let threads = tasks_left(&folded, 5_000..30_000);
    assert_eq!((threads[0], threads.last()), (5_000, Some(&29_999)));
}

#[test]
fn a_users_many_processes_take_nothing_from_another_user() {
    let honest = (501..521).flat_map(|pid| (1..200).map(move |page| (pid, page)));
    let many = (10_000..14_000).flat_map(|pid| (1..20).map(move |page| (pid, page)));
    let maps = |all: Vec<(u32, u64)>| {
        let records = all.into_iter().map(|(pid, page)| mapping(pid, page * 4096, page));
        mappings(&records.collect::<Vec<_>>())
    };
    let chunks = vec![maps(honest.collect()), maps(many.collect())];
    let folded = fold_into(2 << 20, chunks);
    let of_honest = mapped(&folded).into_iter().filter(|(pid, _)| *pid < 1_000).count();
    assert_eq!(of_honest, 20 * 199);
}
