use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;
use syscollect_merge::Session;
use syscollect_model::{LaneKind, LossCause, Time};
use syscollect_records::RecordKind;
use syscollect_store::{CaptureReader, CaptureWriter, Definition, LaneLoss, LostRecord};
use syscollect_tests::client::{tag, text};
use syscollect_tests::{FIRST_BOOTTIME, FakeMachine, FakeProgram, FakeThread, golden, ticks};
use syscollect_zone_protocol::{
    FramePhase, GpuEvent, GpuZoneNumber, HostClock, LockAction, MarkerPhase, TextRole, Value,
};

const SCHED: Lane = Lane::new(LaneKind::Sched, 0);

fn bounds(ended: &[u32]) -> FoldBounds {
    FoldBounds { oldest: Ticks(0), room: usize::MAX, ended: ended.iter().copied().collect() }
}

fn fold(chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
    ZoneFold::new(|_| None).fold(chunks, bounds)
}

/// A machine with a program of two threads, 100 and 101, which write to the lanes 0 and 1.
struct Scene {
    machine: FakeMachine,
    program: FakeProgram,
    threads: Vec<FakeThread>,
    outer: u32,
    inner: u32,
    plot: u32,
    lock: u32,
    schema: u32,
    string: u32,
}

impl Scene {
    fn new() -> Self {
        let mut machine = FakeMachine::new(1);
        machine.process(100, 1, "program", &[(100, "program"), (101, "worker")]);
        let mut program = FakeProgram::new(&mut machine, 1, 100);
        let outer = program.location("outer", "f", "a.rs", 1, 0);
        let inner = program.location("inner", "g", "a.rs", 2, 0);
        let (plot, lock) = (program.plot("plot", "B"), program.lock("lock", false, outer));
        let schema = program.schema("Schema", "category", &[]);
        let string = program.string("called");
        let threads = vec![program.thread(0, 100), program.thread(1, 101)];
        Self { machine, program, threads, outer, inner, plot, lock, schema, string }
    }

    fn event(&mut self, us: u64, thread: usize, event: Event) {
        self.threads[thread].event(&mut self.machine, us, event, &[]);
    }

    fn begin(&mut self, us: u64, thread: usize, location: u32, said: &[Vec<u64>]) {
        self.threads[thread].begin(&mut self.machine, us, location, said);
    }

    fn end(&mut self, us: u64, thread: usize) {
        self.threads[thread].end(&mut self.machine, us);
    }

    fn lock(&mut self, us: u64, thread: usize, action: LockAction) {
        let lock = self.lock;
        self.event(us, thread, Event::Lock { lock, action, location: 0 });
    }

    fn plot(&mut self, us: u64, thread: usize, value: f64) {
        self.event(us, thread, Event::Plot { plot: self.plot, value: Value::Float(value) });
    }

    fn capture(mut self) -> WholeCapture {
        self.program.finish(&mut self.machine);
        WholeCapture(CaptureReader::from_bytes(self.machine.finish()).expect("it is a capture"))
    }
}

/// A capture that has all.
struct WholeCapture(CaptureReader);

