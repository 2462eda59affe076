//! An ordinary user's file system, out of sight, that does not answer the kernel where that reads
//! the code of its one program.
//!
//! The kernel reads that code when somebody attaches to it, and lets no process fork meanwhile.

use std::fs;
use std::io::stdin;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::fuse::{self, Contents};
use crate::hostile_files::{NOBODY, word};

/// The first program header of executable code, and where a header says so (elf(5)).
const LOADED: usize = 1;
const EXECUTABLE: usize = 1;
const PAGE: u64 = 4096;

/// Serves such a file system in `folder`, takes it out of sight after a line on standard input, and
/// serves who has the program still open for `seconds`: then it ends, and with it all waiting.
pub(crate) fn serve(folder: &str, seconds: u64) -> Result<()> {
    let bytes = fs::read("/proc/self/exe").context("cannot read this program")?;
    let withheld = code_of(&bytes)?;
    let served =
        fuse::Served::mount(Path::new(folder), Contents { bytes, owner: NOBODY, withheld })?;
    println!(r#"{{"ready":true}}"#);
    stdin().lines().next().transpose()?;
    drop(served);
    println!(r#"{{"hidden":true}}"#);
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(())
}

/// Maps the program until a line comes on standard input.
pub(crate) fn map(folder: &str) -> Result<()> {
    let length = fs::metadata("/proc/self/exe")?.len() as usize;
    let _mapped = fuse::map(Path::new(folder), length)?;
    println!(r#"{{"ready":true}}"#);
    stdin().lines().next().transpose()?;
    Ok(())
}

/// Maps a program so many times, until a line comes on standard input.
///
/// Who attaches to it has the kernel visit each of these mappings, and no process forks meanwhile.
pub(crate) fn map_often(file: &str, times: u64) -> Result<()> {
    let length = fs::metadata(file)?.len() as usize;
    for _ in 0..times {
        fuse::map_file(Path::new(file), length)?;
    }
    println!(r#"{{"ready":true}}"#);
    stdin().lines().next().transpose()?;
    Ok(())
}

/// Where whole pages of executable code lie in a 64-bit file.
fn code_of(bytes: &[u8]) -> Result<Range<u64>> {
    let (table, count) = (word(bytes, 32, 8)?, word(bytes, 56, 2)?);
    for header in (0..count).map(|index| table + index * 56) {
        let (kind, flags) = (word(bytes, header, 4)?, word(bytes, header + 4, 4)?);
        if kind == LOADED && flags & EXECUTABLE != 0 {
            let start = word(bytes, header + 8, 8)? as u64;
            let end = start + word(bytes, header + 32, 8)? as u64;
            return Ok(start.next_multiple_of(PAGE)..end / PAGE * PAGE);
        }
    }
    bail!("this program has no code")
}
