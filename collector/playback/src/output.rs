//! The way out: events within a range of time, and what must be told of the
//! time before it.

use crate::any_exporter::{AnyExporter, Stopped};
use crate::before::BeforeRange;
use std::collections::BTreeMap;
use std::ops::Range;
use syscollect_model::{Event, OnCpu, Tables, Time, TrackId};

/// An exporter that is given a range of time.
///
/// Slices that are open when the range begins begin at its start, and those
/// that are open when it ends end there. What counters said last before it, and
/// who has which lock, is told at its start, too.
pub struct Output<'a> {
    exporter: &'a mut AnyExporter<'a>,
    range: Range<Time>,
    before: Box<BeforeRange>,
    /// Slices that the exporter was told of and that are open, by track; only
    /// counted where the range ends before the recording does.
    open: BTreeMap<TrackId, u32>,
    on_cpu: OnCpu,
    unreported_gaps: u64,
    /// There is something to tell before the first event.
    waiting: bool,
    past: bool,
}

impl<'a> Output<'a> {
    /// To this exporter, what happens in this range.
    pub fn new(exporter: &'a mut AnyExporter<'a>, range: Range<Time>) -> Self {
        Self {
            exporter,
            range,
            before: Box::default(),
            open: BTreeMap::new(),
            on_cpu: OnCpu::default(),
            unreported_gaps: 0,
            waiting: false,
            past: false,
        }
    }

    /// To this exporter, what happens from `from` on and before `to`.
    pub fn of_part(
        exporter: &'a mut AnyExporter<'a>,
        from: Option<Time>,
        to: Option<Time>,
    ) -> Self {
        Self::new(exporter, from.unwrap_or(Time(0))..to.unwrap_or(Time(u64::MAX)))
    }

    /// The exporter, for what is told to it beside events.
    pub fn exporter(&mut self) -> &mut AnyExporter<'a> {
        self.exporter
    }

    /// Whether what happens now is in the range.
    #[inline]
    pub fn covers(&self, now: Time) -> bool {
        self.range.contains(&now)
    }

    /// How often events in the range showed that others are missing of which no loss tells, since
    /// this was asked last.
    pub fn take_unreported_gaps(&mut self) -> u64 {
        std::mem::take(&mut self.unreported_gaps)
    }

    /// Gives an event to the exporter, if it lies in the range.
    #[inline]
    pub fn emit(&mut self, now: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        let is_gap = self.on_cpu.apply(now, event, tables);
        if !self.covers(now) {
            return self.outside(now, event, tables);
        }
        self.unreported_gaps += u64::from(is_gap);
        if self.waiting {
            self.enter(now, tables)?;
        }
        if self.range.end < Time(u64::MAX) {
            self.count(event);
        }
        self.exporter.event(now, event, tables)
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::SliceBegin(track, _) => *self.open.entry(*track).or_default() += 1,
            Event::SliceEnd(track) => {
                let open = self.open.entry(*track).or_default();
                *open = open.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Of what comes before the range names and what is open last; what else does, and what comes
    /// after it, the exporter knows.
    #[cold]
    fn outside(&mut self, now: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        if now >= self.range.end {
            self.leave(tables)?;
            return self.exporter.after(now, event, tables);
        }
        self.exporter.before(now, event, tables)?;
        self.waiting |= self.before.note(now, event);
        Ok(())
    }

    /// Tells what was before the range. Where nothing is open the names come with the first event.
    #[cold]
    fn enter(&mut self, now: Time, tables: &Tables) -> Result<(), Stopped> {
        self.waiting = false;
        let time = if self.before.has_state() { self.range.start } else { now };
        for event in std::mem::take(&mut *self.before).into_events(self.range.start, tables) {
            self.count(&event);
            self.exporter.event(time, &event, tables)?;
        }
        Ok(())
    }

    /// The range is over: what is open ends with it.
    fn leave(&mut self, tables: &Tables) -> Result<(), Stopped> {
        if std::mem::replace(&mut self.past, true) || self.range.is_empty() {
            return Ok(());
        }
        if self.before.has_state() {
            self.enter(self.range.start, tables)?;
        }
        for (track, count) in std::mem::take(&mut self.open) {
            for _ in 0..count {
                self.exporter.event(self.range.end, &Event::SliceEnd(track), tables)?;
            }
        }
        Ok(())
    }
}
