//! A file system with one file, served by this program (linux/fuse.h), that stops to answer when it
//! is told to, or does not answer the kernel where that reads some part of the file itself.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// The file, in the file system's folder.
const NAME: &str = "lib.so";
const ROOT: u64 = 1;
const FILE: u64 = 2;
/// Requests that are answered.
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const INIT: u32 = 26;
/// Nobody waits for the answer to these.
const FORGET: [u32; 2] = [2, 42];
/// For how long the kernel remembers what it was told, in seconds.
const LONG: u64 = 3600;
const HEADER: usize = 40;
const DIRECT_IO: u64 = 1;
const PAGE: u64 = 4096;

/// What the file holds.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    /// User and group that own it.
    pub(crate) owner: u32,
    /// Of these, programs may read what they like; the kernel itself, which reads whole pages,
    /// waits until this program ends.
    pub(crate) withheld: Range<u64>,
}

/// The file system; dropping it takes it away.
pub(crate) struct Served {
    place: PathBuf,
    stalled: Arc<AtomicBool>,
}

impl Served {
    /// Mounts and serves it at `place`, for all users. Needs root, as whom others have a program of
    /// the system do it (fusermount).
    pub(crate) fn mount(place: &Path, contents: Contents) -> Result<Self> {
        let mut device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .context("cannot open /dev/fuse")?;
        let (fd, owner) = (device.as_raw_fd(), contents.owner);
        let options =
            format!("fd={fd},rootmode=40000,user_id={owner},group_id={owner},allow_other\0");
        let target = std::ffi::CString::new(place.as_os_str().as_encoded_bytes())?;
        let (name, flags) = (c"fuse".as_ptr(), libc::MS_NOSUID | libc::MS_NODEV);
        // SAFETY: all are C strings that live through the call.
        if unsafe { libc::mount(name, target.as_ptr(), name, flags, options.as_ptr().cast()) } != 0
        {
            bail!("cannot mount at {}: {}", place.display(), std::io::Error::last_os_error());
        }
        let stalled = Arc::new(AtomicBool::new(false));
        let served = Self { place: place.to_owned(), stalled: stalled.clone() };
        std::thread::spawn(move || {
            let mut request = vec![0; 1 << 20];
            while let Ok(length) = device.read(&mut request) {
                if stalled.load(Ordering::Relaxed) {
                    // Whoever asked waits until this program ends.
                    continue;
                }
                if let Some(answer) = contents.answer(&request[..length])
                    && device.write_all(&answer).is_err()
                {
                    return;
                }
            }
        });
        Ok(served)
    }

    /// Answers nothing from now on.
    pub(crate) fn stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let target =
            std::ffi::CString::new(self.place.as_os_str().as_encoded_bytes()).unwrap_or_default();
        // SAFETY: the path is a C string that lives through the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Maps the first `length` bytes of the file of a file system as if its code ran.
pub(crate) fn map(place: &Path, length: usize) -> Result<File> {
    map_file(&place.join(NAME), length)
}

/// Maps a file's code, and holds it open.
pub(crate) fn map_file(file: &Path, length: usize) -> Result<File> {
    let file = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    map_code(&file, length)?;
    Ok(file)
}

/// Maps the first `length` bytes of a file as code, until this program ends.
pub(crate) fn map_code(file: &File, length: usize) -> Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping at an address that the kernel picks touches no memory in use.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    match NonNull::new(address.cast::<u8>()) {
        Some(mapped) if address != libc::MAP_FAILED => Ok(mapped),
        _ => bail!("cannot map it: {}", std::io::Error::last_os_error()),
    }
}

/// A little-endian number; none where the bytes end before it does.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Contents {
    fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let (operation, unique, node) =
            (u32_at(request, 4)?, u64_at(request, 8)?, u64_at(request, 16)?);
        let found = match operation {
            INIT => Ok(initial()),
            LOOKUP if request.get(HEADER..)?.strip_suffix(b"\0") == Some(NAME.as_bytes()) => {
                Ok([words(&[FILE, 0, LONG, LONG, 0]), self.attributes(FILE)].concat())
            }
            LOOKUP => Err(libc::ENOENT),
            GETATTR => Ok([words(&[LONG, 0]), self.attributes(node)].concat()),
            // Reading goes past the cache, so that the kernel asks again where it needs a page.
            OPEN => Ok(words(&[1, DIRECT_IO])),
            READ => {
                let (offset, size) =
                    (u64_at(request, HEADER + 8)?, u64::from(u32_at(request, HEADER + 16)?));
                let end = offset.saturating_add(size);
                let is_page = offset % PAGE == 0 && size == PAGE;
                if is_page && self.withheld.contains(&offset) {
                    return None;
                }
                let length = self.bytes.len() as u64;
                Ok(self.bytes[offset.min(length) as usize..end.min(length) as usize].to_vec())
            }
            STATFS => Ok(vec![0; 80]),
            other if FORGET.contains(&other) => return None,
            _ => Err(libc::ENOSYS),
        };
        let (error, body) = found.map_or_else(|error| (-error, Vec::new()), |body| (0, body));
        let length = 16 + body.len() as u32;
        Some(
            [&length.to_le_bytes()[..], &error.to_le_bytes(), &unique.to_le_bytes(), &body]
                .concat(),
        )
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let file = (self.bytes.len() as u64, libc::S_IFREG | 0o755);
        let (size, mode) = if node == ROOT { (0, libc::S_IFDIR | 0o755) } else { file };
        let mut bytes = words(&[node, size, 16, 0, 0, 0]);
        bytes.extend(
            [0, 0, 0, mode, 1, self.owner, self.owner, 0, 4096, 0].map(u32::to_le_bytes).concat(),
        );
        bytes
    }
}

/// The protocol's version 7.31, without any of what is optional; nothing is read ahead.
fn initial() -> Vec<u8> {
    let mut body = [7u32, 31, 0, 0, 0, 1 << 16, 1].map(u32::to_le_bytes).concat();
    body.resize(64, 0);
    body
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
