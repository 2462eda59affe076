//! Damaged captures: what is left is right, what is missing is counted.
#![allow(clippy::unwrap_used, reason = "the helpers of the tests may panic as the tests do")]

use std::collections::BTreeSet;
use syscollect_exporters::{ExportError, TextExporter};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, SymbolTable, Tables, Time, Unit};
use syscollect_playback::{Played, Recording};
use syscollect_records::{RecordKind, SchedRecord, TaskRecord, task_state};
use syscollect_store::{CaptureReader, CounterDefinition};
use syscollect_tests::{FIRST_BOOTTIME, FakeMachine, Stacks};

/// Lines whose times count from the start of the recording, whatever comes first.
struct Anchored(TextExporter<Vec<u8>>);

impl Exporter for Anchored {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        self.0.begin(tables)?;
        self.0.event(Time(FIRST_BOOTTIME), &Event::ThreadStart(Tables::IDLE_THREAD), tables)
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        match event {
            Event::Loss(_) => Ok(()),
            event => self.0.event(time, event, tables),
        }
    }

    fn end(
        &mut self,
        _: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.0.end(&[], recorder, tables)
    }
}

fn play(capture: Vec<u8>) -> Option<(BTreeSet<String>, Played)> {
    let mut session = Session::open(CaptureReader::from_bytes(capture).ok()?).ok()?;
    let mut exporter = Anchored(TextExporter::new(Vec::new()));
    let played = session.play(&mut exporter).unwrap();
    let lines = String::from_utf8(exporter.0.finish().unwrap()).unwrap();
    Some((lines.lines().map(str::to_owned).collect(), played))
}

/// A machine in which everything happens, in chunks of a few records.
fn busy_machine() -> Vec<u8> {
    let mut machine = FakeMachine::new(2);
    machine.chunk_bytes(100);
    machine.process(100, 1, "ping", &[]);
    machine.mapping(100, 0x40_0000, 0x41_0000, 0, "/bin/ping");
    machine.symbols(SymbolTable { path: "/bin/ping".into(), ..SymbolTable::default() });
    let usage = CounterDefinition {
        counter: 1,
        name: "usage".into(),
        unit: Unit::Percent,
        ..Default::default()
    };
    machine.counters(&[usage]);
    for round in 0..3u32 {
        let (us, pid) = (u64::from(round) * 100 + 10, 200 + round);
        machine.fork(0, us, 100, (pid, pid), "child");
        machine.sched(
            1,
            us + 1,
            RecordKind::WakeupNew,
            SchedRecord { tid: pid, ..Default::default() },
            Stacks::default(),
        );
        machine.switch(0, us + 2, task_state::RUNNABLE, pid);
        let user = machine.sched_stack(0, us + 3, 100, &[0x40_0010 + u64::from(round), 0x40_0100]);
        let kernel = machine.sched_stack(0, us + 3, 0, &[0xffff_ffff_8100_0000 + u64::from(round)]);
        let blocks =
            SchedRecord { tid: 100, state: task_state::INTERRUPTIBLE, ..Default::default() };
        machine.switch_with(0, us + 4, blocks, Stacks { user, kernel });
        machine.wake(0, us + 5, pid, 1, Stacks { user, kernel: 0 });
        machine.task(
            0,
            us + 6,
            RecordKind::Exec,
            "tool",
            TaskRecord { tid: pid, tgid: pid, ..Default::default() },
        );
        let sampled = machine.sample_stack(1, us + 7, 100, &[0x40_0020]);
        machine.sample(1, us + 8, pid, Stacks { user: sampled, kernel: 0 }, 0);
        machine.count(us + 9, 1, f64::from(round));
        machine.exit(0, us + 10, (pid, pid), "tool");
        machine.switch(0, us + 11, task_state::DEAD, 0);
    }
    machine.finish()
}

#[test]
fn one_flipped_byte_anywhere_makes_no_event_wrong_and_none_vanish_uncounted() {
    let capture = busy_machine();
    let (lines, whole) = play(capture.clone()).unwrap();
    assert_eq!(whole.lost, 0);
    let mut damaged_somewhere = 0;
    for at in 0..capture.len() {
        let mut damaged = capture.clone();
        damaged[at] ^= 1 << (at % 8);
        let (left, played) =
            play(damaged).unwrap_or_else(|| panic!("byte {at}: one byte never closes a capture"));
        let wrong: Vec<_> = left.difference(&lines).collect();
        assert!(wrong.is_empty(), "byte {at}: {wrong:#?}");
        assert_eq!(played.events + played.lost, whole.events, "byte {at}");
        damaged_somewhere += u64::from(played.lost > 0);
    }
    assert!(damaged_somewhere > 100, "most bytes belong to chunks of events: {damaged_somewhere}");
}

mod random {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static CAPTURE: LazyLock<Vec<u8>> = LazyLock::new(busy_machine);

    proptest! {
        #[test]
        fn whatever_happened_to_the_file_playing_it_ends_well(
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
            cut in any::<prop::sample::Index>(),
            moved in any::<prop::sample::Index>(),
        ) {
            let mut capture = CAPTURE.clone();
            for (at, byte) in flips {
                let at = at.index(capture.len());
                capture[at] = byte;
            }
            let middle = moved.index(capture.len());
            capture.drain(middle..(middle + 200).min(capture.len()));
            capture.truncate(cut.index(capture.len() * 2 + 1));
            play(capture);
        }

        #[test]
        fn records_of_any_content_are_played_or_counted(
            words in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<u64>(), 0u16..3, 0u64..50),
                0..200,
            ),
        ) {
            let mut machine = FakeMachine::new(3);
            let mut last = [0; 3];
            for (a, b, c, cpu, step) in &words {
                let us = last[usize::from(*cpu)] + step;
                last[usize::from(*cpu)] = us;
                machine.raw(*cpu, us, [*a, *b, *c]);
            }
            let (_, played) = play(machine.finish()).unwrap();
            prop_assert!(played.records + played.lost >= words.len() as u64);
        }
    }
}
