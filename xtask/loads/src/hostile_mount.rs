//! An ordinary user's file system, out of sight, that never answers who reads the code of its one
//! program.
//!
//! The kernel reads that code when somebody attaches to it, and lets no process fork meanwhile.

use std::ffi::CString;
use std::fs;
use std::io::{Error, stdin};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::fuse::{self, Contents};

/// The first program header of executable code, and where a header says so (elf(5)).
const LOADED: u32 = 1;
const EXECUTABLE: u32 = 1;
const PAGE: u64 = 4096;

/// Maps such a program until a line comes on standard input, or for `seconds`: then the file system
/// ends, and with it all waiting. `device` is /dev/fuse as this user may open it.
pub(crate) fn run(folder: &str, device: &str, seconds: u64) -> Result<()> {
    let folder = Path::new(folder);
    let [served, empty, merged] = ["withheld", "empty", "merged"].map(|name| folder.join(name));
    for place in [&served, &empty, &merged] {
        fs::create_dir_all(place)?;
    }
    let bytes = fs::read("/proc/self/exe").context("cannot read this program")?;
    let (length, withheld) = (bytes.len(), code_of(&bytes).context("this program has no code")?);
    become_root_of_a_namespace()?;
    // Before anything waits for an answer.
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        std::process::exit(0);
    });
    let _serving =
        fuse::Served::mount(&served, Path::new(device), 0, Contents { bytes, withheld })?;
    let lower = format!("lowerdir={}:{}", served.display(), empty.display());
    mount("overlay", &merged, &lower)?;
    // What lies below it is in no list of mounts any more.
    let place = CString::new(served.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is a C string that lives through the call.
    check(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) })
        .context("cannot hide what is served")?;
    let _mapped = fuse::map(&merged, length)?;
    println!(r#"{{"ready":true}}"#);
    stdin().lines().next().transpose()?;
    Ok(())
}

/// Where whole pages of executable code lie in a 64-bit file.
fn code_of(bytes: &[u8]) -> Option<Range<u64>> {
    let eight = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let four = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (table, count) =
        (eight(32)? as usize, usize::from(u16::from_le_bytes(*bytes.get(56..)?.first_chunk()?)));
    let mut headers = (0..count).map(|index| table + index * 56);
    let code = headers.find(|at| {
        four(*at) == Some(LOADED) && four(at + 4).is_some_and(|flags| flags & EXECUTABLE != 0)
    })?;
    let (start, size) = (eight(code + 8)?, eight(code + 32)?);
    Some(start.next_multiple_of(PAGE)..(start + size) / PAGE * PAGE)
}

/// What anybody may do who may make namespaces.
fn become_root_of_a_namespace() -> Result<()> {
    // SAFETY: no memory is involved; this process has one thread.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    // SAFETY: as above.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })
        .context("cannot make a namespace")?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(())
}

fn mount(kind: &str, place: &Path, options: &str) -> Result<()> {
    let [kind, options] = [kind, options].map(CString::new);
    let (kind, options, place) =
        (kind?, options?, CString::new(place.as_os_str().as_encoded_bytes())?);
    // SAFETY: all are C strings that live through the call.
    let result = unsafe {
        libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
    };
    check(result).with_context(|| format!("cannot mount {}", kind.to_string_lossy()))
}

fn check(result: i32) -> Result<()> {
    if result != 0 {
        bail!(Error::last_os_error());
    }
    Ok(())
}
