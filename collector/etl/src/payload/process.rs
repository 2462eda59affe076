//! Processes: MOF class `Process`, versions 0 to 5.

use super::reader::Reader;
use super::{Ascii, Lifecycle, Utf16};
use crate::Record;

/// A process begins, ends, or is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process<'a> {
    /// What happens to it.
    pub lifecycle: Lifecycle,
    /// The process.
    pub pid: u32,
    /// The process that started it.
    pub parent_pid: u32,
    /// The session it belongs to; 0 for services.
    pub session: u32,
    /// Its exit status; says something only where it ends.
    pub exit_status: i32,
    /// Name of its program's file, without the path, as the kernel keeps it: it may be cut short.
    pub image_name: Ascii<'a>,
    /// Its command line (from version 2 on).
    pub command_line: Utf16<'a>,
}

impl<'a> Process<'a> {
    /// Version 0: process and parent as pointers, user, name. Version 1: a page directory and words
    /// instead. From version 2 on: a key in place of the directory, and the command line behind the
    /// name; from 3 on the directory before the user; from 4 on flags behind it.
    pub(super) fn decode(record: &Record<'a>, lifecycle: Lifecycle) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let mut process = Self {
            lifecycle,
            pid: 0,
            parent_pid: 0,
            session: 0,
            exit_status: 0,
            image_name: Ascii::default(),
            command_line: Utf16::default(),
        };
        if record.version == 0 {
            process.pid = id(reader.pointer()?);
            process.parent_pid = id(reader.pointer()?);
        } else {
            reader.skip_pointers(1)?;
            process.pid = reader.u32()?;
            process.parent_pid = reader.u32()?;
            process.session = reader.u32()?;
            process.exit_status = reader.i32()?;
            reader.skip_pointers(usize::from(record.version >= 3))?;
            reader.skip(if record.version >= 4 { 4 } else { 0 })?;
        }
        reader.skip_sid()?;
        process.image_name = reader.ascii();
        if record.version >= 2 {
            process.command_line = reader.utf16();
        }
        Some(process)
    }
}

/// Ids are 32 bits wide, whatever holds them.
fn id(pointer: u64) -> u32 {
    pointer as u32
}
