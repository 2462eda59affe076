//! Debug files of debuginfod servers, kept where the standard client keeps them.
//!
//! A server is asked for a build id and nothing else. What it sends is used if it is an ELF file of
//! that build id; it is kept as `BUILDID/debuginfo` in the cache, which other programs share. That
//! a server does not have a file is kept there as well, as an empty file, which counts for ten
//! minutes. A server that fails, hangs or sends something else is not asked again.

#![expect(clippy::disallowed_methods, reason = "files of the cache, which are named by build ids")]

use crate::download::{DownloadLimits, Refusal, download};
use crate::elf::build_id_of;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use syscollect_model::BuildId;

/// How long it counts that no server has a file: as in the standard client.
const ABSENT_FOR: Duration = Duration::from_secs(600);

/// Servers, where what they send is kept, and what that may take.
#[derive(Clone, Debug)]
pub struct DebuginfodOptions {
    /// Addresses of servers, in the order in which they are asked.
    pub servers: Vec<String>,
    /// The folder in which files are kept.
    pub cache: PathBuf,
    /// Larger files are not fetched, bytes.
    pub file_bytes_max: u64,
    /// How long a server may send next to nothing.
    pub stall: Duration,
    /// How long a file may take.
    pub file_time: Duration,
}

impl DebuginfodOptions {
    /// What the environment says to all clients: `DEBUGINFOD_URLS`, `DEBUGINFOD_CACHE_PATH`,
    /// `DEBUGINFOD_TIMEOUT`, `DEBUGINFOD_MAXTIME` and `DEBUGINFOD_MAXSIZE`.
    ///
    /// # Errors
    ///
    /// It names no server, or nothing says where files are kept.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, DebuginfodError> {
        let urls = variable("DEBUGINFOD_URLS").unwrap_or_default();
        // Other words in it are for other clients.
        let servers: Vec<String> =
            urls.to_string_lossy().split_whitespace().filter_map(server).collect();
        if servers.is_empty() {
            return Err(DebuginfodError::NoServer);
        }
        let caches = folder(&variable, "XDG_CACHE_HOME")
            .or_else(|| Some(folder(&variable, "HOME")?.join(".cache")));
        let cache = folder(&variable, "DEBUGINFOD_CACHE_PATH")
            .or_else(|| Some(caches?.join("debuginfod_client")))
            .ok_or(DebuginfodError::NoCache)?;
        let most = number(&variable, "DEBUGINFOD_MAXSIZE");
        Ok(Self {
            servers,
            cache,
            file_bytes_max: most.map_or(2 << 30, |most| most.min(2 << 30)),
            stall: seconds(&variable, "DEBUGINFOD_TIMEOUT", 30),
            file_time: seconds(&variable, "DEBUGINFOD_MAXTIME", 600),
        })
    }
}

