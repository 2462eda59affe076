//! The logfile header: the first record of every file.

use super::bytes::{u16_at, u32_at, u64_at, utf16_at};

/// What the time stamps of a file count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The performance counter, [`LogfileHeader::perf_freq`] ticks a second.
    Qpc,
    /// The system time: 100 ns since 1601.
    SystemTime,
    /// The CPU's cycle counter, [`LogfileHeader::mhz`] million ticks a second.
    CpuCycle,
    /// A clock no Windows up to 11 has.
    Unknown(u32),
}

/// What a file says about itself and the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogfileHeader {
    /// Bytes of a buffer.
    pub buffer_size: u32,
    /// Windows' major and minor version: 10 and 0 since Windows 10.
    pub os_version: (u8, u8),
    /// Windows' build: 19041, 22000, ...
    pub os_build: u32,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Bytes of a pointer of the logger, not of what it logged: a record says its own.
    pub pointer_size: u32,
    /// Timer resolution, in units of 100 ns.
    pub timer_resolution: u32,
    /// The file's length at most, in MiB, or in KiB where [`Self::mode`] says so; 0 for any.
    pub most_size: u32,
    /// `LogFileMode`: how it was written. See [`Self::is_circular`].
    pub mode: u32,
    /// Buffers that were written; 0 when the logger did not come to say it. A circular file holds
    /// the last of them.
    pub buffers_written: u32,
    /// Events that found no room in a buffer.
    pub events_lost: u32,
    /// Buffers that could not be written.
    pub buffers_lost: u32,
    /// The CPU's nominal frequency, in MHz.
    pub mhz: u32,
    /// What time stamps count.
    pub clock: Clock,
    /// Ticks of the performance counter a second. Not always ten million.
    pub perf_freq: u64,
    /// When the machine was started: 100 ns since 1601, UTC.
    pub boot_time: u64,
    /// When the recording began: 100 ns since 1601, UTC.
    pub start_time: u64,
    /// When it ended; 0 when the logger did not come to say it.
    pub end_time: u64,
    /// The header's own time stamp, raw: the tick at [`Self::start_time`].
    pub timestamp: u64,
    /// The session's name.
    pub logger_name: String,
    /// The file's name when it was written.
    pub file_name: String,
}

/// Where things move when the logger is a 32-bit one: two pointers lie before them.
const POINTERS: usize = 8;
/// `EVENT_TRACE_FILE_MODE_*` and others of `evntrace.h`.
const MODE_CIRCULAR: u32 = 0x2;
const MODE_APPEND: u32 = 0x4;
const MODE_NEW_FILE: u32 = 0x8;
const MODE_BUFFERING: u32 = 0x400;
const MODE_KIBIBYTES: u32 = 0x2000;
const MODE_COMPRESSED: u32 = 0x0400_0000;

impl LogfileHeader {
    /// Reads the header record's payload; `None` when it is too short.
    pub(super) fn parse(payload: &[u8], timestamp: u64) -> Option<Self> {
        let pointer_size = u32_at(payload, 0x2c)?;
        let back = if pointer_size == 4 { POINTERS } else { 0 };
        let names_at = 0x118 - back;
        let (logger_name, behind) = utf16_at(payload, names_at);
        let (file_name, _) = utf16_at(payload, behind);
        let [major, minor] = u16_at(payload, 4)?.to_le_bytes();
        Some(Self {
            buffer_size: u32_at(payload, 0)?,
            os_version: (major, minor),
            os_build: u32_at(payload, 8)?,
            cpus: u32_at(payload, 0xc)?,
            pointer_size,
            timer_resolution: u32_at(payload, 0x18)?,
            most_size: u32_at(payload, 0x1c)?,
            mode: u32_at(payload, 0x20)?,
            buffers_written: u32_at(payload, 0x24)?,
            events_lost: u32_at(payload, 0x30)?,
            buffers_lost: u32_at(payload, 0x114 - back)?,
            mhz: u32_at(payload, 0x34)?,
            clock: match u32_at(payload, 0x110 - back)? {
                1 => Clock::Qpc,
                2 => Clock::SystemTime,
                3 => Clock::CpuCycle,
                other => Clock::Unknown(other),
            },
            perf_freq: u64_at(payload, 0x100 - back)?,
            boot_time: u64_at(payload, 0xf8 - back)?,
            start_time: u64_at(payload, 0x108 - back)?,
            end_time: u64_at(payload, 0x10)?,
            timestamp,
            logger_name,
            file_name,
        })
    }

