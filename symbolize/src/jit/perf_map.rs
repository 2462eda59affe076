//! Perf maps: text files in which programs list the code that they make while they run.
//!
//! A line for each piece of code, as it is made: `START SIZE NAME`, the numbers hexadecimal, the
//! name up to the end of the line (`tools/perf/Documentation/jit-interface.txt` of Linux). Nothing
//! says when: memory that is used again has another line, and the last one counts.

use super::names::{
    BUFFER, GeneratedCode, NAME_MAX, NamesFound, NamesOfAddresses, STEP, TurnReader,
};
use crate::turn::{NamingPace, NamingTurn};
use std::io::{self, BufRead, BufReader, Read};

/// More of a file is not read: that is millions of pieces of code.
const BYTES_MAX: u64 = 256 << 20;
/// A file with a longer line is no perf map: zeros of a sparse file, say.
const LINE_MAX: u64 = 1 << 20;
/// What comes before the name is shorter than this, bytes.
const NUMBERS_MAX: usize = 64;

/// Reads what a perf map says of `addresses`; see [`NamesOfAddresses`].
///
/// # Errors
///
/// The file's.
pub(crate) fn names_in(
    map: impl Read,
    addresses: &[u64],
    turn: &NamingTurn,
) -> io::Result<NamesFound> {
    let map = TurnReader { from: map.take(BYTES_MAX), turn };
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER, map));
    let mut names = NamesOfAddresses::new(addresses);
    let (mut line, mut steps) = (Vec::new(), 0);
    while lines.next(&mut line)? && (steps < STEP || turn.pace() < NamingPace::Over) {
        steps = if steps < STEP { steps } else { 0 };
        steps += 1 + parse(&line).map_or(0, |code| names.add(code, None));
    }
    let mut cut = (turn.pace() == NamingPace::Over).then_some("reading it takes too long");
    if lines.read >= BYTES_MAX {
        cut = Some("it is longer than 256 MiB");
    }
    if lines.is_too_long {
        cut = Some("one of its lines is longer than 1 MiB");
    }
    Ok(names.finish(cut))
}

/// The code of a line; `None` for what says nothing.
fn parse(line: &[u8]) -> Option<GeneratedCode> {
    let (start, rest) = number(line)?;
    let (size, name) = number(rest)?;
    let name = name.trim_ascii();
    GeneratedCode::new(start, size, name)
}

/// A hexadecimal number up to a blank, with or without `0x` before it, and what follows.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let (digits, rest) = text.split_at(end);
    let digits = std::str::from_utf8(digits).ok()?;
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    // A sign is no digit of a file's.
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_number.then_some(())?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

/// Lines of which the beginnings are kept.
struct Lines<R> {
    from: R,
    /// Bytes so far.
    read: u64,
    /// Nothing is read behind a line that is too long.
    is_too_long: bool,
}

impl<R: BufRead> Lines<R> {
    fn new(from: R) -> Self {
        Self { from, read: 0, is_too_long: false }
    }

