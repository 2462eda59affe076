//! Finding and opening.

use super::owner::acting_as;
use super::storage::{
    Mount, Storage, allocated_without_name, data_of, is_mounted_by_root, is_on_known_disk, served,
    storage,
};
use super::{Owner, folder_of, path_of};
use crate::{FileData, FileLocation, OpenError, Reader, in_map_files, in_process, within};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A rename on the way makes the kernel give up (EAGAIN); so often it is asked again.
const ATTEMPTS: usize = 8;
const NONE: u64 = 0;
const NO_MAGIC: u64 = libc::RESOLVE_NO_MAGICLINKS;
const NO_LINKS: u64 = libc::RESOLVE_NO_SYMLINKS;

/// A regular file that was found and is not open yet: what its name shows later does not matter.
#[derive(Debug)]
pub struct FoundFile {
    place: Arc<File>,
    data: FileData,
    owner: Option<Owner>,
    /// Calls on it may never end.
    slow: bool,
    /// Users may have mounted its file system.
    of_users: bool,
}

/// A regular file, open for reading.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    file: Arc<File>,
    data: FileData,
    /// On whose behalf it is read, where calls on it may never end.
    patiently: Option<Option<u32>>,
    /// Users may have mounted its file system.
    of_users: bool,
}

/// Finds the file at `place`, with the rights of `owner` (`None`: those of this process), without
/// opening it.
///
/// # Errors
///
/// [`OpenError`] says what lies there instead, or why it cannot be looked at.
pub fn find(place: &FileLocation<'_>, owner: Option<&Owner>) -> Result<FoundFile, OpenError> {
    let uid = owner.map(|owner| owner.uid);
    if let FileLocation::Range { pid, start, end } = place {
        let (file, data) = mapped_at(*pid, *start, *end, uid)?;
        if is_on_known_disk(&data) {
            return Ok(FoundFile {
                place: Arc::new(file),
                data,
                owner: owner.cloned(),
                slow: false,
                of_users: false,
            });
        }
        if served(Some(*pid))?.iter().any(|served| served.has(&data)) {
            return Err(OpenError::Served);
        }
        let owner = owner.cloned();
        return within(uid, move || classified(file, data, owner))?;
    }
    let seen_by = if let FileLocation::InRootOf { pid, .. } = place { Some(*pid) } else { None };
    let served = served(seen_by)?;
    if let FileLocation::InRootOf { path, .. } | FileLocation::Mapped(path) = place
        && served.iter().any(|served| served.is_on_the_way(path))
    {
        return Err(OpenError::Served);
    }
    let (place, owner) = (Walk::of(place)?, owner.cloned());
    within(uid, move || {
        let (file, data) = inspect(place.go(owner.as_ref())?)?;
        if served.iter().any(|served| served.has(&data)) {
            return Err(OpenError::Served);
        }
        classified(file, data, owner)
    })?
}

/// Finds and opens a file.
///
/// # Errors
///
/// As [`find`].
pub fn open(place: &FileLocation<'_>, owner: Option<&Owner>) -> Result<OpenedFile, OpenError> {
    find(place, owner)?.open()
}

/// What is known of the regular file that a process has mapped from `start` to `end`, without
/// opening it or asking whoever serves its file system. Needs what [`FileLocation::Range`] does.
/// `uid` is the user whose process it is, if that is known.
///
/// # Errors
///
/// As [`find`].
pub fn data_of_mapping(
    pid: u32,
    start: u64,
    end: u64,
    uid: Option<u32>,
) -> Result<FileData, OpenError> {
    Ok(mapped_at(pid, start, end, uid)?.1)
}

/// What is known of the regular file that a process runs, without opening it or asking whoever
/// serves its file system; `process` is its folder in /proc.
///
/// # Errors
///
/// As [`find`].
pub fn data_of_program(process: &Path) -> Result<FileData, OpenError> {
    // The kernel knows it beside what the process has mapped, and waits for nobody.
    let program = in_process(process, |folder| walk(None, &folder.join("exe"), NONE))?;
    Ok(inspect(program)?.1)
}