    /// Ticks a second of the raw time stamps; `None` where the header does not say it.
    pub fn ticks_per_second(&self) -> Option<u64> {
        let ticks = match self.clock {
            Clock::Qpc | Clock::Unknown(_) => self.perf_freq,
            Clock::SystemTime => 10_000_000,
            Clock::CpuCycle => u64::from(self.mhz) * 1_000_000,
        };
        (ticks > 0).then_some(ticks)
    }

    /// The time of day of a raw time stamp: 100 ns since 1601, UTC. Outside of
    /// what that can say it stays at its end.
    pub fn wall_time(&self, timestamp: u64) -> u64 {
        let Some(ticks) = self.ticks_per_second() else { return self.start_time };
        let since = i128::from(timestamp) - i128::from(self.timestamp);
        let wall = i128::from(self.start_time) + since * 10_000_000 / i128::from(ticks);
        u64::try_from(wall.max(0)).unwrap_or(u64::MAX)
    }

    /// Raw time stamps of both files can be compared: they count the same, and
    /// from the same moment on, as far as that can be told from a time of day
    /// that may have been set between the beginnings of the two.
    pub(super) fn shares_clock(&self, other: &Self) -> bool {
        const TEN_MINUTES: u64 = 600 * 10_000_000;
        let [zero, of_other] =
            [self, other].map(|header| header.wall_time(header.timestamp.min(other.timestamp)));
        Self::rate(self) == Self::rate(other) && zero.abs_diff(of_other) < TEN_MINUTES
    }

    fn rate(header: &Self) -> (Clock, Option<u64>) {
        (header.clock, header.ticks_per_second())
    }

    /// The performance counter is the CPU's time stamp counter divided by 1024:
    /// its rate is the CPU's nominal frequency divided by that, within a percent.
    pub fn qpc_is_tsc(&self) -> bool {
        let (qpc, tsc) = (self.perf_freq.saturating_mul(1024), u64::from(self.mhz) * 1_000_000);
        self.clock == Clock::Qpc && tsc > 0 && qpc.abs_diff(tsc) <= tsc / 100
    }

    /// The oldest buffers were overwritten when the file was full.
    pub fn is_circular(&self) -> bool {
        self.mode & MODE_CIRCULAR != 0
    }

    /// The buffers are those of the end of a recording, or of a part of it: circular, one of
    /// several files, a ring of memory that was written out, or behind those of an earlier
    /// recording. So their numbers may begin anywhere.
    pub(super) fn is_a_part(&self) -> bool {
        self.mode & (MODE_CIRCULAR | MODE_APPEND | MODE_NEW_FILE | MODE_BUFFERING) != 0
    }

    /// A logger that goes on in another file when this one is full.
    pub(super) fn is_one_of_several(&self) -> bool {
        self.mode & MODE_NEW_FILE != 0
    }

    /// Buffers for which the file has room, where it has an end.
    pub(super) fn most_buffers(&self) -> Option<u64> {
        let unit = if self.mode & MODE_KIBIBYTES != 0 { 1 << 10 } else { 1 << 20 };
        (self.most_size > 0)
            .then(|| (u64::from(self.most_size) * unit).checked_div(self.buffer_size.into()))?
    }

    /// Buffers are compressed.
    pub fn is_compressed(&self) -> bool {
        self.mode & MODE_COMPRESSED != 0
    }
}
