//! The files of a program that is about to be run, as far as they can be told
//! before: itself, the interpreter of a script, the libraries it is linked
//! with. A good guess is enough: what is really mapped is seen when it is.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use syscollect_elf::{Elf, ReadCache, abi};
use syscollect_untrusted_files::{FileLocation, OpenError, find};

use super::files::OpenFile;
use crate::arch::LIBRARIES;

/// More files than any program has.
const FILES_MAX: usize = 1000;
/// Scripts whose interpreters are scripts end here.
const INTERPRETERS_MAX: usize = 4;
/// Names in one file's list of libraries.
const NAMES_MAX: usize = 1000;
/// Bytes of such a name, or of a list of folders.
const NAME_MAX: u64 = 4096;

/// Folders that have one of this CPU's libraries in them, and folders of libraries.
const PARENT_FOLDERS: [&str; 3] = ["/lib", "/usr/lib", "/usr/local/lib"];
const LIBRARY_FOLDERS: [&str; 5] = ["/lib64", "/usr/lib64", "/usr/local/lib", "/lib", "/usr/lib"];

/// Whether a regular file lies there. An error is a file system that does not answer: what lies
/// behind it is not waited for again.
type IsFile<'a> = dyn Fn(&Path) -> Result<bool, OpenError> + 'a;

