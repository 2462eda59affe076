//! A program that marks all it does: zones in zones on a few threads, the same on every run.

use syscollect_model::{
    Event, Exporter, Field, Location, LocationId, Process, ProcessId, Scope, SessionInfo, Slice, SliceMore, Tables,
    Thread, ThreadId, Time, Track, TrackKind, Value,
};

/// Threads of the program.
const THREADS: u32 = 4;
/// Zones inside each other.
const DEPTH: usize = 4;

/// The program's tables, and the events that are repeated: of each thread, a
/// zone of some depth, in which the innermost one has a text and a value.
pub(crate) fn tables() -> (Tables, Vec<Event>) {
    let mut tables = Tables::default();
    let [name, zones, file, text, value] =
        ["program", "Zones", "src/main.rs", "text", "value"].map(|word| tables.strings.intern(word));
    let process = ProcessId(tables.processes.len() as u32);
    tables.processes.push(Process {
        pid: 100,
        parent_pid: None,
        name,
        command_line: Vec::new(),
        start: None,
        end: None,
        kernel: false,
    });
    let names: Vec<_> = (0..DEPTH).map(|depth| tables.strings.intern(&format!("zone {depth}"))).collect();
    tables.locations = (1..).zip(&names).map(|(line, function)| Location { function: *function, file, line }).collect();
    let mut events = Vec::new();
    for number in 0..THREADS {
        tables.threads.push(Thread { tid: 100 + number, process, name, start: None, end: None });
        let thread = ThreadId(tables.threads.len() as u32 - 1);
        let track = tables.add_track(Track { scope: Scope::Thread(thread), name: zones, kind: TrackKind::Slices });
        for (location, name) in (0..).map(LocationId).zip(&names) {
            events.push(Event::SliceBegin(track, Slice { location: Some(location), ..Slice::named(*name) }));
        }
        let said = [(text, Value::Text("what it is about".into())), (value, Value::Unsigned(u64::from(number)))];
        let fields = said.map(|(name, value)| Field { name, value }).to_vec();
        events.push(Event::SliceMore(track, SliceMore { fields, ..SliceMore::default() }));
        events.extend((0..DEPTH).map(|_| Event::SliceEnd(track)));
    }
    (tables, events)
}

/// Plays `count` events into an exporter.
pub(crate) fn play<E: Exporter>(
    exporter: &mut E,
    (tables, events): &(Tables, Vec<Event>),
    count: u64,
) -> Result<(), E::Error> {
    exporter.begin(&SessionInfo::default(), tables)?;
    for (time, event) in (0..count).zip(events.iter().cycle()) {
        exporter.event(Time(1_000_000_000 + time * 50), event, tables)?;
    }
    exporter.end(&[], None, tables)
}
