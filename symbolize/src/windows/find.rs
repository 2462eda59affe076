//! Files of symbols in directories and stores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use syscollect_untrusted_files::{FileLocation, OpenError, open as open_untrusted};

/// A directory with more entries is not searched for a name in other letters.
const ENTRIES_MAX: usize = 200_000;

/// Where in `directory` the file `name` may lie: as in a symbol store, of one tier or of two, below
/// the folders that debuggers look into, or as it is.
///
/// `key` is the name of its folder in stores; `kind` the extension of the image (`dll`). The best
/// guess comes first.
pub(crate) fn candidates(
    directory: &Path,
    name: &str,
    key: Option<&str>,
    kind: Option<&str>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(key) = key {
        found.extend(descend(directory, &[name, key, name]));
        // Two tiers: the first two letters are a folder.
        if let Some(letters) = name.get(..2) {
            found.extend(descend(directory, &[letters, name, key, name]));
        }
    }
    found.extend(descend(directory, &[name]));
    if let Some(kind) = kind {
        found.extend(descend(directory, &[kind, name]));
        found.extend(descend(directory, &["symbols", kind, name]));
    }
    found.retain(|path| path.is_file());
    found
}

/// A compressed file of a store: its name ends with an underscore.
pub(crate) fn compressed(directory: &Path, name: &str, key: &str) -> Option<PathBuf> {
    let compressed = compressed_name(name)?;
    let letters = name.get(..2).unwrap_or(name);
    let path = descend(directory, &[name, key, &compressed]);
    path.or_else(|| descend(directory, &[letters, name, key, &compressed]))
        .filter(|path| path.is_file())
}

fn compressed_name(name: &str) -> Option<String> {
    let mut letters = name.chars();
    letters.next_back()?;
    Some(format!("{}_", letters.as_str()))
}

/// The path below `directory`, whatever the case of its letters, as Windows has it.
fn descend(directory: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().try_fold(directory.to_path_buf(), |path, name| child(&path, name))
}

#[expect(
    clippy::disallowed_methods,
    reason = "folders below one that the user names, by plain names"
)]
fn child(directory: &Path, name: &str) -> Option<PathBuf> {
    let exact = directory.join(name);
    if exact.exists() {
        return Some(exact);
    }
    if cfg!(windows) {
        return None;
    }
    fs::read_dir(directory)
        .ok()?
        .take(ENTRIES_MAX)
        .filter_map(Result::ok)
        .find(|entry| {
            entry.file_name().to_str().is_some_and(|other| other.eq_ignore_ascii_case(name))
        })
        .map(|entry| entry.path())
}

/// Whether a store has two tiers.
pub(crate) fn has_two_tiers(store: &Path) -> bool {
    child(store, "index2.txt").is_some()
}

/// Opens a regular file of at most `bytes_max` bytes. The last parts of its path are what a trace
/// calls it.
///
/// # Errors
///
/// In words.
pub(crate) fn open(path: &Path, bytes_max: u64) -> Result<File, String> {
    let (file, bytes) = opened(path)?;
    if bytes > bytes_max {
        return Err(format!("it has {bytes} bytes, the limit is {bytes_max}"));
    }
    Ok(file)
}

/// The file, and how many bytes it has.
#[cfg(target_os = "linux")]
fn opened(path: &Path) -> Result<(File, u64), String> {
    let in_words = |error: OpenError| error.to_string();
    let opened = open_untrusted(&FileLocation::Said(path), None).map_err(in_words)?;
    let bytes = opened.data().size;
    Ok((opened.into_file().map_err(|error| error.to_string())?, bytes))
}

/// The same where there is nothing else that opens such files.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "not Linux, where `untrusted-files` opens none")]
fn opened(path: &Path) -> Result<(File, u64), String> {
    let data = fs::metadata(path).map_err(|error| error.to_string())?;
    if !data.is_file() {
        return Err("it is not a file".into());
    }
    Ok((File::open(path).map_err(|error| error.to_string())?, data.len()))
}

/// The path that leads to an image of a trace on this very machine; `None` where it would lead to
/// another machine, or where this is not Windows.
///
/// A trace may name a share: opening that would tell its owner who is asking.
pub(crate) fn own_path(traced: &str) -> Option<PathBuf> {
    if !cfg!(windows) {
        return None;
    }
    local_path(traced).map(PathBuf::from)
}

fn local_path(traced: &str) -> Option<String> {
    let lower = traced.to_ascii_lowercase();
    if traced.contains('/') || traced.split('\\').any(|part| part == ".." || part == ".") {
        return None;
    }
    if lower.starts_with(r"\device\harddiskvolume") || lower.starts_with(r"\systemroot\") {
        return Some(format!(r"\\?\GLOBALROOT{traced}"));
    }
    let path = traced.strip_prefix(r"\??\").unwrap_or(traced);
    let drive =
        matches!(path.as_bytes(), [letter, b':', b'\\', ..] if letter.is_ascii_alphabetic());
    drive.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn files_are_found_in_all_the_places_where_debuggers_look() {
        let store = tempfile::tempdir().unwrap();
        let root = store.path();
        let expected = [
            write(root.join("App.pdb/1A2/app.pdb")),
            write(root.join("ap/app.PDB/1a2/app.pdb")),
            write(root.join("dll/app.pdb")),
            write(root.join("symbols/dll/app.pdb")),
        ];
        assert_eq!(candidates(root, "app.pdb", Some("1A2"), Some("dll")), expected);
        assert_eq!(candidates(root, "app.pdb", Some("1A3"), None), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_compressed_file_is_seen() {
        let store = tempfile::tempdir().unwrap();
        let path = write(store.path().join("app.pdb/1A2/app.pd_"));
        assert_eq!(compressed(store.path(), "app.pdb", "1A2"), Some(path));
        assert_eq!(compressed(store.path(), "app.pdb", "1A3"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_that_a_trace_names_is_opened_but_files_within_the_bound() {
        let store = tempfile::tempdir().unwrap();
        let path = |name: &str| store.path().join(name);
        fs::write(path("app.pdb"), "12345").unwrap();
        assert!(open(&path("app.pdb"), 5).is_ok());
        assert_eq!(open(&path("app.pdb"), 4).unwrap_err(), "it has 5 bytes, the limit is 4");
        let name = std::ffi::CString::new(path("pipe.pdb").as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: `name` is a C string that lives through the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
        std::os::unix::fs::symlink("/dev/zero", path("zero.pdb")).unwrap();
        for name in ["pipe.pdb", "zero.pdb"] {
            assert_eq!(open(&path(name), 5).unwrap_err(), "it is no regular file", "{name}");
        }
    }

    #[test]
    fn no_trace_leads_to_another_machine() {
        assert_eq!(local_path(r"C:\a\b.dll").as_deref(), Some(r"C:\a\b.dll"));
        assert_eq!(local_path(r"\??\C:\b.dll").as_deref(), Some(r"C:\b.dll"));
        let device = r"\Device\HarddiskVolume3\Windows\System32\ntdll.dll";
        assert_eq!(local_path(device), Some(format!(r"\\?\GLOBALROOT{device}")));
        for remote in [
            r"\\evil\share\b.dll",
            r"\Device\Mup\evil\share\b.dll",
            r"\Device\LanmanRedirector\evil\b.dll",
            r"\??\UNC\evil\share\b.dll",
            r"\Device\HarddiskVolume3\..\Mup\evil\b.dll",
            r"C:/b.dll",
            "b.dll",
        ] {
            assert_eq!(local_path(remote), None, "{remote}");
        }
    }
}