fn is_file(path: &Path) -> Result<bool, OpenError> {
    match find(&FileLocation::Named(path), None) {
        Ok(_) => Ok(true),
        Err(error @ (OpenError::Hangs | OpenError::OthersHang)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// The files that running `program` will map, itself first. A name without a
/// slash is looked for in `search` (as `$PATH` is written).
pub(super) fn files_of(program: &Path, search: Option<&OsStr>) -> Vec<PathBuf> {
    files_found(program, search, &is_file)
}

fn files_found(program: &Path, search: Option<&OsStr>, is_file: &IsFile<'_>) -> Vec<PathBuf> {
    let Ok(Some(mut program)) = find_program(program, search, is_file) else { return Vec::new() };
    let mut files = Vec::new();
    for _ in 0..INTERPRETERS_MAX {
        let Some(interpreter) = interpreter(&program, search, is_file) else { break };
        files.push(std::mem::replace(&mut program, interpreter));
    }
    let mut known = BTreeSet::new();
    let mut waiting = vec![program];
    while let Some(file) = waiting.pop() {
        if known.len() >= FILES_MAX || !known.insert(file.clone()) {
            continue;
        }
        let found = libraries(&file, is_file).unwrap_or_default();
        files.push(file);
        waiting.extend(found.paths);
        if found.is_cut {
            files.extend(waiting.into_iter().filter(|file| !known.contains(file)));
            break;
        }
    }
    files
}

/// The program of that name.
fn find_program(
    program: &Path,
    search: Option<&OsStr>,
    is_file: &IsFile<'_>,
) -> Result<Option<PathBuf>, OpenError> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return Ok(Some(program.to_owned()));
    }
    let folders = search.into_iter().flat_map(std::env::split_paths);
    first_file(folders.map(|folder| folder.join(program)), is_file)
}

/// The first of the paths at which a file lies.
fn first_file(
    paths: impl IntoIterator<Item = PathBuf>,
    is_file: &IsFile<'_>,
) -> Result<Option<PathBuf>, OpenError> {
    for path in paths {
        if is_file(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// What runs a script: the program of its first line; after `env`, what that looks for.
fn interpreter(script: &Path, search: Option<&OsStr>, is_file: &IsFile<'_>) -> Option<PathBuf> {
    let mut start = [0; 256];
    let length = OpenFile::at(&FileLocation::Named(script), None)
        .ok()?
        .file
        .reader()
        .read(&mut start)
        .ok()?;
    let line = start[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let program = Path::new(OsStr::from_bytes(words.next()?));
    if program.file_name() != Some(OsStr::new("env")) {
        return Some(program.to_owned());
    }
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    find_program(Path::new(OsStr::from_bytes(named)), search, is_file).ok().flatten()
}

/// Libraries that a file names.
#[derive(Debug, Default)]
struct Libraries {
    paths: Vec<PathBuf>,
    /// A file system did not answer, and nothing was looked for from then on.
    is_cut: bool,
}

/// The libraries that a file names, where they are found.
fn libraries(path: &Path, is_file: &IsFile<'_>) -> Option<Libraries> {
    let cache = ReadCache::new(OpenFile::at(&FileLocation::Named(path), None).ok()?.file.reader());
    let elf = Elf::of_x86_64(&cache).ok()?;
    let dynamic = elf.dynamic().ok()??;
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for (tag, number) in dynamic.entries().take(NAMES_MAX) {
        let strings = match tag {
            abi::DT_NEEDED => &mut names,
            abi::DT_RPATH | abi::DT_RUNPATH => &mut folders,
            _ => continue,
        };
        let string = dynamic.string(number, NAME_MAX);
        strings.extend(string.map(|string| OsStr::from_bytes(string).to_owned()));
    }
    let folders = search_folders(path, &folders);
    let mut found = Libraries::default();
    for name in names {
        match first_file(folders.iter().map(|folder| folder.join(&name)), is_file) {
            Ok(path) => found.paths.extend(path),
            Err(_) => {
                found.is_cut = true;
                break;
            }
        }
    }
    Some(found)
}

/// Where a file's libraries are looked for: where it says, where the user says, where all lie.
fn search_folders(path: &Path, listed: &[std::ffi::OsString]) -> Vec<PathBuf> {
    let own = path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let listed = listed.iter().flat_map(std::env::split_paths);
    let listed = listed.map(|folder| {
        PathBuf::from(folder.to_string_lossy().replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
    });
    let user = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let user: Vec<PathBuf> = std::env::split_paths(&user).collect();
    listed
        .chain(user)
        .chain(PARENT_FOLDERS.map(|parent| Path::new(parent).join(LIBRARIES)))
        .chain(LIBRARY_FOLDERS.map(PathBuf::from))
        .filter(|folder| folder.is_absolute())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_brings_its_libraries() {
        let files = files_of(&std::env::current_exe().unwrap(), None);
        assert!(files.len() > 1, "{files:?}");
        assert!(files.iter().any(|file| file.to_string_lossy().contains("libc.so")), "{files:?}");
    }

    #[test]
    fn a_script_brings_its_interpreter_also_by_way_of_env() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        for line in ["#!/bin/sh -e\n", "#!/usr/bin/env sh\n", "#!/usr/bin/env -S A=1 sh\n"] {
            std::fs::write(&script, line).unwrap();
            let files = files_of(&script, Some(OsStr::new("/nowhere:/bin")));
            assert_eq!(files[..2], [script.clone(), PathBuf::from("/bin/sh")], "{line}");
        }
    }

    #[test]
    fn what_is_not_there_has_no_files_but_its_name() {
        assert!(files_of(Path::new("no-such-program"), Some(OsStr::new("/bin"))).is_empty());
        assert_eq!(
            files_of(Path::new("/no/such/program"), None),
            [PathBuf::from("/no/such/program")]
        );
    }

    #[test]
    fn a_file_system_that_does_not_answer_is_asked_once_and_ends_the_search() {
        let own = std::env::current_exe().unwrap();
        let asked = std::cell::Cell::new(0);
        // Each call takes as long as the one opener waits for it.
        let hangs = |_: &Path| {
            asked.set(asked.get() + 1);
            Err(OpenError::Hangs)
        };
        assert_eq!(files_found(&own, None, &hangs), [own]);
        assert_eq!(asked.get(), 1);
        let search = Some(OsStr::new("/a:/b"));
        assert!(files_found(Path::new("program"), search, &hangs).is_empty());
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn what_is_no_regular_file_is_no_library_and_no_program() {
        assert!(is_file(&std::env::current_exe().unwrap()).unwrap());
        for path in ["/dev/zero", "/dev", "/no/such/file"] {
            assert!(!is_file(Path::new(path)).unwrap(), "{path}");
        }
    }

    #[test]
    fn a_script_that_is_its_own_interpreter_ends() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(!files_of(&script, None).is_empty());
    }
}
