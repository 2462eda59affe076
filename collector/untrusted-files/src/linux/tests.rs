//! What a hostile program leaves in a file's place.

use super::folder_of;
use super::open::{data_of_mapping, data_of_program, find, folder_in_root, working_folder};
use crate::{
    FileLocation, MemoryFile, OpenError, Owner, Reader, living_other, open, path_of, read_memory,
    read_text,
};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn fifo(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: `name` is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
}

fn contents(place: &FileLocation<'_>) -> Result<String, OpenError> {
    let mut text = String::new();
    open(place, None)?.reader().read_to_string(&mut text)?;
    Ok(text)
}

fn refused(place: &FileLocation<'_>) -> String {
    let before = Instant::now();
    let error = contents(place).unwrap_err();
    assert!(before.elapsed() < crate::PATIENCE, "{place:?} was waited for");
    error.to_string()
}

#[test]
fn what_is_no_regular_file_is_never_opened() {
    let folder = tempfile::tempdir().unwrap();
    let in_there = folder.path().join("fifo");
    fifo(&in_there);
    let socket = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in
        [in_there.as_path(), &socket, folder.path(), Path::new("/dev/null"), Path::new("/dev/tty")]
    {
        for place in
            [FileLocation::Said(path), FileLocation::Named(path), FileLocation::Mapped(path)]
        {
            assert_eq!(refused(&place), "it is no regular file");
        }
    }
    // Nobody opened it for reading: who opens it for writing without waiting would be told so.
    let writer = fs::OpenOptions::new().custom_flags_for_writing().open(&in_there);
    assert_eq!(writer.unwrap_err().raw_os_error(), Some(libc::ENXIO));
}

trait WithoutWaiting {
    fn custom_flags_for_writing(&mut self) -> &mut Self;
}

impl WithoutWaiting for fs::OpenOptions {
    fn custom_flags_for_writing(&mut self) -> &mut Self {
        std::os::unix::fs::OpenOptionsExt::custom_flags(self.write(true), libc::O_NONBLOCK)
    }
}

#[test]
fn what_belongs_to_the_kernel_is_not_read() {
    for path in ["/proc/version", "/sys/kernel/notes"].map(Path::new) {
        assert_eq!(
            refused(&FileLocation::Said(path)),
            "it belongs to the kernel, not to a program"
        );
    }
}

fn below<'a>(folder: &'a Path, path: &'a str) -> FileLocation<'a> {
    FileLocation::Below { folder, path: Path::new(path) }
}

fn beside<'a>(folder: &'a Path, path: &'a str) -> FileLocation<'a> {
    FileLocation::Beside { folder, path: Path::new(path) }
}

#[test]
fn links_are_followed_as_far_as_the_place_means() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (inside, outside) = (root.join("inside"), root.join("outside"));
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::write(inside.join("sub/file"), "file").unwrap();
    symlink("sub/file", inside.join("in")).unwrap();
    symlink("../outside/secret", inside.join("out")).unwrap();
    symlink(outside.join("secret"), inside.join("absolute")).unwrap();
    symlink(&outside, inside.join("folder")).unwrap();

    assert_eq!(text(below(&inside, "sub/file")).as_deref(), Some("file"));
    assert_eq!(text(below(&inside, "in")).as_deref(), Some("file"), "a link that stays inside");
    for path in [
        "out",
        "absolute",
        "folder/secret",
        "../outside/secret",
        "/etc/passwd",
        "",
        ".",
        "sub/../../outside/secret",
    ] {
        assert_eq!(text(below(&inside, path)), None, "{path}");
    }
    assert_eq!(text(beside(&inside, "sub/file")).as_deref(), Some("file"));
    for path in ["in", "out", "absolute", "folder/secret", "../outside/secret", "/etc/passwd"] {
        assert_eq!(text(beside(&inside, path)), None, "{path}");
    }
    let linked = root.join("linked");
    symlink(&inside, &linked).unwrap();
    assert_eq!(
        text(FileLocation::Beside { folder: &linked, path: Path::new("sub/file") }),
        None,
        "the folder is a link"
    );
    assert_eq!(text(FileLocation::Mapped(&inside.join("sub/file"))).as_deref(), Some("file"));
    assert_eq!(text(FileLocation::Mapped(&inside.join("in"))), None, "the kernel names no links");
    assert_eq!(text(FileLocation::Mapped(Path::new("Cargo.toml"))), None, "nor where somebody is");
    assert_eq!(text(FileLocation::Named(&inside.join("in"))).as_deref(), Some("file"));
    let own = File::open(inside.join("sub/file")).unwrap();
    assert_eq!(text(FileLocation::Said(&path_of(&own))).as_deref(), Some("file"));
    assert_eq!(
        text(FileLocation::Named(&path_of(&own))),
        None,
        "only the user may point into /proc"
    );
}

fn text(place: FileLocation<'_>) -> Option<String> {
    contents(&place).ok()
}

