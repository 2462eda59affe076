//! CPU samples.

use super::engine::Engine;
use super::waiting::{Deferred, StackSubject, WaitingEvent};
use crate::Record;
use crate::payload;
use syscollect_model::Sample;
use syscollect_playback::EventType;

/// A sample. Where nothing tells its stack, it shows its address.
#[inline]
pub(super) fn on(
    engine: &mut Engine<'_>,
    record: &Record<'_>,
    sample: &payload::Sample,
) -> StackSubject {
    let thread = engine.thread(sample.tid);
    let (pid, address, at) = (engine.pid(thread), sample.address, engine.present.at);
    let in_kernel = engine.code.images.is_kernel(at, address);
    let stacks = &mut engine.tally.stacks;
    stacks.samples += 1;
    stacks.samples_in_images += u64::from(engine.code.is_in_image(pid, at, address));
    let event = Sample { cpu: u32::from(record.cpu), thread, stack: None, in_kernel };
    let waiting = WaitingEvent::new(Some(EventType::Sample), Deferred::Sample(event), at);
    let number = engine.push_waiting(WaitingEvent { pid, address, ..waiting });
    StackSubject::waiting(sample.tid, number)
}
