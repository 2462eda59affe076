//! What is merged while playing: lifecycle events, lanes, and markers that programs placed at
//! another time than that of their lane.

use crate::chunk_queue::{ChunkQueue, Decode, Resume};
use crate::lane::{LaneCursor, Record};
use crate::record_cursor::{RecordCursor, RecordItem, Shape};
use crate::tasks::TaskEvent;
use crate::zones::cursor::{Programmed, ZoneCursor, ZoneRecord};
use crate::zones::gpu::placed::PlacedGpuZone;
use crate::zones::prescan::PlacedMarker;
use syscollect_model::{Lane, LaneKind, Tables};
use syscollect_playback::LifecycleEvent;
use syscollect_playback::order::Cursor;

/// A source of the merge.
pub(crate) enum Source {
    /// What lanes that are not known yet hold is not of before these ticks; `None` where no lane
    /// comes any more.
    Horizon(Option<u64>),
    /// Lifecycle events of tasks.
    Lifecycle(Queue<(u64, TaskEvent)>),
    /// A lane of the kernel's events or of counters.
    Lane(Box<LaneCursor>),
    /// A thread of an instrumented program; large, so that the others need not be.
    Zones(Box<ZoneCursor>),
    /// Hits of probes.
    Probes(Box<RecordCursor>),
    /// Kernel tracepoints.
    Tracepoints(Box<RecordCursor>),
    /// Placed markers.
    Markers(Queue<PlacedMarker>),
    /// Zones of GPUs, which end at another time than anything is written of them.
    GpuZones(Queue<PlacedGpuZone>),
}

/// What is known and was not emitted yet, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Queue<T> {
    pub(crate) items: Vec<T>,
    /// So many were emitted.
    emitted: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(items: Vec<T>) -> Self {
        Self { items, emitted: 0 }
    }

    /// Adds what is known now, behind what comes before it; what was emitted is forgotten.
    pub(crate) fn add(&mut self, new: impl IntoIterator<Item = T>, ticks: impl Fn(&T) -> u64) {
        self.items.drain(..self.emitted);
        self.emitted = 0;
        self.items.extend(new);
        self.items.sort_by_key(ticks);
    }

    fn next(&self) -> Option<&T> {
        self.items.get(self.emitted)
    }

    /// What was emitted last.
    fn last(&self) -> Option<&T> {
        self.items.get(self.emitted.checked_sub(1)?)
    }
}

/// What was taken of a source.
pub(crate) enum SourceItem {
    /// What the kernel told of tasks.
    Task(TaskEvent),
    /// An event of the kernel's, or a value of a counter.
    Record(Record),
    /// What a program's thread tells: the words of a group are in [`LentBytes::group`].
    Zones(ZoneRecord),
    /// A hit of a probe: its bytes are in [`LentBytes::bytes`].
    Probe(RecordItem),
    /// A kernel tracepoint, likewise.
    Tracepoint(RecordItem),
    /// A placed marker, in [`LentBytes::marker`].
    Marker,
    /// A zone of a GPU, in [`LentBytes::gpu_zone`].
    GpuZone,
}

/// The bytes that belong to what was taken, which its source lends. They lie beside it, and not in
/// it: each item is moved, and most have none.
#[derive(Clone, Copy)]
pub(crate) struct LentBytes<'s>(pub(crate) &'s Source);

impl<'s> LentBytes<'s> {
    /// The words of the group of zone items.
    #[inline]
    pub(crate) fn group(self) -> &'s [u64] {
        match self.0 {
            Source::Zones(cursor) => cursor.group(),
            _ => &[],
        }
    }

    /// The bytes of the probe's or tracepoint's record.
    #[inline]
    pub(crate) fn bytes(self) -> &'s [u8] {
        match self.0 {
            Source::Probes(cursor) | Source::Tracepoints(cursor) => cursor.record(),
            _ => &[],
        }
    }

    /// The marker.
    pub(crate) fn marker(self) -> Option<&'s PlacedMarker> {
        match self.0 {
            Source::Markers(markers) => markers.last(),
            _ => None,
        }
    }

    /// The zone of a GPU.
    pub(crate) fn gpu_zone(self) -> Option<&'s PlacedGpuZone> {
        match self.0 {
            Source::GpuZones(zones) => zones.last(),
            _ => None,
        }
    }
}

