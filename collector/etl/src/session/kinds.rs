//! What occurrences are called where they are counted.

/// A kind of occurrence. Where Linux knows the same, it has the same name.
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
pub(super) struct Counts([u64; Kind::NAMES.len()]);

impl Kind {
    /// By number.
    const NAMES: [&'static str; 17] = [
        "switch",
        "waking",
        "sample",
        "process-start",
        "process-end",
        "thread-start",
        "thread-end",
        "rename",
        "dpc",
        "isr",
        "disk-io",
        "hard-fault",
        "provider-event",
        "gpu-job",
        "vsync",
        "present",
        "flip",
    ];
}

impl Counts {
    #[inline]
    pub(super) fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// Those that occurred, by name.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Kind::NAMES.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}
