//! Opens and reads files that a recorded program can name, without harm.
//!
//! A recorder often runs as root, and any user of the machine decides which files it hears of: what
//! they map, what their programs' sections name, what lies at their paths by now. So nothing that a
//! recorded program can name is opened but here.
//!
//! **Duties.** Open regular files only, looked at before they are opened, so that no FIFO is waited
//! for and no device acts ([`open`], [`find`]); follow no links out of the folder that is meant
//! ([`FileLocation`]); read nothing of file systems that are interfaces of the kernel; act with the
//! rights of whoever owns the process or the file, if this process may ([`Owner`]); read so that a
//! file that shrinks meanwhile is an error and no signal ([`Reader`]); copy what somebody else
//! could cut off to memory that nobody can ([`MemoryFile`]); wait for no file system longer than
//! [`PATIENCE`], on threads of which there are few ([`within`]). Say whose share what a user takes
//! is a part of ([`payer()`]). Find what /proc has of a process also where its first thread has
//! ended ([`in_process`]).
//!
//! **Non-goals.** What files mean. Files of this program's own (captures, options): their names
//! come from its user. What the kernel itself tells below /proc and /sys, unless it makes a
//! process's memory answer ([`read_text`]); where this program's own text spells its path out, it
//! is a [`FixedPath`]. The list of what else opens by a path is that of `#[expect]`s for clippy's
//! `disallowed_methods`.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use std::io::Read;
//! use std::path::Path;
//! use syscollect_untrusted_files::{OpenError, FileLocation, open};
//!
//! let own = std::env::current_exe().unwrap();
//! let mut start = [0; 4];
//! open(&FileLocation::Named(&own), None).unwrap().reader().read_exact(&mut start).unwrap();
//! assert_eq!(&start, b"\x7fELF");
//! assert!(matches!(open(&FileLocation::Named(Path::new("/dev/zero")), None), Err(OpenError::NoRegularFile)));
//! # }
//! ```

#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod error;
mod fixed;
#[cfg(target_os = "linux")]
mod linux;
mod patience;
mod payer;
mod process;
mod reader;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;
pub use error::OpenError;
pub use fixed::FixedPath;
#[cfg(target_os = "linux")]
pub use linux::*;
pub use patience::{PATIENCE, Patience, end_idle_threads, within};
pub use payer::payer;
pub use process::{in_map_files, in_process, living_other};
pub use reader::Reader;

use std::path::Path;

/// Where a file is looked for, which says what may be followed on the way there.
#[derive(Clone, Copy, Debug)]
pub enum FileLocation<'a> {
    /// The user of this program said so: every link is followed.
    Said(&'a Path),
    /// A file named it, as a script names its interpreter: links of file systems are followed, not
    /// those of /proc.
    Named(&'a Path),
    /// The kernel said that a file of this path is mapped: such a path has no links, so none is
    /// followed.
    Mapped(&'a Path),
    /// As [`Mapped`](Self::Mapped), in what is `/` to a process.
    InRootOf {
        /// The process.
        pid: u32,
        /// The path as the process sees it.
        path: &'a Path,
    },
    /// The very file of a mapping, also if it was deleted or replaced; needs CAP_CHECKPOINT_RESTORE
    /// or CAP_SYS_ADMIN.
    Range {
        /// The process.
        pid: u32,
        /// The mapping's first address.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// Below a folder that the user or the system named: links are followed as long as they stay in
    /// there.
    Below {
        /// The folder.
        folder: &'a Path,
        /// The path in it, without `..`.
        path: &'a Path,
    },
    /// A file's neighbour: the folder's path comes from the kernel, and neither it nor the name may
    /// be a link.
    Beside {
        /// The folder.
        folder: &'a Path,
        /// What it is called in there: a name, or a folder's and a name.
        path: &'a Path,
    },
}

/// What is known of a file without asking whoever serves its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileData {
    /// The file system's number, as `stat` has it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Permissions and kind.
    pub mode: u32,
    /// Who owns it.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// When it was last written, in seconds and nanoseconds.
    pub written: (i64, u32),
    /// When it, or what is known of it, last changed.
    pub changed: (i64, u32),
}