#[test]
fn a_path_in_a_process_is_a_path_in_its_root() {
    let (folder, pid) = (tempfile::tempdir().unwrap(), std::process::id());
    let path = folder.path().canonicalize().unwrap().join("file");
    fs::write(&path, "mine").unwrap();
    // Outside of containers its root is ours.
    assert_eq!(contents(&FileLocation::InRootOf { pid, path: &path }).unwrap(), "mine");
    assert!(contents(&FileLocation::InRootOf { pid, path: Path::new("../etc/passwd") }).is_err());
    assert!(
        contents(&FileLocation::InRootOf { pid: u32::MAX, path: &path }).is_err(),
        "nobody has that number"
    );
}

#[test]
fn a_name_that_shows_another_file_by_now_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "first").unwrap();
    let found = find(&FileLocation::Said(&path), None).unwrap();
    fs::remove_file(&path).unwrap();
    fifo(&path);
    let mut text = String::new();
    found.open().unwrap().reader().read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), found.data().size), ("first", 5));
}

#[test]
fn a_file_that_shrinks_ends_early_and_one_that_grows_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![7; 10_000]).unwrap();
    let opened = open(&FileLocation::Said(&path), None).unwrap();
    let mut reader = opened.reader();
    let mut some = [0; 100];
    reader.read_exact(&mut some).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(50).unwrap();
    let error = reader.read_exact(&mut some).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    reader.seek(SeekFrom::End(-10)).unwrap();
    let mut rest = Vec::new();
    assert_eq!(
        (reader.read_to_end(&mut rest).unwrap(), reader.length()),
        (10, 10_000),
        "of what there was"
    );
}

#[test]
fn a_huge_file_costs_what_is_read_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    File::create(&path).unwrap().set_len(1 << 42).unwrap();
    let mut reader = open(&FileLocation::Said(&path), None).unwrap().reader();
    reader.seek(SeekFrom::Start(1 << 41)).unwrap();
    let mut some = [1; 16];
    reader.read_exact(&mut some).unwrap();
    assert_eq!((some, reader.length()), ([0; 16], 1 << 42));
}

#[test]
fn a_copy_in_memory_neither_shrinks_nor_changes() {
    let memory = MemoryFile::new("a copy", 100).unwrap();
    memory.write_at(b"text", 50).unwrap();
    let file = memory.seal().unwrap();
    let mut text = Vec::new();
    Reader::of(&file).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!((text.len(), &text[50..54], text[99]), (100, b"text".as_slice(), 0));
    assert!(file.set_len(10).is_err());
    assert!(
        File::options().write(true).open(path_of(&file)).and_then(|file| file.set_len(10)).is_err()
    );
}

#[test]
fn a_text_of_a_process_is_read_as_far_as_wanted() {
    let own = folder_of(std::process::id());
    assert_eq!(read_text(&own, "cmdline", None, 3).unwrap().len(), 3);
    assert!(read_text(&folder_of(0), "cmdline", None, 3).is_err());
}

/// A copy of this process whose first thread has ended while another one waits.
struct Leaderless(u32);

