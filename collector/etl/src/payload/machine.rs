//! The machine and its system: MOF class `SystemConfig`, and what merging tools
//! add (`SystemConfigEx` of KernelTraceControl).

use super::Utf16;
use super::reader::Reader;
use crate::{Guid, Record};

/// What KernelTraceControl tells about the system.
pub const SYSTEM_CONFIG_EX: Guid = Guid::from_u128(0x9b79ee91_b5fd_41c0_a243_4248e266e9d0);

/// CPUs and memory of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Nominal frequency of its CPUs.
    pub mhz: u32,
    /// How many CPUs it has.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Bytes of a page.
    pub page_size: u32,
}

/// Model of one CPU (MOF class `SystemConfig_V2_Processors`, of late versions of Windows 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor<'a> {
    /// The CPU's number.
    pub cpu: u32,
    /// Its nominal frequency.
    pub mhz: u32,
    /// Its model, as the vendor calls it.
    pub name: Utf16<'a>,
}

/// Which Windows it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build<'a> {
    /// Version of the kernel's build: `19041.1.amd64fre.vb_release...`.
    pub lab: Utf16<'a>,
    /// Name of the product.
    pub product: Utf16<'a>,
}

/// What a volume is called by the kernel and by people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeMapping<'a> {
    /// `\Device\HarddiskVolume4\`.
    pub kernel_path: Utf16<'a>,
    /// `C:\`.
    pub drive_path: Utf16<'a>,
}

impl Machine {
    pub(super) fn decode(record: &Record<'_>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self {
            mhz: reader.u32()?,
            cpus: reader.u32()?,
            memory_mib: reader.u32()?,
            page_size: reader.u32()?,
        })
    }
}

impl<'a> Processor<'a> {
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let cpu = reader.u32()?;
        reader.skip(4)?;
        Some(Self { cpu, mhz: reader.u32()?, name: reader.utf16() })
    }
}

impl<'a> Build<'a> {
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        reader.skip(8)?;
        Some(Self { lab: reader.utf16(), product: reader.utf16() })
    }
}

impl<'a> VolumeMapping<'a> {
    pub(super) fn decode(record: &Record<'a>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self { kernel_path: reader.utf16(), drive_path: reader.utf16() })
    }
}
