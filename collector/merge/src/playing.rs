//! Playing what is fed: chunks in, events out, as far as the lanes are in order.

use crate::chunk_queue::{ChunkQueue, LaneFile};
use crate::counters::Counters;
use crate::decoders::Decoders;
use crate::engine::{CaptureEngine, CaptureState, Engine, LaneState, no_added_rows};
use crate::gpu::decoder::Tracepoints;
use crate::knowledge::{Knowledge, NumberedSources, RowsOfPlays};
use crate::losses::Losses;
use crate::probes::decoder::Probes;
use crate::recorder_marks::RecorderMarks;
use crate::scheduling::Scheduling;
use crate::source::{Source, SourceItem};
use crate::sources::{KnownSources, Sources};
use crate::zones::cursor::ZoneRecord;
use crate::zones::decoder::Zones;
use std::mem::{replace, take};
use std::ops::ControlFlow;
use std::sync::Arc;
use syscollect_model::{Lane, Ticks, Time};
use syscollect_playback::order::MergeStep;
use syscollect_playback::{EngineParts, Output, Played, Stopped};
use syscollect_store::{CaptureReader, Chunk};

/// A session that is played while its chunks come.
///
/// Each lane is fed with its chunks in their order; how the lanes take turns does not matter, nor
/// how much comes at once. An event is told once nothing can come before it: when every lane has
/// come further, or who feeds them says that [nothing comes before](Self::nothing_before) it. Until
/// then chunks wait in memory, so a lane that is silent for long needs such a word.
pub struct Playing<'a> {
    pub(crate) engine: Engine<'a>,
    pub(crate) decoders: Decoders,
    pub(crate) sources: Sources,
    /// What the recorder says that is yet to come.
    recorder: RecorderMarks,
    /// Programs may be late, and have their own times.
    pub(crate) are_programs_late: bool,
}

/// How late programs may be, nanoseconds: what is of before is told as if it was so late.
const LATEST_PROGRAM: u64 = 10_000_000_000;

impl<'a> Playing<'a> {
    /// Takes what is known, until [`give_back`](Self::give_back).
    pub(crate) fn new(known: &mut Knowledge, output: Output<'a>) -> Self {
        let (mut tables, history) = (take(&mut known.tables), &mut known.history);
        let (strings, mut programs) = (&mut tables.strings, take(&mut known.programs));
        let sources = Sources::new(KnownSources {
            tasks: take(&mut history.lifecycle),
            markers: take(&mut programs.prescan.markers),
            gpu_zones: take(&mut programs.prescan.gpu.zones),
        });
        let mut losses = known.losses.clone();
        take(&mut programs.prescan.gpu).losses.count(&programs.programs, &mut losses);
        let decoders = Decoders {
            scheduling: Scheduling::default(),
            counters: Counters::new(take(&mut known.numbered.counters)),
            zones: Zones::new(programs, strings),
            probes: Probes::new(take(&mut known.numbered.probes), strings),
            tracepoints: Tracepoints::new(take(&mut known.numbered.tracepoints)),
            first_names: history.first_names.clone(),
        };
        let parts = EngineParts {
            machine: known.machine,
            clock: Arc::clone(&known.clock),
            tables,
            added: replace(&mut known.earlier.added, no_added_rows()),
            source: CaptureState {
                resolver: take(&mut known.resolver),
                losses,
                new_rows: take(&mut known.earlier.new_rows),
                ..CaptureState::default()
            },
        };
        let mut engine = Engine::new(parts, &history.initial, output);
        engine.sink.tally.records = known.definition_records;
        let recorder = RecorderMarks::of(engine.tables.machine(engine.machine));
        Self { engine, decoders, sources, recorder, are_programs_late: false }
    }

    /// Gives back what is known, for another play.
    pub(crate) fn give_back(self, known: &mut Knowledge) {
        let EngineParts { tables, added, source, .. } = self.engine.into_parts();
        let CaptureState { resolver, new_rows, .. } = source;
        let Decoders { counters, zones, probes, tracepoints, .. } = self.decoders;
        (known.tables, known.resolver, known.programs) = (tables, resolver, zones.references.known);
        known.earlier = RowsOfPlays { added, new_rows };
        known.numbered = NumberedSources {
            probes: probes.table,
            tracepoints: tracepoints.table,
            counters: counters.table,
        };
        let KnownSources { tasks, markers, .. } = self.sources.into_parts();
        (known.history.lifecycle, known.programs.prescan.markers) = (tasks, markers);
    }

