//! The files that processes run: found, told apart, opened.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use syscollect_model::BuildId;
use syscollect_symbolize::build_id_of;

/// A file by where it lies, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    device: u64,
    inode: u64,
}

/// When a file last changed: its number may be another file's after it was deleted.
pub(super) type Change = (i64, i64);

/// A file that was opened, with what tells it apart.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) key: FileKey,
    pub(super) changed: Change,
}

/// An executable mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedFile {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// As the process sees it.
    pub(super) path: String,
}

/// Device and inode as a line of /proc/PID/maps names them: the same for the
/// same file, but not always what the file itself says (btrfs).
pub(super) type MapKey = (String, u64);

/// The executable mappings of files of a process, each with the file as the kernel lists it.
pub(super) fn mapped_files(root: &Path, pid: u32) -> Vec<(MapKey, MappedFile)> {
    let text = fs::read(root.join(format!("proc/{pid}/maps"))).unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(|line| parse(pid, line)).collect()
}

/// The executable mapping of a file that holds an address of a process, and where that lies in the file.
pub(super) fn mapping_of(root: &Path, pid: u32, address: u64) -> Option<(MappedFile, u64)> {
    let text = fs::read(root.join(format!("proc/{pid}/maps"))).ok()?;
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let (_, mapped) = parse(pid, line).filter(|(_, mapped)| (mapped.start..mapped.end).contains(&address))?;
        let first = String::from_utf8_lossy(line).split(' ').nth(2).map(|text| u64::from_str_radix(text, 16))?.ok()?;
        let offset = first.checked_add(address - mapped.start)?;
        Some((mapped, offset))
    })
}

fn parse(pid: u32, line: &[u8]) -> Option<(MapKey, MappedFile)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let device = fields.nth(1)?.to_owned();
    let inode: u64 = fields.next()?.parse().ok()?;
    let path = fields.next()?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let number = |text| u64::from_str_radix(text, 16).ok();
    let mapped = MappedFile { pid, start: number(start)?, end: number(end)?, path: path.to_owned() };
    (executable && is_file_name(path)).then_some(((device, inode), mapped))
}

/// Whether a mapping of this name may be of a program's file.
pub(super) fn is_file_name(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/dev/") && !path.starts_with("/memfd:")
}

impl MappedFile {
    /// The very file that is mapped: by its mapping, also when it was deleted or
    /// replaced (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), else by its
    /// path in the process's root. Who may look at neither takes the file of
    /// that path here, which is the same outside of containers.
    pub(super) fn open(&self) -> io::Result<OpenFile> {
        let (start, end) = (self.start, self.end);
        OpenFile::at(Path::new(&format!("/proc/{}/map_files/{start:x}-{end:x}", self.pid)))
            .or_else(|_| OpenFile::at(&PathBuf::from(format!("/proc/{}/root{}", self.pid, self.path))))
            .or_else(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => OpenFile::at(Path::new(&self.path)),
                _ => Err(error),
            })
    }
}

impl OpenFile {
    /// Opens a regular file for reading; devices and pipes, which opening may
    /// disturb, are left alone.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)?;
        let data = place.metadata()?;
        if !data.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = File::open(format!("/proc/self/fd/{}", place.as_raw_fd()))?;
        Ok(Self { file, key: key(&data), changed: (data.ctime(), data.ctime_nsec()) })
    }

    /// The file of that path, if it holds what the build id stands for.
    pub(super) fn of_contents(path: &Path, build_id: &BuildId) -> Option<Self> {
        let file = Self::at(path).ok()?;
        (build_id_of(&file.file)? == *build_id).then_some(file)
    }
}

/// What tells the file of these data apart.
pub(super) fn key(data: &Metadata) -> FileKey {
    FileKey { device: data.dev(), inode: data.ino() }
}

/// The numbers of all processes.
pub(super) fn processes(root: &Path) -> Vec<u32> {
    let entries = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_of_files_are_listed_with_device_and_inode() {
        let line = b"7f00-8f00 r-xp 00001000 fe:00 123                       /opt/a b (deleted)";
        let ((device, inode), mapped) = parse(7, line).unwrap();
        assert_eq!((device.as_str(), inode, mapped.path.as_str()), ("fe:00", 123, "/opt/a b"));
        assert_eq!((mapped.start, mapped.end), (0x7f00, 0x8f00));
    }

    #[test]
    fn an_address_is_found_in_the_file_that_is_mapped_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/7")).unwrap();
        let maps = "5000-6000 r--p 00000000 fe:00 9 /opt/b\n7f00-8f00 r-xp 00001000 fe:00 123 /opt/a\n";
        fs::write(folder.path().join("proc/7/maps"), maps).unwrap();
        let (mapped, offset) = mapping_of(folder.path(), 7, 0x7f80).unwrap();
        assert_eq!((mapped.path.as_str(), offset), ("/opt/a", 0x1080));
        assert_eq!(mapping_of(folder.path(), 7, 0x8f00), None);
        assert_eq!(mapping_of(folder.path(), 7, 0x5000), None, "no code lies there");
        assert_eq!(mapping_of(folder.path(), 8, 0x7f80), None);
    }

    #[test]
    fn what_is_no_file_of_code_is_left_out() {
        for line in [
            "7f00-8f00 rw-p 00001000 fe:00 123 /opt/a",
            "7f00-8f00 r-xp 00000000 00:00 0 [vdso]",
            "7f00-8f00 rwxp 00000000 00:00 0",
            "7f00-8f00 r-xp 00000000 00:01 7 /memfd:jit (deleted)",
            "garbage",
        ] {
            assert_eq!(parse(1, line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_file_of_a_mapping_is_the_one_that_its_path_names() {
        let own = std::env::current_exe().unwrap();
        let me = std::process::id();
        let found = mapped_files(Path::new("/"), me);
        let (_, mapped) = found.iter().find(|(_, mapped)| Path::new(&mapped.path) == own).unwrap();
        assert_eq!(mapped.open().unwrap().key, key(&fs::metadata(own).unwrap()));
    }

    #[test]
    fn a_path_stands_for_a_file_only_while_its_contents_are_the_same() {
        let own = std::env::current_exe().unwrap();
        let id = build_id_of(&File::open(&own).unwrap()).unwrap();
        let found = OpenFile::of_contents(&own, &id).unwrap();
        assert_eq!(found.key, key(&fs::metadata(&own).unwrap()));
        let other = BuildId::from_bytes(&[0xab; 20]);
        assert!(OpenFile::of_contents(&own, &other).is_none());
        assert!(OpenFile::of_contents(&own, &BuildId::default()).is_none());
        assert!(OpenFile::of_contents(Path::new("/nowhere"), &id).is_none());
        assert!(OpenFile::of_contents(Path::new("/dev/null"), &id).is_none());
    }

    #[test]
    fn a_device_is_not_opened() {
        assert!(OpenFile::at(Path::new("/dev/null")).unwrap_err().to_string().contains("regular"));
    }
}
