//! Recordings that go on, chunk by chunk, and what triggers see of them.

mod hits;
mod left_out;
mod whose;

use proptest::prelude::*;
use std::collections::BTreeMap;
use syscollect_model::{Lane, LaneKind, SessionInfo, Ticks};
use syscollect_records::{
    ClockRecord, ProbeRecord, RecordKind, SchedRecord, Stamp, TaskRecord, ZoneChunk, ZoneLogChunk,
    task_state,
};
use syscollect_store::{
    Chunk, ChunkHeader, ClientDefinition, Definition, KnownProcess, KnownThread, LeftOutChunks,
    ProbeArgument, ProbeDefinition, Producer,
};
use syscollect_triggers::{Firing, Payer, UserCounts, Watcher};
use syscollect_zone_protocol::log::{EntryWords, Location};
use syscollect_zone_protocol::{Attribute, Event, FramePhase, Item, TextRole, Value, ValueType};

/// A tick is a microsecond.
const TICKS_PER_SECOND: f64 = 1e6;
const MS: u64 = 1000;

/// A recorder whose lanes are written by the test.
struct Recorder {
    watcher: Watcher,
    /// Chunks and records of each lane so far.
    lanes: BTreeMap<Lane, (u64, u64)>,
    log_bytes: u32,
    /// Who has each CPU after its last chunk.
    current: BTreeMap<u16, u32>,
}

impl Recorder {
    fn new(triggers: &[&str]) -> Self {
        let triggers = triggers.iter().map(|text| text.parse().expect("it is one")).collect();
        let watcher = Watcher::new(triggers).expect("they can fire");
        let mut recorder =
            Self { watcher, lanes: BTreeMap::new(), log_bytes: 0, current: BTreeMap::new() };
        recorder.define(&Definition::Session(Box::new(SessionInfo {
            tick_rate_hz: TICKS_PER_SECOND,
            ..SessionInfo::default()
        })));
        let readings: Vec<u8> = [0u64, 1_000_000]
            .iter()
            .flat_map(|ticks| {
                let stamp = Stamp::new(*ticks, RecordKind::Clock);
                let nanoseconds = ticks * 1000;
                let record = ClockRecord {
                    stamp,
                    monotonic: nanoseconds,
                    monotonic_raw: nanoseconds,
                    boottime: nanoseconds,
                    realtime: nanoseconds,
                    ..ClockRecord::default()
                };
                record.as_bytes().to_vec()
            })
            .collect();
        recorder.records(Lane::new(LaneKind::Clock, 0), 0, 1_000_000, ClockRecord::SIZE, readings);
        recorder
    }

    fn define(&mut self, definition: &Definition) {
        definition.chunks().into_iter().for_each(|chunk| self.watcher.feed(chunk));
    }

    /// What is called so is there from the beginning.
    fn processes(&mut self, names: &[(u32, &str)]) {
        let process = |(pid, name): &(u32, &str)| KnownProcess {
            pid: *pid,
            threads: vec![KnownThread { tid: *pid, name: (*name).into(), asleep: None }],
            ..KnownProcess::default()
        };
        self.define(&Definition::Processes(names.iter().map(process).collect()));
    }

    fn chunk(&mut self, lane: Lane, first: u64, last: u64, stride: usize, data: Vec<u8>) -> Chunk {
        let (chunks, before) = self.lanes.entry(lane).or_default();
        let records = data.len().checked_div(stride).unwrap_or(1) as u32;
        let header = ChunkHeader {
            lane,
            sequence: *chunks,
            first: Ticks(first),
            last: Ticks(last),
            current_tid: u32::MAX,
            stride: stride as u32,
            records_before: *before,
            records,
            length: data.len() as u32,
        };
        *chunks += 1;
        *before += u64::from(records);
        Chunk { header, data }
    }

    fn records(&mut self, lane: Lane, first: u64, last: u64, stride: usize, data: Vec<u8>) {
        let chunk = self.chunk(lane, first, last, stride, data);
        self.watcher.feed(chunk);
    }

