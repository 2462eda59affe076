//! CPU samples.

use crate::engine::Engine;
use syscollect_model::{Event, Sample};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::{SampleRecord, stack_id};

/// A sample, and what the lane lost before it.
pub(crate) fn on(
    engine: &mut Engine<'_>,
    lane: usize,
    record: &SampleRecord,
) -> Result<(), Stopped> {
    engine.told(lane, u64::from(record.lost_before))?;
    engine.count(EventType::Sample);
    let thread = engine.thread(record.tid);
    let stack = engine.stack(lane, record.user_stack, record.kernel_stack);
    let cpu = engine.lanes[lane].cpu;
    let in_kernel = record.kernel_stack != stack_id::NONE;
    engine.emit(&Event::Sample(Sample { cpu, thread, stack: stack.stack, in_kernel }))
}
