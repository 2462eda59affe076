//! What a recording asks of ETW, decided before anything is started.
//!
//! Pure: options in, numbers out. The numbers are those of `evntrace.h`.

use std::path::{Path, PathBuf};

use syscollect_etl::Guid;

/// Samples per second that Windows' profile interrupt can take: its interval is
/// clamped to 0.1221 ms at the least.
pub const FREQUENCY_MAX: u32 = 8190;

/// Every session of syscollect's begins so; its process id follows.
pub(crate) const NAME_PREFIX: &str = "syscollect-";
/// And so ends the one that watches images.
pub(crate) const WATCH_SUFFIX: &str = "-images";

/// Which events carry the stack of the thread that they are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Samples.
    pub samples: bool,
    /// Context switches: where the thread that was switched in had waited.
    pub switches: bool,
    /// Wake-ups: the stack of the waker.
    pub wakeups: bool,
}

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The `.etl` file to write, absolute.
    pub file: PathBuf,
    /// Samples per second on every CPU; 0 takes none.
    pub frequency: u32,
    /// Which events carry stacks.
    pub stacks: Stacks,
    /// Also what the graphics scheduler says: queues, DMA packets, presents, vsync.
    pub gpu: bool,
    /// Memory for all buffers together, in bytes.
    pub buffer_bytes: usize,
}

/// Where a recording takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingContext {
    /// This process.
    pub pid: u32,
    /// A GUID that no session has had.
    pub fresh: Guid,
    /// How many CPUs there are.
    pub cpus: u32,
}

/// A provider with a manifest that a session is told to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, for messages.
    pub name: &'static str,
    /// Its GUID.
    pub guid: Guid,
    /// Events up to this level: 4 is information, 5 verbose.
    pub level: u8,
    /// Events that belong to any of these groups; 0 is all.
    pub keywords: u64,
    /// Only events with these ids; empty is all.
    pub ids: &'static [u16],
    /// It is asked to state what exists already.
    pub states: bool,
}

/// An event of the kernel's, as `TraceSetInformation` names it: CLASSIC_EVENT_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicEvent {
    /// Its class.
    pub class: Guid,
    /// Its type within the class.
    pub kind: u8,
}

/// All that is told to ETW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The session's name, which carries the process id.
    pub name: String,
    /// The session's GUID.
    pub guid: Guid,
    /// The file it writes.
    pub file: PathBuf,
    /// LogFileMode.
    pub mode: u32,
    /// EnableFlags: which of the kernel's events.
    pub flags: u32,
    /// Size of a buffer in KiB.
    pub buffer_kib: u32,
    /// How many buffers there are at the least, and at the most.
    pub buffers: (u32, u32),
    /// Time between samples in 100 ns, where there are samples.
    pub interval: Option<u32>,
    /// Events that carry stacks.
    pub stacks: Vec<ClassicEvent>,
    /// Other providers that the same session hears.
    pub providers: Vec<Provider>,
}

/// The file grows as it is written.
const MODE_SEQUENTIAL: u32 = 0x1;
/// The session hears the kernel, under a name of its own (Windows 8 and later).
const MODE_SYSTEM_LOGGER: u32 = 0x0200_0000;
/// What fails in another session is no business of this one.
const MODE_INDEPENDENT: u32 = 0x0800_0000;

/// Processes, threads, images, switches, DPCs, interrupts, disk I/O, wake-ups, hard faults.
const FLAGS: u32 = 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0x40 | 0x100 | 0x800 | 0x2000;
/// Samples.
const FLAG_PROFILE: u32 = 0x0100_0000;

const PERF_INFO: Guid = Guid::from_u128(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc);
const THREAD: Guid = Guid::from_u128(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);
const SAMPLE: ClassicEvent = ClassicEvent { class: PERF_INFO, kind: 46 };
const SWITCH: ClassicEvent = ClassicEvent { class: THREAD, kind: 36 };
const READY: ClassicEvent = ClassicEvent { class: THREAD, kind: 50 };

/// Queues, packets, vsync (keyword 1), presents (0x8000000), and what they belong to:
/// adapters, devices, contexts and hardware queues (0x800).
const DXGKRNL: Provider = Provider {
    name: "Microsoft-Windows-DxgKrnl",
    guid: Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d),
    level: 5,
    keywords: 0x0800_0801,
    ids: &[],
    // Devices and contexts that exist already, without which packets belong to nobody.
    states: true,
};
const DXGI: Provider = Provider {
    name: "Microsoft-Windows-DXGI",
    guid: Guid::from_u128(0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9),
    level: 4,
    keywords: 0,
    ids: &[42, 43],
    states: false,
};
const D3D9: Provider = Provider {
    name: "Microsoft-Windows-D3D9",
    guid: Guid::from_u128(0x783aca0a_790e_4d7f_8451_aa850511c6b9),
    level: 4,
    keywords: 0,
    ids: &[1, 2],
    states: false,
};

