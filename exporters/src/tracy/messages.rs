//! Messages: those of programs, instants, losses, and what happens to threads; the crash.

use super::code::Code;
use super::locations::bgr;
use super::options::TracyLayout;
use super::rows::{RowId, Rows};
use super::strings::{FileStrings, pointer};
use super::threads::Threads;
use super::wire::Payload;
use std::io::{self, Write};
use syscollect_model::{Fields, Severity, StackId, Tables};

/// Colours as the file has them: alpha, blue, green, red from the highest byte on.
const WHITE: u32 = OPAQUE | 0xff_ffff;
pub(crate) const GREY: u32 = OPAQUE | 0xaa_aaaa;
pub(crate) const RED: u32 = OPAQUE | 0x55_55ff;
const OPAQUE: u32 = 0xff << 24;

/// The colour of a message that has this one, 0xRRGGBB, or none.
pub(crate) fn color(rgb: Option<u32>) -> u32 {
    rgb.map_or(WHITE, |rgb| OPAQUE | bgr(rgb))
}

/// What a message is to the viewer, which can hide messages by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Importance {
    pub(crate) severity: Severity,
    /// It is the recorder's, not the program's.
    pub(crate) own: bool,
}

impl Importance {
    /// Of a message that syscollect adds.
    pub(crate) fn own(severity: Severity) -> Self {
        Self { severity, own: true }
    }

    /// Of what happens to a program.
    pub(crate) fn of_system(severity: Severity) -> Self {
        Self { severity, own: false }
    }

    /// Of a program's own message or instant, by its fields.
    pub(crate) fn of_fields(fields: &Fields, tables: &Tables) -> Self {
        Self::of_system(Severity::of_fields(fields, &tables.strings).unwrap_or(Severity::Info))
    }
}

/// The severity as the file numbers it.
pub(crate) fn number(severity: Severity) -> u8 {
    match severity {
        Severity::Trace => 0,
        Severity::Debug => 1,
        Severity::Info => 2,
        Severity::Warning => 3,
        Severity::Error => 4,
        Severity::Fatal => 5,
    }
}

/// A message. Which thread has it is noted there.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) time: i64,
    pub(crate) color: u32,
    pub(crate) text: u32,
    pub(crate) stack: Option<StackId>,
    pub(crate) importance: Importance,
}

/// What took a process down: the file has room for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    pub(crate) time: i64,
    pub(crate) row: RowId,
    pub(crate) text: u32,
    pub(crate) callstack: u32,
}

/// The call stacks of messages, row by row; 0 is none.
pub(crate) fn callstacks(
    rows: &Rows,
    code: &mut Code,
    strings: &mut FileStrings,
    tables: &Tables,
) -> Vec<u32> {
    let stacks = of_rows(rows).map(|message| message.stack);
    stacks.map(|stack| code.callstack_or_none(stack, strings, tables)).collect()
}

/// All messages; their keys count them.
fn of_rows(rows: &Rows) -> impl Iterator<Item = &Message> {
    rows.all().iter().flat_map(|row| &row.messages)
}

/// Writes all messages.
pub(crate) fn write<W: Write>(
    out: &mut Payload<W>,
    rows: &Rows,
    callstacks: &[u32],
) -> io::Result<()> {
    // The viewer expects them in the order of time.
    let mut all: Vec<(&Message, u32, u32)> = of_rows(rows)
        .zip(0..)
        .zip(callstacks)
        .map(|((message, index), callstack)| (message, index, *callstack))
        .collect();
    all.sort_by_key(|(message, ..)| message.time);
    out.count(all.len())?;
    let mut reference = 0;
    for (message, index, callstack) in all {
        out.u64(key(index))?;
        out.i64(message.time - reference)?;
        out.string_ref(Some(message.text))?;
        out.u32(message.color)?;
        out.int24(callstack)?;
        if out.layout >= TracyLayout::V0_14 {
            out.bytes(&[message.importance.own.into(), number(message.importance.severity)])?;
        }
        reference = message.time;
    }
    Ok(())
}

/// Writes the crash, or that there was none.
pub(crate) fn write_crash<W: Write>(
    out: &mut Payload<W>,
    crash: Option<Crash>,
    threads: &Threads,
) -> io::Result<()> {
    let Some(crash) = crash else { return out.bytes(&[0; 28]) };
    out.u64(threads.of(crash.row).number)?;
    out.i64(crash.time)?;
    out.u64(pointer(crash.text))?;
    out.u32(crash.callstack)
}

/// What stands for a message where the file wants a pointer.
pub(crate) fn key(index: u32) -> u64 {
    u64::from(index) + 1
}
