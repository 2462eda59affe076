//! Disks and files: MOF classes `DiskIo` (versions 2 and 3), `PageFault` and `FileIo`.

use super::Utf16;
use super::reader::Reader;
use crate::Record;

/// A transfer or flush has ended, at the record's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskIo {
    /// What it did.
    pub kind: DiskIoKind,
    /// The disk's number.
    pub disk: u32,
    /// Flags of its request (`IRP_*`).
    pub flags: u32,
    /// Bytes; 0 for a flush.
    pub size: u32,
    /// Where on the disk, in bytes; 0 for a flush.
    pub offset: u64,
    /// Key of the file's object, see [`FileName`]; 0 for a flush.
    pub file: u64,
    /// Address of its request: the same as in its [`DiskIoBegin`].
    pub request: u64,
    /// How long it took since it was begun, in ticks of the performance counter.
    pub duration: u64,
    /// The thread that began it; from version 3 on.
    pub tid: Option<u32>,
}

/// What is done to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskIoKind {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What was written is made to last.
    Flush,
}

/// A transfer or flush is handed to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskIoBegin {
    /// What it does.
    pub kind: DiskIoKind,
    /// Address of its request.
    pub request: u64,
    /// The thread that begins it; from version 3 on.
    pub tid: Option<u32>,
}

/// A page was read from disk for a thread that touched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardFault {
    /// Raw time stamp of its begin; the record's is its end.
    pub start: u64,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The address that was touched.
    pub address: u64,
    /// Key of the file's object, see [`FileName`].
    pub file: u64,
    /// The thread.
    pub tid: u32,
    /// Bytes read.
    pub size: u32,
}

/// A page fault that needed no disk, or could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// What it took.
    pub kind: PageFaultKind,
    /// The address that was touched.
    pub address: u64,
    /// The instruction that touched it.
    pub instruction: u64,
}

/// Kinds of page faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageFaultKind {
    /// A page in transition became valid.
    Transition,
    /// A page of zeros was given.
    DemandZero,
    /// A page was copied because it was written.
    CopyOnWrite,
    /// A guard page was touched.
    GuardPage,
    /// A page must be read from disk.
    HardPageFault,
    /// There is no such memory.
    AccessViolation,
}

/// What a file's key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName<'a> {
    /// The key: address of the file's object.
    pub file: u64,
    /// The file, as the kernel names it: `\Device\HarddiskVolume4\...`.
    pub path: Utf16<'a>,
    /// The key is given up here and may stand for another file later.
    pub is_deleted: bool,
}

impl DiskIo {
    /// Versions before 2 have no request and no duration.
    pub(super) fn decode(record: &Record<'_>, kind: DiskIoKind) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let (disk, flags, size) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.skip(4)?;
        let (offset, file) = (reader.u64()?, reader.pointer()?);
        let (request, duration) =
            if record.version < 2 { (0, 0) } else { (reader.pointer()?, reader.u64()?) };
        Some(Self { kind, disk, flags, size, offset, file, request, duration, tid: reader.u32() })
    }

    /// A flush says less, in another order.
    pub(super) fn decode_flush(record: &Record<'_>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self {
            kind: DiskIoKind::Flush,
            disk: reader.u32()?,
            flags: reader.u32()?,
            size: 0,
            offset: 0,
            file: 0,
            duration: reader.u64()?,
            request: reader.pointer()?,
            tid: reader.u32(),
        })
    }
}

impl DiskIoBegin {
    pub(super) fn decode(record: &Record<'_>, kind: DiskIoKind) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self { kind, request: reader.pointer()?, tid: reader.u32() })
    }
}

impl HardFault {
    pub(super) fn decode(record: &Record<'_>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self {
            start: reader.u64()?,
            offset: reader.u64()?,
            address: reader.pointer()?,
            file: reader.pointer()?,
            tid: reader.u32()?,
            size: reader.u32()?,
        })
    }
}

impl PageFault {
    pub(super) fn decode(record: &Record<'_>, kind: PageFaultKind) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self { kind, address: reader.pointer()?, instruction: reader.pointer()? })
    }
}

impl<'a> FileName<'a> {
    pub(super) fn decode(record: &Record<'a>, is_deleted: bool) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self { file: reader.pointer()?, path: reader.utf16(), is_deleted })
    }
}
