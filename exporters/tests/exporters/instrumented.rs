//! An instrumented program: frames, zones, messages, plots, locks, memory, a crash.

use super::{IDLE, Scenario, off};
use syscollect_model::{
    Crash, Event, Field, FieldFormat, FieldRole, Fields, Location, LocationId, Lock, LockAction,
    LockEvent, LockId, MemoryEvent, Message, MessageText, Process, ProcessId, Schema, SchemaField,
    SchemaId, Scope, SleepState, Slice, SliceUpdate, StackId, ThreadId, Time, Track, TrackId,
    TrackKind, Value,
};

impl Scenario {
    fn location(&mut self, function: &str, line: u32) -> LocationId {
        let (function, file) = (self.name(function), self.name("src/game.rs"));
        self.tables.locations.push(Location { function, file, line });
        LocationId(self.tables.locations.len() as u32 - 1)
    }

    fn slice(&mut self, name: &str) -> Slice {
        self.name(name).into()
    }

    fn fields(&mut self, fields: Vec<(&str, Value)>) -> Fields {
        fields.into_iter().map(|(name, value)| Field::named(self.name(name), value)).collect()
    }

    fn more(&mut self, track: TrackId, fields: Fields) {
        self.then(Event::SliceUpdate(track, SliceUpdate { fields, ..SliceUpdate::default() }));
    }

    fn begins(&mut self, track: TrackId, slice: Slice) {
        self.then(Event::SliceBegin(track, slice));
    }

    fn ends(&mut self, track: TrackId) {
        self.then(Event::SliceEnd(track));
    }

    fn locks(
        &mut self,
        lock: LockId,
        thread: ThreadId,
        action: LockAction,
        location: Option<LocationId>,
    ) {
        let shared = self.tables.lock(lock).shared;
        self.then(Event::Lock(LockEvent { lock, thread, action, shared, location }));
    }
}

/// A game draws two frames while its loader works, and crashes.
pub(super) fn game(scenario: &mut Scenario, stack: StackId) {
    let (process, main) = scenario.process(300, 1, "game", &["/bin/game"]);
    let loader = scenario.thread(301, process, "loader");
    for row in scenario.tables.threads.iter_mut().filter(|row| row.process == process) {
        row.start = Some(Time(scenario.time));
    }
    scenario.tables.processes[process.index()] =
        Process { start: Some(Time(scenario.time)), ..scenario.tables.process(process).clone() };
    scenario.then(Event::ProcessStart(process));
    scenario.then(Event::ThreadStart(loader));
    scenario.switch(0, IDLE, off(SleepState::Runnable), main);
    let name = scenario.name("Frames");
    let kind = TrackKind::Frames { continuous: true, main: true };
    let frames = scenario.tables.add_track(Track { scope: Scope::Process(process), name, kind });
    frame(scenario, frames, 1);
    zones(scenario, main, stack);
    scenario.ends(frames);
    frame(scenario, frames, 2);
    requests(scenario, process);
    locks(scenario, process, (main, loader));
    memory(scenario, (main, loader), stack);
    scenario.ends(frames);
    frame(scenario, frames, 3);
    crash(scenario, loader, stack);
}

fn frame(scenario: &mut Scenario, track: TrackId, number: u64) {
    let slice = Slice { number: Some(number), ..scenario.slice("Frame") };
    scenario.begins(track, slice);
}

/// A zone that waits, one of the same name elsewhere, a message, a typed marker, a plot, a zone
/// left open.
fn zones(scenario: &mut Scenario, main: ThreadId, stack: StackId) {
    let zones = scenario.zones(main);
    let (here, there) = (scenario.location("update", 10), scenario.location("draw", 20));
    let category = Some(scenario.name("simulation"));
    let update = Slice {
        category,
        location: Some(here),
        color: Some(0x00ff_8000),
        stack: Some(stack),
        ..scenario.slice("update")
    };
    scenario.begins(zones, update);
    let text = scenario.text("level 1");
    let value = scenario.field(FieldRole::Value, "value", Value::Unsigned(7));
    scenario.more(zones, vec![text, value]);
    scenario.switch(0, main, off(SleepState::Interruptible), IDLE);
    scenario.wait(20);
    scenario.wakeup(0, IDLE, main, None);
    scenario.switch(0, IDLE, off(SleepState::Runnable), main);
    let elsewhere = Slice { location: Some(there), ..scenario.slice("update") };
    scenario.begins(zones, elsewhere);
    let labels = ["level 2", "level 3"].map(|text| scenario.text(text));
    scenario.more(zones, labels.to_vec());
    scenario.ends(zones);
    let name = Some((scenario.name("update of"), Some(12)));
    scenario.then(Event::SliceUpdate(
        zones,
        SliceUpdate { name, color: Some(0xff), ..SliceUpdate::default() },
    ));
    scenario.ends(zones);
    message(scenario, zones);
    marker(scenario, zones);
    let plot = scenario.track(
        Scope::Process(scenario.tables.thread(main).process),
        "queue",
        Some("items"),
    );
    scenario.then(Event::Counter(plot, 3.5));
    let open = scenario.slice("left open");
    scenario.begins(zones, open);
    scenario.then(Event::SliceUpdate(
        zones,
        SliceUpdate { unfinished: true, ..SliceUpdate::default() },
    ));
    scenario.ends(zones);
    scenario.ends(zones);
}

