//! Programs whose rings are read late: when it was told already what others did later.

use crate::connection::{connect, end, exchange};
use crate::expected::Both;
use syscollect_exporters::TracyLive;
use syscollect_merge::play_live;
use syscollect_model::{LaneKind, Ticks};
use syscollect_store::{CaptureReader, Chunk};
use syscollect_tests::tracy_viewer::StrictViewer;
use syscollect_tests::{FakeMachine, FakeProgram, ticks};
use syscollect_zone_protocol::{Event, LockAction, Value};

/// A machine with a program whose two threads take turns on the CPU.
struct Late {
    machine: FakeMachine,
    program: FakeProgram,
}

/// When the machine was told of up to, before the late threads came.
const TOLD: u64 = 50_000;

impl Late {
    fn new() -> Self {
        let mut machine = FakeMachine::new(1);
        machine.process(100, 1, "game", &[(100, "game"), (101, "worker")]);
        let program = FakeProgram::new(&mut machine, 1, 100);
        for us in (0..=100_000).step_by(1_000) {
            machine.clock(us);
            machine.switch(0, us + 1, 0, 100 + (us / 1_000 % 2) as u32);
        }
        Self { machine, program }
    }

    /// What a viewer sees where some chunks came when it was told already of what happened later.
    fn seen(mut self, is_late: impl Fn(&Chunk) -> bool) -> StrictViewer {
        self.program.finish(&mut self.machine);
        let reader = CaptureReader::from_bytes(self.machine.finish()).expect("it is a capture");
        let lanes = reader.lanes().into_iter();
        let entries: Vec<_> = lanes.flat_map(|lane| reader.chunks(lane)).collect();
        let chunks = entries.into_iter().map(|entry| reader.read(entry).expect("it is whole"));
        let (late, others): (Vec<Chunk>, Vec<Chunk>) = chunks.partition(is_late);
        assert!(!late.is_empty());
        let mut viewer = None;
        let mut both = Both::new(|_: u64, live: &mut TracyLive| {
            let viewer = viewer.get_or_insert_with(|| connect(live));
            exchange(live, viewer, 10_000);
        });
        let played = play_live(&mut both, |live| {
            others.into_iter().try_for_each(|chunk| live.feed(chunk))?;
            live.advance(Ticks(ticks(TOLD)))?;
            late.into_iter().try_for_each(|chunk| live.feed(chunk))?;
            live.advance(Ticks(ticks(100_000)))
        });
        played.expect("it takes all");
        let Both { mut live, .. } = both;
        let mut viewer = viewer.expect("there were events");
        end(&mut live, &mut viewer);
        viewer
    }
}

fn is_of_program(chunk: &Chunk) -> bool {
    chunk.header.lane.kind == LaneKind::Zone
}

/// Microseconds since the first switch.
fn since_first(viewer: &StrictViewer, time: i64) -> u64 {
    let first = viewer.seen().switches.first().expect("there are switches");
    (time - first.time) as u64 / 1_000 + 1
}

#[test]
fn what_comes_behind_what_was_told_has_its_own_times() {
    let mut late = Late::new();
    let (program, machine) = (&mut late.program, &mut late.machine);
    let [work, part] = ["work", "part"].map(|name| program.location(name, "", "", 0, 0));
    let (text, depth) = (program.string("a word"), program.plot("depth", ""));
    let mut thread = program.thread(0, 100);
    for us in (1_000..40_000).step_by(1_000) {
        thread.begin(machine, us, work, &[]);
        thread.begin(machine, us + 100, part, &[]);
        thread.event(machine, us + 200, Event::Message { string: text, color: 0 }, &[]);
        let value = Event::Plot { plot: depth, value: Value::Float(us as f64) };
        thread.event(machine, us + 300, value, &[]);
        thread.end(machine, us + 400);
        thread.end(machine, us + 500);
    }
    let viewer = late.seen(is_of_program);
    let seen = viewer.seen();
    let zones = seen.zones.iter().map(|zone| {
        let [start, end] = [zone.start, zone.end.expect("it ended")];
        (seen.zone_name(zone), since_first(&viewer, start), (end - start) / 1_000)
    });
    let expected = (1..40).flat_map(|ms| {
        let us = ms * 1_000;
        [("work", us, 500), ("part", us + 100, 300)]
    });
    assert_eq!(zones.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let words = seen.messages.iter().filter(|message| message.text.contains("a word"));
    let words: Vec<_> = words.map(|message| since_first(&viewer, message.time)).collect();
    assert_eq!(words, (1..40).map(|ms| ms * 1_000 + 200).collect::<Vec<_>>());
    let plots = seen.plots.iter().map(|(time, _, value)| (since_first(&viewer, *time), *value));
    let values = (1..40).map(|ms| (ms * 1_000 + 300, (ms * 1_000) as f64));
    assert_eq!(plots.collect::<Vec<_>>(), values.collect::<Vec<_>>());
    let moved = seen.messages.iter().filter(|message| message.text.contains("shown later"));
    assert_eq!(moved.count(), 0);
}

#[test]
fn what_is_later_than_its_lock_or_its_frames_is_told_with_them_and_said() {
    let mut late = Late::new();
    let (program, machine) = (&mut late.program, &mut late.machine);
    let made = program.location("registry", "", "", 0, 0);
    let lock = program.lock("registry", false, made);
    let (mut in_time, mut behind) = (program.thread(0, 100), program.thread(1, 101));
    let steps = [LockAction::Wait, LockAction::Obtain, LockAction::Release];
    for (thread, us) in [(&mut behind, 1_000), (&mut in_time, 20_000)] {
        for (action, us) in steps.into_iter().zip(us..) {
            thread.event(machine, us, Event::Lock { lock, action, location: 0 }, &[]);
        }
        thread.begin(machine, us + 100, made, &[]);
        thread.end(machine, us + 300);
    }
    let viewer = late.seen(|chunk| is_of_program(chunk) && chunk.header.lane.index == 1);
    let seen = viewer.seen();
    let zones = seen.zones.iter().map(|zone| {
        (zone.thread, since_first(&viewer, zone.start), since_first(&viewer, zone.end.unwrap()))
    });
    assert_eq!(zones.collect::<Vec<_>>(), [(100, 20_100, 20_300), (101, 1_100, 1_300)]);
    let steps = seen.locks.iter().map(|step| (step.thread, since_first(&viewer, step.time)));
    let of_both = [(100, 20_000), (100, 20_001), (100, 20_002)];
    let behind = [(101, 20_002); 3];
    assert_eq!(steps.collect::<Vec<_>>(), of_both.into_iter().chain(behind).collect::<Vec<_>>());
    let said = seen.messages.iter().filter(|message| message.text.contains("shown later"));
    let counts = said.map(|message| message.text.split(' ').next()?.parse::<u32>().ok());
    assert_eq!(counts.sum::<Option<u32>>(), Some(3));
}
