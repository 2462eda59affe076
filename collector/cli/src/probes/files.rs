//! The files of code that processes have mapped.

use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use syscollect_untrusted_files::{
    FileLocation, OpenedFile, Owner, in_map_files, in_process, read_text,
};

/// A file of code that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Device and inode as the kernel lists them; they tell files apart.
    key: (String, u64),
    /// Where it is mapped: one that ends takes only its own away.
    mappings: Vec<FileMapping>,
    /// Its name, as the first process sees it.
    pub(super) path: String,
}

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileMapping {
    /// The process's folder.
    process: PathBuf,
    /// What the link to the mapped file is called.
    addresses: String,
    /// Its name in the process's own root, without the first slash.
    name: PathBuf,
    /// The process.
    pid: u32,
}

/// The files of all processes, each once.
#[derive(Debug, Default)]
pub(super) struct AllMappedFiles {
    pub(super) files: Vec<Mapped>,
    /// Processes that this user may not look into.
    pub(super) refused: usize,
}

/// The files that a process has mapped for execution, each once.
///
/// `proc` is /proc.
pub(super) fn of_process(proc: &Path, pid: u32) -> Result<Vec<Mapped>> {
    let folder = proc.join(pid.to_string());
    let maps = match maps(&folder, pid) {
        Ok(maps) => maps,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            bail!(
                "process {pid} may not be looked into by this user: list its probes as root, with \
                 sudo"
            )
        }
        Err(_) if !folder.exists() => {
            bail!("there is no process {pid}; for a file of that name, write ./{pid}")
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the mappings of process {pid}"));
        }
    };
    let files =
        once(maps.split(|byte| *byte == b'\n').filter_map(|line| parse(&folder, pid, line)));
    if files.is_empty() && !folder.exists() {
        bail!("process {pid} ended while it was looked at");
    }
    if files.is_empty() {
        bail!("process {pid} has mapped no file: it is a thread of the kernel, or has just ended");
    }
    Ok(files)
}

/// The files that any process has mapped.
#[expect(clippy::disallowed_methods, reason = "/proc itself")]
pub(super) fn of_all(proc: &Path) -> AllMappedFiles {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    let (mut files, mut refused) = (Vec::new(), 0);
    for pid in pids {
        match of_process(proc, pid) {
            Ok(own) => files.extend(own),
            // Others have ended, or are the kernel's.
            Err(_) => refused += usize::from(is_refused(proc, pid)),
        }
    }
    AllMappedFiles { files: once(files), refused }
}

/// Each file once, with all its places.
fn once(mappings: impl IntoIterator<Item = Mapped>) -> Vec<Mapped> {
    let mut known = HashMap::new();
    let mut files = Vec::<Mapped>::new();
    for file in mappings {
        let at = *known.entry(file.key.clone()).or_insert(files.len());
        match files.get_mut(at) {
            Some(same) => same.mappings.extend(file.mappings),
            None => files.push(file),
        }
    }
    files
}

/// Longer lists of mappings are cut: the kernel allows a process 65,530.
const MAPS_MAX: usize = 16 << 20;

/// What a process has mapped, as the kernel lists it.
fn maps(folder: &Path, pid: u32) -> io::Result<Vec<u8>> {
    Ok(read_text(folder, "maps", Owner::of_process(pid).as_ref(), MAPS_MAX)?)
}