fn message(scenario: &mut Scenario, track: TrackId) {
    let message = Message {
        category: scenario.name("message"),
        text: Some(MessageText::Written("loaded\t3 \u{1b}[1mlevels".into())),
        color: Some(0xff_0000),
        stack: None,
        fields: scenario.fields(vec![("level", Value::Signed(-1))]),
    };
    scenario.then(Event::Message(track, message));
}

/// A marker with a field of each kind.
fn marker(scenario: &mut Scenario, track: TrackId) {
    let formats = [
        ("path", "Path", FieldFormat::Text),
        ("took", "Took", FieldFormat::Duration),
        ("size", "Size", FieldFormat::Bytes),
        ("share", "Share", FieldFormat::Percentage),
        ("at", "At", FieldFormat::Address),
        ("ratio", "Ratio", FieldFormat::Decimal),
    ];
    let fields = formats.map(|(name, label, format)| SchemaField {
        name: scenario.name(name),
        label: scenario.name(label),
        format,
    });
    let (name, category) = (scenario.name("Load"), Some(scenario.name("assets")));
    scenario.tables.schemas.push(Schema { name, category, fields: fields.to_vec() });
    let path = scenario.name("/maps/1");
    let values = vec![
        ("path", Value::String(path)),
        ("took", Value::Duration(1_500)),
        ("size", Value::Bytes(4_096)),
        ("share", Value::Percentage(0.25)),
        ("at", Value::Address(0xdead_beef)),
        ("ratio", Value::Float(1.5)),
    ];
    let fields = scenario.fields(values);
    let marker = Slice { category, schema: Some(SchemaId(0)), fields, ..scenario.slice("map") };
    scenario.then(Event::Instant(track, marker));
}

/// Two requests that overlap: rows of one track.
fn requests(scenario: &mut Scenario, process: ProcessId) {
    let rows = [(); 2].map(|()| scenario.track(Scope::Process(process), "requests", None));
    for (row, number) in rows.into_iter().zip(1..) {
        let request = Slice { number: Some(number), ..scenario.slice("request") };
        scenario.begins(row, request);
    }
    rows.into_iter().for_each(|row| scenario.ends(row));
}

/// A contended mutex, a wait that is given up, and two readers.
fn locks(scenario: &mut Scenario, process: ProcessId, (main, loader): (ThreadId, ThreadId)) {
    let (queue, cache) = (scenario.name("queue"), scenario.name("cache"));
    let location = Some(scenario.location("push", 30));
    scenario.tables.locks = [(queue, false), (cache, true)]
        .map(|(name, shared)| Lock { process, name, shared, location })
        .into_iter()
        .collect();
    let [queue, cache] = [0, 1].map(LockId);
    scenario.locks(queue, main, LockAction::Wait, location);
    scenario.locks(queue, main, LockAction::Obtain, location);
    scenario.locks(queue, loader, LockAction::Wait, None);
    scenario.locks(queue, main, LockAction::Release, location);
    scenario.locks(queue, loader, LockAction::Obtain, None);
    scenario.locks(queue, main, LockAction::Wait, None);
    scenario.locks(queue, main, LockAction::GiveUp, None);
    scenario.locks(queue, loader, LockAction::Release, None);
    for (thread, action) in
        [(main, LockAction::Obtain), (loader, LockAction::Obtain), (main, LockAction::Release)]
    {
        scenario.locks(cache, thread, action, None);
    }
}

/// Three pieces of memory, of which one is freed; a free of a fourth.
fn memory(scenario: &mut Scenario, (main, loader): (ThreadId, ThreadId), stack: StackId) {
    let pool = Some(scenario.name("textures"));
    let events = [
        (main, None, 0x1000, Some(64)),
        (loader, pool, 0x2000, Some(4_096)),
        (loader, None, 0x3000, Some(100)),
        (loader, None, 0x1000, None),
        (loader, None, 0x4000, None),
    ];
    for (thread, pool, address, allocated) in events {
        let stack = allocated.map(|_| stack);
        scenario.then(Event::Memory(MemoryEvent { thread, pool, address, allocated, stack }));
    }
}

fn crash(scenario: &mut Scenario, thread: ThreadId, stack: StackId) {
    let [signal, code] = ["SIGSEGV", "SEGV_MAPERR"].map(|name| scenario.name(name));
    scenario.then(Event::Crash(Crash { thread, signal, code, address: 0x10, stack: Some(stack) }));
}
