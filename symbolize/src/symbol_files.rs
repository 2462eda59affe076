//! Files with symbols that the user of this program names, found by build id alone: programs that
//! are not stripped, and debug files, wherever they lie below a folder and whatever they are
//! called.

use crate::elf::{Layout, build_id_in};
use crate::link_sections::alt_build_id;
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use syscollect_elf::abi;
use syscollect_model::BuildId;
use syscollect_untrusted_files::{FileLocation, OpenError, OpenedFile, open};

/// How much is looked at below a folder.
#[derive(Clone, Debug)]
pub struct SearchLimits {
    /// Files and folders.
    pub entries: u64,
    /// Folders within folders.
    pub depth: usize,
    /// For how long.
    pub time: Duration,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { entries: 1_000_000, depth: 32, time: Duration::from_secs(60) }
    }
}

/// Why not all below a folder was looked at; what was found before counts all the same.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The folder itself cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file that was named cannot be opened.
    #[error("it cannot be opened: {0}")]
    NotOpened(#[from] OpenError),
    /// There are too many files.
    #[error("only the first {0} files and folders in it were looked at")]
    TooMany(u64),
    /// It took too long.
    #[error("looking for symbols in it took longer than {0:?}, and was left")]
    TooLong(Duration),
    /// Nobody waits for it any more.
    #[error("looking for symbols in it was abandoned")]
    Unwanted,
}

/// Files with symbols, by build id.
///
/// A file is opened again when it is asked for names, and has none if its build id is another one
/// by then.
#[derive(Clone, Debug, Default)]
pub struct SymbolFiles {
    builds: FxHashMap<BuildId, BuildFiles>,
}

/// The files of one build.
#[derive(Clone, Debug, Default)]
struct BuildFiles {
    /// One that has the code itself.
    code: Option<PathBuf>,
    /// The one that knows most names.
    symbols: Option<SymbolFile>,
}

#[derive(Clone, Debug)]
struct SymbolFile {
    path: PathBuf,
    wealth: SymbolWealth,
    /// The build of a file with debug information that it shares with others (dwz).
    supplement: Option<BuildId>,
}

/// Debug information goes before symbols, and more of them before fewer.
type SymbolWealth = (bool, u64);

