//! A program that says what it means: frames, zones, messages, plots, locks, memory, a crash.

use super::{IDLE, Story, off};
use syscollect_model::{
    Crash, Event, Field, FieldFormat, FieldRole, Fields, Location, LocationId, Lock, LockAction,
    LockEvent, LockId, MemoryEvent, Message, MessageText, Process, ProcessId, Schema, SchemaField,
    SchemaId, Scope, SleepState, Slice, SliceUpdate, StackId, ThreadId, Time, Track, TrackId,
    TrackKind, Value,
};

impl Story {
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
pub(super) fn game(story: &mut Story, stack: StackId) {
    let (process, main) = story.process(300, 1, "game", &["/bin/game"]);
    let loader = story.thread(301, process, "loader");
    for row in story.tables.threads.iter_mut().filter(|row| row.process == process) {
        row.start = Some(Time(story.time));
    }
    story.tables.processes[process.index()] =
        Process { start: Some(Time(story.time)), ..story.tables.process(process).clone() };
    story.then(Event::ProcessStart(process));
    story.then(Event::ThreadStart(loader));
    story.switch(0, IDLE, off(SleepState::Runnable), main);
    let name = story.name("Frames");
    let kind = TrackKind::Frames { continuous: true };
    let frames = story.tables.add_track(Track { scope: Scope::Process(process), name, kind });
    frame(story, frames, 1);
    zones(story, main, stack);
    story.ends(frames);
    frame(story, frames, 2);
    requests(story, process);
    locks(story, process, (main, loader));
    memory(story, (main, loader), stack);
    story.ends(frames);
    frame(story, frames, 3);
    crash(story, loader, stack);
}

fn frame(story: &mut Story, track: TrackId, number: u64) {
    let slice = Slice { number: Some(number), ..story.slice("Frame") };
    story.begins(track, slice);
}

/// A zone that waits, one of the same name elsewhere, a message, a typed marker, a plot, a zone
/// left open.
fn zones(story: &mut Story, main: ThreadId, stack: StackId) {
    let zones = story.zones(main);
    let (here, there) = (story.location("update", 10), story.location("draw", 20));
    let category = Some(story.name("simulation"));
    let update = Slice {
        category,
        location: Some(here),
        color: Some(0x00ff_8000),
        stack: Some(stack),
        ..story.slice("update")
    };
    story.begins(zones, update);
    let text = story.text("level 1");
    let value = story.field(FieldRole::Value, "value", Value::Unsigned(7));
    story.more(zones, vec![text, value]);
    story.switch(0, main, off(SleepState::Interruptible), IDLE);
    story.wait(20);
    story.wakeup(0, IDLE, main, None);
    story.switch(0, IDLE, off(SleepState::Runnable), main);
    let elsewhere = Slice { location: Some(there), ..story.slice("update") };
    story.begins(zones, elsewhere);
    let texts = ["level 2", "level 3"].map(|text| story.text(text));
    story.more(zones, texts.to_vec());
    story.ends(zones);
    let name = Some((story.name("update of"), Some(12)));
    story.then(Event::SliceUpdate(
        zones,
        SliceUpdate { name, color: Some(0xff), ..SliceUpdate::default() },
    ));
    story.ends(zones);
    message(story, zones);
    marker(story, zones);
    let plot =
        story.track(Scope::Process(story.tables.thread(main).process), "queue", Some("items"));
    story.then(Event::Counter(plot, 3.5));
    let open = story.slice("left open");
    story.begins(zones, open);
    story.then(Event::SliceUpdate(
        zones,
        SliceUpdate { unfinished: true, ..SliceUpdate::default() },
    ));
    story.ends(zones);
    story.ends(zones);
}

fn message(story: &mut Story, track: TrackId) {
    let message = Message {
        category: story.name("message"),
        text: Some(MessageText::Written("loaded\t3 \u{1b}[1mlevels".into())),
        color: Some(0xff_0000),
        stack: None,
        fields: story.fields(vec![("level", Value::Signed(-1))]),
    };
    story.then(Event::Message(track, message));
}

/// A marker with a field of each kind.
fn marker(story: &mut Story, track: TrackId) {
    let formats = [
        ("path", "Path", FieldFormat::Text),
        ("took", "Took", FieldFormat::Duration),
        ("size", "Size", FieldFormat::Bytes),
        ("share", "Share", FieldFormat::Percentage),
        ("at", "At", FieldFormat::Address),
        ("ratio", "Ratio", FieldFormat::Decimal),
    ];
    let fields = formats.map(|(name, label, format)| SchemaField {
        name: story.name(name),
        label: story.name(label),
        format,
    });
    let (name, category) = (story.name("Load"), Some(story.name("assets")));
    story.tables.schemas.push(Schema { name, category, fields: fields.to_vec() });
    let path = story.name("/maps/1");
    let values = vec![
        ("path", Value::String(path)),
        ("took", Value::Duration(1_500)),
        ("size", Value::Bytes(4_096)),
        ("share", Value::Percentage(0.25)),
        ("at", Value::Address(0xdead_beef)),
        ("ratio", Value::Float(1.5)),
    ];
    let fields = story.fields(values);
    let marker = Slice { category, schema: Some(SchemaId(0)), fields, ..story.slice("map") };
    story.then(Event::Instant(track, marker));
}

/// Two requests that overlap: rows of one track.
fn requests(story: &mut Story, process: ProcessId) {
    let rows = [(); 2].map(|()| story.track(Scope::Process(process), "requests", None));
    for (row, number) in rows.into_iter().zip(1..) {
        let request = Slice { number: Some(number), ..story.slice("request") };
        story.begins(row, request);
    }
    rows.into_iter().for_each(|row| story.ends(row));
}

/// A contended mutex, a wait that is given up, and two readers.
fn locks(story: &mut Story, process: ProcessId, (main, loader): (ThreadId, ThreadId)) {
    let (queue, cache) = (story.name("queue"), story.name("cache"));
    let location = Some(story.location("push", 30));
    story.tables.locks = [(queue, false), (cache, true)]
        .map(|(name, shared)| Lock { process, name, shared, location })
        .to_vec();
    let [queue, cache] = [0, 1].map(LockId);
    story.locks(queue, main, LockAction::Wait, location);
    story.locks(queue, main, LockAction::Obtain, location);
    story.locks(queue, loader, LockAction::Wait, None);
    story.locks(queue, main, LockAction::Release, location);
    story.locks(queue, loader, LockAction::Obtain, None);
    story.locks(queue, main, LockAction::Wait, None);
    story.locks(queue, main, LockAction::GiveUp, None);
    story.locks(queue, loader, LockAction::Release, None);
    for (thread, action) in
        [(main, LockAction::Obtain), (loader, LockAction::Obtain), (main, LockAction::Release)]
    {
        story.locks(cache, thread, action, None);
    }
}

/// Three pieces of memory, of which one is freed; a free of a fourth.
fn memory(story: &mut Story, (main, loader): (ThreadId, ThreadId), stack: StackId) {
    let pool = Some(story.name("textures"));
    let events = [
        (main, None, 0x1000, Some(64)),
        (loader, pool, 0x2000, Some(4_096)),
        (loader, None, 0x3000, Some(100)),
        (loader, None, 0x1000, None),
        (loader, None, 0x4000, None),
    ];
    for (thread, pool, address, allocated) in events {
        let stack = allocated.map(|_| stack);
        story.then(Event::Memory(MemoryEvent { thread, pool, address, allocated, stack }));
    }
}

fn crash(story: &mut Story, thread: ThreadId, stack: StackId) {
    let signal = story.name("SIGSEGV");
    story.then(Event::Crash(Crash { thread, signal, address: 0x10, stack: Some(stack) }));
}
