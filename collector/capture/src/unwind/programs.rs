//! The programs' side: which of a file's names the kernel has, and telling them its number.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::interpreters::Interpreter;
use super::words::FileId;
use crate::bpf_calls;
use crate::mapped_map::MappedWords;

/// What lies where in the words that both sides share (`bpf/include/unwind.h`).
const WANTED: usize = 0;
const ASKED: usize = 1;
const INODE: usize = 2;
const ALONE: usize = 3;
const EPOCH: usize = 4;
/// Stands for the vDSO, which has no inode.
pub(super) const VDSO: u64 = 1;

/// What the programs share with whoever makes tables.
#[derive(Debug)]
pub(crate) struct UnwindPrograms {
    pub(crate) rows: MappedWords,
    pub(crate) pages: MappedWords,
    pub(crate) files: MappedWords,
    pub(crate) words: MappedWords,
    /// The map from inodes to files' numbers.
    pub(crate) inodes: OwnedFd,
    /// The maps from files' numbers to the interpreters in them.
    pub(crate) interpreters: InterpreterMaps,
    /// The program that is asked what is mapped at an address.
    pub(crate) identify: OwnedFd,
}

/// The maps from files' numbers to the interpreters in them, of each kind.
#[derive(Debug)]
pub(crate) struct InterpreterMaps {
    pub(crate) python: OwnedFd,
    pub(crate) jvm: OwnedFd,
}

/// How a file is told to the programs.
#[derive(Debug)]
pub(super) struct FileNames {
    words: MappedWords,
    inodes: OwnedFd,
    interpreters: InterpreterMaps,
    identify: OwnedFd,
}

/// A page of a file's code, mapped and never touched: as long as it is, its inode is no other's.
#[derive(Debug)]
pub(super) struct PinnedPage {
    page: NonNull<u8>,
}

// SAFETY: a mapping that nobody reads; only this value unmaps it.
unsafe impl Send for PinnedPage {}

const HELD_BYTES: usize = 4096;

impl PinnedPage {
    pub(super) fn map(file: &File) -> io::Result<Self> {
        let (anywhere, code) = (std::ptr::null_mut(), libc::PROT_EXEC);
        // SAFETY: a new private mapping; nothing reads it, so it does not matter what the file's
        // owner makes of the file.
        let page = unsafe {
            libc::mmap(anywhere, HELD_BYTES, code, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        match NonNull::new(page.cast::<u8>()) {
            Some(page) if page.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Self { page })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.page.as_ptr().cast(), HELD_BYTES) };
    }
}

/// What of the programs' side there is to ask and to tell.
pub(super) trait Names {
    /// How many pages walks have asked for.
    fn wanted(&self) -> u64;

    /// From now on walks say that they used what they use in this epoch.
    fn set_epoch(&self, epoch: u64);

    /// By which inode the programs know the file. Nobody else knows it for certain: file systems
    /// that lie over others show numbers of their own.
    fn inode(&self, held: &PinnedPage) -> io::Result<u64>;

    /// Whether nobody else has the file mapped now. Where that cannot be found out, somebody has.
    fn is_unmapped(&self, held: &PinnedPage) -> bool;

    /// From now on walks look for the inode's rows under this id.
    fn set(&self, inode: u64, id: FileId) -> io::Result<()>;

    /// From now on walks do not know the inode.
    fn forget(&self, inode: u64) -> io::Result<()>;

    /// Where the interpreter in the file has its structures.
    fn set_interpreter(&self, file: FileId, found: &Interpreter) -> io::Result<()>;

    /// The file's number is no interpreter's any more.
    fn forget_interpreter(&self, file: FileId) -> io::Result<()>;
}

impl FileNames {
    pub(super) fn new(
        words: MappedWords,
        inodes: OwnedFd,
        interpreters: InterpreterMaps,
        identify: OwnedFd,
    ) -> Self {
        Self { words, inodes, interpreters, identify }
    }
}

impl Names for FileNames {
    fn wanted(&self) -> u64 {
        self.words.words()[WANTED].load(Ordering::Relaxed)
    }

    fn set_epoch(&self, epoch: u64) {
        self.words.words()[EPOCH].store(epoch, Ordering::Relaxed);
    }

    fn inode(&self, held: &PinnedPage) -> io::Result<u64> {
        let words = self.words.words();
        words[ASKED].store(held.page.as_ptr() as u64, Ordering::Relaxed);
        words[INODE].store(0, Ordering::Relaxed);
        bpf_calls::run_program(self.identify.as_fd())?;
        match words[INODE].load(Ordering::Relaxed) {
            0 => Err(io::Error::other("the kernel programs do not see its mapping")),
            inode => Ok(inode),
        }
    }

    fn is_unmapped(&self, held: &PinnedPage) -> bool {
        self.inode(held).is_ok() && self.words.words()[ALONE].load(Ordering::Relaxed) == 1
    }

    fn set(&self, inode: u64, id: FileId) -> io::Result<()> {
        let (key, value) = (inode.to_ne_bytes(), id.for_programs().to_ne_bytes());
        bpf_calls::update_element(self.inodes.as_fd(), &key, &value)
    }

    fn forget(&self, inode: u64) -> io::Result<()> {
        bpf_calls::delete_element(self.inodes.as_fd(), &inode.to_ne_bytes())
    }

    fn set_interpreter(&self, file: FileId, found: &Interpreter) -> io::Result<()> {
        let (map, value) = match found {
            Interpreter::Python(python) => (&self.interpreters.python, python.as_bytes()),
            Interpreter::Jvm(machine) => (&self.interpreters.jvm, machine.as_bytes()),
        };
        bpf_calls::update_element(map.as_fd(), &file.number().to_ne_bytes(), value)
    }

    fn forget_interpreter(&self, file: FileId) -> io::Result<()> {
        let InterpreterMaps { python, jvm } = &self.interpreters;
        let number = file.number().to_ne_bytes();
        let from_python = bpf_calls::delete_element(python.as_fd(), &number);
        // It was in one of both.
        bpf_calls::delete_element(jvm.as_fd(), &number).or(from_python)
    }
}
