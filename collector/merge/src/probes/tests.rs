//! The decoder of probes alone: hits in, events out.

use crate::engine::Engine;
use crate::probes::decoder::Probes;
use crate::probes::table::ProbeTable;
use crate::testing::{PROBE, events_of};
use crate::zones::InstrumentedPrograms;
use crate::zones::decoder::Zones;
use syscollect_model::{Event, LossCause, SliceUpdate, Tables};
use syscollect_records::ProbeRecord;
use syscollect_store::{ProbeDefinition, ProbeRole};

const ENTRY: u32 = 1;
const EXIT: u32 = 2;
const BEGIN: u32 = 3;
const END: u32 = 4;

/// Decoders that know a function and a pair that does not nest.
fn decoders(tables: &mut Tables) -> (Probes, Zones) {
    let roles = [
        (ENTRY, ProbeRole::FunctionEntry, 1, "call"),
        (EXIT, ProbeRole::FunctionExit, 1, "call"),
        (BEGIN, ProbeRole::ZoneBegin, 2, "query"),
        (END, ProbeRole::ZoneEnd, 2, "query"),
    ];
    let definitions = roles.map(|(probe, role, pair, name)| ProbeDefinition {
        probe,
        role,
        pair,
        name: name.into(),
        nests: Some(false),
        ..ProbeDefinition::default()
    });
    let table = ProbeTable::new(&definitions, tables);
    let zones = Zones::new(InstrumentedPrograms::default(), &mut tables.strings);
    (Probes::new(table, &mut tables.strings), zones)
}

/// Thread 7 of process 5 hits a probe.
fn hit(
    (probes, zones): &mut (Probes, Zones),
    engine: &mut Engine<'_>,
    probe: u32,
    stack_pointer: u64,
) {
    let record = ProbeRecord { tid: 7, tgid: 5, probe, stack_pointer, ..Default::default() };
    probes.on(engine, zones, PROBE, record.as_bytes()).unwrap();
}

/// The events' shapes: `b` and `e` for a slice's begin and end, `u` for one that is unfinished.
fn shapes(events: &[Event]) -> String {
    events
        .iter()
        .map(|event| match event {
            Event::SliceBegin(..) => 'b',
            Event::SliceEnd(_) => 'e',
            Event::SliceUpdate(_, SliceUpdate { unfinished: true, .. }) => 'u',
            _ => '?',
        })
        .collect()
}

#[test]
fn functions_that_were_left_by_a_jump_are_unfinished_and_the_catching_one_is_not() {
    let mut tables = Tables::default();
    let mut decoders = decoders(&mut tables);
    let events = events_of(&mut tables, |engine| {
        for stack_pointer in [0x9000, 0x8f00, 0x8e00] {
            hit(&mut decoders, engine, ENTRY, stack_pointer);
        }
        hit(&mut decoders, engine, EXIT, 0x9000);
        assert_eq!((engine.sink.tally.records, engine.sink.tally.unmatched_ends), (4, 0));
    });
    assert_eq!(shapes(&events), "bbbueuee");
}

#[test]
fn an_end_of_what_nothing_began_is_counted_and_not_told() {
    let mut tables = Tables::default();
    let mut decoders = decoders(&mut tables);
    let events = events_of(&mut tables, |engine| {
        hit(&mut decoders, engine, EXIT, 0x9000);
        hit(&mut decoders, engine, END, 0);
        assert_eq!(engine.sink.tally.unmatched_ends, 2);
    });
    assert_eq!(events, []);
}

#[test]
fn a_pair_that_does_not_nest_ends_the_zone_before() {
    let mut tables = Tables::default();
    let mut decoders = decoders(&mut tables);
    let events = events_of(&mut tables, |engine| {
        for probe in [BEGIN, BEGIN, END, END] {
            hit(&mut decoders, engine, probe, 0);
        }
        assert_eq!(engine.sink.tally.unmatched_ends, 1, "the second end");
    });
    assert_eq!(shapes(&events), "buebe");
}

#[test]
fn the_end_of_a_process_closes_what_its_threads_have_open() {
    let mut tables = Tables::default();
    let mut decoders = decoders(&mut tables);
    let events = events_of(&mut tables, |engine| {
        hit(&mut decoders, engine, BEGIN, 0);
        hit(&mut decoders, engine, ENTRY, 0x9000);
        let (process, other) = (engine.process_of(5), engine.process_of(6));
        let slices = &mut decoders.0.slices;
        assert_eq!(slices.threads_of(Some(other)).len(), 0);
        for thread in slices.threads_of(Some(process)) {
            slices.close_thread(engine, thread).unwrap();
            slices.close_thread(engine, thread).unwrap();
        }
    });
    assert_eq!(shapes(&events), "bbueue");
}

#[test]
fn a_hit_that_nobody_defined_or_that_is_cut_is_counted() {
    let mut tables = Tables::default();
    let mut decoders = decoders(&mut tables);
    let events = events_of(&mut tables, |engine| {
        hit(&mut decoders, engine, 99, 0);
        let (probes, zones) = &mut decoders;
        probes.on(engine, zones, PROBE, &[1, 2, 3]).unwrap();
        let losses = engine.source.losses.totals();
        assert_eq!((losses[0].cause, losses[0].count), (LossCause::Undecodable, 2));
    });
    assert_eq!(events, []);
}
