//! Playing what is fed: chunks in, events out, as far as the lanes are in order.

use crate::chunk_queue::{ChunkQueue, LaneFile};
use crate::counters::Counters;
use crate::decoders::Decoders;
use crate::engine::{Engine, Shared};
use crate::gpu::decoder::Tracepoints;
use crate::lifecycle::Lifecycle;
use crate::losses::Losses;
use crate::probes::decoder::Probes;
use crate::scheduling::Scheduling;
use crate::session::Knowledge;
use crate::source::{Queue, Source, SourceItem};
use crate::tasks::LifecycleEvent;
use crate::zones::state::Zones;
use std::mem::take;
use std::sync::Arc;
use syscollect_model::{Event, Lane, StringId, ThreadId, Ticks, Time};
use syscollect_playback::order::{Cursor, Merge, MergeStep};
use syscollect_playback::{Output, Played, Stopped};
use syscollect_store::{CaptureReader, Chunk};

/// Where the lanes lie among the sources, behind the horizon and the lifecycle events: of equal
/// ticks a task is born before it runs.
const FIRST_LANE: usize = 2;
const HORIZON: usize = 0;
const LIFECYCLE: usize = 1;

/// A session that is played while its chunks come.
///
/// Each lane is fed with its chunks in their order; how the lanes take turns does not matter, nor
/// how much comes at once. An event is told once nothing can come before it: when every lane has
/// come further, or who feeds them says that [nothing comes before](Self::nothing_before) it. Until
/// then chunks wait in memory, so a lane that is silent for long needs such a word.
pub struct Playing<'a> {
    pub(crate) engine: Engine<'a>,
    pub(crate) decoders: Decoders,
    merge: Merge<Source>,
    /// The first names of threads that get others later.
    first_names: Vec<(ThreadId, StringId)>,
    begun: bool,
}

impl<'a> Playing<'a> {
    /// Takes what is known, until [`give_back`](Self::give_back).
    pub(crate) fn new(known: &mut Knowledge, output: Output<'a>) -> Self {
        let (mut tables, history) = (take(&mut known.tables), &mut known.history);
        let (strings, mut programs) = (&mut tables.strings, take(&mut known.programs));
        let sources = vec![
            Source::Horizon(Some(0)),
            Source::Lifecycle(Queue::new(take(&mut history.lifecycle))),
            Source::Markers(Queue::new(take(&mut programs.prescan.markers))),
        ];
        let decoders = Decoders {
            scheduling: Scheduling::default(),
            lifecycle: Lifecycle::default(),
            counters: Counters::new(take(&mut known.counters)),
            zones: Zones::new(programs, strings),
            probes: Probes::new(take(&mut known.probes), strings),
            tracepoints: Tracepoints::new(take(&mut known.tracepoints)),
        };
        let shared = Shared {
            machine: known.machine,
            clock: Arc::clone(&known.clock),
            tables,
            resolver: take(&mut known.resolver),
            added: take(&mut known.added),
            losses: known.losses.clone(),
            definition_records: known.definition_records,
        };
        let engine = Engine::new(shared, &history.initial, output);
        let first_names = history.first_names.clone();
        Self { engine, decoders, merge: Merge::new(sources), first_names, begun: false }
    }

    /// Gives back what is known, for another play.
    pub(crate) fn give_back(self, known: &mut Knowledge) {
        let Engine { tables, resolver, added, .. } = self.engine;
        let Decoders { counters, zones, probes, tracepoints, .. } = self.decoders;
        (known.tables, known.resolver, known.added) = (tables, resolver, added);
        (known.counters, known.programs) = (counters.table, zones.known);
        (known.probes, known.tracepoints) = (probes.table, tracepoints.table);
        for source in self.merge.into_lanes() {
            match source {
                Source::Lifecycle(events) => known.history.lifecycle = events.items,
                Source::Markers(markers) => known.programs.prescan.markers = markers.items,
                _ => {}
            }
        }
    }

    /// The next chunk of its lane. Lanes that hold no events are known already.
    pub fn feed(&mut self, chunk: Chunk) {
        let Some(source) = self.source_of(chunk.header.lane) else { return };
        self.decode(source, |queue| queue.push(chunk));
    }

    /// The next chunk of its lane is there and does not verify: so many records cannot be read.
    pub fn feed_unreadable(&mut self, lane: Lane, records: u32) {
        let Some(source) = self.source_of(lane) else { return };
        self.decode(source, |queue| queue.push_unreadable(records));
    }

    /// No record of before these ticks comes any more, of any lane.
    pub fn nothing_before(&mut self, ticks: Ticks) {
        let ticks = ticks.0;
        for source in FIRST_LANE..FIRST_LANE + self.engine.lanes.len() {
            self.decode(source, |queue| queue.nothing_before(ticks));
        }
        self.merge.feed(HORIZON, |source| *source = Source::Horizon(Some(ticks)));
    }

