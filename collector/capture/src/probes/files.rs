//! The files that processes run: found, told apart, opened.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use syscollect_model::BuildId;
use syscollect_symbolize::build_id_in;
use syscollect_untrusted_files::{
    FileData, FileLocation, OpenedFile, Owner, data_of_mapping, find, read_text,
};

use crate::hexadecimal::hexadecimal;

/// A file by where it lies, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    device: u64,
    inode: u64,
}

#[cfg(test)]
impl FileKey {
    /// Of no file.
    pub(super) fn of_test(inode: u64) -> Self {
        Self { device: 0, inode }
    }
}

/// When a file last changed: its number may be another file's after it was deleted.
pub(super) type FileChangeTime = (i64, u32);

/// Longer lists of mappings are cut: the kernel allows a process 65,530.
const MAPS_MAX: usize = 16 << 20;

/// A file that was opened, with what tells it apart.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub(super) file: OpenedFile,
    pub(super) key: FileKey,
    pub(super) changed: FileChangeTime,
    /// It is root's, and nobody else can write to it.
    pub(super) of_root: bool,
    /// Who has it mapped, if it was found by that.
    mapped_by: Option<MappedBy>,
}

/// A process, and whose it was before its mapping was looked at: its number may be another's later.
#[derive(Clone, Copy, Debug)]
struct MappedBy {
    pid: u32,
    uid: Option<u32>,
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
    let text = maps(root, pid).unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(|line| parse(pid, line)).collect()
}

/// The executable mapping of a file that holds an address of a process, and where that lies in the
/// file.
pub(super) fn mapping_of(root: &Path, pid: u32, address: u64) -> Option<(MappedFile, u64)> {
    let text = maps(root, pid)?;
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let (_, mapped) =
            parse(pid, line).filter(|(_, mapped)| (mapped.start..mapped.end).contains(&address))?;
        let first = hexadecimal(String::from_utf8_lossy(line).split(' ').nth(2)?)?;
        let offset = first.checked_add(address - mapped.start)?;
        Some((mapped, offset))
    })
}

/// What a process has mapped, as the kernel lists it; a list is whole or missing.
fn maps(root: &Path, pid: u32) -> Option<Vec<u8>> {
    let process = root.join(format!("proc/{pid}"));
    read_text(&process, "maps", Owner::of_process(pid).as_ref(), MAPS_MAX).ok()
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
    let mapped = MappedFile {
        pid,
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        path: path.to_owned(),
    };
    (executable && is_file_name(path)).then_some(((device, inode), mapped))
}

/// Whether a mapping of this name may be of a program's file.
pub(super) fn is_file_name(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.starts_with("/dev/")
        && !path.starts_with("/memfd:")
}

impl MappedFile {
    /// What tells the file apart that is mapped there, without opening it; `None` if that cannot be
    /// had, or not without asking whoever serves its file system.
    pub(super) fn identity(&self) -> Option<(FileKey, FileChangeTime)> {
        let uid = Owner::of_process(self.pid).map(|owner| owner.uid());
        let data = data_of_mapping(self.pid, self.start, self.end, uid).ok()?;
        Some((key(&data), data.changed))
    }

    /// The very file that is mapped: by its mapping, also when it was deleted or
    /// replaced (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), else by its
    /// path in the process's root. Who may look at neither takes the file of
    /// that path here, which is the same outside of containers.
    pub(super) fn open(&self) -> io::Result<OpenFile> {
        let (owner, path) = (Owner::of_process(self.pid), Path::new(&self.path));
        let owner = owner.as_ref();
        let mapping = FileLocation::Range { pid: self.pid, start: self.start, end: self.end };
        let file = OpenFile::at(&mapping, owner)
            .or_else(|_| OpenFile::at(&FileLocation::InRootOf { pid: self.pid, path }, owner))
            .or_else(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => OpenFile::at(&FileLocation::Mapped(path), owner),
                _ => Err(error),
            })?;
        let mapped_by = Some(MappedBy { pid: self.pid, uid: owner.map(Owner::uid) });
        Ok(OpenFile { mapped_by, ..file })
    }
}

impl OpenFile {
    /// Opens a regular file for reading; devices and pipes, which opening may
    /// disturb, are left alone.
    pub(super) fn at(place: &FileLocation<'_>, owner: Option<&Owner>) -> io::Result<Self> {
        let found = find(place, owner)?;
        let data = *found.data();
        let (key, changed, of_root) = (key(&data), data.changed, is_of_root(&data));
        Ok(Self { file: found.open()?, key, changed, of_root, mapped_by: None })
    }

