//! The functions of an ELF file.

use crate::demangle::{any_name, demangle};
use crate::elf::{ENDIAN, Elf, until_zero};
use crate::error::ProbeError;
use crate::glob::Glob;
use crate::nearest::nearest;
use crate::symbols::{Symbol, symbols};
use object::elf::{self, Dyn64, SymbolBind};
use object::read::elf::Dyn as _;
use object::{LittleEndian, ReadRef};
use std::cmp::Reverse;

/// How many names an error suggests.
const SUGGESTIONS: usize = 5;
/// More than any table of what a file is linked with has.
const DYNAMIC_MAX: u64 = 64 << 10;
/// No file name is longer.
const SONAME_MAX: u64 = 256;

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
    /// Reads the symbols of an ELF file for x86-64, as [`usdt_probes`](crate::usdt_probes) takes it.
    ///
    /// # Errors
    ///
    /// When it is no such file, is damaged, has no symbols of functions, or is a Go program.
    pub fn read<R: ReadRef<'data>>(data: R) -> Result<Self, ProbeError> {
        let elf = Elf::parse(data)?;
        if [".gopclntab", ".go.buildinfo"].iter().any(|name| elf.sections_named(name).next().is_some()) {
            return Err(ProbeError::Go);
        }
        let mut functions = Self { entries: Vec::new(), unsuitable: Vec::new(), unwinds: false };
        symbols(&elf, |symbol| functions.add(&elf, &symbol))?;
        if functions.entries.is_empty() {
            return Err(ProbeError::Stripped);
        }
        functions.entries.sort_unstable_by_key(|entry| (entry.offset, entry.rank, entry.symbol));
        functions.entries.dedup_by_key(|entry| (entry.offset, entry.symbol));
        Ok(functions)
    }

    fn add<R: ReadRef<'data>>(&mut self, elf: &Elf<'data, R>, symbol: &Symbol<'data>) {
        // Names of versions are not the function's.
        let name = symbol.name.split(|byte| *byte == b'@').next().and_then(|name| str::from_utf8(name).ok());
        let Some(name) = name else { return };
        self.unwinds |= PERSONALITIES.contains(&name);
        let Some(offset) = elf.code_offset(symbol.address).filter(|_| symbol.defined) else { return };
        let why = match symbol.kind {
            elf::STT_GNU_IFUNC => Some("the name stands for one of several functions (IFUNC); name one of these"),
            elf::STT_FUNC => why_unsuitable(name),
            _ => return,
        };
        match why {
            Some(why) => self.unsuitable.push((name, why)),
            None => {
                let rank = rank(name, symbol.bind);
                self.entries.push(Entry { symbol: name, offset, size: symbol.size, rank });
            }
        }
    }

    /// What a user who probes a function of this file at its return must know, if its functions may be
    /// left by an exception: whoever unwinds the stack finds the kernel's address where the return address was.
    pub fn caution(&self) -> Option<&'static str> {
        self.unwinds.then_some(
            "it has C++ exceptions or Rust panics: one that leaves a probed function ends the program, so name \
             functions that none leaves",
        )
    }

    /// All of them, each once, by offset.
    pub fn all(&self) -> impl Iterator<Item = Function> {
        self.entries.chunk_by(|one, other| one.offset == other.offset).filter_map(|names| names.first()).map(function)
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
            all if all > limit => Err(ProbeError::TooManyFunctions { pattern: glob.to_string(), found: all, limit }),
            _ => Ok(found),
        }
    }

    /// As [`matching`](Self::matching), without a limit, and nothing where none matches: quicker, for
    /// it looks for no reason.
    pub fn all_matching(&self, glob: &Glob) -> impl Iterator<Item = Function> {
        self.find(glob).map(function)
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

fn rank(name: &str, bind: SymbolBind) -> Rank {
    let exported = match bind {
        elf::STB_GLOBAL => 2,
        elf::STB_WEAK => 1,
        _ => 0,
    };
    (Reverse(exported), name.len() - name.trim_start_matches('_').len(), name.len())
}

/// Why a probe on the return of a function would break its program, if it would: such a
/// probe replaces the return address on the stack.
fn why_unsuitable(name: &str) -> Option<&'static str> {
    const JUMPED_TO: &str = "it is jumped to, not called, so there is no return that could be probed";
    const TWICE: &str = "it returns twice, which a probe on its return would break";
    const UNWINDS: &str = "it reads return addresses off the stack, which a probe on its return would break";
    match name {
        _ if name.ends_with(".cold") || name.contains(".cold.") => Some(JUMPED_TO),
        "_start" | "_dl_start_user" | "__restore_rt" | "__restore" => Some(JUMPED_TO),
        _ if name.starts_with("_dl_runtime_resolve") || name.starts_with("_dl_runtime_profile") => Some(JUMPED_TO),
        "setjmp" | "_setjmp" | "__setjmp" | "sigsetjmp" | "__sigsetjmp" | "vfork" | "__vfork" | "__libc_vfork" => {
            Some(TWICE)
        }
        "getcontext" | "__getcontext" | "swapcontext" | "__swapcontext" => Some(TWICE),
        "__cxa_throw" | "__cxa_rethrow" | "_Unwind_RaiseException" | "_Unwind_ForcedUnwind" => Some(UNWINDS),
        "_Unwind_Resume" | "_Unwind_Resume_or_Rethrow" | "_Unwind_Backtrace" | "backtrace" | "__backtrace" => {
            Some(UNWINDS)
        }
        _ => None,
    }
}

/// The name that a library gives itself, by which others ask for it.
///
/// # Errors
///
/// When it is no ELF file for x86-64, or a damaged one.
pub fn soname<'data, R: ReadRef<'data>>(data: R) -> Result<Option<String>, ProbeError> {
    let elf = Elf::parse(data)?;
    let Some((at, size)) = elf.segments_of(elf::PT_DYNAMIC).next() else { return Ok(None) };
    let bytes = elf.bytes(at, size, "table of what it is linked with", DYNAMIC_MAX)?;
    let count = bytes.len() / size_of::<Dyn64<LittleEndian>>();
    let Ok((entries, _)) = object::pod::slice_from_bytes::<Dyn64<LittleEndian>>(bytes, count) else { return Ok(None) };
    let value = |tag| entries.iter().find(|entry| entry.tag(ENDIAN) == tag).map(|entry| entry.val(ENDIAN));
    let name = || {
        let names = elf.data_offset(value(elf::DT_STRTAB)?, 1)?;
        let name = until_zero(elf.bytes_up_to(names.checked_add(value(elf::DT_SONAME)?)?, SONAME_MAX));
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    };
    Ok(name())
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