/// A folder that a process sees, as a place to look for something in; no link is followed on the
/// way to it. `owner` is the process's, with whose rights it is looked for. May never return, for
/// processes that nobody waits for.
///
/// # Errors
///
/// [`OpenError`] says what lies there instead, or why it cannot be looked at.
pub fn folder_in_root(pid: u32, path: &Path, owner: &Owner) -> Result<File, OpenError> {
    let served = served(Some(pid))?;
    if served.iter().any(|served| served.is_on_the_way(path)) {
        return Err(OpenError::Served);
    }
    a_folder(Walk::of(&FileLocation::InRootOf { pid, path })?.go(Some(owner))?, &served)
}

/// The folder that a process is in, as a place to look for something in.
///
/// # Errors
///
/// As [`folder_in_root`].
pub fn working_folder(pid: u32) -> Result<File, OpenError> {
    let served = served(Some(pid))?;
    // The kernel knows it, and waits for nobody.
    let place = in_process(&folder_of(pid), |folder| walk(None, &folder.join("cwd"), NONE))?;
    a_folder(place, &served)
}

fn a_folder(place: File, served: &[Mount]) -> Result<File, OpenError> {
    let data = data_of(&place)?;
    if served.iter().any(|served| served.has(&data)) {
        return Err(OpenError::Served);
    }
    if data.mode & libc::S_IFMT != libc::S_IFDIR {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    Ok(place)
}

/// The file that is mapped there. That leads from /proc to the file without a walk through file
/// systems, and needs this process's rights. But the kernel takes the lock of the process's memory
/// for it (`proc_map_files_get_link`), which a process can keep for as long as a file system of its
/// user's does not answer. A process of root's is trusted not to.
fn mapped_at(
    pid: u32,
    start: u64,
    end: u64,
    uid: Option<u32>,
) -> Result<(File, FileData), OpenError> {
    if uid == Some(0) {
        inspect_range(pid, start, end)
    } else {
        within(uid, move || inspect_range(pid, start, end))?
    }
}

fn inspect_range(pid: u32, start: u64, end: u64) -> Result<(File, FileData), OpenError> {
    inspect(range(pid, start, end)?)
}

/// The place of what is mapped there.
fn range(pid: u32, start: u64, end: u64) -> io::Result<File> {
    let name = format!("{start:x}-{end:x}");
    in_map_files(&folder_of(pid), |folder| walk(None, &folder.join(&name), NONE))
}

fn inspect(place: File) -> Result<(File, FileData), OpenError> {
    let data = data_of(&place)?;
    if data.mode & libc::S_IFMT != libc::S_IFREG {
        return Err(OpenError::NoRegularFile);
    }
    Ok((place, data))
}

fn classified(place: File, data: FileData, owner: Option<Owner>) -> Result<FoundFile, OpenError> {
    let (slow, of_users) = match storage(&place, &data)? {
        Storage::Kernel => return Err(OpenError::OfTheKernel),
        Storage::Local => (false, false),
        Storage::Elsewhere => (true, false),
        Storage::OfUsers => (true, true),
    };
    Ok(FoundFile { place: Arc::new(place), data, owner, slow, of_users })
}

impl FoundFile {
    /// What is known of it.
    pub fn data(&self) -> &FileData {
        &self.data
    }

    /// The path by which the kernel knows it, with ` (deleted)` at its end if it was; `None` if
    /// that cannot be had.
    pub fn shown_path(&self) -> Option<PathBuf> {
        std::fs::read_link(path_of(&self.place)).ok()
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says why it cannot be opened.
    pub fn open(&self) -> Result<OpenedFile, OpenError> {
        Ok(self.open_and(|_| ())?.0)
    }

    /// Opens it and reads something of it; both is waited for no longer than for one of them.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_and<T: Send + 'static>(
        &self,
        read: impl FnOnce(&File) -> T + Send + 'static,
    ) -> Result<(OpenedFile, T), OpenError> {
        let uid = self.owner.as_ref().map(|owner| owner.uid);
        let (place, owner) = (self.place.clone(), self.owner.clone());
        let both = move || {
            let file = acting_as(owner.as_ref(), || reopen(&place))?;
            let read = read(&file);
            Ok::<_, OpenError>((file, read))
        };
        // A thread that takes on somebody else's rights has nothing else to do.
        let elsewhere = self.slow || self.owner.as_ref().is_some_and(Owner::is_another);
        let (file, read) = if elsewhere { within(uid, both)?? } else { both()? };
        let (patiently, of_users) = (self.slow.then_some(uid), self.of_users);
        Ok((OpenedFile { file: Arc::new(file), data: self.data, patiently, of_users }, read))
    }
}

impl OpenedFile {
    /// A file that this program made, or was given, itself.
    ///
    /// # Errors
    ///
    /// If nothing can be known of it.
    pub fn made(file: File) -> io::Result<Self> {
        let data = data_of(&file)?;
        Ok(Self { file: Arc::new(file), data, patiently: None, of_users: false })
    }

    /// The open file; reading it may never return, [`reader`](Self::reader) does.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The open file alone.
    ///
    /// # Errors
    ///
    /// Where somebody else has it too, and it cannot be had twice.
    pub fn into_file(self) -> io::Result<File> {
        Arc::try_unwrap(self.file).or_else(|shared| shared.try_clone())
    }

    /// The path by which the kernel knows it, links followed, with ` (deleted)` at its end if it
    /// was; `None` if that cannot be had. No file system is asked.
    pub fn shown_path(&self) -> Option<PathBuf> {
        std::fs::read_link(path_of(&self.file)).ok()
    }

    /// What was known of it before it was opened.
    pub fn data(&self) -> &FileData {
        &self.data
    }

    /// What is known of it now.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn data_now(&self) -> io::Result<FileData> {
        data_of(&self.file)
    }

    /// Bytes that lie on a disk, or in memory, only because it is open: those of a file to which no
    /// name leads any more; 0 for all others. Nobody is asked for it who may not answer.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn bytes_without_name(&self) -> io::Result<u64> {
        allocated_without_name(&self.file)
    }

    /// Whether a user may have mounted its file system (FUSE, or an overlay in a namespace of the
    /// user's own), and so decides when a call on it ends: such a file is nothing for calls of the
    /// kernel that nobody can break off. `seen_by` is the process by whose mapping or root it was
    /// found, if it was.
    pub fn is_of_a_users_mount(&self, seen_by: Option<u32>) -> bool {
        self.of_users && !is_mounted_by_root(&self.file, seen_by)
    }

    /// Whether a call on it may never end: it lies on another machine, or in a file system that a
    /// user's program serves, which says whose it is.
    pub fn may_keep_waiting(&self) -> bool {
        self.patiently.is_some()
    }

    /// Its bytes, as many as there are now: of a file that a program goes on writing.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn reader_of_now(&self) -> io::Result<Reader> {
        let file = self.file.clone();
        let data = match self.patiently {
            Some(uid) => within(uid, move || data_of(&file))?,
            None => data_of(&file),
        };
        Ok(Reader::new(self.file.clone(), data?.size, self.patiently))
    }

    /// Its bytes.
    pub fn reader(&self) -> Reader {
        Reader::new(self.file.clone(), self.data.size, self.patiently)
    }
}

