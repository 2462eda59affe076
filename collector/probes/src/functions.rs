//! The functions of an ELF file.

use crate::arch::{CALLABLE_NOP, is_return};
use crate::error::ProbeError;
use crate::exits::{UnclearExits, exits};
use crate::frames::Frames;
use crate::glob::Glob;
use crate::nearest::nearest;
use crate::symbols::symbols;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::Range;
use syscollect_demangle::{any_name, demangle};
use syscollect_elf::{Elf, NamedSymbol, ReadRef, abi};

/// How many names an error suggests.
const SUGGESTIONS: usize = 5;
/// No file name is longer.
const SONAME_MAX: u64 = 256;

/// Parts of functions of one name: local ones of several source files have the same.
const COLD_MAX: usize = 64;

/// What code that exceptions pass through is linked with.
const PERSONALITIES: [&str; 2] = ["__gxx_personality_v0", "rust_eh_personality"];

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name as the author wrote it.
    pub name: String,
    /// Its name as the file has it.
    pub symbol: String,
    /// Where its first instruction lies in the file, bytes.
    pub offset: u64,
    /// How many bytes it has; 0 where the file does not say.
    pub size: u64,
}

impl Function {
    /// Without a nop of five bytes that it begins with, which does nothing that a probe would miss.
    ///
    /// Once such a nop is probed, Linux 6.18 has it call a page that forked children do not have:
    /// they would die there.
    #[must_use]
    pub fn past_callable_nop<'data, R: ReadRef<'data>>(self, data: R) -> Self {
        let nop = CALLABLE_NOP.len() as u64;
        let begins = data.read_bytes_at(self.offset, nop);
        if begins != Ok(&CALLABLE_NOP[..]) || (1..=nop).contains(&self.size) {
            return self;
        }
        Self { offset: self.offset + nop, size: self.size.saturating_sub(nop), ..self }
    }
}

/// How it is noticed that a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returns {
    /// By probes on the instructions with which it ends, whose places in the file these are; none
    /// where it never returns. The stack pointer is there what it was at the entry.
    At(Vec<u64>),
    /// By a probe that replaces its return address, for these instructions cannot be told. No
    /// exception may leave it then: whoever unwinds the stack finds the kernel's address there.
    ByAddress,
}

/// The functions of a file that can be probed at entry and return.
///
/// ```
/// use syscollect_probes::Functions;
/// let own = std::fs::read("/proc/self/exe").unwrap();
/// let functions = Functions::read(&own[..]).unwrap();
/// let found = functions.matching(&"main".parse().unwrap(), 10).unwrap();
/// assert_eq!(found[0].name, "main");
/// ```
#[derive(Debug)]
pub struct Functions<'data> {
    /// By offset, and within one by how good the name is, best first.
    entries: Vec<Entry<'data>>,
    unsuitable: Vec<(&'data str, &'static str)>,
    /// Its functions may be left by an exception.
    unwinds: bool,
    /// Where the compiler has put what is hardly ever run, by the function's symbol.
    cold: FxHashMap<&'data str, Vec<Range<u64>>>,
    /// What tells of such parts where symbols do not.
    frames: Option<Frames<'data>>,
}

#[derive(Debug)]
struct Entry<'data> {
    symbol: &'data str,
    offset: u64,
    size: u64,
    rank: Rank,
}

/// Which of a function's names is shown: the smallest. Exported before local ones, then with few
/// underscores before it, then short.
type Rank = (Reverse<u8>, usize, usize);

