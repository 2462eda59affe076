//! This test program as a thing to be named: where its own memory comes from.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use syscollect_model::{BuildId, Mapping, Ticks};

/// A line of /proc/self/maps.
pub struct Mapped {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub path: String,
}

/// The mapping of this process that holds `address`.
pub fn mapped(address: u64) -> Mapped {
    find(|line| line.start <= address && address < line.end)
}

/// The mapping of this process with this path.
pub fn mapped_path(path: &str) -> Mapped {
    find(|line| line.path == path)
}

fn find(wanted: impl Fn(&Mapped) -> bool) -> Mapped {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next().unwrap().split_once('-').unwrap();
            let file_offset = hex(fields.nth(1).unwrap());
            let path = fields.skip(2).collect::<Vec<_>>().join(" ");
            Mapped { start: hex(start), end: hex(end), file_offset, path }
        })
        .find(wanted)
        .expect("a mapping of this process")
}

fn hex(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).unwrap()
}

impl Mapped {
    /// The file offset of an address in it.
    pub fn offset(&self, address: u64) -> u64 {
        address - self.start + self.file_offset
    }

    /// As the recorder describes it, seen in process `pid`.
    pub fn in_process(&self, pid: u32) -> Mapping {
        let Self { start, end, file_offset, .. } = *self;
        let (path, build_id) = (self.path.clone(), BuildId::default());
        Mapping { pid, start, end, file_offset, path, build_id, since: Ticks(0) }
    }
}

/// A file that is mapped as if its code ran, until this is dropped.
pub struct Running {
    address: *mut libc::c_void,
    length: usize,
    pub mapping: Mapping,
}

impl Running {
    pub fn map(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let length = file.metadata().unwrap().len() as usize;
        let (protection, fd) = (libc::PROT_READ | libc::PROT_EXEC, file.as_raw_fd());
        // SAFETY: a new mapping at an address that the kernel picks touches no memory in use.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_PRIVATE, fd, 0)
        };
        assert_ne!(address, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let mapping = mapped(address as u64).in_process(std::process::id());
        Self { address, length, mapping }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and nothing keeps a reference into it.
        unsafe { libc::munmap(self.address, self.length) };
    }
}

/// Writes `bytes` to a new file that takes the place of `path`, as package managers and linkers do.
pub fn replace(path: &Path, bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    file.write_all(bytes).unwrap();
    file.persist(path).unwrap();
}

/// A number of eight bytes of a file.
pub fn long(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize
}

/// A number of two bytes of a file.
pub fn short(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize
}