impl SymbolFiles {
    /// Looks at `path`, or at what lies below it if that is a folder, for files of the builds
    /// `wanted`, until `unwanted` says that nobody waits for it.
    ///
    /// Links to files are followed as long as they stay below `path`; links to folders are not, so
    /// that no walk is endless. Folders within that cannot be read are passed over.
    ///
    /// # Errors
    ///
    /// Why something was not looked at.
    #[expect(
        clippy::disallowed_methods,
        reason = "folders below one that the user names; links to others are not followed"
    )]
    pub fn search(
        &mut self,
        path: &Path,
        wanted: &HashSet<BuildId>,
        limits: &SearchLimits,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<(), SearchError> {
        let opened = match fs::metadata(path)?.is_dir() {
            true => None,
            false => Some(open(&FileLocation::Said(path), None)?),
        };
        if let Some(opened) = opened {
            self.search_file(path.to_owned(), &opened, wanted);
            return Ok(());
        }
        let (begin, mut entries) = (Instant::now(), 0);
        // Where folders keep files by build id, a walk may find too much else before them.
        for place in wanted.iter().flat_map(places_by_build_id) {
            self.search_folder(path, &place, wanted);
        }
        let mut folders = vec![(PathBuf::new(), 0)];
        while let Some((inside, depth)) = folders.pop() {
            let listed = match fs::read_dir(path.join(&inside)) {
                Err(error) if depth == 0 => return Err(error.into()),
                listed => listed.into_iter().flatten().flatten(),
            };
            for entry in listed {
                entries += 1;
                if entries > limits.entries {
                    return Err(SearchError::TooMany(limits.entries));
                } else if begin.elapsed() > limits.time {
                    return Err(SearchError::TooLong(limits.time));
                } else if unwanted() {
                    return Err(SearchError::Unwanted);
                }
                let inside = inside.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && depth < limits.depth => {
                        folders.push((inside, depth + 1));
                    }
                    Ok(kind) if kind.is_file() && !begins_as_elf(&path.join(&inside)) => {}
                    Ok(kind) if kind.is_file() || kind.is_symlink() => {
                        self.search_folder(path, &inside, wanted);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Whether there is a file with symbols of this build.
    pub fn has_symbols_of(&self, build_id: &BuildId) -> bool {
        self.builds.get(build_id).is_some_and(|files| files.symbols.is_some())
    }

    /// Builds of files that those which were found share debug information in (dwz), and that were
    /// not looked for yet, or not found. Without them there are names, but no lines.
    pub fn missing_supplements(&self) -> HashSet<BuildId> {
        let symbols = self.builds.values().filter_map(|files| files.symbols.as_ref());
        let supplements = symbols.filter_map(|file| file.supplement.clone());
        supplements.filter(|build_id| !self.has_symbols_of(build_id)).collect()
    }

    /// The same of one build alone.
    pub fn missing_supplement_of(&self, build_id: &BuildId) -> Option<BuildId> {
        let supplement = self.builds.get(build_id)?.symbols.as_ref()?.supplement.clone();
        supplement.filter(|build_id| !self.has_symbols_of(build_id))
    }

    fn search_folder(&mut self, folder: &Path, inside: &Path, wanted: &HashSet<BuildId>) {
        if let Ok(opened) = open(&FileLocation::Below { folder, path: inside }, None) {
            self.search_file(folder.join(inside), &opened, wanted);
        }
    }

    fn search_file(&mut self, path: PathBuf, opened: &OpenedFile, wanted: &HashSet<BuildId>) {
        let build_id = build_id_in(opened.reader()).filter(|id| wanted.contains(id));
        let Some(build_id) = build_id else { return };
        let Ok(layout) = Layout::read(opened.reader()) else { return };
        let files = self.builds.entry(build_id).or_default();
        if layout.has_code() && files.code.is_none() {
            files.code = Some(path.clone());
        }
        let wealth = (layout.debug_bytes > 0, layout.symbol_bytes);
        if wealth > (false, 0) && files.symbols.as_ref().is_none_or(|known| known.wealth < wealth) {
            let supplement = alt_build_id(opened, &layout);
            files.symbols = Some(SymbolFile { path, wealth, supplement });
        }
    }

    /// The file with the code of a build.
    pub(crate) fn code_of(&self, build_id: &BuildId) -> Option<OpenedFile> {
        open_build(self.builds.get(build_id)?.code.as_ref()?, build_id)
    }

    /// The file that knows most names of a build, and where it lies.
    pub(crate) fn symbols_of(&self, build_id: &BuildId) -> Option<(PathBuf, OpenedFile)> {
        let SymbolFile { path, .. } = self.builds.get(build_id)?.symbols.as_ref()?;
        Some((path.clone(), open_build(path, build_id)?))
    }
}

/// Whether a regular file is worth a look: of most the first bytes say that it is not, which is
/// much quicker to see than it is to open a file that may be anything. Its folder was named by the
/// user, and was listed just now in the same way; where something else has taken the file's place,
/// nothing is waited for.
#[expect(
    clippy::disallowed_methods,
    reason = "listed just now below a folder that the user names; see above"
)]
fn begins_as_elf(path: &Path) -> bool {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    let mut first = [0; 4];
    let read = options.open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == abi::ELFMAG
}

/// Opens a file that was found, if it is still of this build.
fn open_build(path: &Path, build_id: &BuildId) -> Option<OpenedFile> {
    let opened = open(&FileLocation::Said(path), None).ok()?;
    (build_id_in(opened.reader()).as_ref() == Some(build_id)).then_some(opened)
}

/// Where folders of debug files have those of a build: the system's, one of this kind itself, and a
/// cache of what debuginfod servers sent.
fn places_by_build_id(build_id: &BuildId) -> Vec<PathBuf> {
    let digits = build_id.to_string();
    let Some((first, rest)) = digits.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())
    else {
        return Vec::new();
    };
    let paths = [
        format!(".build-id/{first}/{rest}.debug"),
        format!(".build-id/{first}/{rest}"),
        format!("{first}/{rest}.debug"),
        format!("{digits}/debuginfo"),
        format!("{digits}/executable"),
    ];
    paths.into_iter().map(PathBuf::from).collect()
}