impl<'data> Functions<'data> {
    /// Reads the symbols of an ELF file for x86-64, as [`usdt_probes`](crate::usdt_probes) takes
    /// it.
    ///
    /// # Errors
    ///
    /// When it is no such file, is damaged, has no symbols of functions, or is a Go program.
    pub fn read<R: ReadRef<'data>>(data: R) -> Result<Self, ProbeError> {
        let elf = Elf::of_x86_64(data)?;
        let sections = elf.sections()?;
        if [".gopclntab", ".go.buildinfo"].iter().any(|name| sections.named(name).next().is_some())
        {
            return Err(ProbeError::Go);
        }
        let mut functions = Self {
            entries: Vec::new(),
            unsuitable: Vec::new(),
            unwinds: false,
            cold: FxHashMap::default(),
            frames: None,
        };
        functions.frames = Frames::read(&elf, &sections);
        symbols(&sections, |symbol| functions.add(&elf, symbol))?;
        if functions.entries.is_empty() {
            return Err(ProbeError::Stripped);
        }
        functions.entries.sort_unstable_by_key(|entry| (entry.offset, entry.rank, entry.symbol));
        functions.entries.dedup_by_key(|entry| (entry.offset, entry.symbol));
        Ok(functions)
    }

    fn add<R: ReadRef<'data>>(
        &mut self,
        elf: &Elf<'data, R>,
        NamedSymbol { name, symbol }: NamedSymbol<'data>,
    ) {
        // Names of versions are not the function's.
        let name =
            name.split(|byte| *byte == b'@').next().and_then(|name| str::from_utf8(name).ok());
        let Some(name) = name else { return };
        self.unwinds |= PERSONALITIES.contains(&name);
        let Some(offset) = elf.code_offset(symbol.address).filter(|_| symbol.is_defined) else {
            return;
        };
        let why = match symbol.kind {
            abi::STT_GNU_IFUNC => {
                Some("the name stands for one of several functions (IFUNC); name one of these")
            }
            abi::STT_FUNC => why_unsuitable(name),
            _ => return,
        };
        if let Some((of, _)) = name.split_once(".cold") {
            self.cold.entry(of).or_default().push(offset..offset.saturating_add(symbol.size));
        }
        match why {
            Some(why) => self.unsuitable.push((name, why)),
            None => {
                let rank = rank(name, symbol.bind);
                self.entries.push(Entry { symbol: name, offset, size: symbol.size, rank });
            }
        }
    }

    /// How it is noticed that one of the functions returns; `data` is the file they were read from.
    ///
    /// # Errors
    ///
    /// When the instructions with which it ends cannot be told, and a probe that
    /// replaces its return address could end the program: why.
    pub fn returns<R: ReadRef<'data>>(
        &self,
        data: R,
        function: &Function,
    ) -> Result<Returns, &'static str> {
        match self.exits(data, function) {
            Ok(exits) => Ok(Returns::At(exits)),
            Err(unclear) if self.unwinds || needs_return_address(&function.symbol) => {
                Err(unclear.why())
            }
            Err(_) => Ok(Returns::ByAddress),
        }
    }

    /// How it is noticed that a function of a C interface returns, which no exception leaves: where
    /// its code returns, unless it may call another function in its place, which would be part of
    /// it.
    pub fn returns_to_caller<R: ReadRef<'data>>(&self, data: R, function: &Function) -> Returns {
        let Ok(exits) = self.exits(data, function) else { return Returns::ByAddress };
        let mut instructions = exits.iter().map(|place| data.read_bytes_at(*place, 2));
        let all_return = instructions.all(|bytes| bytes.is_ok_and(is_return));
        if all_return && !exits.is_empty() { Returns::At(exits) } else { Returns::ByAddress }
    }

    fn exits<R: ReadRef<'data>>(
        &self,
        data: R,
        function: &Function,
    ) -> Result<Vec<u64>, UnclearExits> {
        let Function { offset, size, .. } = *function;
        let first = self.entries.partition_point(|entry| entry.offset < offset);
        let names = self.entries[first..].iter().take_while(|entry| entry.offset == offset);
        let cold: Vec<Range<u64>> = names
            .filter_map(|entry| self.cold.get(entry.symbol))
            .flatten()
            .take(COLD_MAX)
            .cloned()
            .collect();
        exits(
            offset..offset.saturating_add(size),
            &cold,
            |place| self.frames.as_ref()?.around(place),
            |part| data.read_bytes_at(part.start, part.end.checked_sub(part.start)?).ok(),
        )
    }

    /// All of them, each once, by offset.
    pub fn all(&self) -> impl Iterator<Item = Function> {
        self.entries
            .chunk_by(|one, other| one.offset == other.offset)
            .filter_map(|names| names.first())
            .map(function)
    }

    /// Those with a name that `glob` matches: the raw symbol, the demangled name, or that
    /// without its parameters.
    ///
    /// # Errors
    ///
    /// When none matches, only ones that cannot be probed do, or more than `limit`.
    pub fn matching(&self, glob: &Glob, limit: usize) -> Result<Vec<Function>, ProbeError> {
        // An older version of a function may be suitable where the one that is used is not.
        let named = glob.as_exact();
        if named.is_some_and(|named| self.unsuitable.iter().any(|(name, _)| *name == named)) {
            return Err(self.nothing(glob));
        }
        let mut matching = self.find(glob);
        let found: Vec<Function> = matching.by_ref().take(limit).map(function).collect();
        match found.len() + matching.count() {
            0 => Err(self.nothing(glob)),
            all if all > limit => {
                Err(ProbeError::TooManyFunctions { pattern: glob.to_string(), found: all, limit })
            }
            _ => Ok(found),
        }
    }

    /// As [`matching`](Self::matching), without a limit, and nothing where none matches: quicker,
    /// for it looks for no reason.
    pub fn all_matching(&self, glob: &Glob) -> impl Iterator<Item = Function> {
        self.find(glob).map(function)
    }

    /// Those of which some raw symbol is wanted, each with that symbol.
    pub fn called(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Function> {
        let same = self.entries.chunk_by(|one, other| one.offset == other.offset);
        same.filter_map(move |names| names.iter().find(|entry| wanted(entry.symbol))).map(function)
    }

    fn find(&self, glob: &Glob) -> impl Iterator<Item = &Entry<'data>> {
        let same = self.entries.chunk_by(|one, other| one.offset == other.offset);
        same.filter_map(|names| names.iter().find(|entry| is_called(entry.symbol, glob)))
    }

    /// Why nothing matches.
    fn nothing(&self, glob: &Glob) -> ProbeError {
        match self.unsuitable.iter().find(|(name, _)| is_called(name, glob)) {
            Some((name, why)) => ProbeError::Unsuitable { name: demangle(name), why },
            None => {
                let names = self.entries.iter().map(|entry| demangle(entry.symbol));
                let nearest = nearest(glob.as_str(), names, SUGGESTIONS);
                ProbeError::NoFunction { pattern: glob.to_string(), nearest }
            }
        }
    }
}

