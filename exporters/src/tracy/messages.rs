//! Messages: instants, losses, and what happens to threads.

use super::wire::Payload;
use std::io::{self, Write};
use syscollect_model::StringId;

/// Colours as the file has them: alpha, blue, green, red from the highest byte on.
pub(crate) const WHITE: u32 = 0xffff_ffff;
pub(crate) const GREY: u32 = 0xffaa_aaaa;
pub(crate) const RED: u32 = 0xff55_55ff;

/// What a message says.
#[derive(Clone, Debug)]
pub(crate) enum Words {
    /// The name of an instant.
    Instant(StringId),
    /// A thread begins.
    Starts,
    /// A thread ends.
    Ends,
    /// A process runs another program.
    Runs(StringId),
    /// A thread has this name from now on.
    Named(StringId),
    /// Whatever else.
    Other(Box<str>),
}

/// A message. Which thread has it is noted there.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) time: i64,
    pub(crate) color: u32,
    pub(crate) words: Words,
}

/// Writes all messages; `texts` are their words.
pub(crate) fn write<W: Write>(out: &mut Payload<W>, messages: &[Message], texts: &[u32]) -> io::Result<()> {
    // The viewer expects them in the order of time; their keys are their places in the list.
    let mut order: Vec<u32> = (0..messages.len() as u32).collect();
    order.sort_by_key(|index| messages[*index as usize].time);
    out.count(messages.len())?;
    let mut reference = 0;
    for index in order {
        let message = &messages[index as usize];
        out.u64(key(index))?;
        out.i64(message.time - reference)?;
        out.string_ref(Some(texts[index as usize]))?;
        out.u32(message.color)?;
        out.int24(0)?;
        reference = message.time;
    }
    Ok(())
}

/// What stands for a message where the file wants a pointer.
pub(crate) fn key(index: u32) -> u64 {
    u64::from(index) + 1
}
