//! The decoder of zones alone: items of a program's threads in, events out.

use crate::chunk_queue::LaneGap;
use crate::engine::Engine;
use crate::testing::{ZONE, events_of};
use crate::zones::InstrumentedPrograms;
use crate::zones::cursor::ZoneRecord;
use crate::zones::decoder::Zones;
use syscollect_model::{Event, LossCause, Scope, SliceUpdate, Tables, TrackId};
use syscollect_records::{ZoneChunk, ZoneLogChunk};
use syscollect_zone_protocol::log::{EntryWords, Location};
use syscollect_zone_protocol::{Event as ZoneEvent, Item};

const CLIENT: u32 = 1;
/// The number of the only location of the program's log.
const WORK: u32 = 1;

/// A decoder that knows a program with one location.
fn zones(tables: &mut Tables) -> Zones {
    let mut known = InstrumentedPrograms::default();
    let place = Location { name: b"work", function: b"", file: b"work.c", line: 3, color: 0 };
    let mut entry = EntryWords::new();
    entry.location(place);
    let mut log = ZoneLogChunk { client: CLIENT, ..Default::default() }.as_bytes().to_vec();
    log.extend(entry.header().to_le_bytes());
    log.extend(entry.body().iter().flat_map(|word| word.to_le_bytes()));
    assert_eq!(known.logs.read(&log, tables), (1, 0));
    Zones::new(known, &mut tables.strings)
}

fn chunk_of(tid: u32, missing: u64) -> ZoneRecord {
    let chunk = ZoneChunk { client: CLIENT, tid, ..Default::default() };
    ZoneRecord::Chunk(Box::new((chunk, LaneGap { records: missing, chunks: 0 })))
}

fn feed(zones: &mut Zones, engine: &mut Engine<'_>, event: ZoneEvent) {
    let item = Item::Stamped { ticks: engine.present.ticks(), event }.encode();
    zones.on(engine, ZONE, ZoneRecord::Group(1), &item).unwrap();
}

fn begin(depth: u32) -> ZoneEvent {
    ZoneEvent::ZoneBegin { location: WORK, depth }
}

/// The events' shapes: `b` and `e` for a slice's begin and end, `u` for one that is unfinished.
fn shapes(events: &[Event]) -> String {
    events.iter().map(shape).collect()
}

fn shape(event: &Event) -> char {
    match event {
        Event::SliceBegin(..) => 'b',
        Event::SliceEnd(_) => 'e',
        Event::SliceUpdate(_, SliceUpdate { unfinished: true, .. }) => 'u',
        Event::Loss(_) => 'l',
        _ => '?',
    }
}

fn tracks(events: &[Event]) -> Vec<TrackId> {
    events.iter().filter_map(begun_track).collect()
}

fn begun_track(event: &Event) -> Option<TrackId> {
    match event {
        Event::SliceBegin(track, _) => Some(*track),
        _ => None,
    }
}

#[test]
fn an_end_says_of_inner_zones_whose_ends_were_lost_that_they_are_unfinished() {
    let mut tables = Tables::default();
    let mut zones = zones(&mut tables);
    let events = events_of(&mut tables, |engine| {
        zones.on(engine, ZONE, chunk_of(7, 0), &[]).unwrap();
        for event in [begin(0), begin(1), begin(2), ZoneEvent::ZoneEnd { depth: 0 }] {
            feed(&mut zones, engine, event);
        }
        assert_eq!(engine.sink.tally.records, 4);
    });
    assert_eq!(shapes(&events), "bbbueuee");
    let Event::SliceBegin(track, slice) = &events[0] else { unreachable!("it begins") };
    assert_eq!(tables.strings.get(slice.name), "work");
    let Scope::Thread(thread) = tables.track(*track).scope else { panic!("{track:?}") };
    assert_eq!(tables.thread(thread).tid, 7);
}

#[test]
fn who_takes_over_a_lane_ends_what_the_thread_before_had_open() {
    let mut tables = Tables::default();
    let mut zones = zones(&mut tables);
    let events = events_of(&mut tables, |engine| {
        zones.on(engine, ZONE, chunk_of(7, 0), &[]).unwrap();
        feed(&mut zones, engine, begin(0));
        zones.on(engine, ZONE, chunk_of(8, 0), &[]).unwrap();
        feed(&mut zones, engine, begin(0));
    });
    assert_eq!(shapes(&events), "bueb");
    let [first, second] = tracks(&events)[..] else { panic!("{events:?}") };
    assert_ne!(first, second);
}

#[test]
fn what_is_missing_before_a_chunk_is_told_and_zones_go_on() {
    let mut tables = Tables::default();
    let mut zones = zones(&mut tables);
    let events = events_of(&mut tables, |engine| {
        zones.on(engine, ZONE, chunk_of(7, 0), &[]).unwrap();
        feed(&mut zones, engine, begin(0));
        zones.on(engine, ZONE, chunk_of(7, 5), &[]).unwrap();
        feed(&mut zones, engine, ZoneEvent::ZoneEnd { depth: 0 });
    });
    assert_eq!(shapes(&events), "ble");
    let Event::Loss(loss) = &events[1] else { unreachable!("it is a loss") };
    assert_eq!((loss.cause, loss.count), (LossCause::Damaged, 5));
}

#[test]
fn a_zone_at_a_place_that_its_program_did_not_define_is_counted_and_not_shown() {
    let mut tables = Tables::default();
    let mut zones = zones(&mut tables);
    let events = events_of(&mut tables, |engine| {
        // Nobody said who writes.
        feed(&mut zones, engine, begin(0));
        zones.on(engine, ZONE, chunk_of(7, 0), &[]).unwrap();
        feed(&mut zones, engine, ZoneEvent::ZoneBegin { location: 99, depth: 0 });
        let losses = engine.source.losses.totals();
        assert_eq!((losses[0].cause, losses[0].count), (LossCause::Undecodable, 1));
    });
    assert_eq!(events, []);
}

#[test]
fn a_thread_that_ends_closes_its_own_zones_only() {
    let mut tables = Tables::default();
    let mut zones = zones(&mut tables);
    let events = events_of(&mut tables, |engine| {
        for tid in [7, 8] {
            zones.on(engine, ZONE, chunk_of(tid, 0), &[]).unwrap();
            // The lane's next owner would close them.
            engine.source.lanes[ZONE].writer = None;
            let writer = zones.writer(
                engine,
                engine.source.lanes[ZONE].lane,
                &ZoneChunk { client: CLIENT, tid, ..Default::default() },
            );
            engine.source.lanes[ZONE].writer = Some(writer);
            feed(&mut zones, engine, begin(0));
            engine.source.lanes[ZONE].writer = None;
        }
        let thread = engine.thread(7);
        zones.threads.close_thread(engine, thread).unwrap();
    });
    assert_eq!(shapes(&events), "bbue");
    let [first, _] = tracks(&events)[..] else { panic!("{events:?}") };
    assert_eq!(events[3], Event::SliceEnd(first));
}
