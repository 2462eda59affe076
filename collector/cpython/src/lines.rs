//! Line tables: which line an instruction is of. Three formats, by version.

/// The line of the instruction at `offset`, bytes from the first; `None` where it has none, or the
/// table ends before it.
pub(crate) fn line(version: u8, first_line: u32, table: &[u8], offset: u32) -> Option<u32> {
    let line = match version {
        ..=9 => by_steps(first_line, table, offset),
        10 => by_ranges(first_line, table, offset),
        11.. => by_locations(first_line, table, offset),
    }?;
    u32::try_from(line).ok().filter(|line| *line > 0)
}

fn pairs(table: &[u8]) -> impl Iterator<Item = (u32, i8)> {
    let (pairs, _) = table.as_chunks::<2>();
    pairs.iter().map(|[bytes, lines]| (u32::from(*bytes), lines.cast_signed()))
}

/// To 3.9 (`co_lnotab`): so many bytes further, so many lines further.
fn by_steps(first_line: u32, table: &[u8], offset: u32) -> Option<i64> {
    let (mut at, mut line) = (0_u32, i64::from(first_line));
    for (bytes, lines) in pairs(table) {
        at = at.saturating_add(bytes);
        if at > offset {
            break;
        }
        line += i64::from(lines);
    }
    Some(line)
}

/// No line, in a table of 3.10.
const NO_LINE: i8 = -128;

/// 3.10 (`co_linetable`): the next so many bytes are so many lines further.
fn by_ranges(first_line: u32, table: &[u8], offset: u32) -> Option<i64> {
    let (mut end, mut line) = (0_u32, i64::from(first_line));
    for (bytes, lines) in pairs(table) {
        end = end.saturating_add(bytes);
        if lines != NO_LINE {
            line += i64::from(lines);
        }
        if offset < end {
            return (lines != NO_LINE).then_some(line);
        }
    }
    None
}

/// Instructions are counted in words.
const WORD_BYTES: u32 = 2;

/// From 3.11 on (PEP 657): entries that begin with a byte whose top bit is set.
fn by_locations(first_line: u32, table: &[u8], offset: u32) -> Option<i64> {
    let (mut end, mut line) = (0_u32, i64::from(first_line));
    let mut rest = table;
    while let [first, more @ ..] = rest {
        let (kind, words) = (first >> 3 & 15, u32::from(first & 7) + 1);
        let (has_line, change) = match kind {
            // Column and end in the bytes that follow, in the same line;
            0..=9 => (true, 0),
            // in one of the next lines.
            10..=12 => (true, i64::from(kind) - 10),
            13 | 14 => (true, signed_number(more)),
            _ => (false, 0),
        };
        line += change;
        end = end.saturating_add(words * WORD_BYTES);
        if offset < end {
            return has_line.then_some(line);
        }
        let next = more.iter().position(|byte| byte & 0x80 != 0)?;
        rest = &more[next..];
    }
    None
}

/// Six bits of each byte, the lowest first, as long as the seventh is set; the lowest bit of all is
/// the sign.
fn signed_number(bytes: &[u8]) -> i64 {
    let mut number = 0_i64;
    for (index, byte) in bytes.iter().take(6).enumerate() {
        number |= i64::from(byte & 63) << (6 * index);
        if byte & 64 == 0 {
            break;
        }
    }
    if number & 1 == 1 { -(number >> 1) } else { number >> 1 }
}

#[cfg(test)]
mod made;

#[cfg(test)]
mod tests {
    use super::made::{LineTableCase, MADE};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instructions_have_the_lines_that_the_interpreters_give_them() {
        for LineTableCase { version, first_line, table, lines } in MADE {
            for (offset, expected) in *lines {
                let line = line(*version, *first_line, table, *offset);
                assert_eq!(line.unwrap_or(0), *expected, "3.{version}, instruction at {offset}");
            }
        }
    }

    #[test]
    fn behind_its_end_a_table_says_nothing() {
        assert_eq!(line(11, 5, &[], 0), None);
        assert_eq!(line(10, 5, &[2, 1], 2), None);
    }

    proptest! {
        #[test]
        fn no_table_hangs_or_panics(
            version in any::<u8>(),
            first in any::<u32>(),
            table in prop::collection::vec(any::<u8>(), 0..300),
            offset in any::<u32>(),
        ) {
            let _ = line(version, first, &table, offset);
        }
    }
}
