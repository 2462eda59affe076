//! What occurrences are counted as.

use syscollect_playback::EventType;

/// A kind of occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Switch,
    Waking,
    Sample,
    ProcessStart,
    ProcessEnd,
    ThreadStart,
    ThreadEnd,
    Rename,
    Dpc,
    Isr,
    DiskIo,
    HardFault,
    /// An event of a provider, shown as an instant.
    Provider,
    GpuJob,
    Vsync,
    Present,
    Flip,
}

/// How often each kind occurred.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts([u64; Kind::TYPES.len()]);

impl Kind {
    /// By number.
    const TYPES: [EventType; 17] = [
        EventType::Switch,
        EventType::Waking,
        EventType::Sample,
        EventType::ProcessStart,
        EventType::ProcessEnd,
        EventType::ThreadStart,
        EventType::ThreadEnd,
        EventType::Rename,
        EventType::Dpc,
        EventType::Isr,
        EventType::DiskIo,
        EventType::HardFault,
        EventType::ProviderEvent,
        EventType::GpuJob,
        EventType::Vsync,
        EventType::Present,
        EventType::Flip,
    ];
}

impl Counts {
    #[inline]
    pub(super) fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// Those that occurred.
    pub(super) fn by_type(&self) -> impl Iterator<Item = (EventType, u64)> + '_ {
        Kind::TYPES.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}
