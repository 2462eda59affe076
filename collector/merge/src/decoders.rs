//! What makes events of what lanes tell: a decoder for each kind of source, with its own state. All
//! share the [`Engine`].

use crate::counters::Counters;
use crate::engine::Engine;
use crate::gpu::decoder::Tracepoints;
use crate::lane::Record;
use crate::lifecycle::Lifecycle;
use crate::probes::decoder::Probes;
use crate::record_cursor::RecordItem;
use crate::samples;
use crate::scheduling::{self, Scheduling};
use crate::source::{Source, SourceItem};
use crate::zones::state::Zones;
use syscollect_model::{LaneKind, ProcessId, ThreadId};
use syscollect_playback::Stopped;

/// The decoders of a session.
pub(crate) struct Decoders {
    pub(crate) scheduling: Scheduling,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) counters: Counters,
    pub(crate) zones: Zones,
    pub(crate) probes: Probes,
    pub(crate) tracepoints: Tracepoints,
}

impl Decoders {
    /// What a source told, which lends the item's bytes; `lane` is its lane, if it is one.
    #[inline]
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        item: SourceItem,
        source: &Source,
    ) -> Result<(), Stopped> {
        match item {
            SourceItem::Record(record) => self.record(engine, lane, record)?,
            SourceItem::Zones(record) => self.zones.on(engine, lane, record, source.group())?,
            SourceItem::Probes(RecordItem::Record) => {
                self.probes.on(engine, &mut self.zones, lane, source.bytes())?;
            }
            SourceItem::Tracepoints(RecordItem::Record) => {
                self.tracepoints.on(engine, lane, source.bytes())?;
            }
            SourceItem::Probes(RecordItem::Missing(missing)) => {
                self.probes.missing();
                engine.missing(lane, missing.at_least())?;
            }
            SourceItem::Tracepoints(RecordItem::Missing(missing)) => {
                engine.missing(lane, missing.at_least())?;
            }
            SourceItem::LifecycleEvent(event) => return self.lifecycle_event(engine, event),
            SourceItem::Marker => {
                let Some(marker) = source.marker() else { return Ok(()) };
                return self.zones.placed_marker(engine, marker);
            }
        }
        engine.lanes[lane].last = Some(engine.now());
        Ok(())
    }

    #[inline]
    fn record(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        record: Record,
    ) -> Result<(), Stopped> {
        match record {
            Record::Sched(record) => self.scheduling.on(engine, lane, &record),
            Record::Sample(sample) => samples::on(engine, lane, &sample),
            Record::Counter(counter) => self.counters.on(engine, lane, &counter),
            Record::Chunk(start) if engine.lanes[lane].lane.kind == LaneKind::Sched => {
                scheduling::chunk(engine, lane, start)
            }
            Record::Chunk(start) => engine.missing(lane, start.missing.records),
            Record::Task(_) | Record::Unknown => {
                engine.unknown(lane);
                Ok(())
            }
        }
    }

    /// The thread ends: closes its zones, markers and probes.
    pub(crate) fn close_thread(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
    ) -> Result<(), Stopped> {
        self.zones.close_thread(engine, thread)?;
        self.probes.slices.close_thread(engine, thread)
    }

    /// The process ends, or runs another program. Without a process: all end.
    pub(crate) fn close_process(
        &mut self,
        engine: &mut Engine<'_>,
        process: Option<ProcessId>,
    ) -> Result<(), Stopped> {
        let mut threads = self.zones.threads_of(process);
        threads.append(&mut self.probes.slices.threads_of(process));
        threads.into_iter().try_for_each(|thread| self.close_thread(engine, thread))?;
        self.zones.close_programs(engine, process)
    }

    /// The recording ends, and what is open with it.
    pub(crate) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.close_process(engine, None)?;
        self.tracepoints.gpu.close(engine)
    }
}