    /// Scheduling events of a CPU: ticks and what they are.
    fn sched(&mut self, cpu: u16, events: &[(u64, SchedRecord)]) {
        let chunk = self.sched_chunk(cpu, events);
        self.watcher.feed(chunk);
    }

    fn sched_chunk(&mut self, cpu: u16, events: &[(u64, SchedRecord)]) -> Chunk {
        let data = events.iter().flat_map(|(ticks, record)| {
            let kind = RecordKind::from_number(record.stamp.split().1).expect("it has one");
            let record = SchedRecord { stamp: Stamp::new(*ticks, kind), ..*record };
            record.as_bytes().to_vec()
        });
        let (first, last) = (events[0].0, events[events.len() - 1].0);
        let lane = Lane::new(LaneKind::Sched, cpu);
        let mut chunk = self.chunk(lane, first, last, SchedRecord::SIZE, data.collect());
        chunk.header.current_tid = self.current.get(&cpu).copied().unwrap_or(u32::MAX);
        let is_switch = |record: &SchedRecord| record.stamp.split().1 == RecordKind::Switch as u8;
        let last = events.iter().rev().find(|(_, record)| is_switch(record));
        self.current.extend(last.map(|(_, record)| (cpu, record.tid)));
        chunk
    }

    fn task(&mut self, cpu: u16, ticks: u64, kind: RecordKind, task: TaskRecord) {
        let record = TaskRecord { stamp: Stamp::new(ticks, kind), ..task };
        let lane = Lane::new(LaneKind::Task, cpu);
        self.records(lane, ticks, ticks, TaskRecord::SIZE, record.as_bytes().to_vec());
    }

    /// An entry of the log of program 1; its number.
    fn log(&mut self, entry: &EntryWords) -> u32 {
        let position = self.log_bytes;
        let chunk = ZoneLogChunk { client: 1, position, reserved: 0 };
        let mut data = chunk.as_bytes().to_vec();
        data.extend(entry.header().to_le_bytes());
        entry.body().iter().for_each(|word| data.extend(word.to_le_bytes()));
        self.log_bytes += entry.size() as u32;
        self.records(Lane::new(LaneKind::ZoneLog, 0), 0, 0, 0, data);
        position / 8 + 1
    }

    fn zone_name(&mut self, name: &str) -> u32 {
        let location =
            Location { line: 1, color: 0, name: name.as_bytes(), function: b"", file: b"" };
        let mut entry = EntryWords::new();
        entry.location(location);
        self.log(&entry)
    }

    /// Items of thread 70 of program 1.
    fn items(&mut self, items: &[Item]) {
        self.items_of(1, 0, items);
    }

    /// Items of a thread of that program, which has a lane of that number.
    fn items_of(&mut self, client: u32, thread: u16, items: &[Item]) {
        let tid = 70 + u32::from(thread);
        let chunk = ZoneChunk { client, tid, owner: 1, reserved: 0 };
        let mut data = chunk.as_bytes().to_vec();
        for item in items {
            item.encode().iter().for_each(|word| data.extend(word.to_le_bytes()));
        }
        let ticks = items.iter().filter_map(|item| match item {
            Item::Stamped { ticks, .. } => Some(*ticks),
            Item::Attribute(_) => None,
        });
        let ticks: Vec<u64> = ticks.collect();
        let lane = Lane::new(LaneKind::Zone, thread);
        let mut chunk = self.chunk(lane, ticks[0], ticks[ticks.len() - 1], 0, data);
        chunk.header.records = items.len() as u32;
        self.watcher.feed(chunk);
    }

    /// A hit of thread 7.
    fn hit(&mut self, cpu: u16, ticks: u64, probe: u32, arguments: &[u64]) {
        let record = ProbeRecord {
            stamp: Stamp::new(ticks, RecordKind::Probe),
            tid: 7,
            tgid: 7,
            probe,
            size: (ProbeRecord::SIZE + 8 * arguments.len()) as u16,
            arguments: arguments.len() as u8,
            stack_pointer: 0x7000,
            ..ProbeRecord::default()
        };
        let mut data = record.as_bytes().to_vec();
        arguments.iter().for_each(|word| data.extend(word.to_le_bytes()));
        self.records(Lane::new(LaneKind::Probe, cpu), ticks, ticks, 0, data);
    }

