//! Jitdumps: binary files in which programs list the code that they make while they run.
//!
//! A header, then a record for each piece of code that is made or moved, with its time, its name
//! and a copy of it (`tools/perf/Documentation/jitdump-specification.txt` of Linux). So of code
//! that lay at one address one after the other each has its name in its time, as far as that is of
//! a clock that the capture knows.

use super::names::{
    BUFFER, GeneratedCode, NAME_MAX, NAMES_MAX, NamesFound, NamesOfAddresses, STEP, TurnReader,
};
use crate::turn::{NamingPace, NamingTurn};
use rustc_hash::FxHashMap;
use std::io::{self, BufReader, Read, Seek};
use std::rc::Rc;
use syscollect_model::ClockMap;

const MAGIC: u32 = 0x4a69_5444;
const HEADER: usize = 40;
/// Longer headers are no later version's.
const HEADER_MAX: u32 = 4096;
/// Where the header has its flags, and one of them.
const FLAGS: usize = 32;
const ARCH_TIMESTAMP: u64 = 1;
const RECORD: usize = 16;
/// Where a record has its time.
const TIME: usize = 8;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const CODE_CLOSE: u32 = 3;
/// What these two begin with, before the name of the first.
const LOAD: usize = 40;
const MOVE: usize = 48;

/// Reads what a jitdump says of `addresses`; see [`NamesOfAddresses`].
///
/// # Errors
///
/// The file's, and one that is no jitdump.
pub(crate) fn names_in(
    dump: impl Read + Seek,
    addresses: &[u64],
    clock: Option<&ClockMap>,
    turn: &NamingTurn,
) -> io::Result<NamesFound> {
    let mut records = Records {
        from: BufReader::with_capacity(BUFFER, TurnReader { from: dump, turn }),
        loaded: LoadedCode::default(),
    };
    let has_own_clock = records.header()?;
    let clock = clock.filter(|_| !has_own_clock);
    let (mut names, mut steps) = (NamesOfAddresses::new(addresses), 0);
    // A record that is not whole is still being written.
    while let Ok(record) = records.next()
        && (steps < STEP || turn.pace() < NamingPace::Over)
    {
        let code = match record {
            Record::Code(code) => code,
            Record::Other => None,
            Record::Close => break,
        };
        steps = if steps < STEP { steps } else { 0 };
        steps += 1 + code.map_or(0, |(code, written)| {
            names.add(code, clock.map(|clock| clock.ticks_at_monotonic(written)))
        });
    }
    let is_over = turn.pace() == NamingPace::Over;
    Ok(names.finish(is_over.then_some("reading it takes too long")))
}

enum Record {
    /// Code lies there from that time on; `None` where that cannot be told.
    Code(Option<(GeneratedCode, u64)>),
    Other,
    Close,
}

struct Records<R> {
    from: BufReader<R>,
    loaded: LoadedCode,
}

impl<R: Read + Seek> Records<R> {
    /// Whether times are of the CPU's counter; else they are of CLOCK_MONOTONIC, in nanoseconds.
    fn header(&mut self) -> io::Result<bool> {
        let mut header = [0; HEADER];
        self.from.read_exact(&mut header)?;
        let size = u32_at(&header, 8);
        if u32_at(&header, 0) != MAGIC || !(HEADER as u32..=HEADER_MAX).contains(&size) {
            return Err(io::Error::other("it is no jitdump of this kind of machine"));
        }
        self.from.seek_relative(i64::from(size) - HEADER as i64)?;
        Ok(u64_at(&header, FLAGS) & ARCH_TIMESTAMP != 0)
    }

    fn next(&mut self) -> io::Result<Record> {
        let mut header = [0; RECORD];
        self.from.read_exact(&mut header)?;
        let (kind, size) = (u32_at(&header, 0), u32_at(&header, 4) as usize);
        let body = size.checked_sub(RECORD).ok_or_else(|| io::Error::other("a record's size"))?;
        // Behind the name lies the code itself.
        let mut start = [0; LOAD + NAME_MAX + 1];
        let start = &mut start[..body.min(LOAD + NAME_MAX + 1)];
        let is_read = matches!(kind, CODE_LOAD | CODE_MOVE);
        let read = if is_read { start.len() } else { 0 };
        self.from.read_exact(&mut start[..read])?;
        // What lies behind the file's end is found to be missing with the next record.
        self.from.seek_relative((body - read) as i64)?;
        let code = match kind {
            CODE_LOAD => self.loaded.load(start),
            CODE_MOVE => self.loaded.moved(start),
            CODE_CLOSE => return Ok(Record::Close),
            _ => return Ok(Record::Other),
        };
        Ok(Record::Code(code.map(|code| (code, u64_at(&header, TIME)))))
    }
}