    /// The file of that path, if it holds what the build id stands for.
    pub(super) fn of_contents(path: &Path, build_id: &BuildId) -> Option<Self> {
        let file = Self::at(&FileLocation::Mapped(path), None).ok()?;
        (build_id_in(file.file.reader())? == *build_id).then_some(file)
    }

    /// Where it lies, links followed, as mappings of it are called; `path`, by which it was opened,
    /// where that cannot be had. The kernel tells it of the open file: to follow the links again
    /// would ask whoever serves a file system on the way, who has to answer nobody.
    pub(super) fn real_path(&self, path: &Path) -> PathBuf {
        let shown = self.file.shown_path();
        let lies = |shown: &PathBuf| !shown.as_os_str().as_bytes().ends_with(b" (deleted)");
        shown.filter(lies).unwrap_or_else(|| path.to_owned())
    }

    /// The process by whose mapping it was found.
    pub(super) fn mapped_by_process(&self) -> Option<u32> {
        self.mapped_by.as_ref().map(|by| by.pid)
    }

    /// Whether attaching to it may stop the machine. The kernel reads the code then, and lets no
    /// process fork meanwhile (`register_for_each_vma` in kernel/events/uprobes.c); in a file
    /// system that a user mounted, that user decides how long it takes. The one who asked for the
    /// recording is trusted with it.
    pub(super) fn may_stop_the_machine(&self, asked_by: Option<u32>) -> bool {
        let mapped_by = self.mapped_by.as_ref();
        let is_theirs = asked_by.is_some() && mapped_by.and_then(|by| by.uid) == asked_by;
        self.file.is_of_a_users_mount(mapped_by.map(|by| by.pid)) && !is_theirs
    }
}

/// What tells the file of these data apart.
pub(super) fn key(data: &FileData) -> FileKey {
    FileKey { device: data.device, inode: data.inode }
}

fn is_of_root(data: &FileData) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    data.uid == 0 && data.mode & WRITABLE_BY_OTHERS == 0
}

/// Whether that file lies at this path here.
pub(super) fn is_at(path: &Path, file: FileKey) -> bool {
    find(&FileLocation::Mapped(path), None).is_ok_and(|found| key(found.data()) == file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn key_of(path: &Path) -> FileKey {
        let data = fs::metadata(path).unwrap();
        FileKey { device: data.dev(), inode: data.ino() }
    }

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
        let maps =
            "5000-6000 r--p 00000000 fe:00 9 /opt/b\n7f00-8f00 r-xp 00001000 fe:00 123 /opt/a\n";
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
        assert_eq!(mapped.open().unwrap().key, key_of(&own));
    }

    #[test]
    fn a_path_stands_for_a_file_only_while_its_contents_are_the_same() {
        let own = std::env::current_exe().unwrap();
        let id = syscollect_symbolize::build_id_of(&fs::File::open(&own).unwrap()).unwrap();
        let found = OpenFile::of_contents(&own, &id).unwrap();
        assert_eq!(found.key, key_of(&own));
        let other = BuildId::from_bytes(&[0xab; 20]);
        assert!(OpenFile::of_contents(&own, &other).is_none());
        assert!(OpenFile::of_contents(&own, &BuildId::default()).is_none());
        assert!(OpenFile::of_contents(Path::new("/nowhere"), &id).is_none());
        assert!(OpenFile::of_contents(Path::new("/dev/null"), &id).is_none());
    }

    #[test]
    fn a_mapping_is_told_apart_without_opening_its_file() {
        let own = std::env::current_exe().unwrap();
        let found = mapped_files(Path::new("/"), std::process::id());
        let (_, mapped) = found.iter().find(|(_, mapped)| Path::new(&mapped.path) == own).unwrap();
        // Without the right to follow such links nothing is told.
        if let Some((key, _)) = mapped.identity() {
            assert_eq!(key, key_of(&own));
        }
        assert!(is_at(&own, key_of(&own)) && !is_at(Path::new("/proc/self/exe"), key_of(&own)));
    }

    #[test]
    fn a_device_is_not_opened() {
        let error = OpenFile::at(&FileLocation::Said(Path::new("/dev/null")), None).unwrap_err();
        assert!(error.to_string().contains("regular"), "{error}");
    }
}
