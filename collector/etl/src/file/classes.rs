//! The kernel's event classes by their GUIDs.
//!
//! The kernel logger writes a group number; whoever rewrites or relays its
//! events writes the class's GUID in place of it.

use crate::Guid;

/// The kernel's event groups, as in [`crate::Class::Kernel`].
pub mod group {
    /// About the trace itself: opcode 0 is the logfile header.
    pub const TRACE: u8 = 0x00;
    /// Disk reads and writes.
    pub const DISK: u8 = 0x01;
    /// Page faults.
    pub const PAGE_FAULT: u8 = 0x02;
    /// Processes.
    pub const PROCESS: u8 = 0x03;
    /// File operations.
    pub const FILE: u8 = 0x04;
    /// Threads, context switches.
    pub const THREAD: u8 = 0x05;
    /// TCP.
    pub const TCP: u8 = 0x06;
    /// UDP.
    pub const UDP: u8 = 0x08;
    /// The registry.
    pub const REGISTRY: u8 = 0x09;
    /// What the machine consists of.
    pub const CONFIGURATION: u8 = 0x0b;
    /// Samples, interrupts, DPCs.
    pub const PERF_INFO: u8 = 0x0f;
    /// Mapped images.
    pub const IMAGE: u8 = 0x14;
    /// Stacks.
    pub const STACK: u8 = 0x18;
    /// Advanced local procedure calls.
    pub const ALPC: u8 = 0x1a;
}

/// The class of records that say what was lost. It has no group on disk, so its
/// records come as [`crate::Class::Classic`].
pub const LOST_EVENT: Guid = Guid::from_u128(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);

const CLASSES: [(Guid, u8); 14] = [
    (Guid::from_u128(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c), group::THREAD),
    (Guid::from_u128(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc), group::PERF_INFO),
    (Guid::from_u128(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3), group::STACK),
    (Guid::from_u128(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c), group::PROCESS),
    (Guid::from_u128(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518), group::IMAGE),
    (Guid::from_u128(0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c), group::DISK),
    (Guid::from_u128(0x3d6fa8d3_fe05_11d0_9dda_00c04fd7ba7c), group::PAGE_FAULT),
    (Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3), group::TRACE),
    (Guid::from_u128(0x90cbdc39_4a3e_11d1_84f4_0000f80464e3), group::FILE),
    (Guid::from_u128(0x01853a65_418f_4f36_aefc_dc0f1d2fd235), group::CONFIGURATION),
    (Guid::from_u128(0x9a280ac0_c8e0_11d1_84e2_00c04fb998a2), group::TCP),
    (Guid::from_u128(0xbf3a50c5_a9c9_4988_a005_2df0b7c80f80), group::UDP),
    (Guid::from_u128(0xae53722e_c863_11d2_8659_00c04fa321a1), group::REGISTRY),
    (Guid::from_u128(0x45d8cccd_539f_4b72_a8b7_5c683142609a), group::ALPC),
];

/// The group of a class of the kernel's.
pub(super) fn kernel_group(class: Guid) -> Option<u8> {
    CLASSES.iter().find(|(guid, _)| *guid == class).map(|(_, group)| *group)
}
