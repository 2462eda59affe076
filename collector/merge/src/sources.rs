//! The sources of a session in one order: what they give, and what they are fed with.

use crate::chunk_queue::{ChunkQueue, Decode};
use crate::source::{LentBytes, Queue, Source, SourceItem};
use crate::tasks::TaskEvent;
use crate::zones::cursor::Programmed;
use crate::zones::gpu::placed::PlacedGpuZone;
use crate::zones::prescan::PlacedMarker;
use syscollect_model::Ticks;
use syscollect_playback::order::{Cursor, Merge, MergeStep};
use syscollect_records::SchedStackRecord;

/// Places among the sources: behind the horizon and the task events lie the lanes (of equal ticks a
/// task is born before it runs), and behind these the markers and the zones of GPUs.
const HORIZON: usize = 0;
const TASKS: usize = 1;
const FIRST_LANE: usize = 2;

/// What is known before the lanes are played, in order of time.
#[derive(Debug, Default)]
pub(crate) struct KnownSources {
    /// With their ticks.
    pub(crate) tasks: Vec<(u64, TaskEvent)>,
    pub(crate) markers: Vec<PlacedMarker>,
    pub(crate) gpu_zones: Vec<PlacedGpuZone>,
}

/// The sources of a session. Lanes are numbered in their order, as those of the engine.
pub(crate) struct Sources {
    merge: Merge<Source>,
}

impl Sources {
    /// Without lanes.
    pub(crate) fn new(known: KnownSources) -> Self {
        let KnownSources { tasks, markers, gpu_zones } = known;
        let sources = vec![
            Source::Horizon(Some(0)),
            Source::Lifecycle(Queue::new(tasks)),
            Source::Markers(Queue::new(markers)),
            Source::GpuZones(Queue::new(gpu_zones)),
        ];
        Self { merge: Merge::new(sources) }
    }

    /// What it was made of, and what was added; zones of GPUs are read for each play anew.
    pub(crate) fn into_parts(self) -> KnownSources {
        let mut known = KnownSources::default();
        for source in self.merge.into_lanes() {
            match source {
                Source::Lifecycle(events) => known.tasks = events.items,
                Source::Markers(placed) => known.markers = placed.items,
                _ => {}
            }
        }
        known
    }

    /// What comes next: ticks, and what was taken.
    #[inline]
    pub(crate) fn step(&mut self) -> MergeStep<(u64, SourceItem)> {
        self.merge.step()
    }

    /// Takes the scheduling events of the lane that comes next, as many as are before all else;
    /// with the lane's number.
    #[inline]
    pub(crate) fn run_of_sched(&mut self, mut on: impl FnMut(usize, u64, &SchedStackRecord)) {
        self.merge.run(|source, cursor, end| {
            if let Source::Lane(lane) = cursor {
                let number = source.wrapping_sub(FIRST_LANE);
                lane.take_sched(end, |ticks, record| on(number, ticks, record));
            }
        });
    }

    /// The number of a source's lane, and the bytes of what was taken last. Where the source is no
    /// lane the number means nothing.
    #[inline]
    pub(crate) fn lent(&self, source: usize) -> (usize, LentBytes<'_>) {
        (source.wrapping_sub(FIRST_LANE), LentBytes(&self.merge.lanes()[source]))
    }

    /// The number of the lane that a source which waits is; of the horizon, none.
    pub(crate) fn waiting_lane(source: usize) -> Option<usize> {
        // Behind the lanes there are markers and zones of GPUs, which never wait.
        source.checked_sub(FIRST_LANE)
    }

    /// The least ticks that the next item may have; `None` at the end.
    pub(crate) fn key(&mut self) -> Option<u64> {
        self.merge.key()
    }

    /// The lane gets that number, and those from it on the next.
    pub(crate) fn insert(&mut self, number: usize, lane: Source) {
        self.merge.insert(FIRST_LANE + number, lane);
    }

    /// What decodes the lanes.
    pub(crate) fn decoders(&self) -> impl Iterator<Item = &dyn Decode> {
        self.merge.lanes().iter().filter_map(Source::decoder)
    }

    /// Lanes that are not known yet hold nothing of before these ticks; without, none comes any
    /// more.
    pub(crate) fn set_horizon(&mut self, ticks: Option<Ticks>) {
        let horizon = Source::Horizon(ticks.map(|Ticks(ticks)| ticks));
        self.merge.feed(HORIZON, |source| *source = horizon);
    }

    /// What became known of tasks, of a time that was not played yet.
    pub(crate) fn add_task_events(&mut self, new: Vec<(u64, TaskEvent)>) {
        self.merge.feed(TASKS, |source| {
            if let Source::Lifecycle(events) = source {
                events.add(new, |(ticks, _)| *ticks);
            }
        });
    }

    /// Markers of later times.
    pub(crate) fn add_markers(&mut self, new: Vec<PlacedMarker>) {
        let markers = self.merge.lanes().len() - 2;
        self.merge.feed(markers, |source| {
            if let Source::Markers(queue) = source {
                queue.add(new, |marker| marker.ticks);
            }
        });
    }

    /// Changes what a lane has to decode. Its chunks are decoded when it is their turn: what must
    /// be known for that may come until then.
    pub(crate) fn feed(
        &mut self,
        lane: usize,
        programs: Programmed<'_>,
        change: impl FnOnce(&mut ChunkQueue),
    ) {
        self.merge.feed(FIRST_LANE + lane, |source| {
            let Some(queue) = source.queue() else { return };
            change(queue);
            if queue.is_empty() {
                source.resume(programs);
            }
        });
    }

    /// Goes on with what a lane was fed; `false` where there is nothing.
    pub(crate) fn resume(&mut self, lane: usize, programs: Programmed<'_>) -> bool {
        self.merge.feed(FIRST_LANE + lane, |source| source.resume(programs));
        !self.merge.lanes()[FIRST_LANE + lane].is_waiting()
    }

    /// Chunks that wait in memory.
    pub(crate) fn queued_chunks(&self) -> usize {
        self.decoders().map(|decoder| decoder.queue().len()).sum()
    }
}
