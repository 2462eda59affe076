//! What makes events of what lanes tell: a decoder for each kind of source, with its own state. All
//! share the [`Engine`].

use crate::counters::Counters;
use crate::engine::{CaptureEngine, Engine};
use crate::gpu::decoder::Tracepoints;
use crate::lane::Record;
use crate::probes::decoder::Probes;
use crate::record_cursor::RecordItem;
use crate::samples;
use crate::scheduling::{self, Scheduling};
use crate::source::{LentBytes, SourceItem};
use crate::zones::decoder::Zones;
use std::mem::take;
use syscollect_model::{Event, LaneKind, ProcessId, StringId, ThreadId};
use syscollect_playback::Stopped;

/// The decoders of a session.
pub(crate) struct Decoders {
    pub(crate) scheduling: Scheduling,
    pub(crate) counters: Counters,
    pub(crate) zones: Zones,
    pub(crate) probes: Probes,
    pub(crate) tracepoints: Tracepoints,
    /// The first names of threads that get others later, until they were told.
    pub(crate) first_names: Vec<(ThreadId, StringId)>,
}

impl Decoders {
    /// What a source told now, with its bytes. `lane` is the number of its lane, where it is of
    /// one.
    #[inline]
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        lane: usize,
        taken: SourceItem,
        lent: LentBytes<'_>,
    ) -> Result<(), Stopped> {
        if !self.first_names.is_empty() {
            self.emit_first_names(engine)?;
        }
        match taken {
            SourceItem::Record(record) => self.record(engine, lane, record)?,
            SourceItem::Zones(record) => self.zones.on(engine, lane, record, lent.group())?,
            SourceItem::Probe(RecordItem::Record) => {
                self.probes.on(engine, &mut self.zones, lane, lent.bytes())?;
            }
            SourceItem::Tracepoint(RecordItem::Record) => {
                self.tracepoints.on(engine, lane, lent.bytes())?;
            }
            SourceItem::Probe(RecordItem::Missing(missing)) => {
                self.probes.missing();
                engine.missing(lane, missing.at_least())?;
            }
            SourceItem::Tracepoint(RecordItem::Missing(missing)) => {
                engine.missing(lane, missing.at_least())?;
            }
            SourceItem::Task(event) => return self.task_event(engine, event),
            SourceItem::Marker => {
                let Some(marker) = lent.marker() else { return Ok(()) };
                return self.zones.placed_marker(engine, marker);
            }
            SourceItem::GpuZone => {
                let Some(zone) = lent.gpu_zone() else { return Ok(()) };
                return zone.emit(engine, &mut self.zones.references, false);
            }
        }
        engine.source.lanes[lane].last = Some(engine.now());
        Ok(())
    }

    #[cold]
    fn emit_first_names(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        let mut names = take(&mut self.first_names).into_iter();
        names.try_for_each(|(thread, name)| engine.emit(&Event::ThreadName(thread, name)))
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
            Record::Chunk(start) if engine.source.lanes[lane].lane.kind == LaneKind::Sched => {
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
        self.zones.threads.close_thread(engine, thread)?;
        self.probes.slices.close_thread(engine, thread)
    }

    /// The process ends, or runs another program. Without a process: all end.
    pub(crate) fn close_process(
        &mut self,
        engine: &mut Engine<'_>,
        process: Option<ProcessId>,
    ) -> Result<(), Stopped> {
        let mut threads = self.zones.threads.of_process(process);
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
