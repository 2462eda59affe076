//! What an ordinary user can leave in files' places: programs whose debug links lead to FIFOs and
//! devices, files that are cut off again and again, and a file system that stops to answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::fuse::{self, Contents};

/// What is served holds two pages.
const SERVED_BYTES: usize = 8192;
/// The user that nobody is.
pub(crate) const NOBODY: u32 = 65_534;

/// A program, and where a section of it leads.
struct Leading {
    program: &'static str,
    section: &'static str,
    to: String,
}

/// Runs such programs in `folder` for `seconds`, then cuts files off until it is killed.
pub(crate) fn run(folder: &str, seconds: u64) -> Result<()> {
    let folder = Path::new(folder);
    let own = fs::read("/proc/self/exe").context("cannot read this program")?;
    for fifo in ["fifo", "x.debug", "out.debug"] {
        make_fifo(&folder.join(fifo))?;
    }
    let absolute = folder.join("fifo").display().to_string();
    let leading = [
        link("beside", ".gnu_debuglink", "x.debug"),
        link("absolute", ".gnu_debuglink", &absolute),
        link("device", ".gnu_debuglink", "/dev/zero"),
        link("upwards", ".gnu_debuglink", "../../../../../../../../dev/zero"),
        link("alternate", ".gnu_debugaltlink", &absolute),
    ];
    let mut children = Vec::new();
    for Leading { program, section, to } in leading {
        let mut contents = to.into_bytes();
        contents.push(0);
        contents.resize(contents.len().next_multiple_of(4), 0);
        contents.extend([1; 20]);
        children.push(spin(
            &folder.join(program),
            &with_section(own.clone(), section, &contents)?,
            seconds,
        )?);
    }
    let cut: Vec<PathBuf> = (0..3).map(|number| folder.join(format!("cut-{number}"))).collect();
    for path in &cut {
        children.push(spin(path, &own, seconds)?);
    }
    // It stops to answer when it is asked to, and what it answered until then stays mapped.
    let _mapped = fuse::map(&folder.join("served"), SERVED_BYTES)?;
    println!(r#"{{"ready":{}}}"#, children.len());
    for mut child in children {
        child.wait()?;
    }
    println!(r#"{{"cutting":{}}}"#, cut.len());
    // A file that runs cannot be cut off.
    loop {
        for path in &cut {
            fs::write(path, &own)?;
        }
    }
}

fn link(program: &'static str, section: &'static str, to: &str) -> Leading {
    Leading { program, section, to: to.to_owned() }
}

/// Uses the CPU.
pub(crate) fn use_cpu(seconds: u64) {
    let begun = Instant::now();
    let mut sum = 0u64;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for number in 0..10_000 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Serves a file system with one file in `folder`/served; answers nothing any more after a line on
/// standard input, and is gone after the next.
pub(crate) fn serve(folder: &str) -> Result<()> {
    let place = Path::new(folder).join("served");
    fs::create_dir_all(&place)?;
    let mut lines = std::io::stdin().lines();
    let contents = Contents { bytes: vec![0x90; SERVED_BYTES], owner: NOBODY, withheld: 0..0 };
    let served = fuse::Served::mount(&place, contents)?;
    println!(r#"{{"ready":true}}"#);
    lines.next().transpose()?;
    served.stall();
    lines.next().transpose()?;
    Ok(())
}

fn spin(path: &Path, program: &[u8], seconds: u64) -> Result<Child> {
    fs::write(path, program)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new(path);
    command.args(["use-cpu", &seconds.to_string()]);
    command.spawn().with_context(|| format!("cannot start {}", path.display()))
}

fn make_fifo(path: &Path) -> Result<()> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: `name` is a C string that lives through the call.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o666) } != 0 {
        bail!("cannot make the FIFO {}: {}", path.display(), std::io::Error::last_os_error());
    }
    Ok(())
}

/// Adds a section to a 64-bit file, and takes its own of that name away.
fn with_section(mut bytes: Vec<u8>, name: &str, contents: &[u8]) -> Result<Vec<u8>> {
    let (table, count, names) = (word(&bytes, 40, 8)?, word(&bytes, 60, 2)?, word(&bytes, 62, 2)?);
    ensure!(count > names, "this program has no table of sections");
    let mut rows = bytes.get(table..table + count * 64).context("no table of sections")?.to_vec();
    let (start, size) = (word(&rows, names * 64 + 24, 8)?, word(&rows, names * 64 + 32, 8)?);
    let mut strings = bytes.get(start..start + size).context("no names of sections")?.to_vec();
    let mut row = vec![0; 64];
    row[..4].copy_from_slice(&(strings.len() as u32).to_le_bytes());
    row[4] = 1;
    strings.extend(name.bytes().chain([0]));
    place(&mut bytes, &mut row, contents);
    place(&mut bytes, &mut rows[names * 64..][..64], &strings);
    rows.extend(row);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let end = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&end.to_le_bytes());
    bytes[60..62].copy_from_slice(&(count as u16 + 1).to_le_bytes());
    bytes.extend(rows);
    Ok(bytes)
}

/// Puts `data` at the end of the file, and where that is into its row.
fn place(bytes: &mut Vec<u8>, row: &mut [u8], data: &[u8]) {
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    row[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    row[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
    bytes.extend(data);
}

/// A number of a file, little-endian.
pub(crate) fn word(bytes: &[u8], at: usize, width: usize) -> Result<usize> {
    let bytes = bytes.get(at..at + width).context("the file is too short")?;
    Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | usize::from(*byte)))
}