impl WholeCapture {
    /// Its chunks of zones, as a recorder numbers them, which counts items.
    fn zones(&self) -> Vec<Chunk> {
        let lanes = self.0.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Zone);
        let mut all = Vec::new();
        for lane in lanes {
            let mut before = 0;
            for entry in self.0.chunks(lane) {
                let mut chunk = self.0.read(entry).expect("it is whole");
                chunk.header.records_before = before;
                chunk.header.records = items(&words(&chunk));
                before += u64::from(chunk.header.records);
                all.push(chunk);
            }
        }
        all.sort_by_key(|chunk| (chunk.header.last, chunk.header.lane));
        all
    }

    /// The same capture with these chunks of zones, and where `is_held` without older switches.
    fn with(&self, zones: &[Chunk], from: u64, is_held: bool) -> Session {
        let mut writer = CaptureWriter::create(Vec::new()).expect("memory takes every byte");
        let mut missing = 0;
        for lane in self.0.lanes().into_iter().filter(|lane| lane.kind != LaneKind::Zone) {
            for entry in self.0.chunks(lane) {
                let chunk = self.0.read(entry).expect("it is whole");
                if is_held && lane == SCHED && chunk.header.last.0 < ticks(from) {
                    missing += u64::from(chunk.header.records);
                } else {
                    writer.write(&chunk).expect("memory takes every byte");
                }
            }
        }
        if is_held {
            let record = LostRecord::Kind(RecordKind::Switch);
            let loss = LaneLoss {
                origin: LaneKind::Sched.into(),
                cpu: Some(0),
                record,
                cause: LossCause::Overwritten,
                user: None,
                count: missing,
            };
            writer.define(&Definition::Losses(vec![loss])).expect("memory takes every byte");
        }
        zones.iter().for_each(|chunk| writer.write(chunk).expect("memory takes every byte"));
        let bytes = writer.finish().expect("memory takes every byte");
        Session::open(CaptureReader::from_bytes(bytes).expect("it is a capture"))
            .expect("it has clock readings")
    }

    /// Microseconds at which a chunk of switches begins, that share of them into the recording.
    fn beginning(&self, share: f64) -> u64 {
        let chunks = self.0.chunks(SCHED);
        let chunk = chunks[(chunks.len() as f64 * share) as usize];
        (chunk.first.0 - ticks(0)) / (ticks(1) - ticks(0))
    }

    /// What is told of programs from then on.
    fn told(&self, zones: &[Chunk], from: u64, is_held: bool) -> Vec<String> {
        let mut session = self.with(zones, from, is_held);
        let from = Some(Time(FIRST_BOOTTIME + from * 1_000));
        let (lines, _) = golden::text_of_range(&mut session, from, None);
        let others = ["switch", "lost", "session:", "recorder:", "is program", "is worker"];
        let is_of_program = |line: &&str| !others.iter().any(|other| line.contains(other));
        let mut lines: Vec<String> =
            lines.lines().filter(is_of_program).map(without_number).collect();
        // Rows of one time have no order that counts.
        lines.sort();
        lines
    }
}

