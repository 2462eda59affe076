//! For which code the machine has symbols, as binutils and lists of text tell it: names that a
//! recording gives are held against it, so nothing here is read by the recorder's own means.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::privileged::context::{ProgramOutput, finish, hexadecimal, text};

/// Types of symbols that are code, as `nm` calls them.
const CODE: [&str; 5] = ["T", "t", "W", "w", "i"];
/// Where debug files lie that packages install.
const DEBUG_FILES: &str = "/usr/lib/debug";
/// Symbols that `strip` took away, compressed.
const MINI_DEBUG: &str = ".gnu_debugdata";

/// Code that has symbols: where each begins, and where it ends.
#[derive(Debug, Default)]
pub(super) struct SymbolRanges {
    /// By beginning, without overlaps: of several that hold a place, one is enough.
    covered: Vec<Range<u64>>,
    /// What is loaded: offsets in the file, and addresses less those; none where both are the same.
    loaded: Vec<(Range<u64>, u64)>,
}

impl SymbolRanges {
    /// What the file's own tables say, the compressed one and debug files that are installed.
    /// `scratch` is a folder for what is unpacked.
    pub(super) fn of_file(path: &Path, scratch: &Path) -> Result<Self> {
        let read = readelf(&["-nSlW"], path)?;
        let sections = code_sections(&read);
        let mut symbols = nm(path, &[])?;
        symbols.extend(nm(path, &["-D"])?);
        if read.contains(MINI_DEBUG) {
            symbols.extend(nm(&mini_debug(path, scratch)?, &[])?);
        }
        for debug_file in debug_files(path, &read) {
            symbols.extend(nm(&debug_file, &[])?);
        }
        Ok(Self { covered: covered(symbols, &sections), loaded: loaded(&read) })
    }

    /// What the kernel lists of itself and its modules.
    pub(super) fn of_kernel() -> Result<Self> {
        let list = fs::read_to_string("/proc/kallsyms").context("no list of kernel symbols")?;
        let symbols = list.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, kind) = (hexadecimal(fields.next()?)?, fields.next()?);
            CODE.contains(&kind).then_some((start, 0))
        });
        // It has no sizes: code between two symbols is the first one's.
        let everywhere = 0..u64::MAX;
        Ok(Self { covered: covered(symbols.collect(), &[everywhere]), loaded: Vec::new() })
    }

    /// What a process listed of the code that it made.
    pub(super) fn of_perf_map(path: &Path) -> Self {
        let list = fs::read_to_string(path).unwrap_or_default();
        let symbols = list.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
            Some((number()?, number()?))
        });
        Self { covered: covered(symbols.collect(), &[]), loaded: Vec::new() }
    }

    /// Whether a symbol holds what lies at an offset in the file, or at an address where there is
    /// no file.
    pub(super) fn has(&self, offset: u64) -> bool {
        let loaded = self.loaded.iter().find(|(offsets, _)| offsets.contains(&offset));
        let address = match loaded {
            Some((_, moved)) => offset.wrapping_add(*moved),
            None if self.loaded.is_empty() => offset,
            None => return false,
        };
        let after = self.covered.partition_point(|range| range.start <= address);
        after.checked_sub(1).is_some_and(|before| self.covered[before].contains(&address))
    }
}

/// Joins what symbols hold, each its beginning and size. One without a size holds all up to the
/// next, if that is in its section.
fn covered(symbols: Vec<(u64, u64)>, sections: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sizes = BTreeMap::<u64, u64>::new();
    for (start, size) in symbols {
        let known = sizes.entry(start).or_default();
        *known = size.max(*known);
    }
    let mut ranges = Vec::<Range<u64>>::new();
    let nexts = sizes.keys().skip(1).copied().chain([u64::MAX]);
    for ((&start, &size), next) in sizes.iter().zip(nexts) {
        let section = sections.iter().find(|section| section.contains(&start));
        let end = match section {
            Some(section) if size == 0 => next.min(section.end),
            _ => start.saturating_add(size),
        };
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = end.max(last.end),
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// Beginnings and sizes of a file's functions.
fn nm(path: &Path, options: &[&str]) -> Result<Vec<(u64, u64)>> {
    let mut command = Command::new("nm");
    command.args(["--defined-only", "--format=posix"]).args(options).arg(path);
    // One without symbols is no failure, and says so in words only.
    let ProgramOutput { stdout, .. } = finish(&mut command)?;
    let symbols = stdout.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let kind = fields.next()?;
        let start = hexadecimal(fields.next()?)?;
        let size = fields.next().and_then(hexadecimal).unwrap_or(0);
        CODE.contains(&kind).then_some((start, size))
    });
    Ok(symbols.collect())
}

fn readelf(options: &[&str], path: &Path) -> Result<String> {
    Ok(finish(Command::new("readelf").args(options).arg(path))?.stdout)
}