    /// The next chunk of that lane, which that program wrote, is left out: too much waits.
    fn left_out(&mut self, lane: Lane, program: Option<u32>) {
        self.chunk(lane, 0, 0, 0, Vec::new());
        let producer = program.map(|program| Producer { user: 1000 + program, program });
        self.watcher.left_out(&LeftOutChunks { lane, producer, chunks: 1 });
    }

    /// What fired by then: the triggers' names, ticks, threads and reasons.
    fn fired(&mut self, now: u64) -> Vec<(String, u64, Option<u32>, String)> {
        self.watcher.nothing_before(Ticks(now));
        let fired = self.watcher.fired().into_iter();
        fired.map(|Firing { trigger, at, tid, reason, .. }| (trigger, at.0, tid, reason)).collect()
    }
}

fn waking(tid: u32) -> SchedRecord {
    SchedRecord { stamp: Stamp::new(0, RecordKind::Waking), tid, ..SchedRecord::default() }
}

fn switch(tid: u32, state: u8) -> SchedRecord {
    SchedRecord { stamp: Stamp::new(0, RecordKind::Switch), tid, state, ..SchedRecord::default() }
}

fn stamped(ticks: u64, event: Event) -> Item {
    Item::Stamped { ticks, event }
}

fn zone(location: u32, depth: u32) -> Event {
    Event::ZoneBegin { location, depth }
}

