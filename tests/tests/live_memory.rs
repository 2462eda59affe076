//! A recording that goes on while programs come and go without end: what is kept has a bound, and
//! who lives is known.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use syscollect_merge::{HeldRows, play_live};
use syscollect_model::{Event, Exporter, LaneKind, Tables, Ticks, Time};
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::{CaptureReader, Chunk};
use syscollect_tests::{FakeMachine, perf, ticks};

/// Programs that come and go, and how many at a time. Without optimisation a tenth has to do.
const LIVES: u32 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
const IN_A_PIECE: u32 = 2_000;
/// Pids that they share.
const PIDS: u32 = 30_000;
/// How long a piece takes: some hundred programs a second, as a build starts them.
const PIECE_SECONDS: u64 = 5;
/// The one that lives all the time.
const SERVER: u32 = 100_000;
/// A thread of it that is renamed.
const WORKER: u32 = 100_001;

/// Names as events have them, by thread id and name.
#[derive(Default)]
struct RunningNames {
    seen: BTreeMap<(u32, String), u64>,
}

impl Exporter for RunningNames {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::Switch(switch) = event {
            let row = tables.thread(switch.next);
            let name = tables.strings.get(row.name);
            let known = match row.tid {
                0 | SERVER | WORKER => name.to_owned(),
                tid => {
                    // Each is named by its id and which one of that id it is.
                    let (id, _) = name.split_once('-').unwrap_or((name, ""));
                    assert_eq!(id, tid.to_string(), "a name of another");
                    String::new()
                }
            };
            *self.seen.entry((row.tid.min(SERVER), known)).or_default() += 1;
        }
        Ok(())
    }
}

/// The piece of that number: the chunks of a time in which programs come and go.
fn piece(number: u32) -> Vec<Chunk> {
    let mut machine = FakeMachine::new(1);
    let begin = u64::from(number) * PIECE_SECONDS * 1_000_000 + 1_000;
    let step = PIECE_SECONDS * 1_000_000 / u64::from(IN_A_PIECE + 1);
    if number == 0 {
        machine.process(SERVER, 1, "server", &[(SERVER, "server"), (WORKER, "worker")]);
    }
    machine.running(0, 0);
    for index in 0..IN_A_PIECE {
        let life = number * IN_A_PIECE + index;
        let (pid, at) = (1_000 + life % PIDS, begin + u64::from(index) * step);
        // Thirty digits and a dash are as much as a name may have.
        let name = format!("{pid}-{}", life / PIDS);
        machine.fork(0, at, SERVER, (pid, pid), &name);
        machine.mapping_record(0, at + 1, &perf::exec(pid, &name, at + 1));
        for page in 0..4 {
            let path = format!("/bin/{}", life % 50);
            machine.mapping_record(0, at + 2, &perf::mmap2(pid, page << 20, &path, at + 2));
        }
        let exec = TaskRecord { tid: pid, tgid: pid, parent_tid: pid, ..TaskRecord::default() };
        machine.task(0, at + 3, RecordKind::Exec, &name, exec);
        for (later, next) in [(4, pid), (5, SERVER), (6, WORKER), (7, 0)] {
            machine.switch(0, at + later, 1, next);
        }
        machine.exit(0, at + 8, (pid, pid), &name);
        if index == 0 {
            let worker = TaskRecord { tid: WORKER, tgid: SERVER, ..TaskRecord::default() };
            machine.task(0, at + 9, RecordKind::Rename, format!("worker {number}"), worker);
        }
    }
    machine.clock(begin + PIECE_SECONDS * 1_000_000 - 2_000);
    let reader = CaptureReader::from_bytes(machine.finish()).unwrap();
    let is_wanted = |kind| kind != LaneKind::Definition || number == 0;
    let lanes = reader.lanes().into_iter().filter(|lane| is_wanted(lane.kind));
    lanes.flat_map(|lane| reader.chunks(lane)).map(|entry| reader.read(entry).unwrap()).collect()
}

