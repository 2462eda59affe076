//! WPP messages: what a header says of them without the program's symbols.

use super::bytes::{u16_at, u32_at, u64_at};
use super::record::{ALIGNMENT, Head, HeaderKind, task, unfinished};
use crate::{Class, Record};

const HEADER: usize = 8;
/// What follows the header, in this order.
const SEQUENCE: u16 = 0x1;
const GUID: u16 = 0x2;
const COMPONENT: u16 = 0x4;
const SYSTEM_TIME: u16 = 0x8;
const PERFORMANCE_TIME: u16 = 0x10;
const SYSTEM_INFO: u16 = 0x20;

/// Where the parts of a message lie: the time stamp, the thread, and what it says.
struct Parts {
    timestamp: Option<usize>,
    thread: Option<usize>,
    payload: usize,
}

fn parts(options: u16) -> Parts {
    let mut at = HEADER;
    take(&mut at, options & SEQUENCE != 0, 4);
    match options & COMPONENT != 0 {
        true => take(&mut at, true, 4),
        false => take(&mut at, options & GUID != 0, 16),
    };
    let timestamp = take(&mut at, options & (SYSTEM_TIME | PERFORMANCE_TIME) != 0, 8);
    let thread = take(&mut at, options & SYSTEM_INFO != 0, 8);
    Parts { timestamp, thread, payload: at }
}

/// Where a part lies, if it is there; the next one lies behind it.
fn take(at: &mut usize, present: bool, length: usize) -> Option<usize> {
    let place = present.then_some(*at);
    *at += if present { length } else { 0 };
    place
}

/// Length and time stamp of the message the bytes begin with; `None` where they hold none.
#[cold]
pub(super) fn peek(bytes: &[u8]) -> Option<Head> {
    let size = u16_at(bytes, 0)?;
    let message = bytes.get(..size.into()).filter(|message| message.len() >= ALIGNMENT)?;
    let timestamp = parts(u16_at(message, 6)?).timestamp.and_then(|at| u64_at(message, at));
    Some(Head { kind: HeaderKind::Wpp, size, timestamp })
}

pub(super) fn record(bytes: &[u8]) -> Record<'_> {
    let parts = parts(u16_at(bytes, 6).unwrap_or_default());
    let task = parts.thread.and_then(|at| task(u32_at(bytes, at), u32_at(bytes, at + 4)));
    unfinished(Class::Wpp, task, bytes.get(parts.payload..).unwrap_or_default())
}