/// 256 KiB: the kernel stops a CPU's writer for a moment when a buffer is full, so not too small.
const BUFFER_KIB: u32 = 256;

impl Plan {
    /// What `options` come to on the machine at hand.
    #[must_use]
    pub fn new(options: &Options, place: RecordingContext) -> Self {
        let sampling = options.frequency > 0;
        Self {
            name: format!("{NAME_PREFIX}{}", place.pid),
            guid: place.fresh,
            file: options.file.clone(),
            mode: MODE_SEQUENTIAL | MODE_SYSTEM_LOGGER | MODE_INDEPENDENT,
            flags: if sampling { FLAGS | FLAG_PROFILE } else { FLAGS },
            buffer_kib: BUFFER_KIB,
            buffers: buffers(options.buffer_bytes, place.cpus),
            interval: sampling.then(|| 10_000_000 / options.frequency),
            stacks: stacks(options.stacks, sampling),
            providers: if options.gpu { vec![DXGKRNL, DXGI, D3D9] } else { Vec::new() },
        }
    }

    /// The file, for messages.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

fn stacks(wanted: Stacks, sampling: bool) -> Vec<ClassicEvent> {
    let all =
        [(wanted.samples && sampling, SAMPLE), (wanted.switches, SWITCH), (wanted.wakeups, READY)];
    all.into_iter().filter_map(|(wanted, event)| wanted.then_some(event)).collect()
}

/// Every CPU writes into a buffer of its own while another is on its way to the disk.
fn buffers(bytes: usize, cpus: u32) -> (u32, u32) {
    let minimum = cpus.max(1).saturating_mul(2);
    let wanted = u32::try_from(bytes / (BUFFER_KIB as usize * 1024)).unwrap_or(u32::MAX);
    (minimum, wanted.max(minimum.saturating_add(cpus)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RecordingContext = RecordingContext { pid: 4711, fresh: Guid([7; 16]), cpus: 8 };

    fn options() -> Options {
        let stacks = Stacks { samples: true, switches: true, wakeups: true };
        Options {
            file: "C:\\x.etl".into(),
            frequency: 999,
            stacks,
            gpu: false,
            buffer_bytes: 64 << 20,
        }
    }

    #[test]
    fn the_session_has_a_name_of_its_own_and_is_not_the_kernel_logger() {
        let plan = Plan::new(&options(), PLACE);
        assert_eq!(plan.name, "syscollect-4711");
        assert_eq!(plan.guid, PLACE.fresh);
        assert_eq!(plan.mode & MODE_SYSTEM_LOGGER, 0x0200_0000);
    }

    #[test]
    fn samples_are_taken_at_the_rate_that_was_asked_for() {
        assert_eq!(Plan::new(&options(), PLACE).interval, Some(10_010));
        let fastest = Plan::new(&Options { frequency: FREQUENCY_MAX, ..options() }, PLACE);
        assert_eq!(fastest.interval, Some(1221));
    }

    #[test]
    fn without_a_rate_there_are_neither_samples_nor_their_stacks() {
        let plan = Plan::new(&Options { frequency: 0, ..options() }, PLACE);
        assert_eq!(plan.flags & FLAG_PROFILE, 0);
        assert_eq!(plan.interval, None);
        assert_eq!(plan.stacks, [SWITCH, READY]);
    }

    #[test]
    fn each_kind_of_stack_is_asked_for_alone() {
        assert_eq!(only(Stacks { samples: true, ..Stacks::default() }), [SAMPLE]);
        assert_eq!(only(Stacks { switches: true, ..Stacks::default() }), [SWITCH]);
        assert_eq!(only(Stacks { wakeups: true, ..Stacks::default() }), [READY]);
        assert!(only(Stacks::default()).is_empty());
    }

    fn only(stacks: Stacks) -> Vec<ClassicEvent> {
        Plan::new(&Options { stacks, ..options() }, PLACE).stacks
    }

    #[test]
    fn the_graphics_scheduler_is_heard_only_on_request() {
        assert!(Plan::new(&options(), PLACE).providers.is_empty());
        let providers = Plan::new(&Options { gpu: true, ..options() }, PLACE).providers;
        assert_eq!(providers[0].guid.to_string(), "802ec45a-1e99-4b83-9920-87c98277ba9d");
        assert!(providers[0].states, "contexts that exist already must be stated");
        assert_eq!(providers.len(), 3);
    }

    #[test]
    fn memory_becomes_buffers_and_never_fewer_than_the_cpus_need() {
        assert_eq!(Plan::new(&options(), PLACE).buffers, (16, 256));
        let little = Plan::new(&Options { buffer_bytes: 1 << 20, ..options() }, PLACE);
        assert_eq!(little.buffers, (16, 24));
        let nobody = Plan::new(&options(), RecordingContext { cpus: 0, ..PLACE });
        assert_eq!(nobody.buffers.0, 2);
    }
}