fn name(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

fn fired(trigger: &str, at: u64, tid: u32, reason: &str) -> (String, u64, Option<u32>, String) {
    (trigger.into(), at, Some(tid), reason.into())
}

#[test]
fn a_thread_that_starves_is_reported_while_it_still_waits_and_another_is_not() {
    let mut recorder = Recorder::new(&["starved: waiting server > 20ms"]);
    recorder.processes(&[(7, "server"), (8, "other")]);
    recorder.sched(0, &[(100 * MS, waking(7)), (100 * MS, waking(8))]);
    assert_eq!(recorder.fired(119 * MS), []);
    let reason = "server 7 waits for a CPU for 21.0 ms";
    assert_eq!(recorder.fired(121 * MS), [fired("starved", 120 * MS, 7, reason)]);
    assert_eq!(recorder.fired(900 * MS), []);
    let statuses = recorder.watcher.statuses();
    assert_eq!((statuses[0].events, statuses[0].fired), (1, 1));
    assert_eq!(statuses[0].text, "starved: waiting server > 20ms");
}

#[test]
fn a_wakeup_that_arrives_behind_the_switch_that_followed_it_is_no_wait() {
    let mut recorder = Recorder::new(&["waiting > 20ms"]);
    recorder.sched(1, &[(102 * MS, switch(7, 0))]);
    recorder.sched(0, &[(100 * MS, waking(7))]);
    assert_eq!(recorder.fired(900 * MS), []);
}

#[test]
fn a_wait_that_may_have_ended_in_a_chunk_that_was_left_out_is_no_wait() {
    let mut recorder = Recorder::new(&["waiting > 20ms, pause 0s"]);
    // It is not decided on yet when it turns out that what follows it is missing.
    recorder.sched(0, &[(100 * MS, waking(7))]);
    recorder.left_out(Lane::new(LaneKind::Sched, 0), None);
    // The CPU says nothing more: who is on it now runs on.
    recorder.sched(1, &[(110 * MS, waking(8))]);
    assert_eq!(recorder.fired(90 * MS), []);
    assert_eq!(recorder.fired(160 * MS), []);
    recorder.sched(1, &[(170 * MS, switch(7, 0))]);
    assert_eq!(recorder.fired(1200 * MS), []);
    recorder.sched(1, &[(1300 * MS, waking(9))]);
    let reason = "thread 9 waits for a CPU for 100 ms";
    assert_eq!(recorder.fired(1400 * MS), [fired("waiting", 1320 * MS, 9, reason)]);
}

#[test]
fn the_main_set_of_frames_is_asked_for_by_what_timelines_call_it() {
    let texts = [
        "any: frame > 33ms",
        "main: frame Frame > 33ms",
        "frame \"\" > 33ms",
        "o: frame Fram > 1ms",
    ];
    let mut recorder = Recorder::new(&texts);
    let mark = Event::Frame { set: 0, phase: FramePhase::Mark };
    recorder.items(&[stamped(100 * MS, mark), stamped(130 * MS, mark), stamped(170 * MS, mark)]);
    let fired = recorder.fired(200 * MS);
    let fired: Vec<_> = fired.iter().map(|(trigger, at, ..)| (trigger.as_str(), *at)).collect();
    assert_eq!(fired, [("any", 170 * MS), ("main", 170 * MS), ("frame", 170 * MS)]);
    let notes = recorder.watcher.statuses().into_iter().map(|status| status.note);
    assert_eq!(notes.collect::<Vec<_>>(), ["", "", "", "nothing is called so yet"]);
}

#[test]
fn what_fires_without_end_leaves_room_to_what_is_rare() {
    let mut recorder = Recorder::new(&["often: waiting > 20ms, pause 0s", "rare: waiting > 795ms"]);
    let wakings: Vec<_> =
        (0..50).map(|number| ((100 + number) * MS, waking(90 - number as u32))).collect();
    recorder.sched(0, &wakings);
    let fired = recorder.fired(900 * MS);
    assert_eq!(fired.iter().filter(|(trigger, ..)| trigger == "rare").count(), 1);
    let often = recorder.watcher.statuses().remove(0);
    assert_eq!((often.events, often.fired, often.crowded), (50, 16, 34));
}

#[test]
fn of_those_that_wait_too_long_at_a_time_the_first_is_the_one_that_a_limit_allows() {
    let mut recorder = Recorder::new(&["waiting > 20ms, limit 1"]);
    let wakings: Vec<_> =
        (0..50).map(|number| ((100 + number) * MS, waking(90 - number as u32))).collect();
    recorder.sched(0, &wakings);
    let reason = "thread 90 waits for a CPU for 800 ms";
    assert_eq!(recorder.fired(900 * MS), [fired("waiting", 120 * MS, 90, reason)]);
    let status = recorder.watcher.statuses().remove(0);
    assert_eq!((status.events, status.fired, status.limited), (50, 1, 49));
}

#[test]
fn a_zone_that_takes_too_long_is_reported_where_it_ends() {
    let mut recorder = Recorder::new(&["slow: zone request > 20ms"]);
    recorder.processes(&[(70, "server")]);
    let client = ClientDefinition { client: 1, pid: 70, ..ClientDefinition::default() };
    recorder.define(&Definition::Clients(vec![client]));
    let (request, other) = (recorder.zone_name("request"), recorder.zone_name("other"));
    recorder.items(&[
        stamped(100 * MS, zone(other, 0)),
        stamped(101 * MS, zone(request, 1)),
        stamped(110 * MS, Event::ZoneEnd { depth: 1 }),
        stamped(120 * MS, zone(request, 1)),
        stamped(150 * MS, Event::ZoneEnd { depth: 1 }),
        stamped(190 * MS, Event::ZoneEnd { depth: 0 }),
    ]);
    let reason = "zone request took 30.0 ms in server 70";
    assert_eq!(recorder.fired(200 * MS), [fired("slow", 150 * MS, 70, reason)]);
}

#[test]
fn a_zone_that_comes_late_took_as_long_as_it_did() {
    let mut recorder = Recorder::new(&["slow: zone request > 20ms"]);
    recorder.processes(&[(70, "server")]);
    let client = ClientDefinition { client: 1, pid: 70, ..ClientDefinition::default() };
    recorder.define(&Definition::Clients(vec![client]));
    let request = recorder.zone_name("request");
    assert_eq!(recorder.fired(500 * MS), []);
    recorder.items(&[
        stamped(101 * MS, zone(request, 0)),
        stamped(110 * MS, Event::ZoneEnd { depth: 0 }),
        stamped(120 * MS, zone(request, 0)),
        stamped(150 * MS, Event::ZoneEnd { depth: 0 }),
    ]);
    let reason = "zone request took 30.0 ms in server 70";
    assert_eq!(recorder.fired(600 * MS), [fired("slow", 150 * MS, 70, reason)]);
}

#[test]
fn a_zone_or_frame_that_never_ends_is_reported_once_while_its_program_runs() {
    let texts = ["slow: zone request > 20ms, pause 0s", "frame > 33ms, pause 0s"];
    let mut recorder = Recorder::new(&texts);
    recorder.processes(&[(70, "server")]);
    let client = ClientDefinition { client: 1, pid: 70, ..ClientDefinition::default() };
    recorder.define(&Definition::Clients(vec![client]));
    let request = recorder.zone_name("request");
    let mark = Event::Frame { set: 0, phase: FramePhase::Mark };
    let begin = Event::AsyncBegin { location: request, zone: 9, task: 0 };
    let items = [stamped(100 * MS, zone(request, 0)), stamped(200 * MS, begin)];
    recorder.items(&[&items[..], &[stamped(300 * MS, mark)]].concat());
    assert_eq!(recorder.fired(1110 * MS), [], "it may end yet");
    let reason = "zone request has not ended for 1.08 s in server 70";
    assert_eq!(recorder.fired(1180 * MS), [fired("slow", 1120 * MS, 70, reason)]);
    let reasons = [
        fired("slow", 1220 * MS, 70, "zone request has not ended for 1.20 s in server 70"),
        fired("frame", 1333 * MS, 70, "frame Frame has not ended for 1.10 s in server 70"),
    ];
    assert_eq!(recorder.fired(1400 * MS), reasons);
    recorder.items(&[
        stamped(1500 * MS, Event::ZoneEnd { depth: 0 }),
        stamped(1510 * MS, Event::AsyncEnd { zone: 9 }),
        stamped(1520 * MS, mark),
        stamped(1530 * MS, zone(request, 0)),
        stamped(1560 * MS, Event::ZoneEnd { depth: 0 }),
        stamped(1570 * MS, zone(request, 0)),
    ]);
    let reason = "zone request took 30.0 ms in server 70";
    assert_eq!(recorder.fired(1600 * MS), [fired("slow", 1560 * MS, 70, reason)]);
    let server = TaskRecord { tid: 70, tgid: 70, comm: name("server"), ..Default::default() };
    recorder.task(0, 1700 * MS, RecordKind::Exit, server);
    assert_eq!(recorder.fired(9000 * MS), [], "what has ended is not stuck");
}

#[test]
fn a_zone_whose_end_may_have_been_lost_is_not_made_longer() {
    let mut recorder = Recorder::new(&["slow: zone request > 20ms"]);
    let request = recorder.zone_name("request");
    recorder.items(&[stamped(100 * MS, zone(request, 0))]);
    // A chunk that nobody sees.
    recorder.chunk(Lane::new(LaneKind::Zone, 0), 0, 0, 0, Vec::new());
    recorder.items(&[stamped(200 * MS, Event::ZoneEnd { depth: 0 })]);
    assert_eq!(recorder.fired(300 * MS), []);
}

#[test]
fn messages_and_plots_are_looked_at() {
    let mut recorder =
        Recorder::new(&["alarm: message in server \"p99\"", "queue: plot queue > 100"]);
    recorder.processes(&[(70, "server")]);
    let mut entry = EntryWords::new();
    entry.plot(ValueType::Unsigned, "queue", "");
    let plot = recorder.log(&entry);
    let value = |value| Event::Plot { plot, value: Value::Unsigned(value) };
    let mut items = vec![stamped(100 * MS, Event::Message { string: 0, color: 0 })];
    let text = "the p99 is far too high, says the alarm";
    items
        .extend(Attribute::text_pieces(TextRole::Message, 0, text.as_bytes()).map(Item::Attribute));
    items.push(stamped(110 * MS, value(100)));
    items.push(stamped(120 * MS, value(101)));
    items.push(stamped(130 * MS, value(200)));
    recorder.items(&items);
    let expected = [
        fired("alarm", 100 * MS, 70, &format!("message in server 70: {text}")),
        fired("queue", 120 * MS, 70, "queue is 101 in server 70"),
    ];
    assert_eq!(recorder.fired(200 * MS), expected);
}

#[test]
fn a_process_ends_as_asked_even_if_its_beginning_arrives_later() {
    let mut recorder =
        Recorder::new(&["failed: exit server code 3", "crashed: crash", "any: exit other"]);
    let of = |tid, exit_code| TaskRecord {
        tid,
        tgid: tid,
        comm: name("server"),
        exit_code,
        ..TaskRecord::default()
    };
    recorder.task(1, 120 * MS, RecordKind::Exit, of(7, 3 << 8));
    recorder.task(0, 100 * MS, RecordKind::Fork, of(7, 0));
    recorder.task(1, 130 * MS, RecordKind::Exit, of(8, 4 << 8));
    recorder.task(1, 140 * MS, RecordKind::Exit, of(9, 0x80 | 11));
    let expected = [
        fired("failed", 120 * MS, 7, "server 7 ended with code 3"),
        fired("crashed", 140 * MS, 9, "server 9 was ended by SIGSEGV"),
    ];
    assert_eq!(recorder.fired(200 * MS), expected);
}

#[test]
fn a_process_ends_with_its_last_thread_whatever_the_first_one_does() {
    let mut recorder = Recorder::new(&["any: exit, pause 0s", "crashed: crash, pause 0s"]);
    let of = |tid, tgid, exit_code| TaskRecord {
        tid,
        tgid,
        comm: name("server"),
        exit_code,
        ..TaskRecord::default()
    };
    // What /proc lists may be ahead of what is decided on.
    let listed = |noted| {
        let threads = [7, 8].map(|tid| KnownThread { tid, name: "server".into(), asleep: None });
        let listed = KnownProcess { pid: 7, threads: threads.into(), ..KnownProcess::default() };
        Definition::Processes(vec![KnownProcess { noted: Ticks(noted), ..listed }])
    };
    recorder.define(&listed(105 * MS));
    // Its first thread ends, and the other one crashes later.
    recorder.task(0, 100 * MS, RecordKind::Fork, of(7, 7, 0));
    recorder.task(0, 101 * MS, RecordKind::Fork, of(8, 7, 0));
    recorder.task(0, 110 * MS, RecordKind::Exit, of(7, 7, 0));
    recorder.watcher.nothing_before(Ticks(120 * MS));
    // Of a process that goes on /proc lists the first thread, too, when it is gone.
    recorder.define(&listed(130 * MS));
    recorder.task(0, 150 * MS, RecordKind::Exit, of(8, 7, 0x80 | 11));
    // A thread begins another program, in the place of the first.
    recorder.task(0, 200 * MS, RecordKind::Fork, of(9, 9, 0));
    recorder.task(0, 201 * MS, RecordKind::Fork, of(10, 9, 0));
    recorder.task(0, 210 * MS, RecordKind::Exit, of(9, 9, 9));
    recorder.task(0, 211 * MS, RecordKind::Exec, TaskRecord { parent_tid: 10, ..of(9, 9, 0) });
    assert_eq!(
        recorder.fired(220 * MS),
        [
            fired("any", 150 * MS, 7, "server 7 was ended by SIGSEGV"),
            fired("crashed", 150 * MS, 7, "server 7 was ended by SIGSEGV"),
        ]
    );
    recorder.task(0, 250 * MS, RecordKind::Exit, of(9, 9, 1 << 8));
    let reason = "server 9 ended with code 1";
    assert_eq!(recorder.fired(300 * MS), [fired("any", 250 * MS, 9, reason)]);
}

#[test]
fn why_a_trigger_does_not_fire_is_in_its_status() {
    let texts = [
        "hit alloc if length > 4096",
        "bare: hit free if size > 4096",
        "fine: hit alloc if size > 4096",
        "slow: zone request > 3x p99",
        "typo: zone reqest > 3ms",
        "counter \"CPU pressur\" > 50",
    ];
    let mut recorder = Recorder::new(&texts);
    let request = recorder.zone_name("request");
    let argument = ProbeArgument { name: "size".into(), size: 8, ..Default::default() };
    let probe = |probe, name: &str, arguments| ProbeDefinition {
        probe,
        name: name.into(),
        arguments,
        ..ProbeDefinition::default()
    };
    let definitions = vec![probe(1, "alloc", vec![argument]), probe(2, "free", Vec::new())];
    recorder.define(&Definition::Probes(definitions));
    let notes = |recorder: &Recorder| -> Vec<String> {
        recorder.watcher.statuses().into_iter().map(|status| status.note).collect()
    };
    let expected = [
        "it cannot: alloc has no argument length, but size",
        "it cannot: free has no argument size, nor any other: of functions none are recorded, of \
         USDT probes those that they tell",
        "",
        "0 of 100 that it takes to know what is usual",
        "nothing is called so yet",
        "nothing is called so yet",
    ];
    assert_eq!(notes(&recorder), expected);
    for number in 0..120 {
        let at = (2000 + number * 20) * MS;
        let end = stamped(at + 10 * MS, Event::ZoneEnd { depth: 0 });
        recorder.items(&[stamped(at, zone(request, 0)), end]);
    }
    recorder.fired(5000 * MS);
    assert_eq!(notes(&recorder)[3], "that is 30.1 ms now, by 100 of the last minute");
}

#[test]
fn a_trigger_rests_and_has_a_limit_and_its_snapshot_may_be_later() {
    let mut recorder = Recorder::new(&["m: message \"\", limit 2, pause 1s, after 500ms, last 3s"]);
    let message = |at| stamped(at * MS, Event::Message { string: 0, color: 0 });
    recorder.items(&[100, 200, 1200, 3000].map(message));
    recorder.watcher.nothing_before(Ticks(4000 * MS));
    let due: Vec<_> = recorder.watcher.fired().iter().map(|of| (of.at.0, of.due.0)).collect();
    assert_eq!(due, [(100 * MS, 600 * MS), (1200 * MS, 1700 * MS)]);
    let status = recorder.watcher.statuses().remove(0);
    assert_eq!((status.events, status.fired, status.paused, status.limited), (4, 2, 1, 1));
}

#[test]
fn a_signal_fires_the_triggers_for_it_within_their_pauses_and_limits() {
    let mut recorder = Recorder::new(&["asked: signal, limit 2, pause 1s", "other: crash"]);
    let mut by_signals = |times, now: u64| {
        recorder.watcher.signalled(times);
        recorder.fired(now * MS)
    };
    let asked = |at: u64| ("asked".to_owned(), at * MS, None, "SIGUSR1".to_owned());
    assert_eq!(by_signals(0, 100), []);
    assert_eq!(by_signals(2, 200), [asked(200)]);
    assert_eq!(by_signals(1, 1300), [asked(1300)]);
    assert_eq!(by_signals(1, 9000), []);
    let status = recorder.watcher.statuses().remove(0);
    assert_eq!((status.events, status.fired, status.paused, status.limited), (4, 2, 1, 1));
}

#[test]
fn when_it_began_is_told_of_what_takes_time() {
    let mut recorder = Recorder::new(&["waiting > 20ms", "zone request > 20ms"]);
    let request = recorder.zone_name("request");
    recorder.sched(0, &[(100 * MS, waking(7))]);
    let end = stamped(150 * MS, Event::ZoneEnd { depth: 0 });
    recorder.items(&[stamped(110 * MS, zone(request, 0)), end]);
    recorder.watcher.nothing_before(Ticks(160 * MS));
    let fired = recorder.watcher.fired();
    let began: Vec<_> = fired.iter().map(|of| (of.began.0 / MS, of.at.0 / MS)).collect();
    assert_eq!(began, [(100, 120), (110, 150)]);
}

#[test]
fn triggers_that_cannot_be_told_apart_or_never_fire_are_refused() {
    let watcher = |texts: &[&str]| {
        let triggers = texts.iter().map(|text| text.parse().expect("it is one")).collect();
        Watcher::new(triggers).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(watcher(&["a: crash", "a: exit"]).contains("two triggers are called \"a\""));
    assert!(watcher(&["crash, limit 0"]).contains("its limit is 0"));
    assert!(watcher(&vec!["crash"; 65]).contains("65 triggers"));
    assert_eq!(watcher(&["a: crash", "b: exit"]), "");
}

/// Events of one CPU after the other, by time.
fn any_events() -> impl Strategy<Value = Vec<(u16, u64, u32, u8)>> {
    let state = prop::sample::select(vec![
        u8::MAX,
        0,
        task_state::INTERRUPTIBLE,
        task_state::UNINTERRUPTIBLE,
    ]);
    prop::collection::vec((0u16..3, 1u64..15, 1u32..6, state), 1..80)
}

proptest! {
    #[test]
    fn it_does_not_matter_which_cpu_arrives_first(
        events in any_events(),
        order in prop::collection::vec(any::<u32>(), 80),
        cuts in prop::collection::vec(1usize..6, 30),
    ) {
        let texts = ["waiting > 20ms, pause 0s", "blocked > 30ms, pause 0s"];
        let (mut straight, mut mixed) = (Recorder::new(&texts), Recorder::new(&texts));
        let mut at = 100 * MS;
        let mut by_cpu = BTreeMap::<u16, Vec<(u64, SchedRecord)>>::new();
        for (cpu, pause, tid, state) in events {
            at += pause * MS;
            let record = if state == u8::MAX { waking(tid) } else { switch(tid, state) };
            straight.sched(cpu, &[(at, record)]);
            by_cpu.entry(cpu).or_default().push((at, record));
        }
        // Chunks of a lane keep their order, those of several come in any.
        let mut cuts = cuts.iter().cycle();
        let mut chunks = Vec::new();
        for (cpu, events) in by_cpu {
            let mut rest = &events[..];
            while !rest.is_empty() {
                let (some, later) = rest.split_at(rest.len().min(*cuts.next().unwrap_or(&1)));
                chunks.push(mixed.sched_chunk(cpu, some));
                rest = later;
            }
        }
        let mut keys = order.iter().cycle();
        let mut queues = BTreeMap::<Lane, std::collections::VecDeque<Chunk>>::new();
        chunks.into_iter().for_each(|chunk| {
            queues.entry(chunk.header.lane).or_default().push_back(chunk);
        });
        while !queues.is_empty() {
            let lanes: Vec<Lane> = queues.keys().copied().collect();
            let lane = lanes[*keys.next().unwrap_or(&0) as usize % lanes.len()];
            let queue = queues.get_mut(&lane).expect("it is one of them");
            if let Some(chunk) = queue.pop_front() {
                mixed.watcher.feed(chunk);
            }
            if queue.is_empty() {
                queues.remove(&lane);
            }
        }
        prop_assert_eq!(straight.fired(at + 100 * MS), mixed.fired(at + 100 * MS));
    }

    #[test]
    fn chunks_of_any_content_are_taken(
        chunks in prop::collection::vec(
            (0usize..LaneKind::ALL.len(), prop::collection::vec(any::<u8>(), 0..200)), 0..20),
    ) {
        let mut recorder = Recorder::new(&[
            "a: zone * > 0ns", "b: frame > 1x p50", "c: hit * if 0 > 3", "d: tracepoint a:b",
            "e: waiting > 0ns", "f: exit", "g: message \"\"", "h: counter * > 0", "i: plot * > 0",
            "j: pair * > 0ns", "k: function * > 0ns",
        ]);
        for (kind, data) in chunks {
            let lane = Lane::new(LaneKind::ALL[kind], 0);
            let stride = if data.len() % 2 == 0 { 16 } else { 0 };
            recorder.records(lane, 100, 200, stride, data);
        }
        recorder.fired(u64::MAX >> 8);
    }
}
