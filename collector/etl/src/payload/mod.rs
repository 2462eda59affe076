//! What records say, by class.
//!
//! **Duties.** [`decode`] turns a [`Record`] into a [`Payload`]: a pure function
//! of its bytes, its version and its bitness, without allocation; texts and
//! addresses are borrowed. Fields of providers' events are decoded only when
//! asked for ([`TraceLogging::fields`], [`EventSchema::fields`]).
//!
//! **Non-goals.** What events mean together: matching stacks to events, naming
//! threads, pairing starts with ends. That is [`crate::session`].
//!
//! Layouts are those of the MOF classes that the Windows SDK documents for the
//! kernel's trace; where a version is newer than the documentation, fields that
//! it added lie behind the known ones and are left out. A payload too short
//! for its version is [`Payload::Malformed`], never an error.

mod disk;
pub mod dxgkrnl;
mod fields;
mod image;
mod machine;
pub mod present;
mod process;
pub(crate) mod reader;
mod sample;
mod stack;
#[cfg(test)]
mod tests;
mod text;
mod thread;
mod wait;
pub mod width;

use crate::file::{LOST_EVENT, group};
use crate::{Class, Guid, Record};

pub use disk::{DiskIo, DiskIoBegin, DiskIoKind, FileName, HardFault, PageFault, PageFaultKind};
pub use fields::{EVENT_METADATA, EventInfo, EventKey, EventSchema, Field, TraceLogging, Value};
pub use image::{IMAGE_ID, Image, ImageDebugId, ImageFileId};
pub use machine::{Build, Machine, Processor, SYSTEM_CONFIG_EX, VolumeMapping};
pub use process::Process;
pub use sample::{Dpc, DpcKind, Isr, Sample, SampleInterval, SampleMoment};
pub use stack::{
    FrameAddresses, Frames, ItemStack, Stack, StackKeyDefinition, StackKeyReference, item_stacks,
};
pub use text::{Ascii, Utf16};
pub use thread::{ContextSwitch, ReadyThread, Thread, ThreadName};
pub use wait::{ThreadState, WaitReason};

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A CPU goes over to another thread.
    ContextSwitch(ContextSwitch),
    /// A thread may run from now on.
    ReadyThread(ReadyThread),
    /// A thread begins, ends, or is there.
    Thread(Thread<'a>),
    /// A thread is given a name.
    ThreadName(ThreadName<'a>),
    /// A process begins, ends, or is there.
    Process(Process<'a>),
    /// An image is mapped, unmapped, or is there.
    Image(Image<'a>),
    /// Where the debug information of an image is.
    ImageDebugId(ImageDebugId<'a>),
    /// Identity of an image's file.
    ImageFileId(ImageFileId<'a>),
    /// Where a CPU was.
    Sample(Sample),
    /// How often samples are taken.
    SampleInterval(SampleInterval),
    /// A stack of an event.
    Stack(Stack<'a>),
    /// A stack of an event, by its key.
    StackKeyReference(StackKeyReference),
    /// What a stack's key stands for.
    StackKeyDefinition(StackKeyDefinition<'a>),
    /// A deferred procedure call has ended.
    Dpc(Dpc),
    /// An interrupt has been served.
    Isr(Isr),
    /// A transfer or flush of a disk has ended.
    DiskIo(DiskIo),
    /// A transfer or flush of a disk begins.
    DiskIoBegin(DiskIoBegin),
    /// A page was read from disk.
    HardFault(HardFault),
    /// Another page fault.
    PageFault(PageFault),
    /// What a file's key stands for.
    FileName(FileName<'a>),
    /// Something was lost. The record does not say how much.
    Lost(LostKind),
    /// CPUs and memory.
    Machine(Machine),
    /// Model of a CPU.
    Processor(Processor<'a>),
    /// Which Windows it is.
    Build(Build<'a>),
    /// What a volume is called.
    VolumeMapping(VolumeMapping<'a>),
    /// An event that describes itself.
    TraceLogging(TraceLogging<'a>),
    /// What a manifest says about a kind of event.
    EventInfo(EventInfo<'a>),
    /// An event of a provider, which only its manifest describes: see [`EventKey::of`].
    Provider,
    /// None of the kinds above.
    Unknown,
    /// One of the kinds above, too short for its version.
    Malformed,
}

/// What happens to a thread or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    /// It begins.
    Start,
    /// It ends.
    End,
    /// It was there when the trace began (DCStart).
    DataCollectionStart,
    /// It was there when the trace ended (DCEnd).
    DataCollectionEnd,
    /// It has ended, and something still holds on to it.
    Defunct,
}

/// What happens to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageChange {
    /// It is mapped.
    Load,
    /// It is unmapped.
    Unload,
    /// It was mapped when the trace began (DCStart).
    DataCollectionStart,
    /// It was mapped when the trace ended (DCEnd).
    DataCollectionEnd,
}

/// What was lost (MOF class `Lost_Event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostKind {
    /// Events, because no buffer was free.
    Event,
    /// A buffer, because it could not be delivered.
    Buffer,
    /// All that came after, because the file could not be written.
    File,
}

/// What a record says.
#[inline]
pub fn decode<'a>(record: &Record<'a>) -> Payload<'a> {
    let decoded = match record.class {
        Class::Kernel { group, opcode } => kernel(record, group, opcode),
        Class::Provider { .. } => {
            Some(TraceLogging::of(record).map_or(Payload::Provider, Payload::TraceLogging))
        }
        Class::Classic { class, opcode } => classic(record, class, opcode),
        Class::Wpp => Some(Payload::Unknown),
    };
    decoded.unwrap_or(Payload::Malformed)
}

#[inline]
fn kernel<'a>(record: &Record<'a>, group: u8, opcode: u8) -> Option<Payload<'a>> {
    match (group, opcode) {
        (group::THREAD, 36) => ContextSwitch::decode(record).map(Payload::ContextSwitch),
        (group::THREAD, 50) => ReadyThread::decode(record).map(Payload::ReadyThread),
        (group::PERF_INFO, 46) => Sample::decode(record).map(Payload::Sample),
        (group::PERF_INFO, 66) => Dpc::decode(record, DpcKind::Threaded).map(Payload::Dpc),
        (group::PERF_INFO, 67) => Isr::decode(record).map(Payload::Isr),
        (group::PERF_INFO, 68) => Dpc::decode(record, DpcKind::Normal).map(Payload::Dpc),
        (group::PERF_INFO, 69) => Dpc::decode(record, DpcKind::Timer).map(Payload::Dpc),
        (group::STACK, 32) => Stack::decode(record).map(Payload::Stack),
        (group::STACK, 35 | 36) => {
            StackKeyDefinition::decode(record, opcode == 35).map(Payload::StackKeyDefinition)
        }
        (group::STACK, 37 | 38) => {
            StackKeyReference::decode(record, opcode == 37).map(Payload::StackKeyReference)
        }
        _ => rarer(record, group, opcode),
    }
}

/// What comes with processes and transfers rather than with every switch.
fn rarer<'a>(record: &Record<'a>, group: u8, opcode: u8) -> Option<Payload<'a>> {
    match (group, opcode) {
        (group::THREAD, 1..=4) => Thread::decode(record, lifecycle(opcode)).map(Payload::Thread),
        (group::THREAD, 72) => ThreadName::decode(record).map(Payload::ThreadName),
        (group::PROCESS, 1..=4 | 39) => {
            Process::decode(record, lifecycle(opcode)).map(Payload::Process)
        }
        // The kernel itself files the loading of an image under processes.
        (group::PROCESS, 10) => Image::decode(record, ImageChange::Load).map(Payload::Image),
        (group::IMAGE, 2..=4 | 10) => {
            Image::decode(record, image_change(opcode)).map(Payload::Image)
        }
        (group::PERF_INFO, 72) => interval(record, SampleMoment::Set),
        (group::PERF_INFO, 73) => interval(record, SampleMoment::Start),
        (group::PERF_INFO, 74) => interval(record, SampleMoment::End),
        (group::DISK, 10) => DiskIo::decode(record, DiskIoKind::Read).map(Payload::DiskIo),
        (group::DISK, 11) => DiskIo::decode(record, DiskIoKind::Write).map(Payload::DiskIo),
        (group::DISK, 12) => disk_begin(record, DiskIoKind::Read),
        (group::DISK, 13) => disk_begin(record, DiskIoKind::Write),
        (group::DISK, 14) => DiskIo::decode_flush(record).map(Payload::DiskIo),
        (group::DISK, 15) => disk_begin(record, DiskIoKind::Flush),
        (group::PAGE_FAULT, 10) => fault(record, PageFaultKind::Transition),
        (group::PAGE_FAULT, 11) => fault(record, PageFaultKind::DemandZero),
        (group::PAGE_FAULT, 12) => fault(record, PageFaultKind::CopyOnWrite),
        (group::PAGE_FAULT, 13) => fault(record, PageFaultKind::GuardPage),
        (group::PAGE_FAULT, 14) => fault(record, PageFaultKind::HardPageFault),
        (group::PAGE_FAULT, 15) => fault(record, PageFaultKind::AccessViolation),
        (group::PAGE_FAULT, 32) => HardFault::decode(record).map(Payload::HardFault),
        (group::FILE, 0 | 32 | 35 | 36) => {
            FileName::decode(record, opcode == 35).map(Payload::FileName)
        }
        (group::CONFIGURATION, 10) => Machine::decode(record).map(Payload::Machine),
        (group::CONFIGURATION, 35) => Processor::decode(record).map(Payload::Processor),
        _ => Some(Payload::Unknown),
    }
}

fn interval<'a>(record: &Record<'a>, moment: SampleMoment) -> Option<Payload<'a>> {
    SampleInterval::decode(record, moment).map(Payload::SampleInterval)
}

fn disk_begin<'a>(record: &Record<'a>, kind: DiskIoKind) -> Option<Payload<'a>> {
    DiskIoBegin::decode(record, kind).map(Payload::DiskIoBegin)
}

