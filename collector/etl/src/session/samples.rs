//! CPU samples.

use super::engine::{Engine, TraceEngine};
use super::waiting::{Deferred, ProcessAddress, StackSubject};
use crate::Record;
use crate::payload;
use syscollect_model::{CpuId, Sample};
use syscollect_playback::EventType;

/// A sample. Where nothing tells its stack, it shows its address.
#[inline]
pub(super) fn on(
    engine: &mut Engine<'_>,
    record: &Record<'_>,
    sample: &payload::Sample,
) -> StackSubject {
    let thread = engine.thread(sample.tid);
    let (pid, address, at) = (engine.pid(thread), sample.address, engine.present.ticks());
    let in_kernel = engine.source.code.images.is_kernel(at, address);
    let stacks = &mut engine.source.stacks;
    stacks.samples += 1;
    stacks.samples_in_images += u64::from(engine.source.code.is_in_image(pid, at, address));
    let event = Sample { cpu: CpuId::new(record.cpu.into()), thread, stack: None, in_kernel };
    let address = ProcessAddress { pid, address };
    let number = engine.push_at(Some(EventType::Sample), Deferred::Sample(event), address);
    StackSubject::waiting(sample.tid, number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::images::{ImageAction, ImageRecord, KERNEL_HALF};
    use crate::session::testing::{KeptEvents, record};
    use syscollect_model::Event;

    #[test]
    fn a_sample_shows_its_address_and_is_counted_where_an_image_has_it() {
        let image = ImageRecord {
            at: 0,
            action: ImageAction::Rundown,
            pid: 0,
            base: KERNEL_HALF,
            size: 0x1000,
            timestamp: 0,
            path: "driver".into(),
        };
        let mut reported = KeptEvents::with_images(vec![image]);
        reported.by(|engine| {
            let user = on(engine, &record(0), &sample(0x20));
            assert_eq!(user, StackSubject::waiting(7, 0));
            on(engine, &record(0), &sample(KERNEL_HALF + 0x10));
            let stacks = engine.source.stacks;
            assert_eq!((stacks.samples, stacks.samples_in_images), (2, 1));
        });
        let [(_, Event::Sample(user)), (_, Event::Sample(kernel))] = reported.events[..] else {
            panic!("{:?}", reported.events);
        };
        assert_eq!((user.in_kernel, reported.frames(user.stack)), (false, vec![0x20]));
        assert_eq!((kernel.in_kernel, reported.frames(kernel.stack)), (true, vec![0x10]));
        assert_eq!(reported.tables.thread(user.thread).tid, 7);
    }

    fn sample(address: u64) -> payload::Sample {
        payload::Sample { address, tid: 7, count: 1, in_dpc: false, in_isr: false }
    }
}
