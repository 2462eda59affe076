//! An instrumented program: four threads with nested zones of few
//! places, every fourth with a text of its own.

use syscollect_model::{
    Event, Exporter, Field, FieldRole, Location, LocationId, ProcessId, Scope, Slice, SliceUpdate,
    StringId, Tables, Thread, ThreadId, Time, Track, TrackId, TrackKind, TrackRole, Value,
};

const THREADS: u32 = 4;
const PLACES: u32 = 100;

/// The program's tables.
pub(crate) fn tables() -> Tables {
    let mut tables = Tables::default();
    let name = tables.strings.intern("Zones");
    for tid in 1..=THREADS {
        let thread = tables.strings.intern(&format!("worker {tid}"));
        tables.threads.push(Thread {
            tid,
            process: ProcessId(0),
            name: thread,
            start: None,
            end: None,
        });
        tables.add_track(Track {
            scope: Scope::Thread(ThreadId(tid)),
            name,
            kind: TrackKind::Slices(TrackRole::Zones),
        });
    }
    for line in 0..PLACES {
        let [function, file] = [format!("function_{line}"), format!("src/part_{line}.rs")];
        let [function, file] = [function, file].map(|text| tables.strings.intern(&text));
        tables.locations.push(Location { function, file, line });
    }
    tables.strings.intern("text");
    tables
}

/// Plays `count` zones into an exporter.
pub(crate) fn play<E: Exporter>(
    exporter: &mut E,
    tables: &mut Tables,
    count: u64,
) -> Result<(), E::Error> {
    let text = tables.strings.intern("text");
    exporter.begin(tables)?;
    for index in 0..count / 2 {
        let track = TrackId((index % u64::from(THREADS)) as u32);
        let at = |step| Time(1_000 + index * 400 + step);
        let place = (index % u64::from(PLACES)) as u32;
        exporter.event(at(0), &Event::SliceBegin(track, zone(place, tables)), tables)?;
        exporter.event(
            at(100),
            &Event::SliceBegin(track, zone((place + 1) % PLACES, tables)),
            tables,
        )?;
        if index % 2 == 0 {
            let request = Value::Text(format!("request {index}").into());
            let fields = vec![Field::new(FieldRole::Text, text, request)];
            exporter.event(
                at(150),
                &Event::SliceUpdate(track, SliceUpdate { fields, ..SliceUpdate::default() }),
                tables,
            )?;
        }
        exporter.event(at(200), &Event::SliceEnd(track), tables)?;
        exporter.event(at(300), &Event::SliceEnd(track), tables)?;
    }
    exporter.end(&[], None, tables)
}

fn zone(place: u32, tables: &Tables) -> Slice {
    let location = LocationId(place);
    let name: StringId = tables.location(location).function;
    Slice { location: Some(location), color: Some(0x40_80_c0), ..Slice::named(name) }
}
