//! The semaphores of a program's probes, as its memory holds them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::context::hexadecimal;

/// The semaphores of a running program by their probes' names.
pub(crate) fn semaphores(pid: u32, program: &Path) -> Result<BTreeMap<String, u16>> {
    let bytes = fs::read(program)?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut found = BTreeMap::new();
    for probe in syscollect_probes::usdt_probes(&bytes[..])?.probes {
        let Some(semaphore) = probe.semaphore else { continue };
        let address = maps
            .lines()
            .find_map(|line| address_of(line, program, semaphore))
            .context("not mapped")?;
        let mut value = [0; 2];
        memory.read_exact_at(&mut value, address)?;
        found.insert(probe.name, u16::from_le_bytes(value));
    }
    ensure!(!found.is_empty(), "{} has no semaphores", program.display());
    Ok(found)
}

/// Where a place of the program's file lies in memory, if this line of its map is its writable
/// part.
fn address_of(line: &str, program: &Path, offset: u64) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [range, "rw-p", start_offset, _, _, path] = fields[..] else { return None };
    if Path::new(path) != program {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let (start, end, first) = (hexadecimal(start)?, hexadecimal(end)?, hexadecimal(start_offset)?);
    (first..first + (end - start)).contains(&offset).then(|| start + offset - first)
}