impl Leaderless {
    fn new() -> Self {
        extern "C" fn wait(_: *mut libc::c_void) -> *mut libc::c_void {
            loop {
                // SAFETY: no memory is involved.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: the child makes a thread, ends its own, and does nothing that needs a lock which
        // another thread had while it forked: libc sets those of its own free.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut thread = 0;
            // SAFETY: as above; `wait` takes no argument, and returns nothing.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pthread_create(&mut thread, std::ptr::null(), wait, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
        }
        let process = Self(u32::try_from(pid).expect("cannot fork"));
        let deadline = Instant::now() + Duration::from_secs(20);
        while living_other(&folder_of(process.0)).is_none() {
            assert!(Instant::now() < deadline, "no first thread has ended");
            std::thread::yield_now();
        }
        process
    }
}

impl Drop for Leaderless {
    fn drop(&mut self) {
        let pid = self.0 as libc::pid_t;
        // SAFETY: the child is this process's own, and was not waited for yet.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_read_through_another() {
    static WORDS: [u8; 16] = *b"words in memory.";
    let process = Leaderless::new();
    let pid = process.0;
    let maps = read_text(&folder_of(pid), "maps", None, 1 << 20).unwrap();
    let maps = String::from_utf8(maps).unwrap();
    let own = std::env::current_exe().unwrap().canonicalize().unwrap();
    let code = maps.lines().find(|line| line.ends_with(own.to_str().unwrap()));
    let code = code.expect("it runs this program");
    let (start, end) = code.split(' ').next().unwrap().split_once('-').unwrap();
    assert_eq!(read_memory(pid, WORDS.as_ptr() as u64, 5).unwrap(), b"words");
    let inode = own.metadata().unwrap().ino();
    assert_eq!(data_of_program(&folder_of(pid)).unwrap().inode, inode);
    let in_root = FileLocation::InRootOf { pid, path: &own };
    assert_eq!(find(&in_root, None).unwrap().data().inode, inode);
    assert_eq!(Owner::of_process(pid), Owner::of_process(std::process::id()));
    match data_of_mapping(pid, hexadecimal(start), hexadecimal(end), None) {
        Ok(data) => assert_eq!(data.inode, inode),
        // Needs root, or CAP_CHECKPOINT_RESTORE.
        Err(OpenError::System(error)) => {
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        }
        Err(error) => panic!("{error}"),
    }
    let file = open(&in_root, None).unwrap();
    assert_eq!(
        file.is_of_a_users_mount(Some(pid)),
        file.is_of_a_users_mount(Some(std::process::id())),
        "it sees the same mounts"
    );
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

#[test]
fn a_thread_that_lives_says_whose_rights_a_process_has() {
    let process = tempfile::tempdir().unwrap();
    let process = process.path();
    std::fs::create_dir_all(process.join("task/71")).unwrap();
    std::fs::write(process.join("task/71/stat"), "71 (a) S 1").unwrap();
    std::fs::write(process.join("task/71/status"), status("S (sleeping)", 1001)).unwrap();
    for (state, uid) in [("S", 0), ("Z", 1001)] {
        std::fs::write(process.join("stat"), format!("70 (a) {state} 1")).unwrap();
        std::fs::write(process.join("status"), status(state, 0)).unwrap();
        assert_eq!(Owner::of_folder(process).unwrap().uid(), uid, "{state}");
    }
}

fn status(state: &str, uid: u32) -> String {
    format!("State:\t{state}\nUid:\t0\t0\t0\t{uid}\nGid:\t0\t0\t0\t0\n")
}

/// Needs root, which may act as anybody; others have only their own rights.
#[test]
fn what_a_processes_owner_may_not_read_is_not_read_for_them() {
    // SAFETY: no memory is involved.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("secret");
    fs::write(&path, "secret").unwrap();
    let nobody = super::Owner { uid: 65_534, gid: 65_534, groups: Vec::new() };
    allow(folder.path(), 0o700);
    assert_eq!(
        kind(open(&FileLocation::Mapped(&path), Some(&nobody))),
        std::io::ErrorKind::PermissionDenied
    );
    allow(folder.path(), 0o755);
    allow(&path, 0o640);
    assert_eq!(
        kind(open(&FileLocation::Mapped(&path), Some(&nobody))),
        std::io::ErrorKind::PermissionDenied
    );
    let group = super::Owner { groups: vec![0], ..nobody.clone() };
    open(&FileLocation::Mapped(&path), Some(&group)).expect("their groups are theirs, too");
    open(&FileLocation::Mapped(&path), None).expect("this thread is itself again");
    allow(&path, 0o644);
    open(&FileLocation::Mapped(&path), Some(&nobody)).unwrap();
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

fn kind(result: Result<crate::OpenedFile, OpenError>) -> std::io::ErrorKind {
    std::io::Error::from(result.map(|_| ()).unwrap_err()).kind()
}

#[test]
fn what_a_process_has_mapped_is_the_same_whoever_it_is_waited_for() {
    let own = fs::read_to_string("/proc/self/maps").unwrap();
    let line = own.lines().find(|line| line.contains(" r-xp ") && line.contains('/')).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let [for_root, for_all, for_user] =
        [Some(0), None, Some(1001)].map(|uid| data_of_mapping(std::process::id(), start, end, uid));
    // Without the right to follow such links nobody is told.
    assert_eq!(for_all.is_ok(), for_root.is_ok());
    if let Ok(data) = for_root {
        assert_eq!(for_all.unwrap(), data);
        assert_eq!(for_user.unwrap(), data);
    }
}

#[test]
fn a_file_shows_the_path_by_which_it_was_found_and_that_it_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(folder.path()).unwrap().join("file");
    fs::write(&path, "x").unwrap();
    let found = find(&FileLocation::Mapped(&path), None).unwrap();
    assert_eq!(found.shown_path().unwrap(), path);
    fs::remove_file(&path).unwrap();
    assert!(found.shown_path().unwrap().to_string_lossy().ends_with("file (deleted)"));
}

#[test]
fn a_folder_that_a_process_sees_is_found_without_following_links() {
    let (own, pid) = (tempfile::tempdir().unwrap(), std::process::id());
    let (folder, link) = (own.path().join("folder"), own.path().join("link"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "").unwrap();
    symlink(&folder, &link).unwrap();
    let owner = Owner::of_process(pid).unwrap();
    let found = folder_in_root(pid, &folder, &owner).unwrap();
    assert!(path_of(&found).join("file").exists());
    for other in [link, folder.join("file"), folder.join("none"), PathBuf::from("tmp")] {
        assert!(folder_in_root(pid, &other, &owner).is_err(), "{}", other.display());
    }
    let here = fs::canonicalize(path_of(&working_folder(pid).unwrap())).unwrap();
    assert_eq!(here, std::env::current_dir().unwrap());
}
