//! What is held against what is told of GPUs.

use std::collections::HashMap;
use std::convert::Infallible;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Tables, Time, TrackId};

/// An exporter of GPU jobs: time does not go back, jobs of one track follow each other, and what
/// begins ends.
#[derive(Default)]
pub struct GpuChecker {
    now: Time,
    /// End of the last job.
    ends: HashMap<TrackId, Time>,
    /// Open slices.
    open: HashMap<TrackId, u32>,
}

impl Exporter for GpuChecker {
    type Error = Infallible;

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Infallible> {
        assert!(time >= self.now, "time goes back");
        self.now = time;
        match event {
            Event::GpuJob(track, job) => {
                let Some(began) = job.began() else { return Ok(()) };
                let last = self.ends.insert(*track, time).unwrap_or(Time(0));
                assert!(last <= began && began <= time, "{job:?} after {last:?} until {time:?}");
            }
            Event::SliceBegin(track, _) => *self.open.entry(*track).or_default() += 1,
            Event::SliceEnd(track) => *self.open.get_mut(track).expect("a slice that began") -= 1,
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
        assert!(self.open.values().all(|open| *open == 0), "every slice ends");
        Ok(())
    }
}
