//! The way out: events within a range of time, and what must be told of the
//! time before it.

use crate::any_exporter::{AnyExporter, Stopped};
use std::collections::BTreeMap;
use std::ops::Range;
use syscollect_model::{Event, Nesting, OnCpu, Slice, StringId, Tables, ThreadId, Time, TrackId};

/// Slices inside each other that are remembered from before the range.
const MAX_DEPTH: usize = 1 << 16;

/// An exporter that is given a range of time.
///
/// Slices that are open when the range begins begin at its start, and those
/// that are open when it ends end there.
pub struct Output<'a> {
    exporter: &'a mut AnyExporter<'a>,
    range: Range<Time>,
    /// Names that threads got before the range.
    names: BTreeMap<ThreadId, StringId>,
    /// Slices that were open before the range, the outermost first.
    before: BTreeMap<TrackId, Nesting<Slice, MAX_DEPTH>>,
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
        let (names, before, open) = Default::default();
        let on_cpu = OnCpu::default();
        Self {
            exporter,
            range,
            names,
            before,
            open,
            on_cpu,
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

    /// Of what comes before the range names and open slices last; what else does, the exporter
    /// knows.
    #[cold]
    fn outside(&mut self, now: Time, event: &Event, tables: &Tables) -> Result<(), Stopped> {
        if now >= self.range.end {
            return self.leave(tables);
        }
        self.exporter.before(now, event, tables)?;
        match event {
            Event::ThreadName(thread, name) => {
                self.names.insert(*thread, *name);
            }
            Event::SliceBegin(track, slice) => {
                let open = self.before.entry(*track).or_default();
                if open.begin() {
                    open.push(slice.clone());
                }
            }
            Event::SliceUpdate(track, more) => {
                if let Some(slice) = self.before.get_mut(track).and_then(Nesting::innermost) {
                    slice.apply(more);
                }
            }
            Event::SliceEnd(track) => {
                let open = self.before.entry(*track).or_default();
                open.end();
                if open.is_empty() {
                    self.before.remove(track);
                }
            }
            _ => return Ok(()),
        }
        self.waiting = true;
        Ok(())
    }

    /// Tells what was before the range. Without slices the names come with the first event.
    #[cold]
    fn enter(&mut self, now: Time, tables: &Tables) -> Result<(), Stopped> {
        self.waiting = false;
        let time = if self.before.is_empty() { now } else { self.range.start };
        for (thread, name) in std::mem::take(&mut self.names) {
            self.exporter.event(time, &Event::ThreadName(thread, name), tables)?;
        }
        for (track, slices) in std::mem::take(&mut self.before) {
            for slice in slices.into_open() {
                let event = Event::SliceBegin(track, slice);
                self.count(&event);
                self.exporter.event(time, &event, tables)?;
            }
        }
        Ok(())
    }

    /// The range is over: what is open ends with it.
    fn leave(&mut self, tables: &Tables) -> Result<(), Stopped> {
        if std::mem::replace(&mut self.past, true) || self.range.is_empty() {
            return Ok(());
        }
        if !self.before.is_empty() {
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
