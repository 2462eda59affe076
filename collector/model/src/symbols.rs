//! Names of addresses, as they are found by a symbolizer and kept in captures.

use crate::{BuildId, Ticks};
use serde::{Deserialize, Serialize};

/// Names of addresses in one module.
///
/// `offset` is what was looked up: the offset in the module's file (kernel: the
/// address), already reduced by one for return addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SymbolTable {
    /// Path of the module as in its mappings; `[kernel.kallsyms]` for all kernel code.
    pub path: String,
    /// Its build id, as in its mappings.
    pub build_id: BuildId,
    /// Whose memory it is, of code that a program made while it ran: addresses mean something in
    /// there alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryAt>,
    /// The names, by ascending offset.
    pub symbols: Vec<Symbol>,
    /// Why nothing, or not everything, could be named; empty if all was well.
    pub note: String,
    /// How many places have no names, or none of inlined functions and lines, because finding them
    /// took more than the file's share of time.
    #[serde(skip_serializing_if = "is_none")]
    pub unfinished: u64,
}

/// The memory that a process had at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryAt {
    /// The process.
    pub pid: u32,
    /// The time.
    pub at: Ticks,
}

impl SymbolTable {
    /// The path of code that programs made while they ran, where it has names.
    pub const GENERATED: &str = "[JIT]";

    /// Whether it has a name of a function, and not only ranges.
    pub fn has_names(&self) -> bool {
        self.symbols.iter().any(|symbol| !symbol.range_only)
    }

    /// Whether a debug file could still name functions that are known by their ranges alone.
    pub fn has_ranges_only(&self) -> bool {
        self.symbols.iter().any(|symbol| symbol.range_only)
    }
}

/// Files that a sentence names one by one.
const NAMED_MAX: usize = 5;

/// Which files lack names because finding them took too long, in words; `None` where none does.
pub fn naming_shortage(tables: &[SymbolTable]) -> Option<String> {
    let mut short: Vec<(u64, &str, &BuildId)> = tables
        .iter()
        .filter(|table| table.unfinished > 0)
        .map(|table| (table.unfinished, table.path.as_str(), &table.build_id))
        .collect();
    // A large table is stored in parts.
    short.sort_by(|a, b| (a.1, a.2, b.0).cmp(&(b.1, b.2, a.0)));
    short.dedup_by_key(|(_, path, build_id)| (*path, *build_id));
    short.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    let mut files: Vec<String> = short
        .iter()
        .take(NAMED_MAX)
        .map(|(count, path, _)| format!("{path} ({count} places)"))
        .collect();
    if let Some(more) = short.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        files.push(format!("{more} more files"));
    }
    (!files.is_empty()).then(|| {
        format!(
            "naming these files took more than their share of CPU time, so what is left of them \
             shows functions without lines, or offsets: {}; without their debug information (strip \
             -g) they are named quickly",
            files.join(", ")
        )
    })
}

/// The frames at one offset, innermost first: inlined ones, then the function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Symbol {
    /// What was looked up.
    pub offset: u64,
    /// Start of the function, in the same terms; 0 if unknown.
    pub start: u64,
    /// Bytes of the function; 0 if unknown.
    pub size: u64,
    /// From when on this lies there, where that is known and other code lay there before. A table
    /// has a symbol for each code that lay at one offset, in order of time; the first holds from
    /// the beginning.
    #[serde(skip_serializing_if = "is_beginning")]
    pub since: Ticks,
    /// Name of the kernel module (`"ext4"`), else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel_module: String,
    /// Nothing names the function: only where it begins and ends is known, from what unwinders are
    /// told of it. Its one frame has the file's name and the virtual address of its start, such as
    /// `python3.11+0x41f0a0`, for display. Whoever counts names counts this as none.
    #[serde(skip_serializing_if = "is_false")]
    pub range_only: bool,
    /// The frames; never empty, the last one is the function itself.
    pub frames: Vec<SymbolFrame>,
}

/// One function, perhaps inlined, at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SymbolFrame {
    /// Demangled name.
    pub function: String,
    /// Source file; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Source line; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: u32,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn is_beginning(ticks: &Ticks) -> bool {
    *ticks == Ticks(0)
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(line: &u32) -> bool {
    *line == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_lack_names_are_told_once_and_not_all() {
        assert_eq!(naming_shortage(&[table("/a", 0)]), None);
        let mut tables = vec![table("/a", 3), table("/b", 0), table("/a", 3), table("/c", 9)];
        let reported = naming_shortage(&tables).unwrap();
        assert!(reported.contains(": /c (9 places), /a (3 places);"), "{reported}");
        tables.extend((0..6).map(|n| table(&format!("/{n}"), 1)));
        let reported = naming_shortage(&tables).unwrap();
        assert!(reported.contains("/2 (1 places), 3 more files;"), "{reported}");
    }

    fn table(path: &str, unfinished: u64) -> SymbolTable {
        SymbolTable { path: path.into(), unfinished, ..SymbolTable::default() }
    }
}