/// Opens for reading what was found, whatever its name shows by now.
fn reopen(place: &File) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path_of(place))
}

/// Where a way begins.
enum Start {
    /// At `/`, or where this process is.
    Here,
    /// In a folder, which is looked for with the rights of this process: nobody else has them
    /// there.
    Ours(PathBuf),
    /// In a folder without links on the way to it.
    Plain(PathBuf),
    /// In what is `/` to the process of this folder in /proc; with our rights, too.
    RootOf(PathBuf),
}

/// A way through folders, for another thread.
struct Walk {
    from: Start,
    path: PathBuf,
    resolve: u64,
}

impl Walk {
    fn of(place: &FileLocation<'_>) -> Result<Self, OpenError> {
        Ok(match place {
            FileLocation::Said(path) => Self::direct(path, NONE),
            FileLocation::Named(path) => Self::direct(path, NO_MAGIC),
            FileLocation::Mapped(path) if path.is_absolute() => Self::direct(path, NO_LINKS),
            FileLocation::InRootOf { pid, path } if path.is_absolute() => Self {
                from: Start::RootOf(folder_of(*pid)),
                path: path.to_path_buf(),
                resolve: libc::RESOLVE_IN_ROOT | NO_LINKS,
            },
            FileLocation::Below { folder, path } if stays(path) => Self {
                from: Start::Ours(folder.to_path_buf()),
                path: path.to_path_buf(),
                resolve: libc::RESOLVE_BENEATH | NO_MAGIC,
            },
            FileLocation::Beside { folder, path } if stays(path) && folder.is_absolute() => Self {
                from: Start::Plain(folder.to_path_buf()),
                path: path.to_path_buf(),
                resolve: libc::RESOLVE_BENEATH | NO_LINKS,
            },
            FileLocation::Mapped(_)
            | FileLocation::InRootOf { .. }
            | FileLocation::Below { .. }
            | FileLocation::Beside { .. }
            // Which is found without a way.
            | FileLocation::Range { .. } => {
                return Err(OpenError::LeadsOut);
            }
        })
    }

