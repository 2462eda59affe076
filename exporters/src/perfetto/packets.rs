//! Packet sequences: what every packet says of itself.

use super::fields::{defaults, packet, perf};
use crate::proto::Message;
use syscollect_model::{MachineId, Time};

/// CLOCK_BOOTTIME, as ftrace events are read by default; every time in the file is in it.
pub(crate) const BOOTTIME: u64 = 6;

/// The incremental state begins with this packet.
const CLEARED: u64 = 1;
/// The packet is meaningless without the incremental state.
const NEEDS: u64 = 2;

/// What the samples of a sequence count.
#[derive(Clone, Debug)]
pub(crate) struct Timebase {
    /// Shown in the viewer.
    pub(crate) name: String,
    /// `PerfEvents.Counter`, 0 if none fits.
    pub(crate) counter: u64,
    /// Samples per second; 0: every event is one sample.
    pub(crate) frequency: u64,
}

/// A packet sequence: interned data and defaults belong to one.
#[derive(Debug)]
pub(crate) struct Sequence {
    machine: MachineId,
    id: u64,
    started: bool,
    timebase: Option<Timebase>,
}

impl Sequence {
    /// The `id`th sequence of a machine, from 1 up to 15.
    pub(crate) fn new(machine: MachineId, id: u64) -> Self {
        let id = u64::from(machine.0) << 4 | id;
        Self { machine, id, started: false, timebase: None }
    }

    /// The same as a sequence of samples.
    pub(crate) fn of_samples(self, timebase: Timebase) -> Self {
        Self { timebase: Some(timebase), ..self }
    }

    /// The fields that begin each packet of the sequence.
    #[inline]
    pub(crate) fn head(&mut self, message: &mut Message<'_>, time: Option<Time>) {
        if let Some(time) = time {
            message.uint(packet::TIMESTAMP, time.0);
        }
        message.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, self.id);
        if self.machine != MachineId::FIRST {
            message.uint(packet::MACHINE_ID, u64::from(self.machine.0));
        }
        if self.started {
            message.uint(packet::SEQUENCE_FLAGS, NEEDS);
        } else {
            self.start(message);
        }
    }

    /// The state is cleared once, here, and stays: what was interned is never sent again.
    #[cold]
    fn start(&mut self, message: &mut Message<'_>) {
        self.started = true;
        message.uint(packet::SEQUENCE_FLAGS, CLEARED);
        message.uint(packet::FIRST_PACKET_ON_SEQUENCE, 1);
        message.message(packet::TRACE_PACKET_DEFAULTS, |fields| {
            if let Some(timebase) = &self.timebase {
                fields.message(defaults::PERF_SAMPLE_DEFAULTS, |fields| timebase.write(fields));
            }
            fields.uint(defaults::TIMESTAMP_CLOCK_ID, BOOTTIME);
        });
    }
}

impl Timebase {
    fn write(&self, message: &mut Message<'_>) {
        message.message(perf::DEFAULTS_TIMEBASE, |fields| {
            if self.frequency > 0 {
                fields.uint(perf::TIMEBASE_FREQUENCY, self.frequency);
            } else {
                fields.uint(perf::TIMEBASE_PERIOD, 1);
            }
            if self.counter > 0 {
                fields.uint(perf::TIMEBASE_COUNTER, self.counter);
            }
            fields.string(perf::TIMEBASE_NAME, &self.name);
        });
    }
}