    /// The next chunk of its lane. Lanes that hold no events are known already.
    pub fn feed(&mut self, chunk: Chunk) {
        let Some(lane) = self.number_of(chunk.header.lane) else { return };
        self.decode(lane, |queue| queue.push(chunk));
    }

    /// The same behind others that were left out: nothing of that is lost.
    pub fn feed_resuming(&mut self, chunk: Chunk) {
        let Some(lane) = self.number_of(chunk.header.lane) else { return };
        self.decode(lane, |queue| queue.push_resuming(chunk));
    }

    /// The next chunk of its lane is there and does not verify: so many records cannot be read.
    pub fn feed_unreadable(&mut self, lane: Lane, records: u32) {
        let Some(lane) = self.number_of(lane) else { return };
        self.decode(lane, |queue| queue.push_unreadable(records));
    }

    /// No record of before these ticks comes any more, of any lane.
    pub fn nothing_before(&mut self, ticks: Ticks) {
        for lane in 0..self.engine.source.lanes.len() {
            self.decode(lane, |queue| queue.nothing_before(ticks.0));
        }
        self.sources.set_horizon(Some(ticks));
    }

    /// Tells the exporter all that nothing can come before.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn play(&mut self) -> Result<(), Stopped> {
        self.play_until_waiting().map(|_| ())
    }

    /// Chunks that were fed and wait in memory, because something may come before what they hold.
    pub fn queued_chunks(&self) -> usize {
        self.sources.queued_chunks()
    }

    /// Nothing comes any more: plays the rest.
    pub(crate) fn finish(&mut self) -> Result<(Played, Losses), Stopped> {
        for lane in 0..self.engine.source.lanes.len() {
            self.decode(lane, ChunkQueue::close);
        }
        self.sources.set_horizon(None);
        self.play()?;
        self.end()
    }

    /// Plays what lies in a file, which is read where a lane waits: one chunk of each is in memory.
    pub(crate) fn play_file(
        &mut self,
        reader: &CaptureReader,
    ) -> Result<(Played, Losses), Stopped> {
        let mut files = self.lanes_of(reader);
        while let Some(waiting) = self.play_until_waiting()? {
            let file = &mut files[waiting];
            self.decode(waiting, |queue| file.feed(queue));
        }
        self.end()
    }

    /// The lanes of a file: what is to be fed where one of them waits.
    pub(crate) fn lanes_of<'f>(&mut self, reader: &'f CaptureReader) -> Vec<LaneFile<'f>> {
        for lane in reader.lanes() {
            self.number_of(lane);
        }
        self.sources.set_horizon(None);
        let lanes = self.engine.source.lanes.iter();
        lanes.map(|of| LaneFile::new(reader, of.lane)).collect()
    }

    /// Plays what lies in a file up to and including `until`; the time that its next item does not
    /// come before, `None` where none comes any more.
    pub(crate) fn play_file_until(
        &mut self,
        files: &mut [LaneFile<'_>],
        until: Time,
    ) -> Result<Option<Time>, Stopped> {
        while let Some(ticks) = self.sources.key() {
            let next = self.engine.time(ticks);
            if next > until {
                return Ok(Some(next));
            }
            match self.sources.step() {
                MergeStep::Item(source, (ticks, taken)) => self.item(source, ticks, taken)?,
                MergeStep::Waiting(source) => {
                    let Some(lane) = Sources::waiting_lane(source) else { break };
                    if !self.resume(lane) {
                        let file = &mut files[lane];
                        self.decode(lane, |queue| file.feed(queue));
                    }
                }
                MergeStep::End => break,
            }
        }
        Ok(None)
    }

    /// Plays no more than so many items; whether that was all that nothing can come before.
    pub(crate) fn play_part(&mut self, most: usize) -> Result<bool, Stopped> {
        for _ in 0..most {
            if self.step()?.is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Plays until a lane has to be fed, or as far as it can be.
    fn play_until_waiting(&mut self) -> Result<Option<usize>, Stopped> {
        loop {
            if let ControlFlow::Break(waiting) = self.step()? {
                return Ok(waiting);
            }
        }
    }

    /// Plays an item, or goes on in a lane that waited; ends where a lane has to be fed, or where
    /// no more can be played.
    #[inline]
    fn step(&mut self) -> Result<ControlFlow<Option<usize>>, Stopped> {
        match self.sources.step() {
            MergeStep::Item(source, (ticks, taken)) => self.item(source, ticks, taken)?,
            MergeStep::Waiting(source) => match Sources::waiting_lane(source) {
                Some(lane) if self.resume(lane) => {}
                waiting => return Ok(ControlFlow::Break(waiting)),
            },
            MergeStep::End => return Ok(ControlFlow::Break(None)),
        }
        Ok(ControlFlow::Continue(()))
    }

    #[inline]
    fn item(&mut self, source: usize, ticks: u64, taken: SourceItem) -> Result<(), Stopped> {
        if self.recorder.is_due(ticks) {
            self.recorder.emit_until(ticks, &mut self.engine)?;
        }
        self.engine.present.advance(ticks);
        if self.decoders.zones.gpu.is_due(ticks) {
            let Zones { gpu, references, .. } = &mut self.decoders.zones;
            gpu.give_up_waiting(&mut self.engine, references)?;
        }
        let (lane, lent) = self.sources.lent(source);
        let mut changes_writer = false;
        if self.are_programs_late
            && let SourceItem::Zones(record) = &taken
        {
            changes_writer = step_back(&mut self.engine, lane, record);
        }
        self.decoders.on(&mut self.engine, lane, taken, lent)?;
        if changes_writer {
            // The other thread's times are its own.
            self.engine.source.lanes[lane].last = None;
        }
        if !self.decoders.zones.references.known.prescan.markers.is_empty() {
            self.place_markers();
        }
        Ok(())
    }

    /// Ends what is open, and says what was played.
    pub(crate) fn end(&mut self) -> Result<(Played, Losses), Stopped> {
        let losses = &mut self.engine.source.losses;
        self.sources.decoders().for_each(|decoder| losses.not_decoded(decoder));
        self.recorder.emit_until(u64::MAX, &mut self.engine)?;
        self.decoders.close(&mut self.engine)?;
        let unshown_failures = self.decoders.tracepoints.gpu.jobs.failures.unshown;
        let played = Played { unshown_failures, ..self.engine.sink.played() };
        Ok((played, take(&mut self.engine.source.losses)))
    }

    /// Markers of later times that lanes have told of wait for these.
    #[cold]
    fn place_markers(&mut self) {
        self.sources.add_markers(take(&mut self.decoders.zones.references.known.prescan.markers));
    }

    /// Goes on with what a lane was fed; `false` where there is nothing.
    fn resume(&mut self, lane: usize) -> bool {
        let (programs, map) = (&self.decoders.zones.references.known, self.engine.present.map());
        self.sources.resume(lane, programs.of_lanes(map))
    }

    fn decode(&mut self, lane: usize, change: impl FnOnce(&mut ChunkQueue)) {
        let (programs, map) = (&self.decoders.zones.references.known, self.engine.present.map());
        self.sources.feed(lane, programs.of_lanes(map), change);
    }

    /// The lane's number; `None` if it holds no events. One that is new gets its place in the order
    /// of lanes, so that it does not matter which was fed first.
    fn number_of(&mut self, lane: Lane) -> Option<usize> {
        match self.engine.index_of(lane) {
            Ok(number) => Some(number),
            Err(number) => {
                self.sources.insert(number, Source::of_lane(lane)?);
                self.engine.insert_lane(number, lane);
                Some(number)
            }
        }
    }
}

/// What a thread of a program wrote may have come late: it is told with its own time, in the
/// order in which the thread wrote it. Whether another thread has the lane from here on; what the
/// one before had open ends no earlier than what it wrote last.
fn step_back(engine: &mut Engine<'_>, lane: usize, record: &ZoneRecord) -> bool {
    let Engine { present, source, .. } = engine;
    let LaneState { last, writer, .. } = source.lanes[lane];
    let bound = Time(present.latest().0.saturating_sub(LATEST_PROGRAM));
    present.step_back(last.map_or(bound, |last| last.max(bound)));
    match (record, writer) {
        (ZoneRecord::Chunk(start), Some(writer)) => !writer.wrote(&start.0),
        _ => false,
    }
}