    fn direct(path: &Path, resolve: u64) -> Walk {
        Self { from: Start::Here, path: path.into(), resolve }
    }

    fn go(&self, owner: Option<&Owner>) -> io::Result<File> {
        let ours = match &self.from {
            Start::Ours(folder) => Some(walk(None, folder, NONE)?),
            Start::RootOf(process) => {
                Some(in_process(process, |folder| walk(None, &folder.join("root"), NONE))?)
            }
            Start::Here | Start::Plain(_) => None,
        };
        acting_as(owner, || {
            let from = match &self.from {
                Start::Plain(folder) => Some(walk(None, folder, NO_LINKS)?),
                Start::Here | Start::Ours(_) | Start::RootOf(_) => ours,
            };
            walk(from.as_ref().map(File::as_raw_fd), &self.path, self.resolve)
        })
    }
}

/// Whether a path is one of names only.
fn stays(path: &Path) -> bool {
    let mut components = path.components().peekable();
    components.peek().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
}

/// Whether this process may say how links on a way are followed (openat2, Linux 5.6). Without that
/// nothing here finds a file; sandboxes that cannot look into its arguments refuse it.
///
/// # Errors
///
/// What the system answers.
pub fn try_to_find() -> io::Result<()> {
    walk(None, Path::new("/"), NO_MAGIC).map(drop)
}

/// The place that a path leads to, which is not opened.
fn walk(from: Option<RawFd>, path: &Path, resolve: u64) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: an all-zero open_how is a valid value of plain integers.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = resolve;
    let (from, size) = (from.unwrap_or(libc::AT_FDCWD), std::mem::size_of::<libc::open_how>());
    for attempt in 1.. {
        // SAFETY: `path` is a C string and `how` a structure of `size` bytes; both live through the
        // call.
        let descriptor =
            unsafe { libc::syscall(libc::SYS_openat2, from, path.as_ptr(), &raw const how, size) };
        if let Ok(descriptor) = RawFd::try_from(descriptor)
            && descriptor >= 0
        {
            // SAFETY: the descriptor is open, and nothing else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into());
        }
        let error = io::Error::last_os_error();
        let again = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
        if !again || attempt == ATTEMPTS {
            return Err(error);
        }
    }
    unreachable!("the last attempt returns")
}
