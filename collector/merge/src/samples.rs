//! CPU samples.

use crate::engine::{CaptureEngine, Engine};
use syscollect_model::{Event, Sample};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::{SampleRecord, stack_id};

/// A sample, and what the lane lost before it.
pub(crate) fn on(
    engine: &mut Engine<'_>,
    lane: usize,
    record: &SampleRecord,
) -> Result<(), Stopped> {
    engine.loss_before(lane, u64::from(record.lost_before))?;
    engine.count(EventType::Sample);
    let thread = engine.thread(record.tid);
    let stack = engine.stack(lane, record.user_stack, record.kernel_stack);
    let cpu = engine.source.lanes[lane].cpu;
    let in_kernel = record.kernel_stack != stack_id::NONE;
    engine.emit(&Event::Sample(Sample { cpu, thread, stack: stack.stack, in_kernel }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SAMPLE, events_of};
    use syscollect_model::Tables;

    #[test]
    fn what_was_lost_before_a_sample_is_told_before_it() {
        let record = SampleRecord { tid: 7, lost_before: 4, ..Default::default() };
        let mut tables = Tables::default();
        let events = events_of(&mut tables, |engine| on(engine, SAMPLE, &record).unwrap());
        let [Event::Loss(loss), Event::Sample(sample)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((loss.count, tables.thread(sample.thread).tid, sample.stack), (4, 7, None));
    }
}