fn folder(variable: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

fn number(variable: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<u64> {
    variable(name)?.to_str()?.trim().parse().ok().filter(|number| *number > 0)
}

/// As many as the variable says, which are no more than usual.
fn seconds(variable: &impl Fn(&str) -> Option<OsString>, name: &str, usual: u64) -> Duration {
    Duration::from_secs(number(variable, name).map_or(usual, |number| number.min(usual)))
}

fn server(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let is_server = lower.starts_with("https://") || lower.starts_with("http://");
    is_server.then(|| word.trim_end_matches('/').to_owned())
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum DebuginfodError {
    /// No server is named.
    #[error(
        "DEBUGINFOD_URLS names no server that begins with https:// or http://, such as \
         https://debuginfod.elfutils.org"
    )]
    NoServer,
    /// Nothing says where files are kept.
    #[error("DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME or HOME has to say where files are kept")]
    NoCache,
    /// No server has the file.
    #[error("no server has it")]
    Absent,
    /// All servers failed before.
    #[error("every server failed before")]
    NoServerLeft,
    /// A server failed, in words; it is not asked again.
    #[error("{0}")]
    Failed(String),
    /// The cache cannot be written.
    #[error("cannot write to {path}: {source}")]
    Cache {
        /// What was to be written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn cannot_write(path: &Path, source: io::Error) -> DebuginfodError {
    DebuginfodError::Cache { path: path.to_owned(), source }
}

/// A file that a server has, or once had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes that were fetched; 0 if it was there.
    pub fetched: u64,
}

/// Asks servers for debug files.
#[derive(Debug)]
pub struct Debuginfod {
    options: DebuginfodOptions,
    /// Servers that have not failed yet.
    servers: Vec<String>,
}

impl Debuginfod {
    /// Asks nobody yet.
    pub fn new(options: DebuginfodOptions) -> Self {
        Self { servers: options.servers.clone(), options }
    }

    /// The debug file of a build, from the cache or from the first server that has it, until
    /// `unwanted` says that nobody waits for it.
    ///
    /// # Errors
    ///
    /// Nobody has it; or a server failed, which is told once, and no other has it.
    pub fn fetch(
        &mut self,
        build_id: &BuildId,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<FetchedFile, DebuginfodError> {
        let folder = self.options.cache.join(build_id.to_string());
        let path = folder.join("debuginfo");
        match in_cache(&path, build_id) {
            Some(true) => return Ok(FetchedFile { path, fetched: 0 }),
            Some(false) => return Err(DebuginfodError::Absent),
            None if self.servers.is_empty() => return Err(DebuginfodError::NoServerLeft),
            None => {}
        }
        make_folder(&folder).map_err(|error| cannot_write(&path, error))?;
        let (mut failed, asked) = (Vec::new(), self.servers.clone());
        for server in asked {
            let draft = Draft::create(&folder).map_err(|error| cannot_write(&path, error))?;
            match self.fetch_from(&server, build_id, &draft, unwanted) {
                Ok(fetched) => {
                    draft.publish(&path).map_err(|error| cannot_write(&path, error))?;
                    return Ok(FetchedFile { path, fetched });
                }
                Err(Refusal::Absent) => {}
                Err(Refusal::Failed(_)) if unwanted() => {
                    return Err(DebuginfodError::Failed("abandoned".into()));
                }
                Err(Refusal::Failed(reason)) => {
                    self.servers.retain(|other| *other != server);
                    failed.push(format!("{server} is left: {reason}"));
                }
            }
        }
        if !failed.is_empty() {
            return Err(DebuginfodError::Failed(failed.join("; ")));
        }
        note_absent(&path);
        Err(DebuginfodError::Absent)
    }

    fn fetch_from(
        &self,
        server: &str,
        build_id: &BuildId,
        draft: &Draft,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<u64, Refusal> {
        let DebuginfodOptions { file_bytes_max: bytes, stall, file_time: time, .. } = self.options;
        let address = format!("{server}/buildid/{build_id}/debuginfo");
        let mut file = draft.file.try_clone().map_err(failed)?;
        download(&address, &mut file, DownloadLimits { bytes, stall, time }, unwanted)?;
        if build_id_of(&file).as_ref() != Some(build_id) {
            return Err(Refusal::Failed(format!(
                "{address} is no ELF file with the build id that was asked for"
            )));
        }
        Ok(file.metadata().map_err(failed)?.len())
    }
}

fn failed(error: io::Error) -> Refusal {
    Refusal::Failed(error.to_string())
}

/// Whether a file is there: `Some(false)` if it is known that nobody has it.
fn in_cache(path: &Path, build_id: &BuildId) -> Option<bool> {
    let data = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    if data.len() == 0 {
        let is_new = data.modified().ok()?.elapsed().is_ok_and(|age| age < ABSENT_FOR);
        return is_new.then_some(false);
    }
    let file = File::open(path).ok()?;
    (build_id_of(&file).as_ref() == Some(build_id)).then_some(true)
}

/// That the next one need not ask is no part of the result: if it cannot be kept, it is not.
fn note_absent(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = File::create_new(path);
}

/// For this user alone: which programs somebody looks into is nobody else's business.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// A file that is removed unless it gets its name.
#[derive(Debug)]
struct Draft {
    file: File,
    path: PathBuf,
}

impl Draft {
    fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("debuginfo.{}", std::process::id()));
        // A program of this number that was killed left it.
        let _ = fs::remove_file(&path);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { file, path })
    }

    fn publish(self, path: &Path) -> io::Result<()> {
        // Others that have the cache in use do not write to its files, either.
        let mut permissions = self.file.metadata()?.permissions();
        permissions.set_readonly(true);
        self.file.set_permissions(permissions)?;
        fs::rename(&self.path, path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It may have got its name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> Result<DebuginfodOptions, DebuginfodError> {
        DebuginfodOptions::from_variables(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_environment_says_whom_to_ask_and_where_files_are_kept() {
        assert!(matches!(options(&[("HOME", "/h")]), Err(DebuginfodError::NoServer)));
        let urls = ("DEBUGINFOD_URLS", " https://a/ ima:enforcing file:///b HTTP://c/d ");
        assert!(matches!(options(&[urls]), Err(DebuginfodError::NoCache)));
        let home = options(&[urls, ("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]).unwrap();
        assert_eq!(home.servers, ["https://a", "HTTP://c/d"]);
        assert_eq!(home.cache, Path::new("/h/.cache/debuginfod_client"));
        assert_eq!((home.stall.as_secs(), home.file_time.as_secs()), (30, 600));
        let all = [
            urls,
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
            ("DEBUGINFOD_TIMEOUT", "7"),
            ("DEBUGINFOD_MAXTIME", "0"),
            ("DEBUGINFOD_MAXSIZE", "1000"),
        ];
        let caches = options(&all).unwrap();
        assert_eq!(caches.cache, Path::new("/x/debuginfod_client"));
        assert_eq!((caches.stall.as_secs(), caches.file_time.as_secs()), (7, 600));
        assert_eq!(caches.file_bytes_max, 1000);
        let own = options(&[urls, ("HOME", "/h"), ("DEBUGINFOD_CACHE_PATH", "/own")]).unwrap();
        assert_eq!(own.cache, Path::new("/own"));
    }
}
