//! The file that a module was mapped from, or another of the same build in its place.

use crate::elf::build_id_in;
use crate::path::{names_a_file, names_a_memory_file, plain_path};
use crate::{ModuleRequest, Options, PinnedFiles, vdso};
use std::ops::Deref;
use std::path::Path;
use syscollect_model::BuildId;
use syscollect_untrusted_files::{FileLocation, OpenedFile, open};

/// A file that is pinned, or was opened for now.
pub(crate) enum CodeFile<'h> {
    Held(&'h OpenedFile),
    Opened(OpenedFile),
}

impl Deref for CodeFile<'_> {
    type Target = OpenedFile;

    fn deref(&self) -> &OpenedFile {
        match self {
            Self::Held(file) => file,
            Self::Opened(file) => file,
        }
    }
}

/// Finds the file of a module: what is pinned, what the user named, what lies at its path now, what
/// the capture has of it.
///
/// # Errors
///
/// In words, why there is none.
pub(crate) fn find<'h>(
    pinned: &'h PinnedFiles,
    options: &'h Options,
    request: &ModuleRequest,
    notes: &mut Vec<String>,
) -> Result<CodeFile<'h>, String> {
    let ModuleRequest { path, build_id, .. } = request;
    if let Some(file) = pinned.opened(path, build_id) {
        return Ok(CodeFile::Held(file));
    }
    if pinned.is_ambiguous(path, build_id) {
        let id = if build_id.is_empty() { "without a" } else { "with one" };
        return Err(format!("several files {id} build id had the path {path}: not named"));
    }
    let named = &options.symbol_files;
    if let Some(file) = named.code_of(build_id) {
        return Ok(CodeFile::Opened(file));
    }
    let kept = options.kept_files.own(path, build_id).map(CodeFile::Held);
    match kept {
        // What lies at the path now may be any file.
        Some(kept) if build_id.is_empty() => return Ok(kept),
        _ => {}
    }
    at_path(path, build_id, notes).or_else(|reason| kept.ok_or(reason)).or_else(|reason| {
        // It does not have the code, but knows where that is to be loaded.
        let symbols = named.symbols_of(build_id).map(|(_, file)| CodeFile::Opened(file));
        symbols.ok_or(reason)
    })
}

/// What lies at the path of a module now, if it is the same build.
fn at_path<'h>(
    path: &str,
    build_id: &BuildId,
    notes: &mut Vec<String>,
) -> Result<CodeFile<'h>, String> {
    if path == vdso::PATH {
        let file = vdso::own().and_then(OpenedFile::made);
        let file = file.map_err(|error| format!("the vDSO cannot be copied: {error}"))?;
        return same_build(file, path, build_id);
    }
    if names_a_memory_file(path) {
        return Err(format!(
            "{path:?} lies in memory alone, as JIT code does, and was not held open: not named"
        ));
    }
    if !names_a_file(path) {
        return Err(format!("{path:?} is memory without a file, such as JIT code: not named"));
    }
    let file = open(&FileLocation::Mapped(Path::new(plain_path(path))), None)
        .map_err(|error| format!("{path} was not held open and cannot be opened: {error}"))?;
    if build_id.is_empty() {
        notes.push(format!(
            "{path} has no recorded build id: named from the file that is there now"
        ));
        return Ok(CodeFile::Opened(file));
    }
    same_build(file, path, build_id)
}

fn same_build<'h>(
    file: OpenedFile,
    path: &str,
    build_id: &BuildId,
) -> Result<CodeFile<'h>, String> {
    match build_id_in(file.reader()) {
        Some(found) if found == *build_id => Ok(CodeFile::Opened(file)),
        Some(found) => {
            Err(format!("{path} is another build now: build id {found}, recorded was {build_id}"))
        }
        None => {
            Err(format!("{path} is another build now: it has no build id, recorded was {build_id}"))
        }
    }
}