    /// Puts the next line's beginning into `line`; `false` at the end of the file, for a line that
    /// is too long, and for a last line that its program is still writing.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let began = self.read;
        loop {
            let some = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                some => some?,
            };
            if some.is_empty() {
                return Ok(false);
            }
            let end = some.iter().position(|byte| *byte == b'\n');
            let part = &some[..end.unwrap_or(some.len())];
            let room = (NUMBERS_MAX + NAME_MAX).saturating_sub(line.len());
            line.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(end.is_some());
            self.from.consume(taken);
            self.read += taken as u64;
            if end.is_some() {
                return Ok(true);
            }
            self.is_too_long = self.read - began > LINE_MAX;
            if self.is_too_long {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::names::NAMES_MAX;
    use proptest::prelude::*;
    use syscollect_model::Symbol;

    /// Address and function of what is found at `addresses`.
    fn named(map: &str, addresses: &[u64]) -> Vec<(u64, String)> {
        let names = names_in(map.as_bytes(), addresses, &NamingTurn::default()).unwrap();
        names.symbols.iter().map(|symbol| (symbol.offset, function(symbol))).collect()
    }

    fn function(symbol: &Symbol) -> String {
        symbol.frames[0].function.clone()
    }

    #[test]
    fn an_address_has_the_name_of_the_code_around_it() {
        let map = "1000 20 first\n1020 8 JS:*fib /a b.js:1:14\n";
        assert_eq!(
            named(map, &[0x1027, 0xfff, 0x1000, 0x101f, 0x1028, 0x1000]),
            [
                (0x1000, "first".to_owned()),
                (0x101f, "first".to_owned()),
                (0x1027, "JS:*fib /a b.js:1:14".to_owned())
            ]
        );
        let names = names_in(map.as_bytes(), &[0x1021], &NamingTurn::default()).unwrap();
        assert_eq!((names.symbols[0].start, names.symbols[0].size), (0x1020, 8));
    }

    #[test]
    fn nothing_is_read_behind_a_line_that_no_program_writes() {
        assert_eq!((names_around(1 << 12), names_around(2 << 20)), (2, 1));
    }

    fn names_around(length: usize) -> usize {
        let long = "x".repeat(length);
        named(&format!("1000 10 first\n{long}\n2000 10 second\n"), &[0x1000, 0x2000]).len()
    }

    #[test]
    fn numbers_are_read_as_java_and_dotnet_write_them() {
        let java = "0x00007f8a2c53a0c0 0x0000000000000040 java.lang.String::hashCode\n";
        let dotnet = "00007F8A2C53B000 1C int32 [app] Program::Fib(int32)[OptimizedTier1]\n";
        assert_eq!(named(java, &[0x7f8a_2c53_a0ff])[0].1, "java.lang.String::hashCode");
        let expected = "int32 [app] Program::Fib(int32)[OptimizedTier1]";
        assert_eq!(named(dotnet, &[0x7f8a_2c53_b01b])[0].1, expected);
    }

    #[test]
    fn memory_that_was_used_again_has_the_last_name_and_that_is_counted() {
        let map = "1000 20 old\n1000 20 new\n2000 10 same\n2000 10 same\n";
        let names = names_in(map.as_bytes(), &[0x1008, 0x2008], &NamingTurn::default()).unwrap();
        assert_eq!((names.symbols[0].frames[0].function.as_str(), names.reused), ("new", 1));
    }

    #[test]
    fn what_is_no_line_of_a_map_says_nothing() {
        let wrong = [
            "",
            "1000",
            "1000 20",
            "1000 20 ",
            "1000 0 empty",
            "-1000 20 sign",
            "+1000 20 sign",
            "ffffffffffffffff 2 beyond",
            "10000000000000000 20 long",
            "1000  x",
            "0x 20 none",
        ];
        for line in wrong {
            assert!(named(&format!("{line}\n"), &[0, 0x1000, u64::MAX]).is_empty(), "{line:?}");
        }
        assert_eq!(named("ffffffffffffffff 1 last\n", &[u64::MAX]).len(), 1);
        assert!(named("1000 20 still being writ", &[0x1000]).is_empty());
    }

    #[test]
    fn a_long_name_is_cut_and_the_next_line_is_whole() {
        let map = format!("1000 10 {}\n2000 10 next\n", "x".repeat(3 << 16));
        let named = named(&map, &[0x1000, 0x2000]);
        assert_eq!((named[0].1.len(), named[1].1.as_str()), (NAME_MAX, "next"));
    }

    #[test]
    fn who_has_no_time_left_gets_what_was_read_so_far() {
        let (turn, map) = (NamingTurn::default(), "1000 10 name\n");
        // Its time is over once this was read.
        struct Last<'t>(&'t NamingTurn);
        impl Read for Last<'_> {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                self.0.slow_to(NamingPace::Over);
                bytes.fill(b'x');
                Ok(bytes.len())
            }
        }
        let endless = map.as_bytes().chain(Last(&turn));
        let names = names_in(endless, &[0x1000], &turn).unwrap();
        assert_eq!((names.symbols.len(), names.cut), (1, Some("reading it takes too long")));
    }

    #[test]
    fn names_take_no_more_memory_than_a_program_may_have() {
        let addresses: Vec<u64> = (0..100_000).collect();
        let map = format!("0 ffffffff {}\n", "x".repeat(NAME_MAX));
        let names = names_in(map.as_bytes(), &addresses, &NamingTurn::default()).unwrap();
        assert_eq!(names.symbols.len(), NAMES_MAX / NAME_MAX);
        assert!(names.cut.is_some_and(|cut| cut.contains("32 MiB")));
    }

    proptest! {
        #[test]
        fn any_bytes_name_only_what_was_asked_for(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            addresses in prop::collection::vec(any::<u64>(), 0..8),
        ) {
            for symbol in names_in(&bytes[..], &addresses, &NamingTurn::default()).unwrap().symbols {
                prop_assert!(addresses.contains(&symbol.offset));
                prop_assert!(symbol.offset - symbol.start < symbol.size);
            }
        }

        #[test]
        fn each_address_has_the_last_code_that_was_written_around_it(
            code in prop::collection::vec((0..300u64, 1..40u64), 0..40),
            addresses in prop::collection::vec(0..350u64, 0..40),
        ) {
            let lines: Vec<String> = code
                .iter()
                .enumerate()
                .map(|(index, (start, size))| format!("{start:x} {size:x} f{index}\n"))
                .collect();
            let found = named(&lines.concat(), &addresses);
            for address in addresses {
                let index = code
                    .iter()
                    .rposition(|(start, size)| (*start..start + size).contains(&address));
                let expected = index.map(|index| format!("f{index}"));
                let name =
                    found.iter().find(|(at, _)| *at == address).map(|(_, name)| name.clone());
                prop_assert_eq!(name, expected);
            }
        }
    }
}