#[test]
fn a_million_programs_that_ended_take_no_memory_and_those_that_live_keep_their_names() {
    let mut names = RunningNames::default();
    let mut held = Vec::<HeldRows>::new();
    let pieces = LIVES / IN_A_PIECE;
    let played = play_live(&mut names, |live| {
        for number in 0..pieces {
            piece(number).into_iter().try_for_each(|chunk| live.feed(chunk))?;
            let end = u64::from(number + 1) * PIECE_SECONDS * 1_000_000;
            live.advance(Ticks(ticks(end)))?;
            held.push(live.held());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(played.lost, 0);
    // What ended in the last seconds is kept, and of the others nothing.
    let most = 8 * IN_A_PIECE as usize;
    let HeldRows { threads, processes, objects, texts, lives, memory, .. } = *held.last().unwrap();
    assert!(threads < most && processes < most && objects < 10, "{:?}", held.last());
    assert!(lives < 10 * most && memory < 8 * most, "{:?}", held.last());
    assert!(texts < 100_000 + most, "{texts}");
    let largest = |of: &[HeldRows]| of.iter().map(|held| held.lives + held.memory).max().unwrap();
    let (early, late) = held.split_at(held.len() / 2);
    assert!(largest(late) <= largest(early) * 11 / 10, "{:?} {:?}", held[10], held.last());
    let server = names.seen[&(SERVER, "server".to_owned())];
    assert_eq!(server, u64::from(LIVES), "each time by its name");
    let worker: Vec<_> =
        names.seen.iter().filter(|((_, name), _)| name.starts_with("work")).collect();
    assert_eq!(worker.len(), pieces as usize + 1, "its name of then");
    assert_eq!(worker.iter().map(|(_, count)| **count).sum::<u64>(), u64::from(LIVES));
    let others = names.seen.iter().filter(|((tid, _), _)| (1_000..1_000 + PIDS).contains(tid));
    assert_eq!(others.map(|(_, count)| *count).sum::<u64>(), u64::from(LIVES));
}

/// A child that runs its parent's program is called what it is, and a thread whose id was another's
/// is not taken for that, however long ago that was.
#[test]
fn ids_that_are_given_again_mean_others() {
    #[derive(Default)]
    struct Names(Vec<String>);
    impl Exporter for Names {
        type Error = Infallible;

        fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
            if let Event::Switch(switch) = event
                && switch.next != Tables::IDLE_THREAD
            {
                let row = tables.thread(switch.next);
                let process = tables.process(row.process);
                let names = [process.name, row.name].map(|name| tables.strings.get(name));
                self.0.push(format!("{} {}/{}", process.pid, names[0], names[1]));
            }
            Ok(())
        }
    }
    let second = 1_000_000;
    let mut machine = FakeMachine::new(1);
    machine.process(7, 1, "old", &[(7, "old"), (8, "thread")]);
    machine.running(0, 0);
    machine.switch(0, second, 1, 8);
    machine.switch(0, 2 * second, 1, 0);
    machine.exit(0, 3 * second, (8, 7), "thread");
    machine.exit(0, 3 * second + 1, (7, 7), "old");
    // The thread's id comes again as a process's at once, and the process's as a thread's late.
    machine.fork(0, 4 * second, 1, (8, 8), "new");
    machine.switch(0, 5 * second, 1, 8);
    machine.switch(0, 6 * second, 1, 0);
    for step in 7..60 {
        machine.clock(step * second);
    }
    machine.fork(0, 60 * second, 8, (7, 8), "helper");
    machine.switch(0, 61 * second, 1, 7);
    machine.switch(0, 62 * second, 1, 8);
    machine.switch(0, 63 * second, 1, 0);
    machine.exit(0, 64 * second, (7, 8), "helper");
    // Nothing tells of this one's beginning.
    machine.switch(0, 100 * second, 1, 7);
    machine.switch(0, 101 * second, 1, 0);
    machine.clock(102 * second);
    let reader = CaptureReader::from_bytes(machine.finish()).unwrap();
    let lanes = reader.lanes();
    let chunks = lanes.into_iter().flat_map(|lane| reader.chunks(lane));
    let chunks: Vec<Chunk> = chunks.map(|entry| reader.read(entry).unwrap()).collect();
    let mut names = Names::default();
    play_live(&mut names, |live| {
        chunks.into_iter().try_for_each(|chunk| live.feed(chunk))?;
        for step in 1..=102 {
            live.advance(Ticks(ticks(step * second)))?;
        }
        assert!(live.held().threads < 6, "{:?}", live.held());
        Ok(())
    })
    .unwrap();
    let expected = ["7 old/thread", "8 new/new", "8 new/helper", "8 new/new", "7 <7>/<7>"];
    assert_eq!(names.0, expected);
}