/// Addresses of sections of code, in the words of `readelf -SW`.
fn code_sections(read: &str) -> Vec<Range<u64>> {
    let sections = read.lines().filter_map(|line| {
        let (_, fields) = line.trim_start().strip_prefix('[')?.split_once(']')?;
        let fields: Vec<_> = fields.split_ascii_whitespace().collect();
        // Name, type, address, offset, size, size of an entry, flags.
        let [_, _, address, _, size, _, flags, ..] = fields[..] else { return None };
        let (address, size) = (hexadecimal(address)?, hexadecimal(size)?);
        flags.contains('X').then(|| address..address + size)
    });
    sections.collect()
}

/// Where each segment lies in the file, and how far from there it is loaded, in the words of
/// `readelf -lW`.
fn loaded(read: &str) -> Vec<(Range<u64>, u64)> {
    let segments = read.lines().filter_map(|line| {
        let mut fields = line.trim_start().strip_prefix("LOAD ")?.split_ascii_whitespace();
        let mut number = || hexadecimal(fields.next()?.strip_prefix("0x")?);
        let (offset, address, _, size) = (number()?, number()?, number()?, number()?);
        Some((offset..offset + size, address.wrapping_sub(offset)))
    });
    segments.collect()
}

/// Debug files of a file, by its build id and by its path.
fn debug_files(path: &Path, read: &str) -> Vec<PathBuf> {
    let build_id = read.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    let by_id = build_id.and_then(|id| id.split_at_checked(2)).map(|(folder, file)| {
        Path::new(DEBUG_FILES).join(".build-id").join(folder).join(format!("{file}.debug"))
    });
    let by_path = PathBuf::from(format!("{DEBUG_FILES}{}.debug", path.display()));
    by_id.into_iter().chain([by_path]).filter(|file| file.exists()).collect()
}

/// Unpacks the symbols that a file has compressed.
fn mini_debug(path: &Path, scratch: &Path) -> Result<PathBuf> {
    let [packed, plain] = ["mini-debug.xz", "mini-debug"].map(|name| scratch.join(name));
    let section = format!("{MINI_DEBUG}={}", text(&packed)?);
    let mut dump = Command::new("objcopy");
    dump.args(["--dump-section", &section]).arg(path).arg("/dev/null");
    let dumped = finish(&mut dump)?;
    ensure!(dumped.status.success(), "objcopy: {}", dumped.stderr);
    let unpacked = Command::new("xz")
        .arg("-dc")
        .arg(&packed)
        .stdout(File::create(&plain)?)
        .stderr(Stdio::null())
        .status()
        .context("cannot start xz")?;
    ensure!(unpacked.success(), "xz cannot unpack {}", packed.display());
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_hold_what_they_say_and_those_without_a_size_all_up_to_the_next() {
        let section = 0x1000..0x2000;
        let symbols = vec![(0x1000, 0x10), (0x1008, 0), (0x1040, 0), (0x3000, 0), (0x1100, 0x20)];
        let symbols = SymbolRanges { covered: covered(symbols, &[section]), loaded: Vec::new() };
        let held = [0xfff, 0x1000, 0x103f, 0x1041, 0x10ff, 0x111f].map(|at| symbols.has(at));
        assert_eq!(held, [false, true, true, true, true, true]);
        let not_held = [0x1120, 0x1fff, 0x3000, 0x3001].map(|at| symbols.has(at));
        assert_eq!(not_held, [false; 4], "behind the last one's end, and in no section of code");
    }

    #[test]
    fn offsets_are_not_addresses() {
        let read = "  LOAD           0x001000 0x0000000000402000 0x0000000000402000 0x000100 \
                    0x000100 R E 0x1000\n  [12] .text  PROGBITS  0000000000402000 001000 000100 00 \
                    AX  0 0 16\n  [13] .data  PROGBITS  0000000000403000 002000 000100 00 WA  0 0 16";
        assert_eq!(code_sections(read), vec![std::ops::Range { start: 0x40_2000, end: 0x40_2100 }]);
        let symbols = SymbolRanges {
            covered: covered(vec![(0x40_2010, 8)], &code_sections(read)),
            loaded: loaded(read),
        };
        assert_eq!(
            [0x1010, 0x1017, 0x1018, 0x40_2010].map(|at| symbols.has(at)),
            [true, true, false, false]
        );
    }

    #[test]
    fn own_code_has_symbols() {
        let scratch = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let symbols = SymbolRanges::of_file(&own, scratch.path()).unwrap();
        let listed = nm(&own, &[]).unwrap();
        assert!(listed.len() > 1000, "{}", listed.len());
        let (offsets, moved) =
            symbols.loaded.iter().find(|(_, moved)| *moved != 0).cloned().unwrap();
        let in_it = listed.iter().map(|(start, _)| start.wrapping_sub(moved));
        let in_it: Vec<u64> = in_it.filter(|offset| offsets.contains(offset)).collect();
        assert!(!in_it.is_empty() && in_it.iter().all(|offset| symbols.has(*offset)));
    }
}