/// Frames and locks are counted from where those begin that are there.
fn without_number(line: &str) -> String {
    let words: Vec<&str> =
        line.split(' ').map(|word| word.split_once('#').map_or(word, |(of, _)| of)).collect();
    let is_frame = |place: usize| place > 0 && words[place - 1] == "Frame";
    let words = words.iter().enumerate().filter(|(place, _)| !is_frame(*place));
    words.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

fn words(chunk: &Chunk) -> Vec<u64> {
    let (words, _) = chunk.data[ZoneChunk::SIZE..].as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// What folding leaves of chunks, item by item.
fn left(chunks: &[Chunk]) -> Vec<Event> {
    let mut events = Vec::new();
    for chunk in chunks {
        let words = words(chunk);
        let mut rest = &words[..];
        while let Some((item, _, after)) = next_group(rest) {
            if let Some(Item::Stamped { event, .. }) = Item::decode(item) {
                events.push(event);
            }
            rest = after;
        }
    }
    events
}

#[test]
fn of_zones_those_stay_that_did_not_end_and_what_was_said_of_them() {
    let mut scene = Scene::new();
    let (outer, inner, string) = (scene.outer, scene.inner, scene.string);
    let named = [text(TextRole::ZoneName, 0, "request 17"), tag(TextRole::ZoneText, string, 4)];
    scene.begin(10, 0, outer, &named);
    scene.begin(11, 0, inner, &[]);
    scene.end(12, 0);
    scene.threads[0].words(&mut scene.machine, 12, &text(TextRole::ZoneText, 0, "and more"));
    scene.begin(13, 1, inner, &[]);
    scene.end(14, 1);
    scene.machine.switch(0, 30, 0, 100);
    let capture = scene.capture();
    let folded = fold(capture.zones(), &bounds(&[]));
    assert_eq!(left(&folded), [Event::ZoneBegin { location: outer, depth: 0 }]);
    let expected = capture.told(&capture.zones(), 20, false);
    assert_eq!(expected.len(), 3, "a beginning and an end that is none: {expected:?}");
    assert!(expected.iter().any(|line| line.contains("request 17")
        && line.contains("and more")
        && line.contains("began_before=10000ns")));
}

#[test]
fn plots_frames_and_locks_stay_as_they_were_last() {
    let mut scene = Scene::new();
    let frame = |phase| Event::Frame { set: 0, phase };
    scene.plot(10, 0, 1.0);
    scene.plot(11, 1, 2.0);
    scene.event(12, 0, frame(FramePhase::Mark));
    scene.event(13, 0, frame(FramePhase::Mark));
    scene.lock(14, 0, LockAction::Obtain);
    scene.lock(15, 1, LockAction::Wait);
    scene.lock(16, 0, LockAction::Release);
    scene.lock(17, 1, LockAction::Obtain);
    let (plot, lock) = (scene.plot, scene.lock);
    let folded = fold(scene.capture().zones(), &bounds(&[]));
    let expected = [
        frame(FramePhase::Mark),
        Event::Plot { plot, value: Value::Float(2.0) },
        Event::Lock { lock, action: LockAction::Obtain, location: 0 },
    ];
    assert_eq!(left(&folded), expected);
}

#[test]
fn of_gpus_the_last_reading_of_each_clock_stays() {
    let mut scene = Scene::new();
    let contexts = [(); 2].map(|()| scene.program.gpu_context("queue", 1_000_000, 64));
    let reading = |context: u32, gpu: u64| {
        let clock = HostClock::Ticks;
        Event::Gpu(GpuEvent::Calibration { context, clock, deviation: 1, host: ticks(gpu), gpu })
    };
    let zone = GpuZoneNumber { context: contexts[0], number: 1 };
    let location = scene.outer;
    scene.event(10, 0, reading(contexts[0], 10));
    scene.event(11, 1, reading(contexts[1], 11));
    scene.event(12, 0, Event::Gpu(GpuEvent::ZoneBegin { zone, location }));
    scene.event(13, 0, Event::Gpu(GpuEvent::ZoneEnd { zone }));
    scene.event(14, 1, reading(contexts[0], 14));
    scene.event(15, 1, Event::Gpu(GpuEvent::Times { zone, began: 12, ended: 13 }));
    let folded = fold(scene.capture().zones(), &bounds(&[]));
    assert_eq!(left(&folded), [reading(contexts[1], 11), reading(contexts[0], 14)]);
    assert_eq!(left(&fold(folded.clone(), &bounds(&[]))), left(&folded), "folded again");
}

#[test]
fn an_async_zone_that_ends_in_a_lane_that_is_read_first_is_not_open() {
    let mut scene = Scene::new();
    let location = scene.outer;
    for zone in 1..4 {
        scene.event(zone, 0, Event::AsyncBegin { location, zone, task: 0 });
    }
    scene.event(10, 1, Event::AsyncEnd { zone: 2 });
    let mut chunks = scene.capture().zones();
    chunks.reverse();
    // The end is all that was read when the first fold was due.
    let (begins, ends) = (chunks.split_off(1), chunks);
    assert_eq!(left(&ends), [Event::AsyncEnd { zone: 2 }]);
    let early = fold(ends, &bounds(&[]));
    let folded = fold([early, begins].concat(), &bounds(&[]));
    let open = |zone| Event::AsyncBegin { location, zone, task: 0 };
    assert_eq!(left(&folded), [open(1), open(3)]);
}

#[test]
fn what_ended_has_nothing_open() {
    let mut scene = Scene::new();
    scene.begin(10, 0, scene.outer, &[]);
    scene.begin(10, 1, scene.inner, &[]);
    scene.plot(11, 0, 1.0);
    scene.lock(12, 1, LockAction::Obtain);
    scene.event(13, 1, Event::ThreadEnd);
    let (plot, location) = (scene.plot, scene.outer);
    let zones = scene.capture().zones();
    let expected =
        [Event::ZoneBegin { location, depth: 0 }, Event::Plot { plot, value: Value::Float(1.0) }];
    assert_eq!(left(&fold(zones.clone(), &bounds(&[2]))), expected, "a thread did");
    assert_eq!(left(&fold(zones, &bounds(&[1]))), [], "the program did");
}

#[test]
fn a_lane_that_went_to_another_thread_has_what_that_one_has_open() {
    let mut scene = Scene::new();
    scene.begin(10, 0, scene.outer, &[]);
    scene.plot(11, 0, 1.0);
    scene.threads[0] = FakeThread {
        chunk: ZoneChunk { client: 1, tid: 102, owner: 2, reserved: 0 },
        depth: 0,
        lane: 0,
    };
    scene.begin(12, 0, scene.inner, &[]);
    let (plot, location) = (scene.plot, scene.inner);
    let folded = fold(scene.capture().zones(), &bounds(&[]));
    let threads: Vec<u32> = folded.iter().map(|chunk| chunk.header.current_tid).collect();
    assert_eq!(threads, [100, 102], "the plot was the first one's");
    let expected =
        [Event::Plot { plot, value: Value::Float(1.0) }, Event::ZoneBegin { location, depth: 0 }];
    assert_eq!(left(&folded), expected);
    let [first, second] = [0, 1].map(|place| folded[place].header);
    assert_eq!(first.sequence + 1, second.sequence);
    assert_eq!(super::super::end_of(&first), second.records_before, "nothing is between them");
}

#[test]
fn a_program_with_much_leaves_room_for_others() {
    let mut machine = FakeMachine::new(1);
    let mut chunks = Vec::new();
    let mut all = Vec::new();
    for client in 1..4_u32 {
        machine.process(client * 100, 1, "program", &[]);
        let program = FakeProgram::new(&mut machine, client, client * 100);
        let thread = program.thread(client as u16, client * 100);
        for zone in 0..if client == 1 { 1_000 } else { 10 } {
            let begin = Event::AsyncBegin { location: 1, zone, task: 0 };
            thread.event(&mut machine, 10 + zone, begin, &[]);
        }
        all.push(program);
    }
    let capture = WholeCapture(CaptureReader::from_bytes(machine.finish()).expect("a capture"));
    chunks.extend(capture.zones());
    let bounds = FoldBounds { room: 200 * 32, ..bounds(&[]) };
    // The second program is of the first one's user.
    let folded = ZoneFold::new(|tid| Some(tid / 300)).fold(chunks, &bounds);
    let mut of = [0; 4];
    for chunk in &folded {
        let client = ZoneChunk::from_bytes(&chunk.data).expect("it begins so").client;
        of[client as usize] += chunk.header.records;
    }
    assert_eq!(of, [0, 180, 10, 10], "the least have all, and the room is used");
    let newest = folded.iter().map(|chunk| chunk.header.last).max();
    assert_eq!(newest, Some(Ticks(ticks(1_009))), "the oldest went");
}

#[test]
fn words_that_are_no_items_leave_what_is_before_them() {
    let mut scene = Scene::new();
    let location = scene.outer;
    scene.begin(10, 0, location, &[]);
    scene.threads[0].words(&mut scene.machine, 11, &[0x7f, u64::MAX, 1]);
    let mut zones = scene.capture().zones();
    assert_eq!(left(&fold(zones.clone(), &bounds(&[]))), [Event::ZoneBegin { location, depth: 0 }]);
    zones[0].data.truncate(7);
    assert_eq!(fold(zones, &bounds(&[])).len(), 0, "nobody's");
}

/// Words of likely items and of any others; of stamps such whose order can be told.
fn any_words() -> impl Strategy<Value = Vec<u64>> {
    let any_ticks = || 0u64..1 << 50;
    let first = (0u64..0x1a, any_ticks()).prop_map(|(kind, ticks)| kind | ticks << 8);
    let end = (0xc0u64..0x100, any_ticks()).prop_map(|(end, ticks)| end | ticks << 8);
    prop::collection::vec(prop_oneof![first, end, 0u64..6, 0u64..1 << 58], 0..200)
}

proptest! {
    /// Whatever a program writes, what is left of it is whole items, in as many records as there
    /// are, and leaves itself.
    #[test]
    fn what_is_left_of_any_words_leaves_itself(
        parts in prop::collection::vec((0u16..2, any::<bool>(), any_words()), 1..6),
    ) {
        let mut chunks = Vec::new();
        let (mut ends, mut owner) = ([(0, 0); 2], 0);
        for (lane, is_another, words) in parts {
            owner += u32::from(is_another);
            let prefix = ZoneChunk { client: owner % 2, tid: 100 + owner, owner, reserved: 0 };
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            let data: Vec<u8> = prefix.as_bytes().iter().copied().chain(bytes).collect();
            let (sequence, records_before) = ends[usize::from(lane)];
            let header = ChunkHeader {
                lane: Lane::new(LaneKind::Zone, lane),
                sequence,
                first: Ticks(1 << 40),
                last: Ticks(1 << 40),
                current_tid: prefix.tid,
                stride: 0,
                records_before,
                records: items(&words),
                length: data.len() as u32,
            };
            ends[usize::from(lane)] = (sequence + 1, super::super::end_of(&header));
            chunks.push(Chunk { header, data });
        }
        let once = fold(chunks, &bounds(&[]));
        for chunk in &once {
            prop_assert_eq!(chunk.header.records, items(&words(chunk)));
            prop_assert_eq!(chunk.data.len(), chunk.header.length as usize);
            let end = ends[usize::from(chunk.header.lane.index)].1;
            prop_assert!(super::super::end_of(&chunk.header) <= end);
        }
        let again = fold(once.clone(), &bounds(&[]));
        let content = |chunks: &[Chunk]| {
            chunks.iter().map(|chunk| (chunk.header, chunk.data.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(content(&once), content(&again));
    }
}

/// One thing that a thread does.
#[derive(Clone, Debug)]
struct Act {
    thread: usize,
    step: u64,
    what: u8,
    number: u64,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = (0usize..2, 0u64..3, 0u8..20, 0u64..4);
    prop::collection::vec(
        act.prop_map(|(thread, step, what, number)| Act { thread, step, what, number }),
        1..120,
    )
}

fn perform(scene: &mut Scene, acts: &[Act]) {
    let mut us = 5;
    let (mut async_zones, mut obtained) = (BTreeSet::new(), [false; 2]);
    let mut next_async = 1;
    for Act { thread, step, what, number } in acts {
        // Of two threads at one time nobody can say who was first.
        us += 1 + step;
        let (thread, number) = (*thread, *number);
        let (outer, inner, string, schema) = (scene.outer, scene.inner, scene.string, scene.schema);
        match what {
            0..=4 => {
                let said = match number {
                    0 => vec![text(TextRole::ZoneText, 0, "a text longer than one item has")],
                    1 => vec![tag(TextRole::ZoneName, string, 7)],
                    _ => Vec::new(),
                };
                scene.begin(us, thread, if number % 2 == 0 { outer } else { inner }, &said);
            }
            5..=8 if scene.threads[thread].depth > 0 => scene.end(us, thread),
            9 => {
                let more = text(TextRole::ZoneText, 0, "more");
                scene.threads[thread].words(&mut scene.machine, us, &more);
            }
            10 => scene.plot(us, thread, number as f64),
            11 => {
                let phase = [FramePhase::Mark, FramePhase::Begin, FramePhase::End];
                let (set, phase) =
                    (if number == 3 { string } else { 0 }, phase[number as usize % 3]);
                scene.event(us, thread, Event::Frame { set, phase });
            }
            12 | 13 => {
                use LockAction::{GiveUp, Obtain, Release, Wait};
                let action = [Wait, Obtain, Release, GiveUp][number as usize];
                if action != Release || obtained[thread] {
                    scene.lock(us, thread, action);
                    obtained[thread] = action == Obtain;
                }
            }
            14 | 15 => {
                async_zones.insert(next_async);
                let zone = next_async;
                scene.event(us, thread, Event::AsyncBegin { location: inner, zone, task: 0 });
                next_async += 1;
            }
            16 => {
                let zone = async_zones.iter().nth(number as usize).copied();
                if let Some(zone) = zone {
                    async_zones.remove(&zone);
                    scene.event(us, thread, Event::AsyncEnd { zone });
                }
            }
            17 => {
                let phase = if number < 2 { MarkerPhase::Begin } else { MarkerPhase::End };
                scene.event(us, thread, Event::Marker { schema, phase });
            }
            18 => {
                let name = ["", "one", "another", "a name that takes more than one item"];
                scene.threads[thread].attached(&mut scene.machine, us, name[number as usize]);
            }
            _ => {}
        }
        scene.machine.switch(0, us, 0, 100 + thread as u32);
    }
}

proptest! {
    /// What is told from some time on is the same, whether all that was before is there, or only
    /// what folding leaves of it: at once, or folded again and again.
    #[test]
    fn what_is_left_tells_the_same_as_all_would(
        acts in acts(), chunk_bytes in 40usize..400, at in 0.0f64..1.0, pieces in 1usize..6,
    ) {
        let mut scene = Scene::new();
        scene.machine.chunk_bytes(chunk_bytes);
        perform(&mut scene, &acts);
        let capture = scene.capture();
        let zones = capture.zones();
        let from = capture.beginning(at);
        // A lane's chunks give way in their order.
        let (older, held): (Vec<Chunk>, Vec<Chunk>) =
            zones.iter().cloned().partition(|chunk| chunk.header.last.0 < ticks(from));
        let mut folded = Vec::new();
        for piece in older.chunks(older.len().div_ceil(pieces).max(1)) {
            folded = fold([folded, piece.to_vec()].concat(), &bounds(&[]));
        }
        let at_once = fold(older.clone(), &bounds(&[]));
        let data = |chunks: &[Chunk]| {
            chunks.iter().map(|chunk| (chunk.header.lane, words(chunk))).collect::<Vec<_>>()
        };
        prop_assert_eq!(data(&folded), data(&at_once));
        for lane in [0, 1].map(|lane| Lane::new(LaneKind::Zone, lane)) {
            let of = |chunks: &[Chunk]| {
                chunks.iter().rev().find(|chunk| chunk.header.lane == lane).map(|last| last.header)
            };
            if let (Some(folded), Some(older)) = (of(&folded), of(&older)) {
                prop_assert_eq!(super::super::end_of(&folded), super::super::end_of(&older));
                prop_assert_eq!(folded.sequence, older.sequence);
            }
        }
        let expected = capture.told(&zones, from, false);
        let told = capture.told(&[folded, held].concat(), from, true);
        let lacks = |here: &[String], there: &[String]| {
            here.iter().filter(|line| !there.contains(line)).cloned().collect::<Vec<_>>()
        };
        let differ = [lacks(&expected, &told), lacks(&told, &expected)];
        prop_assert!(told == expected, "only in the whole, only in the rest: {differ:#?}");
    }
}