impl Source {
    /// A lane of events; `None` of a kind that others read.
    pub(crate) fn of_lane(lane: Lane) -> Option<Self> {
        Some(match lane.kind {
            LaneKind::Sched | LaneKind::Sample | LaneKind::Counter => {
                Self::Lane(Box::new(LaneCursor::new(lane)))
            }
            LaneKind::Zone => Self::Zones(Box::new(ZoneCursor::new(lane))),
            LaneKind::Probe => Self::Probes(Box::new(RecordCursor::new(lane, Shape::Probe))),
            LaneKind::Tracepoint => {
                Self::Tracepoints(Box::new(RecordCursor::new(lane, Shape::Tracepoint)))
            }
            _ => return None,
        })
    }

    /// What decodes the lane's chunks, if it is a lane.
    pub(crate) fn decoder(&self) -> Option<&dyn Decode> {
        match self {
            Self::Lane(cursor) => Some(&**cursor),
            Self::Zones(cursor) => Some(&**cursor),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => Some(&**cursor),
            Self::Horizon(_) | Self::Lifecycle(_) | Self::Markers(_) | Self::GpuZones(_) => None,
        }
    }

    /// What the lane has to decode; [`resume`](Self::resume) follows where that changes.
    pub(crate) fn queue(&mut self) -> Option<&mut ChunkQueue> {
        match self {
            Self::Lane(cursor) => Some(cursor.queue_mut()),
            Self::Zones(cursor) => Some(cursor.queue_mut()),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => Some(cursor.queue_mut()),
            Self::Horizon(_) | Self::Lifecycle(_) | Self::Markers(_) | Self::GpuZones(_) => None,
        }
    }

    /// Goes on with the chunks that its lane was fed.
    pub(crate) fn resume(&mut self, programs: Programmed<'_>) {
        match self {
            Self::Lane(cursor) => cursor.resume(()),
            Self::Zones(cursor) => cursor.resume(programs),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => cursor.resume(()),
            Self::Horizon(_) | Self::Lifecycle(_) | Self::Markers(_) | Self::GpuZones(_) => {}
        }
    }
}

impl Cursor for Source {
    type Key = u64;
    type Item = (u64, SourceItem);

    #[inline]
    fn key(&self) -> Option<u64> {
        match self {
            Self::Lane(lane) => lane.key(),
            Self::Lifecycle(events) => events.next().map(|(ticks, _)| *ticks),
            Self::Zones(cursor) => cursor.key(),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => cursor.key(),
            Self::Markers(markers) => markers.next().map(|marker| marker.ticks),
            Self::GpuZones(zones) => zones.next().map(|zone| zone.ticks),
            Self::Horizon(ticks) => *ticks,
        }
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        match self {
            Self::Lane(lane) => lane.is_waiting(),
            Self::Zones(cursor) => cursor.is_waiting(),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => cursor.is_waiting(),
            Self::Horizon(ticks) => ticks.is_some(),
            Self::Lifecycle(_) | Self::Markers(_) | Self::GpuZones(_) => false,
        }
    }

    #[inline]
    fn take(&mut self) -> (u64, SourceItem) {
        // `take` follows a `key`, so there is an item; else an event that changes nothing.
        const NOTHING: (u64, SourceItem) = (
            u64::MAX,
            SourceItem::Task(TaskEvent::Lifecycle(LifecycleEvent::Bind(0, Tables::IDLE_THREAD))),
        );
        match self {
            Self::Lane(lane) => {
                let (ticks, record) = lane.take();
                (ticks, SourceItem::Record(record))
            }
            Self::Lifecycle(events) => {
                let Some((ticks, event)) = events.next().copied() else { return NOTHING };
                events.emitted += 1;
                (ticks, SourceItem::Task(event))
            }
            Self::Zones(cursor) => {
                (cursor.key().unwrap_or(u64::MAX), SourceItem::Zones(cursor.take()))
            }
            Self::Probes(cursor) => {
                (cursor.key().unwrap_or(u64::MAX), SourceItem::Probe(cursor.take()))
            }
            Self::Tracepoints(cursor) => {
                (cursor.key().unwrap_or(u64::MAX), SourceItem::Tracepoint(cursor.take()))
            }
            Self::Markers(markers) => {
                let Some(ticks) = markers.next().map(|marker| marker.ticks) else { return NOTHING };
                markers.emitted += 1;
                (ticks, SourceItem::Marker)
            }
            Self::GpuZones(zones) => {
                let Some(ticks) = zones.next().map(|zone| zone.ticks) else { return NOTHING };
                zones.emitted += 1;
                (ticks, SourceItem::GpuZone)
            }
            Self::Horizon(_) => NOTHING,
        }
    }
}
