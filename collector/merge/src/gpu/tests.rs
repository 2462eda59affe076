//! The decoder of tracepoints alone: records of fences in, jobs of GPUs out.

use crate::engine::Engine;
use crate::gpu::decoder::Tracepoints;
use crate::gpu::record::TracepointTable;
use crate::testing::{TRACEPOINT, events_of};
use syscollect_model::{Event, Fence, GpuJob, GpuJobEnd, LossCause, Scope, Tables, Time};
use syscollect_records::TracepointRecord;
use syscollect_store::{TracepointDefinition, TracepointField, TracepointFieldKind};

const INIT: u32 = 1;
const EMIT: u32 = 2;
const SIGNALED: u32 = 3;
/// A tracepoint that is shown as it is.
const PLAIN: u32 = 4;

/// A decoder that knows the tracepoints of fences, of which records hold context and number alone.
fn tracepoints(tables: &mut Tables) -> Tracepoints {
    let names = [
        (INIT, "dma_fence", "dma_fence_init"),
        (EMIT, "dma_fence", "dma_fence_emit"),
        (SIGNALED, "dma_fence", "dma_fence_signaled"),
        (PLAIN, "thermal", "temperature"),
    ];
    let fields = [("context", 0), ("seqno", 4)].map(|(name, offset)| TracepointField {
        name: name.into(),
        offset,
        size: 4,
        signed: false,
        kind: TracepointFieldKind::Number,
    });
    let definitions = names.map(|(tracepoint, system, name)| TracepointDefinition {
        tracepoint,
        system: system.into(),
        name: name.into(),
        fields: fields.to_vec(),
    });
    let mut table = TracepointTable::default();
    table.add(&definitions, tables);
    Tracepoints::new(table)
}

/// Thread 7 comes by a tracepoint at a time.
fn fire(
    tracepoints: &mut Tracepoints,
    engine: &mut Engine<'_>,
    at: u64,
    tracepoint: u32,
    fence: u32,
) {
    engine.present.advance(at);
    let head =
        TracepointRecord { tracepoint, tid: 7, tgid: 7, bytes: 8, ..TracepointRecord::default() };
    let fields = [5u32, fence].map(u32::to_le_bytes).concat();
    tracepoints.on(engine, TRACEPOINT, &[head.as_bytes(), &fields].concat()).unwrap();
}

fn jobs(events: &[Event]) -> Vec<&GpuJob> {
    let jobs = events.iter().filter(|event| is_job(event));
    jobs.filter_map(|event| match event {
        Event::GpuJob(_, job) => Some(&**job),
        _ => None,
    })
    .collect()
}

fn is_job(event: &Event) -> bool {
    matches!(event, Event::GpuJob(..))
}

#[test]
fn a_fence_is_a_job_that_is_told_at_its_end_with_the_times_of_its_stages() {
    let mut tables = Tables::default();
    let mut decoder = tracepoints(&mut tables);
    let events = events_of(&mut tables, |engine| {
        fire(&mut decoder, engine, 10, INIT, 1);
        fire(&mut decoder, engine, 20, EMIT, 1);
        fire(&mut decoder, engine, 30, SIGNALED, 1);
        assert_eq!(engine.sink.tally.records, 3);
    });
    let [job] = jobs(&events)[..] else { panic!("{events:?}") };
    assert_eq!((job.submitted, job.queued), (Some(Time(10)), Some(Time(20))));
    assert_eq!(
        (job.end, job.fence),
        (GpuJobEnd::Finished, Some(Fence { context: 5, sequence: 1 }))
    );
    let thread = job.thread.map(|thread| tables.thread(thread).tid);
    assert_eq!(thread, Some(7), "who submitted it");
}

#[test]
fn what_is_open_when_the_recording_ends_is_told_as_unfinished() {
    let mut tables = Tables::default();
    let mut decoder = tracepoints(&mut tables);
    let events = events_of(&mut tables, |engine| {
        fire(&mut decoder, engine, 10, INIT, 1);
        fire(&mut decoder, engine, 11, EMIT, 1);
        decoder.gpu.close(engine).unwrap();
        decoder.gpu.close(engine).unwrap();
    });
    let ends: Vec<GpuJobEnd> = jobs(&events).iter().map(|job| job.end).collect();
    assert_eq!(ends, [GpuJobEnd::Unfinished]);
}

#[test]
fn a_tracepoint_that_nobody_interprets_is_an_instant_of_its_thread() {
    let mut tables = Tables::default();
    let mut decoder = tracepoints(&mut tables);
    let events = events_of(&mut tables, |engine| fire(&mut decoder, engine, 10, PLAIN, 60));
    let [Event::Instant(track, slice)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(tables.strings.get(slice.name), "temperature");
    let Scope::Thread(thread) = tables.track(*track).scope else { panic!("{track:?}") };
    assert_eq!((tables.thread(thread).tid, slice.fields.len()), (7, 2));
}

#[test]
fn a_record_that_nobody_defined_or_that_is_cut_is_counted() {
    let mut tables = Tables::default();
    let mut decoder = tracepoints(&mut tables);
    let events = events_of(&mut tables, |engine| {
        fire(&mut decoder, engine, 10, 99, 1);
        decoder.on(engine, TRACEPOINT, &[1, 2, 3]).unwrap();
        let losses = engine.source.losses.totals();
        assert_eq!((losses[0].cause, losses[0].count), (LossCause::Undecodable, 2));
    });
    assert_eq!(events, []);
}
