//! Paths that an ordinary user makes to do harm: of files that are mapped as code, and of programs.
//! Both have another one each time.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::fuse::map_code;
use crate::hostile::in_processes;
use crate::library::{Library, PAGE};

const MAPPING_PROCESSES: usize = 16;
/// A path has less than 4,096 bytes, a name less than 256; below these the file still has a name.
const LONG_PATH: usize = 4_000;
const LONGEST_NAME: usize = 250;
const STARTING_PROCESSES: usize = 4;

/// Maps files below folders with long names for so long, each time under another name.
pub(crate) fn map(folder: &str, seconds: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    in_processes(MAPPING_PROCESSES, || map_until(end, own_folder(folder)?))
}

fn map_until(end: Instant, mut folder: PathBuf) -> Result<()> {
    while folder.as_os_str().len() < LONG_PATH {
        let longest = (LONG_PATH - folder.as_os_str().len()).clamp(2, LONGEST_NAME + 1);
        folder.push("x".repeat(longest - 1));
    }
    fs::create_dir_all(&folder)?;
    std::env::set_current_dir(&folder)?;
    let mut name = PathBuf::from("0");
    Library { pages: 1, code: vec![0xc3], ..Library::default() }.write(&name)?;
    let file = File::open(&name)?;
    let mut number = 0u64;
    while Instant::now() < end {
        number += 1;
        let next = PathBuf::from(number.to_string());
        fs::rename(&name, &next)?;
        name = next;
        let at = map_code(&file, PAGE as usize)?;
        // SAFETY: exactly what was mapped, which nobody reads.
        unsafe { libc::munmap(at.as_ptr().cast(), PAGE as usize) };
    }
    println!(r#"{{"mappings":{number}}}"#);
    Ok(())
}

/// Starts so many programs, each under another name.
pub(crate) fn start_programs(folder: &str, programs: u64) -> Result<()> {
    let each = programs / STARTING_PROCESSES as u64;
    in_processes(STARTING_PROCESSES, || start_each(folder, each))
}

fn start_each(folder: &str, programs: u64) -> Result<()> {
    std::env::set_current_dir(own_folder(folder)?)?;
    // nanosleep(the 16 bytes behind the code, 0); exit(0): it blocks, below code of its own.
    let mut code = vec![0x48, 0x8d, 0x3d, 18, 0, 0, 0, 0x31, 0xf6, 0xb8, 35, 0, 0, 0, 0x0f, 0x05];
    code.extend([0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    code.extend([0u64, 1].map(u64::to_le_bytes).concat());
    let mut name = PathBuf::from("p0");
    Library { pages: 1, code, entry: PAGE, ..Library::default() }.write(&name)?;
    for number in 1..=programs {
        let next = PathBuf::from(format!("p{number}"));
        fs::rename(&name, &next)?;
        name = next;
        let program = Path::new(".").join(&name);
        let ended = Command::new(&program).status().context("cannot start a program")?;
        ensure!(ended.success(), "the program failed: {ended}");
    }
    Ok(())
}

/// A folder of this process.
fn own_folder(folder: &str) -> Result<PathBuf> {
    let folder = Path::new(folder).join(std::process::id().to_string());
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}
