//! Call stacks, frames, symbols.

use super::cursor::Cursor;
use super::{Damage, Strings, TracyFile};

/// The functions at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file of code.
    pub image: String,
    /// Innermost first; all but the last are inlined.
    pub lines: Vec<FrameLine>,
}

/// A function, perhaps inlined, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLine {
    /// The function.
    pub name: String,
    /// Source file.
    pub file: String,
    /// Source line.
    pub line: u32,
    /// Address of the symbol.
    pub symbol: u64,
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The function.
    pub name: String,
    /// Source file.
    pub file: String,
    /// Source line.
    pub line: u32,
    /// The file of code.
    pub image: String,
    /// File and line of the call, if it is inlined.
    pub call: Option<(String, u32)>,
    /// Bytes.
    pub size: u32,
}

pub(super) fn callstacks(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    trace: &mut TracyFile,
) -> Result<(), Damage> {
    cursor.section("call stacks");
    trace.callstacks = cursor.list(2, |cursor| {
        let length = cursor.u16()?;
        cursor.check(length > 0, || {
            "a call stack is empty, and the viewer looks at its first frame".into()
        })?;
        (0..length).map(|_| cursor.u64()).collect()
    })?;
    cursor.section("frames");
    for _ in 0..cursor.count(12)? {
        let (id, lines) = (cursor.u64()?, cursor.u8()?);
        cursor.check(id >> 62 == 0, || format!("the id {id:#x} has more than 62 bits"))?;
        cursor.check(lines > 0, || format!("frame {id:#x} has no function"))?;
        let image = cursor.string_index()?;
        let image = strings.index(cursor, image)?;
        let lines = (0..lines).map(|_| frame_line(cursor, strings)).collect::<Result<_, _>>()?;
        let former = trace.frames.insert(id, Frame { image, lines });
        cursor.check(former.is_none(), || format!("frame {id:#x} is there twice"))?;
    }
    Ok(())
}

fn frame_line(cursor: &mut Cursor<'_>, strings: &Strings) -> Result<FrameLine, Damage> {
    let [name, file] = [cursor.string_index()?, cursor.string_index()?];
    let (name, file) = (strings.index(cursor, name)?, strings.index(cursor, file)?);
    Ok(FrameLine { name, file, line: cursor.u32()?, symbol: cursor.u64()? })
}

pub(super) fn symbols(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    trace: &mut TracyFile,
) -> Result<(), Damage> {
    cursor.section("symbols");
    let reported = [cursor.u64()?, cursor.u64()?];
    let mut found = [0, 0];
    for _ in 0..cursor.count(32)? {
        let address = cursor.u64()?;
        let [name, file] = [cursor.string_index()?, cursor.string_index()?];
        let (name, file) = (strings.index(cursor, name)?, strings.index(cursor, file)?);
        let line = cursor.u32()?;
        let [image, call_file] = [cursor.string_index()?, cursor.string_index()?];
        let image = strings.index(cursor, image)?;
        let call_line = cursor.u32()?;
        let inlined = cursor.u8()?;
        cursor.check(inlined <= 1, || format!("{inlined} is neither inlined nor not"))?;
        let size = cursor.int24()?;
        let call = match call_file {
            Some(_) => Some((strings.index(cursor, call_file)?, call_line)),
            None => None,
        };
        cursor.check(call.is_some() == (inlined == 1), || {
            "only inlined functions are called from somewhere".into()
        })?;
        found[usize::from(inlined)] += 1;
        let former = trace.symbols.insert(address, Symbol { name, file, line, image, call, size });
        cursor.check(former.is_none(), || format!("two symbols have the address {address:#x}"))?;
    }
    cursor
        .check(reported == found, || format!("{reported:?} symbols were told, {found:?} are there"))
}

/// Every stack leads to frames, and every frame to symbols.
/// `zones` are the call stacks of zones; 0 is none.
pub(super) fn check_stacks(
    trace: &TracyFile,
    zones: impl Iterator<Item = u32>,
) -> Result<(), Damage> {
    let missing = trace.callstacks.iter().flatten().find(|id| !trace.frames.contains_key(id));
    if let Some(id) = missing {
        return Err(Damage(format!("a call stack has the frame {id:#x}, which is not there")));
    }
    for (id, frame) in &trace.frames {
        for (index, line) in frame.lines.iter().enumerate() {
            let Some(symbol) = trace.symbols.get(&line.symbol) else {
                return Err(Damage(format!(
                    "frame {id:#x} has the symbol {:#x}, which is not there",
                    line.symbol
                )));
            };
            if symbol.call.is_some() != (index + 1 < frame.lines.len()) {
                return Err(Damage(format!(
                    "frame {id:#x}: {} is inlined where it should not, or not",
                    symbol.name
                )));
            }
        }
    }
    let samples =
        trace.threads.iter().flat_map(|thread| &thread.samples).map(|sample| sample.callstack);
    let known = 1..=trace.callstacks.len() as u32;
    let of_messages = trace.messages.iter().map(|message| message.callstack);
    let of_memory =
        trace.pools.iter().flat_map(|pool| &pool.pieces).flat_map(|piece| piece.callstacks);
    let may_be_none = of_messages
        .chain(of_memory)
        .chain(trace.crash.iter().map(|crash| crash.callstack))
        .chain(zones);
    let mut strange = samples
        .chain(may_be_none.filter(|index| *index != 0))
        .filter(|index| !known.contains(index));
    strange.next().map_or(Ok(()), |index| Err(Damage(format!("call stack {index} is not there"))))
}
