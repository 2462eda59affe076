//! Threads: MOF classes `Thread` (versions 0 to 4) and `CSwitch`, `ReadyThread`
//! of the Windows SDK's documentation of the kernel's trace.

use super::reader::Reader;
use super::wait::{ThreadState, WaitReason};
use super::{Lifecycle, Utf16};
use crate::Record;

/// A CPU goes over to another thread (`CSwitch`, versions 1 to 4). The CPU is the record's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSwitch {
    /// The thread that runs from now on; 0 is the idle thread of whatever CPU.
    pub new_tid: u32,
    /// The thread that ran.
    pub old_tid: u32,
    /// Priority of the new thread, 0 to 31.
    pub new_priority: i8,
    /// Priority of the old thread, 0 to 31.
    pub old_priority: i8,
    /// The C-state in which the CPU idled before; 0 says nothing. Version 1 does not say it.
    pub previous_c_state: u8,
    /// Why the old thread waits, or waited last.
    pub old_wait_reason: WaitReason,
    /// In which mode the old thread waits: 0 kernel, 1 user. From version 4 on: its flags.
    pub old_wait_mode: u8,
    /// What the old thread does now.
    pub old_state: ThreadState,
    /// The CPU that the old thread would like best.
    pub old_ideal_cpu: u8,
    /// How long the new thread had waited, in ticks of the system's timer.
    pub new_wait_time: u32,
}

/// A thread may run from now on (`ReadyThread`). Who made it so is the record's task; where its
/// header has none, the thread that runs on the record's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyThread {
    /// The thread that may run.
    pub tid: u32,
    /// Why its priority was raised: 0 not at all, 1 by the caller's wish, 2 as the unwaited
    /// thread's.
    pub adjust_reason: i8,
    /// By how much its priority was raised.
    pub adjust_increment: i8,
    /// 1: made ready by a DPC; 2: its kernel stack is paged out; 4: its process is.
    pub flags: u8,
}

/// A thread begins, ends, or is there (`Thread`, versions 0 to 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'a> {
    /// What happens to it.
    pub lifecycle: Lifecycle,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Address of the function it was started with; 0 where the version does not say it.
    pub start_address: u64,
    /// Its name, where it has one and the version says it (from 3 on).
    pub name: Utf16<'a>,
}

/// A thread is given a name (`Thread`, type 72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName<'a> {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name from now on.
    pub name: Utf16<'a>,
}

impl ContextSwitch {
    #[inline]
    pub(super) fn decode(record: &Record<'_>) -> Option<Self> {
        let bytes: &[u8; 20] = record.payload.first_chunk()?;
        Some(Self {
            new_tid: word(bytes, 0),
            old_tid: word(bytes, 4),
            new_priority: bytes[8].cast_signed(),
            old_priority: bytes[9].cast_signed(),
            // Version 1 has the new thread's quantum here.
            previous_c_state: if record.version < 2 { 0 } else { bytes[10] },
            old_wait_reason: WaitReason(bytes[12]),
            old_wait_mode: bytes[13],
            old_state: ThreadState(bytes[14]),
            old_ideal_cpu: bytes[15],
            new_wait_time: word(bytes, 16),
        })
    }
}

#[inline]
fn word(bytes: &[u8; 20], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl ReadyThread {
    #[inline]
    pub(super) fn decode(record: &Record<'_>) -> Option<Self> {
        let &[a, b, c, d, reason, increment, flags] = record.payload.first_chunk()?;
        Some(Self {
            tid: u32::from_le_bytes([a, b, c, d]),
            adjust_reason: reason.cast_signed(),
            adjust_increment: increment.cast_signed(),
            flags,
        })
    }
}

impl<'a> Thread<'a> {
    /// Version 0: thread, process. Version 1: process, thread; where it begins, stacks and
    /// addresses. From version 2 on: process, thread, four pointers to stacks, the start address
    /// twice (from 3 on the affinity in place of the first), TEB, a word; from 3 on four bytes of
    /// priorities and the name.
    pub(super) fn decode(record: &Record<'a>, lifecycle: Lifecycle) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let (first, second) = (reader.u32()?, reader.u32()?);
        let (pid, tid) = if record.version == 0 { (second, first) } else { (first, second) };
        let mut thread = Self { lifecycle, pid, tid, start_address: 0, name: Utf16::default() };
        if record.version == 0 || (record.version == 1 && reader.rest().is_empty()) {
            return Some(thread);
        }
        reader.skip_pointers(5)?;
        thread.start_address = reader.pointer()?;
        if record.version >= 2 {
            reader.skip_pointers(1)?;
            reader.skip(4)?;
        }
        if record.version >= 3 && reader.skip(4).is_some() {
            thread.name = reader.utf16();
        }
        Some(thread)
    }
}

impl<'a> ThreadName<'a> {
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self { pid: reader.u32()?, tid: reader.u32()?, name: reader.utf16() })
    }
}
