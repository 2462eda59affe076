//! Addresses and the code around them, whatever list tells of it.

use crate::turn::{NamingPace, NamingTurn};
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;
use syscollect_model::{Symbol, SymbolFrame, Ticks};

/// Longer names are cut, bytes.
pub(super) const NAME_MAX: usize = 512;
/// Bytes that the names of one program may take.
pub(super) const NAMES_MAX: usize = 32 << 20;
/// Bytes that are read at once.
pub(super) const BUFFER: usize = 1 << 16;
/// Changes of what lies at the addresses of one program that are kept.
const CHANGES_MAX: usize = 1 << 16;
/// Pieces of code that are read, and addresses that are named, between two looks at whether there
/// is time left.
pub(super) const STEP: usize = 4096;

/// A piece of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GeneratedCode {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: Rc<str>,
}

impl GeneratedCode {
    /// `None` for what is no range of addresses, or has no name.
    pub(super) fn new(start: u64, size: u64, name: &[u8]) -> Option<Self> {
        let is_range = size > 0 && start.checked_add(size - 1).is_some();
        let shown = String::from_utf8_lossy(&name[..name.len().min(NAME_MAX)]);
        (is_range && !name.is_empty()).then(|| Self { start, size, name: shown.into() })
    }
}

/// What a list says of some addresses.
#[derive(Debug, Default)]
pub(crate) struct NamesFound {
    /// By ascending address, then in order of time.
    pub(crate) symbols: Vec<Symbol>,
    /// Addresses at which other code lay before, according to the same file, of which it is not
    /// known when, or too often.
    pub(crate) reused: u64,
    /// Why the file was not read to its end.
    pub(crate) cut: Option<&'static str>,
}

/// The code that lay at each of some addresses, as far as a list told of it.
pub(super) struct NamesOfAddresses {
    /// Ascending.
    addresses: Vec<u64>,
    /// What lay at each, in order of time.
    found: Vec<Vec<CodeSince>>,
    reused: Vec<bool>,
    /// Changes that may still be kept.
    changes_left: usize,
}

/// What lay at an address from a time on.
#[derive(Debug)]
struct CodeSince {
    /// 0 where it is not known.
    since: Ticks,
    code: Rc<GeneratedCode>,
}

impl NamesOfAddresses {
    pub(super) fn new(addresses: &[u64]) -> Self {
        let mut addresses = addresses.to_vec();
        addresses.sort_unstable();
        addresses.dedup();
        let count = addresses.len();
        let found = std::iter::repeat_with(Vec::new).take(count).collect();
        Self { addresses, found, reused: vec![false; count], changes_left: CHANGES_MAX }
    }

    /// Takes a piece of code for what lies at its addresses from a time on, if that is known; how
    /// many of these are asked for.
    pub(super) fn add(&mut self, code: GeneratedCode, since: Option<Ticks>) -> usize {
        let first = self.addresses.partition_point(|address| *address < code.start);
        let last = code.start + (code.size - 1);
        let count = self.addresses[first..].partition_point(|address| *address <= last);
        if count == 0 {
            return 0;
        }
        let code = Rc::new(code);
        for index in first..first + count {
            self.add_at(index, Rc::clone(&code), since);
        }
        count
    }

    fn add_at(&mut self, index: usize, code: Rc<GeneratedCode>, since: Option<Ticks>) {
        let found = &mut self.found[index];
        let Some(last) = found.last_mut() else {
            found.push(CodeSince { since: since.unwrap_or_default(), code });
            return;
        };
        if last.code == code {
            return;
        }
        // What a list says comes in order of time, or is no time.
        match since.filter(|since| *since > last.since && self.changes_left > 0) {
            Some(since) => {
                self.changes_left -= 1;
                found.push(CodeSince { since, code });
            }
            None => {
                self.reused[index] = true;
                last.code = code;
            }
        }
    }

    pub(super) fn finish(self, cut: Option<&'static str>) -> NamesFound {
        let mut names = NamesFound { cut, ..NamesFound::default() };
        let mut bytes = 0;
        let found = self.addresses.iter().zip(self.found).zip(self.reused);
        for ((address, found), reused) in found {
            bytes += found.iter().map(|found| found.code.name.len()).sum::<usize>();
            if bytes > NAMES_MAX {
                names.cut = Some("its names are longer than 32 MiB");
                break;
            }
            names.reused += u64::from(reused);
            let symbols =
                found.iter().enumerate().map(|(index, CodeSince { since, code })| Symbol {
                    offset: *address,
                    start: code.start,
                    size: code.size,
                    // Nothing else was there before the first.
                    since: if index == 0 { Ticks(0) } else { *since },
                    frames: vec![SymbolFrame {
                        function: code.name.to_string(),
                        ..SymbolFrame::default()
                    }],
                    ..Symbol::default()
                });
            names.symbols.extend(symbols);
        }
        names
    }
}

/// A file that ends when its reader's turn is over: a line of it may be as long as the file.
pub(super) struct TurnReader<'t, R> {
    pub(super) from: R,
    pub(super) turn: &'t NamingTurn,
}

impl<R: Read> Read for TurnReader<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.turn.pace() == NamingPace::Over { Ok(0) } else { self.from.read(bytes) }
    }
}

impl<R: Seek> Seek for TurnReader<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.from.seek(to)
    }
}
