//! What is merged while playing: lifecycle events, lanes, and markers that programs placed at
//! another time than that of their lane.

use crate::chunk_queue::Decode;
use crate::lane::{LaneCursor, Record};
use crate::record_cursor::{RecordCursor, RecordItem, Shape};
use crate::tasks::LifecycleEvent;
use crate::zones::cursor::{ZoneCursor, ZoneRecord};
use crate::zones::prescan::PlacedMarker;
use std::iter::{Copied, Peekable};
use std::slice::Iter;
use syscollect_model::{Lane, LaneKind, Tables};
use syscollect_playback::order::Cursor;

/// A source of the merge.
pub(crate) enum Source<'a> {
    /// What lanes that are not known yet hold is not of before these ticks; `None` where no lane
    /// comes any more.
    Horizon(Option<u64>),
    /// The events and the ticks of the next one.
    Lifecycle(Peekable<Copied<Iter<'a, (u64, LifecycleEvent)>>>, Option<u64>),
    /// A lane of the kernel's events or of counters.
    Lane(Box<LaneCursor>),
    /// A thread of an instrumented program; large, so that the others need not be.
    Zones(Box<ZoneCursor<'a>>),
    /// Hits of probes.
    Probes(Box<RecordCursor>),
    /// Kernel tracepoints.
    Tracepoints(Box<RecordCursor>),
    /// Placed markers.
    Markers(&'a [PlacedMarker]),
}

pub(crate) enum SourceItem<'a> {
    LifecycleEvent(LifecycleEvent),
    Record(Record),
    Zones(ZoneRecord),
    Probes(RecordItem),
    Tracepoints(RecordItem),
    Marker(&'a PlacedMarker),
}

impl<'a> Source<'a> {
    /// A lane of events; `None` of a kind that others read.
    pub(crate) fn of_lane(lane: Lane, zones: impl FnOnce() -> ZoneCursor<'a>) -> Option<Self> {
        let records = |shape| Box::new(RecordCursor::new(lane, shape));
        Some(match lane.kind {
            LaneKind::Sched | LaneKind::Sample | LaneKind::Counter => {
                Self::Lane(Box::new(LaneCursor::new(lane)))
            }
            LaneKind::Zone => Self::Zones(Box::new(zones())),
            LaneKind::Probe => Self::Probes(records(Shape::Probe)),
            LaneKind::Tracepoint => Self::Tracepoints(records(Shape::Tracepoint)),
            _ => return None,
        })
    }

    pub(crate) fn lifecycle(lifecycle: &'a [(u64, LifecycleEvent)]) -> Self {
        let mut lifecycle = lifecycle.iter().copied().peekable();
        let head = lifecycle.peek().map(|(ticks, _)| *ticks);
        Self::Lifecycle(lifecycle, head)
    }

    /// What decodes the lane's chunks, if it is a lane.
    pub(crate) fn decoder(&mut self) -> Option<&mut dyn Decode> {
        match self {
            Self::Lane(cursor) => Some(&mut **cursor),
            Self::Zones(cursor) => Some(&mut **cursor),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => Some(&mut **cursor),
            Self::Horizon(_) | Self::Lifecycle(..) | Self::Markers(_) => None,
        }
    }

    /// The words of the group of zone items that was taken last.
    #[inline]
    pub(crate) fn group(&self) -> &[u64] {
        match self {
            Self::Zones(cursor) => cursor.group(),
            _ => &[],
        }
    }

    /// The bytes of the probe's or tracepoint's record that was taken last.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Probes(cursor) | Self::Tracepoints(cursor) => cursor.record(),
            _ => &[],
        }
    }
}

impl<'a> Cursor for Source<'a> {
    type Key = u64;
    type Item = (u64, SourceItem<'a>);

    #[inline]
    fn key(&self) -> Option<u64> {
        match self {
            Self::Lane(lane) => lane.key(),
            Self::Lifecycle(_, head) => *head,
            Self::Zones(cursor) => cursor.key(),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => cursor.key(),
            Self::Markers(markers) => markers.first().map(|marker| marker.ticks),
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
            Self::Lifecycle(..) | Self::Markers(_) => false,
        }
    }

    #[inline]
    fn take(&mut self) -> (u64, SourceItem<'a>) {
        // `take` follows a `key`, so there is an item; else an event that changes nothing.
        const NOTHING: (u64, SourceItem<'static>) =
            (u64::MAX, SourceItem::LifecycleEvent(LifecycleEvent::Bind(0, Tables::IDLE_THREAD)));
        match self {
            Self::Lane(lane) => {
                let (ticks, record) = lane.take();
                (ticks, SourceItem::Record(record))
            }
            Self::Lifecycle(lifecycle, head) => {
                let Some((ticks, lifecycle_event)) = lifecycle.next() else { return NOTHING };
                *head = lifecycle.peek().map(|(ticks, _)| *ticks);
                (ticks, SourceItem::LifecycleEvent(lifecycle_event))
            }
            Self::Zones(cursor) => {
                (cursor.key().unwrap_or(u64::MAX), SourceItem::Zones(cursor.take()))
            }
            Self::Probes(cursor) => {
                (cursor.key().unwrap_or(u64::MAX), SourceItem::Probes(cursor.take()))
            }
            Self::Tracepoints(cursor) => {
                (cursor.key().unwrap_or(u64::MAX), SourceItem::Tracepoints(cursor.take()))
            }
            Self::Markers(markers) => {
                let Some((marker, rest)) = markers.split_first() else { return NOTHING };
                *markers = rest;
                (marker.ticks, SourceItem::Marker(marker))
            }
            Self::Horizon(_) => NOTHING,
        }
    }
}
