//! Libraries that a program was made to load (LD_PRELOAD), and what its owner lays in their places
//! when they are mapped.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use syscollect_elf::ReadCache;
use syscollect_model::{BuildId, Mapping, Ticks};
use syscollect_probes::Functions;
use syscollect_symbolize::{PinnedFiles, build_id_of};
use syscollect_untrusted_files::{FileLocation, PATIENCE};

use super::files::{FileKey, MappedFile, OpenFile, key, mapped_files};
use super::launch::files_of;

/// Until a program has loaded its libraries.
const LOADED: Duration = Duration::from_secs(20);

/// A program that sleeps, with a library in a folder of its own.
struct Program {
    _kept: tempfile::TempDir,
    folder: PathBuf,
    library: PathBuf,
    key: FileKey,
    build_id: BuildId,
    child: Child,
}

impl Program {
    fn start() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().canonicalize().unwrap();
        let library = folder.join("hook.so");
        fs::copy(any_library(), &library).unwrap();
        let build_id = build_id_of(&File::open(&library).unwrap()).unwrap();
        let child = Command::new("sleep").arg("60").env("LD_PRELOAD", &library).spawn().unwrap();
        let key = key_of(&library);
        Self { _kept: kept, folder, library, key, build_id, child }
    }

    /// The library's code as /proc lists it, by whatever name.
    fn mapped(&self) -> MappedFile {
        let begin = Instant::now();
        while begin.elapsed() < LOADED {
            let files = mapped_files(Path::new("/"), self.child.id());
            if let Some((_, file)) = files.into_iter().find(|(_, file)| self.is_it(&file.path)) {
                return file;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the program has not loaded {}", self.library.display());
    }

    fn is_it(&self, path: &str) -> bool {
        Path::new(path) == self.library
    }

    /// The same as the recorder hears of it.
    fn mapping(&self, path: &str, build_id: &BuildId) -> Mapping {
        let MappedFile { pid, start, end, .. } = self.mapped();
        let (path, build_id) = (path.to_owned(), build_id.clone());
        Mapping { pid, start, end, file_offset: 0, path, build_id, since: Ticks(0) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A library that this program has mapped, and `sleep` does not need.
fn any_library() -> PathBuf {
    let files = mapped_files(Path::new("/"), std::process::id());
    let found = files.into_iter().find(|(_, file)| file.path.contains("/libgcc_s.so"));
    PathBuf::from(found.unwrap().1.path)
}

fn key_of(path: &Path) -> FileKey {
    OpenFile::at(&FileLocation::Said(path), None).unwrap().key
}

fn fifo(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: `name` is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
}

/// Tells whether anybody opened a file.
struct Opens(File);

impl Opens {
    fn of(path: &Path) -> Self {
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: no memory is involved.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        assert!(descriptor >= 0);
        // SAFETY: the call returned a new descriptor that nobody else owns.
        let events = unsafe { File::from_raw_fd(descriptor) };
        // SAFETY: `name` is a C string that lives through the call.
        let watched =
            unsafe { libc::inotify_add_watch(events.as_raw_fd(), name.as_ptr(), libc::IN_OPEN) };
        assert!(watched >= 0);
        Self(events)
    }

    fn is_any(&mut self) -> bool {
        self.0.read(&mut [0; 4096]).is_ok()
    }
}

#[test]
fn whoever_opens_a_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let mut opens = Opens::of(&path);
    assert!(!opens.is_any());
    drop(File::open(&path).unwrap());
    assert!(opens.is_any());
}

#[test]
fn whatever_lies_in_its_place_a_preloaded_library_is_that_very_file_or_none() {
    let program = Program::start();
    let (library, folder) = (&program.library, &program.folder);
    program.mapped();
    // The same contents: only that it is another file tells it from the one that is mapped.
    let secret = folder.join("secret");
    fs::copy(library, &secret).unwrap();
    let mut opened = Opens::of(&secret);
    let hostile: [(&str, &dyn Fn()); 5] = [
        ("nothing", &|| {}),
        ("a pipe", &|| fifo(library)),
        ("a link to a device", &|| symlink("/dev/zero", library).unwrap()),
        ("a link to somebody else's file", &|| symlink(&secret, library).unwrap()),
        ("a folder", &|| fs::create_dir(library).unwrap()),
    ];
    for (what, lay) in hostile {
        let _ = fs::remove_file(library);
        lay();
        let opened_there = (what == "a pipe").then(|| Opens::of(library));
        let mapped = program.mapped();
        let begin = Instant::now();
        // Zones and probes are looked for in this one.
        if let Ok(file) = mapped.open() {
            assert_eq!(file.key, program.key, "{what}");
        }
        // Functions are named by that one, whether or not the kernel said which build was mapped.
        for path in [mapped.path.clone(), format!("{} (deleted)", mapped.path)] {
            for build_id in [&BuildId::default(), &program.build_id] {
                let (mut pinned, mut mapping) =
                    (PinnedFiles::new(), program.mapping(&path, build_id));
                pinned.pin(&mut mapping, None);
                if let Some(file) = pinned.opened(&path, &mapping.build_id) {
                    assert_eq!(key(file.data()), program.key, "{what}");
                }
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{what} was waited for");
        assert!(!opened.is_any(), "{what}: what it leads to was opened");
        assert!(!opened_there.is_some_and(|mut opened| opened.is_any()), "{what} was opened");
    }
}

#[test]
fn a_preloaded_library_that_shrinks_while_it_is_looked_into_is_an_error() {
    let program = Program::start();
    let file = program.mapped().open().unwrap();
    assert_eq!(file.key, program.key);
    let path = program.library.to_str().unwrap();
    let (mut pinned, mut mapping) = (PinnedFiles::new(), program.mapping(path, &program.build_id));
    assert!(pinned.pin(&mut mapping, None));
    assert!(pinned.file(path, &program.build_id).is_some());
    // The headers are still there, and what they tell of is not.
    File::options().write(true).open(&program.library).unwrap().set_len(4096).unwrap();
    assert!(Functions::read(&ReadCache::new(file.file.reader())).is_err());
    let mut all = vec![0; file.file.data().size as usize];
    assert!(file.file.reader().read_exact(&mut all).is_err());
    File::options().write(true).open(&program.library).unwrap().set_len(64).unwrap();
    assert!(pinned.file(path, &program.build_id).is_none(), "nothing says what it is any more");
}

#[test]
fn a_script_that_is_launched_names_a_pipe_as_its_interpreter_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let (script, pipe) = (folder.path().join("script"), folder.path().join("pipe"));
    fs::write(&script, format!("#!{}\n", pipe.display())).unwrap();
    fifo(&pipe);
    let mut opened = Opens::of(&pipe);
    for path in files_of(&script, None) {
        let file = OpenFile::at(&FileLocation::Named(&path), None);
        assert_eq!(file.is_ok(), path == script, "{}", path.display());
    }
    assert!(!opened.is_any());
}

#[test]
fn a_file_is_called_as_mappings_of_it_are_whatever_links_led_to_it() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().canonicalize().unwrap();
    let (path, link) = (folder.join("lib.so.1"), folder.join("lib.so"));
    fs::write(&path, "").unwrap();
    symlink("lib.so.1", &link).unwrap();
    let file = OpenFile::at(&FileLocation::Named(&link), None).unwrap();
    assert_eq!(file.real_path(&link), path);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.real_path(&link), link, "no name leads to it any more");
}