/// Names of the code that was loaded, by its number: moving it says no name.
#[derive(Default)]
struct LoadedCode {
    names: FxHashMap<u64, Rc<str>>,
    bytes: usize,
}

impl LoadedCode {
    /// `u32 pid, tid; u64 vma, address, size, index`, then the name up to a zero byte.
    fn load(&mut self, body: &[u8]) -> Option<GeneratedCode> {
        let (fixed, name) = body.split_at_checked(LOAD)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let code = GeneratedCode::new(u64_at(fixed, 16), u64_at(fixed, 24), name)?;
        // An entry takes about as much as a short name.
        self.bytes += code.name.len() + 64;
        if self.bytes <= NAMES_MAX {
            self.names.insert(u64_at(fixed, 32), Rc::clone(&code.name));
        }
        Some(code)
    }

    /// `u32 pid, tid; u64 vma, old address, new address, size, index`.
    fn moved(&self, body: &[u8]) -> Option<GeneratedCode> {
        let fixed = body.get(..MOVE)?;
        let name = self.names.get(&u64_at(fixed, 40))?;
        GeneratedCode::new(u64_at(fixed, 24), u64_at(fixed, 32), name.as_bytes())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().copied().map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().copied().map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;
    use syscollect_model::{ClockPair, Ticks};

    fn dump(records: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        for word in [1u32, 40, 62, 0, 7] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0; 16]);
        bytes.extend(records.concat());
        bytes
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (RECORD + body.len()) as u32;
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 8], body].concat()
    }

    fn load(index: u64, start: u64, size: u64, name: &str) -> Vec<u8> {
        let words = [7 | 7 << 32, start, start, size, index].map(u64::to_ne_bytes).concat();
        record(CODE_LOAD, &[&words[..], name.as_bytes(), &[0], &vec![0xc3; size as usize]].concat())
    }

    fn moved(index: u64, from: u64, to: u64, size: u64) -> Vec<u8> {
        let words = [7 | 7 << 32, to, from, to, size, index].map(u64::to_ne_bytes).concat();
        record(CODE_MOVE, &words)
    }

    fn named(dump: &[u8], addresses: &[u64]) -> (Vec<(u64, String)>, u64) {
        let names = names_in(Cursor::new(dump), addresses, None, &NamingTurn::default()).unwrap();
        let symbols = names.symbols.iter();
        let symbols = symbols.map(|symbol| (symbol.offset, symbol.frames[0].function.clone()));
        (symbols.collect(), names.reused)
    }

    #[test]
    fn code_has_its_name_where_it_was_loaded_and_where_it_was_moved_to() {
        let dump = dump(&[
            load(1, 0x1000, 0x20, "JS:*fib a.js:1:14"),
            record(2, &[0; 33]),
            load(2, 0x2000, 0x40, "other"),
            moved(1, 0x1000, 0x3000, 0x20),
            record(4, &[0; 80]),
            moved(9, 0x1000, 0x4000, 0x20),
        ]);
        let (names, reused) = named(&dump, &[0x1000, 0x301f, 0x2008, 0x4000]);
        let expected =
            [(0x1000, "JS:*fib a.js:1:14"), (0x2008, "other"), (0x301f, "JS:*fib a.js:1:14")];
        assert_eq!(names, expected.map(|(address, name)| (address, name.to_owned())));
        assert_eq!(reused, 0);
    }

    #[test]
    fn memory_that_was_used_again_has_the_last_name_and_that_is_counted() {
        let dump = dump(&[load(1, 0x1000, 8, "first"), load(2, 0x1000, 8, "second")]);
        assert_eq!(named(&dump, &[0x1004]), (vec![(0x1004, "second".to_owned())], 1));
    }

    /// A counter that runs twice as fast as the clock, which shows 1000 at 0.
    fn clock() -> ClockMap {
        ClockMap::new(vec![reading(0, 1000), reading(20_000, 11_000)]).unwrap()
    }

    fn reading(ticks: u64, monotonic: u64) -> ClockPair {
        ClockPair {
            ticks: Ticks(ticks),
            monotonic,
            monotonic_raw: monotonic,
            boottime: monotonic,
            realtime: 0,
            uncertainty: 0,
        }
    }

    fn at(time: u64, record: Vec<u8>) -> Vec<u8> {
        [&record[..TIME], &time.to_ne_bytes(), &record[RECORD..]].concat()
    }

    #[test]
    fn memory_that_was_used_again_has_each_name_in_its_time() {
        let mut bytes = dump(&[
            at(2000, load(1, 0x1000, 8, "first")),
            at(2500, load(2, 0x2000, 8, "moves")),
            at(3000, load(3, 0x1000, 8, "second")),
            // Told of twice.
            at(3500, load(3, 0x1000, 8, "second")),
            at(4000, moved(2, 0x2000, 0x1000, 8)),
            // Times that go back are none.
            at(10, load(4, 0x1000, 8, "at no time")),
        ]);
        let expected = vec![since(0, "first"), since(4000, "second"), since(6000, "at no time")];
        assert_eq!(names_of(&bytes, Some(&clock())), (expected, 1));
        assert_eq!(names_of(&bytes, None), (vec![since(0, "at no time")], 1));
        // Times of the counter are not those of the clock.
        bytes[FLAGS] = 1;
        assert_eq!(names_of(&bytes, Some(&clock())), (vec![since(0, "at no time")], 1));
    }

    fn names_of(bytes: &[u8], clock: Option<&ClockMap>) -> (Vec<(u64, String)>, u64) {
        let names = names_in(Cursor::new(bytes), &[0x1004], clock, &NamingTurn::default()).unwrap();
        let symbols = names.symbols.iter();
        let named = symbols.map(|symbol| (symbol.since.0, symbol.frames[0].function.clone()));
        (named.collect(), names.reused)
    }

    fn since(since: u64, name: &str) -> (u64, String) {
        (since, name.to_owned())
    }

    #[test]
    fn nothing_is_read_behind_the_end_or_a_record_that_is_still_written() {
        let first = load(1, 0x1000, 8, "first");
        let closed = dump(&[first.clone(), record(CODE_CLOSE, &[]), load(2, 0x2000, 8, "late")]);
        assert_eq!(named(&closed, &[0x1000, 0x2000]).0.len(), 1);
        let half = load(2, 0x2000, 8, "a long name that is not whole");
        let growing = [dump(&[first]), half[..60].to_vec()].concat();
        assert_eq!(named(&growing, &[0x1000, 0x2000]).0.len(), 1);
    }

    #[test]
    fn a_file_that_is_no_jitdump_is_an_error() {
        let foreign: Vec<u8> = dump(&[]).iter().rev().copied().collect();
        for bytes in [&b""[..], b"JiTD", &foreign] {
            assert!(names_in(Cursor::new(bytes), &[0], None, &NamingTurn::default()).is_err());
        }
    }

    #[test]
    fn a_record_without_size_ends_the_file() {
        let nothing = [CODE_LOAD.to_ne_bytes(), 0u32.to_ne_bytes(), [0; 4], [0; 4]].concat();
        let dump = dump(&[nothing, load(1, 0x1000, 8, "behind it")]);
        assert!(named(&dump, &[0x1000]).0.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_name_only_what_was_asked_for(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            addresses in prop::collection::vec(any::<u64>(), 0..8),
        ) {
            let dump = dump(&[load(1, 0x1000, 8, "f"), bytes]);
            for symbol in
                names_in(Cursor::new(&dump[..]), &addresses, Some(&clock()), &NamingTurn::default())
                    .unwrap()
                    .symbols
            {
                prop_assert!(addresses.contains(&symbol.offset));
                prop_assert!(symbol.offset - symbol.start < symbol.size);
            }
        }
    }
}
