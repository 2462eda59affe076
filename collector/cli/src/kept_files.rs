//! What a capture has of files of code: said, and read for naming.

use std::collections::HashSet;
use std::io;
use syscollect_model::{bytes, grouped};
use syscollect_store::{CaptureReader, KeptFile};
use syscollect_symbolize::{KeptFileError, KeptFiles, KeptModule, ModuleRequest};

/// So many files are told of one by one.
const TOLD_MAX: usize = 10;

/// Reads what `reader` has of the modules of `requests`, within so many bytes of memory; says of
/// which it cannot be used.
pub(crate) fn read(reader: &CaptureReader, requests: &[ModuleRequest], most: u64) -> KeptFiles {
    let mut kept = KeptFiles::within(most);
    let wanted: HashSet<_> =
        requests.iter().map(|request| (request.path.as_str(), &request.build_id)).collect();
    let files: Vec<KeptFile> = reader.files().collect();
    // A capture may name one file any number of times: the first counts.
    let mut seen = HashSet::new();
    for file in files.iter().filter(|file| file.chunks > 0) {
        let KeptFile { path, build_id, debug, length, .. } = file;
        let is_wanted = wanted.contains(&(path.as_str(), build_id));
        if !is_wanted || !seen.insert((path.as_str(), build_id, *debug)) {
            continue;
        }
        let module = KeptModule { path, build_id, debug: *debug, length: *length };
        let parts = reader
            .file_parts(file)
            .map(|part| part.map(|part| (part.offset, part.bytes)).map_err(io::Error::other));
        if let Err(error) = kept.add(module, parts) {
            let why = match &error {
                KeptFileError::TooLarge(_) => "",
                _ => "; --symbols names a folder with files of its build",
            };
            let line = format!("what the capture has of {path} is not used: {error}{why}");
            eprint_line!("syscollect: {}", crate::escape::printable(&line));
        }
    }
    kept
}

/// The modules without a build id of which `reader` has something: they are known by their paths,
/// as in this capture alone.
pub(crate) fn without_build_id(reader: &CaptureReader) -> HashSet<String> {
    let kept = reader.files().filter(|file| file.chunks > 0 && file.build_id.is_empty());
    kept.map(|file| file.path).collect()
}

/// How many files there are parts of, and how large these are.
pub(crate) fn size_of_files(files: &[KeptFile]) -> String {
    let kept = files.iter().filter(|file| file.chunks > 0);
    let mut first = HashSet::new();
    let (mut count, mut stored) = (0, 0_u64);
    for file in kept {
        count += u64::from(!file.debug);
        // Files with the same content lie there once.
        if first.insert(file.first) {
            stored = stored.saturating_add(file.stored);
        }
    }
    format!("symbols of {}, {} of the capture", count_of(count), bytes(stored))
}

fn count_of(files: u64) -> String {
    if files == 1 { "1 file".into() } else { format!("{} files", grouped(files)) }
}

/// Files of which nothing was kept.
pub(crate) struct UnkeptFiles<'a>(Vec<&'a KeptFile>);

impl<'a> UnkeptFiles<'a> {
    /// Why a file was not kept for which there was no room.
    pub(crate) const NO_ROOM: &'static str = "no room";

    pub(crate) fn of(files: &'a [KeptFile]) -> Self {
        Self(files.iter().filter(|file| file.chunks == 0).collect())
    }

    /// What is missing, by name, and what would help; `most` is the limit, where that is known.
    pub(crate) fn lines(&self, most: Option<u64>) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![format!("not kept: {}", count_of(self.0.len() as u64))];
        lines.extend(self.0.iter().take(TOLD_MAX).map(|file| {
            let size =
                if file.bytes > 0 { format!(", {}", bytes(file.bytes)) } else { String::new() };
            format!("  {}{size}: {}", file.path, file.reason)
        }));
        if let Some(more) = self.0.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            lines.push(format!("  and {more} more: `syscollect info --json` lists them all"));
        }
        if self.0.iter().any(|file| file.reason == Self::NO_ROOM) {
            let limit = most.map_or(String::new(), |most| format!(" (now {})", bytes(most)));
            lines.push(format!(
                "more room: --bundle-size{limit}; or name the rest elsewhere with \
                 `syscollect symbolize --symbols DIR`"
            ));
        }
        lines
    }
}