fn is_refused(proc: &Path, pid: u32) -> bool {
    maps(&proc.join(pid.to_string()), pid)
        .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Reads a line of /proc/PID/maps; `None` for what is no file of code.
fn parse(folder: &Path, pid: u32, line: &[u8]) -> Option<Mapped> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let device = fields.nth(1)?.to_owned();
    let inode: u64 = fields.next()?.parse().ok()?;
    let path = fields.next()?.trim_start();
    let name = path.strip_suffix(" (deleted)").unwrap_or(path);
    // Opening a device may do something; nothing that was made in memory has probes of its own.
    let is_file = name.starts_with('/')
        && !["/dev/", "/memfd:", "//"].iter().any(|other| name.starts_with(other));
    if !is_code || !is_file {
        return None;
    }
    let place = FileMapping {
        process: folder.to_owned(),
        // Small addresses have zeros before them in one place and not in the other.
        addresses: format!("{:x}-{:x}", hexadecimal(start)?, hexadecimal(end)?),
        name: name.trim_start_matches('/').into(),
        pid,
    };
    Some(Mapped { key: (device, inode), mappings: vec![place], path: path.to_owned() })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Mapped {
    /// Opens the very file that is mapped: by a mapping, which also leads to one that was
    /// deleted or replaced, but needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; else by its name.
    /// `None` if all processes that had mapped it have ended.
    pub(super) fn open(&self) -> Result<Option<OpenedFile>> {
        let mut why = None;
        for mapping in &self.mappings {
            match self.open_at(mapping) {
                Ok(file) => return Ok(Some(file)),
                Err(_) if !mapping.process.exists() => {}
                Err(error) => why = Some(error),
            }
        }
        why.map_or(Ok(None), Err)
    }

    fn open_at(&self, place: &FileMapping) -> Result<OpenedFile> {
        let owner = Owner::of_process(place.pid);
        let owner = owner.as_ref();
        if let Ok(file) = in_map_files(&place.process, |folder| {
            let path = folder.join(&place.addresses);
            syscollect_untrusted_files::open(&FileLocation::Said(&path), owner)
        }) {
            return Ok(file);
        }
        match in_process(&place.process, |folder| {
            let below = FileLocation::Below { folder: &folder.join("root"), path: &place.name };
            syscollect_untrusted_files::open(&below, owner)
        }) {
            Ok(file) if file.data().inode == self.key.1 => Ok(file),
            Ok(_) => {
                bail!("it was replaced since it was mapped, and only root can read the old one")
            }
            Err(_) if self.path.ends_with(" (deleted)") => {
                bail!("it was deleted, and only root can read it")
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a regular file for reading. Devices and pipes, which opening may disturb, are left alone.
pub(super) fn open(path: &Path) -> Result<OpenedFile> {
    Ok(syscollect_untrusted_files::open(&FileLocation::Said(path), None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    /// A /proc with process 7, which maps what the lines say, and whose root is `/`.
    fn fake(maps: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir_all(proc.path().join("7/map_files")).unwrap();
        fs::write(proc.path().join("7/maps"), maps).unwrap();
        symlink("/", proc.path().join("7/root")).unwrap();
        proc
    }

    fn line(path: &str, inode: u64, rights: &str) -> String {
        format!("00401000-00402000 {rights} 00000000 fe:01 {inode}                  {path}\n")
    }

    #[test]
    fn a_file_that_is_mapped_in_parts_is_listed_once_and_data_not_at_all() {
        let code = line("/lib/a b.so", 5, "r-xp");
        let others = [
            ("/data", "r--p"),
            ("/dev/zero", "r-xp"),
            ("/memfd:jit (deleted)", "r-xp"),
            ("[vdso]", "r-xp"),
        ];
        let others: String = others.iter().map(|(path, rights)| line(path, 6, rights)).collect();
        let proc = fake(&[code.as_str(), &others, &code].concat());
        let found = of_process(proc.path(), 7).unwrap();
        assert_eq!(
            found.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["/lib/a b.so"]
        );
    }

    #[test]
    fn a_file_that_two_processes_map_is_listed_once() {
        let proc = fake(&line("/lib/a.so", 5, "r-xp"));
        fs::create_dir(proc.path().join("8")).unwrap();
        fs::write(
            proc.path().join("8/maps"),
            line("/other/name/a.so", 5, "r-xp") + &line("/b.so", 6, "r-xp"),
        )
        .unwrap();
        let found = of_all(proc.path());
        assert_eq!(
            found.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["/lib/a.so", "/b.so"]
        );
        assert_eq!(found.refused, 0);
    }

    #[test]
    fn a_process_that_is_not_there_or_maps_nothing_is_told_so() {
        let proc = fake("");
        let [absent, empty] =
            [9, 7].map(|pid| of_process(proc.path(), pid).unwrap_err().to_string());
        assert!(absent.contains("no process 9") && absent.contains("./9"));
        assert!(empty.contains("thread of the kernel"));
    }

    #[test]
    fn a_replaced_file_is_not_taken_for_the_one_that_is_mapped() {
        let new = tempfile::NamedTempFile::new().unwrap();
        let inode = new.as_file().metadata().unwrap().ino();
        let path = new.path().to_str().unwrap().to_owned();
        let [own, other] = [inode, inode + 1].map(|inode| {
            let proc = fake(&line(&path, inode, "r-xp"));
            let file = of_process(proc.path(), 7).unwrap().remove(0).open();
            file.map(|file| file.is_some()).map_err(|error| error.to_string())
        });
        assert_eq!(own, Ok(true));
        assert!(other.unwrap_err().contains("replaced"));
    }

    #[test]
    fn a_deleted_file_is_opened_by_its_mapping() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let proc = fake(&line("/gone/a.so (deleted)", 5, "r-xp"));
        let mapped = of_process(proc.path(), 7).unwrap().remove(0);
        assert!(mapped.open().unwrap_err().to_string().contains("was deleted"));
        symlink(kept.path(), proc.path().join("7/map_files/401000-402000")).unwrap();
        assert!(mapped.open().unwrap().is_some());
    }

    #[test]
    fn files_are_found_and_opened_where_the_first_thread_has_ended() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let inode = kept.as_file().metadata().unwrap().ino();
        let proc = fake(&line(kept.path().to_str().unwrap(), inode, "r-xp"));
        let process = proc.path().join("5");
        fs::create_dir_all(process.join("task")).unwrap();
        fs::write(process.join("maps"), "").unwrap();
        fs::write(process.join("stat"), "5 (a) Z 1").unwrap();
        fs::rename(proc.path().join("7"), process.join("task/7")).unwrap();
        let mapped = of_process(proc.path(), 5).unwrap().remove(0);
        assert_eq!(mapped.open().unwrap().unwrap().data().inode, inode);
    }

    #[test]
    fn a_file_is_still_found_when_one_of_its_processes_ends_and_missed_without_a_word_when_all_have()
     {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let proc = fake(&line("/gone/a.so", 5, "r-xp"));
        fs::create_dir_all(proc.path().join("8/map_files")).unwrap();
        fs::write(proc.path().join("8/maps"), line("/gone/a.so", 5, "r-xp")).unwrap();
        symlink(kept.path(), proc.path().join("8/map_files/401000-402000")).unwrap();
        let file = of_all(proc.path()).files.remove(0);
        fs::remove_dir_all(proc.path().join("7")).unwrap();
        assert!(file.open().unwrap().is_some());
        fs::remove_dir_all(proc.path().join("8")).unwrap();
        assert!(file.open().unwrap().is_none());
    }

    #[test]
    fn the_files_of_this_very_process_are_found_and_opened() {
        let own = std::env::current_exe().unwrap();
        let found = of_process(Path::new("/proc"), std::process::id()).unwrap();
        let file = found
            .iter()
            .find(|file| Path::new(&file.path) == own)
            .unwrap()
            .open()
            .unwrap()
            .unwrap();
        assert_eq!(file.data().inode, own.metadata().unwrap().ino());
    }

    #[test]
    fn a_device_is_not_opened() {
        assert!(open(Path::new("/dev/null")).unwrap_err().to_string().contains("no regular file"));
    }
}