fn fault<'a>(record: &Record<'a>, kind: PageFaultKind) -> Option<Payload<'a>> {
    PageFault::decode(record, kind).map(Payload::PageFault)
}

fn lifecycle(opcode: u8) -> Lifecycle {
    match opcode {
        1 => Lifecycle::Start,
        2 => Lifecycle::End,
        3 => Lifecycle::DataCollectionStart,
        4 => Lifecycle::DataCollectionEnd,
        _ => Lifecycle::Defunct,
    }
}

fn image_change(opcode: u8) -> ImageChange {
    match opcode {
        2 => ImageChange::Unload,
        3 => ImageChange::DataCollectionStart,
        4 => ImageChange::DataCollectionEnd,
        _ => ImageChange::Load,
    }
}

/// Classes that have no group on disk.
fn classic<'a>(record: &Record<'a>, class: Guid, opcode: u8) -> Option<Payload<'a>> {
    match (class, opcode) {
        (LOST_EVENT, 32) => Some(Payload::Lost(LostKind::Event)),
        (LOST_EVENT, 33) => Some(Payload::Lost(LostKind::Buffer)),
        (LOST_EVENT, 34) => Some(Payload::Lost(LostKind::File)),
        (IMAGE_ID, 0) => ImageFileId::decode(record).map(Payload::ImageFileId),
        (IMAGE_ID, 36) => ImageDebugId::decode(record).map(Payload::ImageDebugId),
        (EVENT_METADATA, 32) => Some(Payload::EventInfo(EventInfo(record.payload))),
        (SYSTEM_CONFIG_EX, 32) => Build::decode(record).map(Payload::Build),
        (SYSTEM_CONFIG_EX, 35) => VolumeMapping::decode(record).map(Payload::VolumeMapping),
        _ => Some(Payload::Unknown),
    }
}