    /// Tells the exporter all that nothing can come before.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn play(&mut self) -> Result<(), Stopped> {
        self.play_until_waiting().map(|_| ())
    }

    /// What became known of tasks, of a time that was not played yet.
    pub(crate) fn add_lifecycle(&mut self, new: Vec<(u64, LifecycleEvent)>) {
        self.merge.feed(LIFECYCLE, |source| {
            if let Source::Lifecycle(events) = source {
                events.add(new, |(ticks, _)| *ticks);
            }
        });
    }

    /// Nothing comes any more: plays the rest.
    pub(crate) fn finish(&mut self) -> Result<(Played, Losses), Stopped> {
        for source in FIRST_LANE..FIRST_LANE + self.engine.lanes.len() {
            self.decode(source, ChunkQueue::close);
        }
        self.merge.feed(HORIZON, |source| *source = Source::Horizon(None));
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
            let file = &mut files[waiting - FIRST_LANE];
            self.decode(waiting, |queue| file.feed(queue));
        }
        self.end()
    }

    /// The lanes of a file: what is to be fed where one of them waits.
    pub(crate) fn lanes_of<'f>(&mut self, reader: &'f CaptureReader) -> Vec<LaneFile<'f>> {
        for lane in reader.lanes() {
            self.source_of(lane);
        }
        self.merge.feed(HORIZON, |source| *source = Source::Horizon(None));
        self.engine.lanes.iter().map(|of| LaneFile::new(reader, of.lane)).collect()
    }

    /// Plays what lies in a file up to and including `until`; the time that its next item does not
    /// come before, `None` where none comes any more.
    pub(crate) fn play_file_until(
        &mut self,
        files: &mut [LaneFile<'_>],
        until: Time,
    ) -> Result<Option<Time>, Stopped> {
        while let Some(ticks) = self.merge.key() {
            let next = self.engine.present.time(Ticks(ticks));
            if next > until {
                return Ok(Some(next));
            }
            match self.merge.step() {
                MergeStep::Item(source, (ticks, item)) => self.item(source, ticks, item)?,
                MergeStep::Waiting(source) if self.resume(source) => {}
                MergeStep::Waiting(source) => {
                    let file = &mut files[source - FIRST_LANE];
                    self.decode(source, |queue| file.feed(queue));
                }
                MergeStep::End => break,
            }
        }
        Ok(None)
    }

    /// Plays until a source has to be fed, or to the end.
    fn play_until_waiting(&mut self) -> Result<Option<usize>, Stopped> {
        loop {
            match self.merge.step() {
                MergeStep::Item(source, (ticks, item)) => self.item(source, ticks, item)?,
                MergeStep::Waiting(source) if self.resume(source) => {}
                MergeStep::Waiting(source) => return Ok(Some(source)),
                MergeStep::End => return Ok(None),
            }
        }
    }

    #[inline]
    fn item(&mut self, source: usize, ticks: u64, item: SourceItem) -> Result<(), Stopped> {
        if !self.begun {
            self.begin(ticks)?;
        }
        let lane = source.wrapping_sub(FIRST_LANE);
        self.engine.advance(ticks);
        let of = &self.merge.lanes()[source];
        self.decoders.on(&mut self.engine, lane, item, of)?;
        if !self.decoders.zones.known.prescan.markers.is_empty() {
            self.place_markers();
        }
        Ok(())
    }

    /// Markers of later times that lanes have told of wait for these.
    #[cold]
    fn place_markers(&mut self) {
        let markers = take(&mut self.decoders.zones.known.prescan.markers);
        let last = self.merge.lanes().len() - 1;
        self.merge.feed(last, |source| {
            if let Source::Markers(queue) = source {
                queue.add(markers, |marker| marker.ticks);
            }
        });
    }

    /// Tells the first names of threads that get others later.
    #[cold]
    fn begin(&mut self, ticks: u64) -> Result<(), Stopped> {
        self.begun = true;
        self.engine.advance(ticks);
        let mut names = self.first_names.iter();
        names.try_for_each(|(thread, name)| self.engine.emit(&Event::ThreadName(*thread, *name)))
    }

    /// Ends what is open, and says what was played.
    pub(crate) fn end(&mut self) -> Result<(Played, Losses), Stopped> {
        let losses = &mut self.engine.losses;
        let decoders = self.merge.lanes().iter().filter_map(Source::decoder);
        decoders.for_each(|decoder| losses.not_decoded(decoder));
        self.decoders.close(&mut self.engine)?;
        let unshown_failures = self.decoders.tracepoints.gpu.failures.unshown;
        let untold_gaps = self.engine.take_untold_gaps();
        let played = Played { unshown_failures, untold_gaps, ..self.engine.tally.played() };
        Ok((played, take(&mut self.engine.losses)))
    }

    /// Changes what a lane has to decode. Its chunks are decoded when it is their turn: what must be
    /// known for that may come until then.
    fn decode(&mut self, source: usize, change: impl FnOnce(&mut ChunkQueue)) {
        let (programs, map) = (&self.decoders.zones.known, self.engine.present.map());
        self.merge.feed(source, |source| {
            let Some(queue) = source.queue() else { return };
            change(queue);
            if queue.is_empty() {
                source.resume(programs.of_lanes(map));
            }
        });
    }

    /// Goes on with what a lane was fed; `false` where there is nothing.
    fn resume(&mut self, source: usize) -> bool {
        let (programs, map) = (&self.decoders.zones.known, self.engine.present.map());
        self.merge.feed(source, |source| source.resume(programs.of_lanes(map)));
        !self.merge.lanes()[source].is_waiting()
    }

    /// Where the lane lies among the sources; `None` if it holds no events. One that is new gets
    /// its place in the order of lanes, so that it does not matter which was fed first.
    fn source_of(&mut self, lane: Lane) -> Option<usize> {
        let lanes = &mut self.engine.lanes;
        let index = match lanes.binary_search_by_key(&lane, |state| state.lane) {
            Ok(index) => index,
            Err(index) => {
                self.merge.insert(FIRST_LANE + index, Source::of_lane(lane)?);
                let state = self.engine.lane_state(lane);
                self.engine.lanes.insert(index, state);
                index
            }
        };
        Some(FIRST_LANE + index)
    }
}
