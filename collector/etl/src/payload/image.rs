//! Images that are mapped into processes: MOF class `Image`, versions 0 to 3,
//! and what merging tools add about them (`ImageId` of KernelTraceControl).

use super::reader::Reader;
use super::{Ascii, ImageChange, Utf16};
use crate::{Guid, Record};

/// What KernelTraceControl tells about images.
pub const IMAGE_ID: Guid = Guid::from_u128(0xb3e675d7_2554_4f18_830b_2762732560de);

/// An image is mapped, unmapped, or is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// What happens to it.
    pub change: ImageChange,
    /// Where it lies.
    pub base: u64,
    /// Bytes of address space it takes.
    pub size: u64,
    /// The process; 0 for the kernel's own. Version 0 does not say it: the record's task is the
    /// process.
    pub pid: u32,
    /// Check sum of its PE header; 0 before version 2.
    pub checksum: u32,
    /// Time stamp of its PE header; 0 before version 2.
    pub timestamp: u32,
    /// Where it would like to lie; 0 before version 2.
    pub default_base: u64,
    /// The file, as the kernel names it: `\Device\HarddiskVolume4\...`.
    pub path: Utf16<'a>,
}

/// Where the debug information of an image is: what its PE debug directory says (RSDS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageDebugId<'a> {
    /// Where the image lies.
    pub base: u64,
    /// The process; 0 for the kernel's own.
    pub pid: u32,
    /// Identity of the PDB file, with its age.
    pub guid: Guid,
    /// How often the PDB file was rewritten.
    pub age: u32,
    /// Name of the PDB file, with or without a path.
    pub pdb: Ascii<'a>,
}

/// Identity of an image's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFileId<'a> {
    /// Where the image lies.
    pub base: u64,
    /// Bytes of address space it takes.
    pub size: u64,
    /// The process; often 0.
    pub pid: u32,
    /// Time stamp of its PE header.
    pub timestamp: u32,
    /// The name that its version resource says it was made with.
    pub original_name: Utf16<'a>,
}

impl<'a> Image<'a> {
    pub(super) fn decode(record: &Record<'a>, change: ImageChange) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let base = reader.pointer()?;
        let path = Utf16::default();
        let mut image = Self {
            change,
            base,
            size: 0,
            pid: 0,
            checksum: 0,
            timestamp: 0,
            default_base: 0,
            path,
        };
        if record.version == 0 {
            image.size = reader.u32()?.into();
            image.pid = record.task.map_or(0, |task| task.pid);
        } else {
            image.size = reader.pointer()?;
            image.pid = reader.u32()?;
        }
        if record.version >= 2 {
            image.checksum = reader.u32()?;
            image.timestamp = reader.u32()?;
            reader.skip(4)?;
            image.default_base = reader.pointer()?;
            reader.skip(16)?;
        }
        image.path = reader.utf16();
        Some(image)
    }
}

impl<'a> ImageDebugId<'a> {
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self {
            base: reader.pointer()?,
            pid: reader.u32()?,
            guid: reader.guid()?,
            age: reader.u32()?,
            pdb: reader.ascii(),
        })
    }
}

impl<'a> ImageFileId<'a> {
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self {
            base: reader.pointer()?,
            size: reader.pointer()?,
            pid: reader.u32()?,
            timestamp: reader.u32()?,
            original_name: reader.utf16(),
        })
    }
}