fn is_called(symbol: &str, glob: &Glob) -> bool {
    any_name(symbol, |name| glob.matches(name))
}

fn function(entry: &Entry<'_>) -> Function {
    let Entry { symbol, offset, size, .. } = *entry;
    Function { name: demangle(symbol), symbol: symbol.to_owned(), offset, size }
}

fn rank(name: &str, bind: abi::SymbolBind) -> Rank {
    let exported = match bind {
        abi::STB_GLOBAL => 2,
        abi::STB_WEAK => 1,
        _ => 0,
    };
    (Reverse(exported), name.len() - name.trim_start_matches('_').len(), name.len())
}

/// Why there is no zone from a function's entry to its return, if there is none.
fn why_unsuitable(name: &str) -> Option<&'static str> {
    const JUMPED_TO: &str =
        "it is jumped to, not called, so there is no return that could be probed";
    match name {
        _ if name.ends_with(".cold") || name.contains(".cold.") => Some(JUMPED_TO),
        "_start" | "_dl_start_user" | "__restore_rt" | "__restore" => Some(JUMPED_TO),
        _ if name.starts_with("_dl_runtime_resolve") || name.starts_with("_dl_runtime_profile") => {
            Some(JUMPED_TO)
        }
        _ => None,
    }
}

/// Whether a function returns twice, or reads return addresses off the stack.
fn needs_return_address(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "setjmp",
        "_setjmp",
        "__setjmp",
        "sigsetjmp",
        "__sigsetjmp",
        "vfork",
        "__vfork",
        "__libc_vfork",
        "getcontext",
        "__getcontext",
        "swapcontext",
        "__swapcontext",
        "__cxa_throw",
        "__cxa_rethrow",
        "backtrace",
        "__backtrace",
    ];
    NAMES.contains(&name) || name.starts_with("_Unwind_")
}

/// The name that a library gives itself, by which others ask for it.
///
/// # Errors
///
/// When it is no ELF file for x86-64, or a damaged one.
pub fn soname<'data, R: ReadRef<'data>>(data: R) -> Result<Option<String>, ProbeError> {
    let elf = Elf::of_x86_64(data)?;
    let Some(dynamic) = elf.dynamic()? else { return Ok(None) };
    let number = dynamic.entries().find(|(tag, _)| *tag == abi::DT_SONAME);
    let name = number.and_then(|(_, number)| dynamic.string(number, SONAME_MAX));
    Ok(name.filter(|name| !name.is_empty()).map(|name| String::from_utf8_lossy(name).into_owned()))
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
