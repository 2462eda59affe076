//! An exporter that checks what every source owes to every exporter.

use std::collections::BTreeMap;
use std::convert::Infallible;
use syscollect_model::{
    Event, Exporter, Loss, RecorderSummary, StackId, Tables, ThreadId, Time, TrackId,
};

/// Checks order, rows and slices, and counts.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    last: Time,
    open: BTreeMap<TrackId, usize>,
    /// Switches, wakeups and samples with a stack.
    pub(crate) with_stack: u64,
    pub(crate) samples: u64,
    /// Frames of samples that are not the kernel's: all, those that have names, and those in no
    /// module.
    pub(crate) user_frames: u64,
    pub(crate) named_user_frames: u64,
    pub(crate) bare_user_frames: u64,
    pub(crate) instants: u64,
    pub(crate) slices: u64,
    /// Deepest nesting of one track.
    pub(crate) deepest: usize,
}

impl Checked {
    fn stack(&mut self, stack: Option<StackId>, tables: &Tables) {
        let Some(stack) = stack else { return };
        self.with_stack += 1;
        let frames = tables.stack(stack);
        assert!(
            !frames.is_empty() && frames.iter().all(|frame| frame.index() < tables.frames.len())
        );
    }

    fn user_frames(&mut self, stack: StackId, tables: &Tables) {
        let frames = tables.stack(stack).iter().map(|frame| tables.frame(*frame));
        let user = frames.filter(|frame| match frame.module {
            Some(module) => !tables.module(module).kind.is_kernel(),
            None => frame.offset < 1 << 63,
        });
        for frame in user {
            self.user_frames += 1;
            self.bare_user_frames += u64::from(frame.module.is_none());
            self.named_user_frames += u64::from(frame.function.is_some());
        }
    }

    fn slice(&mut self, track: TrackId, event: &Event) {
        let depth = self.open.entry(track).or_default();
        match event {
            Event::SliceBegin(..) => *depth += 1,
            _ => *depth = depth.checked_sub(1).expect("a slice ends that nothing began"),
        }
        self.slices += u64::from(matches!(event, Event::SliceBegin(..)));
        self.deepest = self.deepest.max(*depth);
    }
}

fn thread(id: ThreadId, tables: &Tables) {
    assert!(tables.thread(id).process.index() < tables.processes.len());
}

impl Exporter for Checked {
    type Error = Infallible;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        assert!(time >= self.last, "time goes back by {}", self.last.0 - time.0);
        self.last = time;
        match event {
            Event::Switch(switch) => {
                switch.previous.into_iter().chain([switch.next]).for_each(|id| thread(id, tables));
                self.stack(switch.off_cpu.stack, tables);
            }
            Event::Wakeup(wakeup) => {
                thread(wakeup.wakee, tables);
                self.stack(wakeup.stack, tables);
            }
            Event::Sample(sample) => {
                self.samples += 1;
                thread(sample.thread, tables);
                self.stack(sample.stack, tables);
                sample.stack.iter().for_each(|stack| self.user_frames(*stack, tables));
            }
            Event::SliceBegin(track, _) | Event::SliceEnd(track) => self.slice(*track, event),
            Event::Instant(track, _) => {
                self.instants += 1;
                assert!(track.index() < tables.tracks.len());
            }
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Infallible> {
        assert!(self.open.values().all(|depth| *depth == 0), "a slice is left open");
        Ok(())
    }
}
