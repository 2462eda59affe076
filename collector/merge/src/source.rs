//! What is merged while playing: the steps of tasks, lanes, and markers that
//! programs placed at another time than that of their lane.

use crate::lane::{Record, Timed};
use crate::record_cursor::{RecordCursor, RecordItem};
use crate::tasks::LifecycleEvent;
use crate::zones::cursor::{ZoneCursor, ZoneRecord};
use crate::zones::prescan::PlacedMarker;
use std::iter::{Copied, Peekable};
use std::slice::Iter;
use syscollect_model::{Lane, Tables};
use syscollect_playback::order::Cursor;

/// A source of the merge.
pub(crate) enum Source<'a> {
    /// The steps and the ticks of the next one.
    Lifecycle(Peekable<Copied<Iter<'a, (u64, LifecycleEvent)>>>, Option<u64>),
    /// A lane of the kernel's events or of counters.
    Lane(Timed<'a>),
    /// A thread of an instrumented program; large, so that the others need not be.
    Zones(Box<ZoneCursor<'a>>),
    /// Hits of probes.
    Probes(Box<RecordCursor<'a>>),
    /// Kernel tracepoints.
    Tracepoints(Box<RecordCursor<'a>>),
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
    pub(crate) fn lifecycle(lifecycle: &'a [(u64, LifecycleEvent)]) -> Self {
        let mut lifecycle = lifecycle.iter().copied().peekable();
        let head = lifecycle.peek().map(|(ticks, _)| *ticks);
        Self::Lifecycle(lifecycle, head)
    }

    /// The lane, if it is one, with its records that could not be read and those that could not be
    /// decoded.
    pub(crate) fn lost(&self) -> Option<(Lane, u64, u64)> {
        match self {
            Self::Lane(Timed(cursor)) => {
                Some((cursor.lane(), cursor.unreadable(), cursor.undecodable()))
            }
            Self::Zones(cursor) => Some((cursor.lane(), cursor.unreadable(), cursor.undecodable())),
            Self::Probes(cursor) | Self::Tracepoints(cursor) => {
                Some((cursor.lane(), cursor.unreadable(), cursor.undecodable()))
            }
            Self::Lifecycle(..) | Self::Markers(_) => None,
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
        }
    }

    #[inline]
    fn take(&mut self) -> (u64, SourceItem<'a>) {
        // `take` follows a `key`, so there is an item; else a step that changes nothing.
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
        }
    }
}
