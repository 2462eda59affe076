//! `record --bundle`: the capture keeps what other machines need to name the files that stacks lead
//! through.

use crate::convert::{self, CaptureEnd};
use crate::escape::printable;
use crate::kept_files::{NotKept, size_of_files};
use crate::signals::Abandon;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::{Duration, Instant};
use syscollect_model::BuildId;
use syscollect_playback::UnresolvedModule;
use syscollect_store::{CaptureReader, Definition, FilePartsWriter, KeptFile, StoreError};
use syscollect_symbolize::{FileParts, Options, PinnedFiles, parts_of_module};
use syscollect_untrusted_files::payer;

/// LZ4 makes no parts of files smaller than this, so what has more bytes than that is not tried.
const BEST_COMPRESSION: u64 = 16;
/// How long files are read for: those that fewer stacks lead through come last.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How much of files is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bundling {
    /// Bytes of the capture.
    pub(crate) most: u64,
    /// Files are not named here.
    pub(crate) name_later: bool,
}

/// What was kept.
#[derive(Debug, Default)]
pub(crate) struct Bundled {
    files: Vec<KeptFile>,
}

/// A file was not kept, or the capture cannot be written.
#[derive(Debug)]
enum AddError {
    File(io::Error),
    Capture(StoreError),
}

impl From<io::Error> for AddError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<StoreError> for AddError {
    fn from(error: StoreError) -> Self {
        Self::Capture(error)
    }
}

impl Bundling {
    /// Keeps what `modules` need in the capture that ends at `end`, those that most stacks lead
    /// through first.
    ///
    /// # Errors
    ///
    /// The capture cannot be written; it is whole up to `end`.
    pub(crate) fn keep(
        self,
        modules: Vec<UnresolvedModule>,
        held: &PinnedFiles,
        (capture, reader, end): (&File, &CaptureReader, &mut CaptureEnd),
        abandon: &Abandon,
    ) -> Result<Bundled> {
        let mut keeper = Keeper {
            writer: FilePartsWriter::append(capture.try_clone()?, end.length(), reader),
            options: convert::naming_options(),
            room: self.most,
            spent: BTreeMap::new(),
            contents: HashMap::new(),
            keys: [RandomState::new(), RandomState::new()],
            files: Vec::new(),
        };
        let mut modules = modules;
        modules.retain(|module| !module.kernel && module.memory.is_none());
        modules.sort_by_key(|module| std::cmp::Reverse(module.uses));
        let begin = Instant::now();
        for module in modules {
            let reason = if abandon.wanted() {
                "nobody waited for it"
            } else if begin.elapsed() > TIME_MAX {
                "reading files took too long"
            } else {
                keeper.keep(module, held).context("cannot add parts of files to the capture")?;
                continue;
            };
            let UnresolvedModule { path, build_id, .. } = module;
            let reason = reason.into();
            keeper.files.push(KeptFile { path, build_id, reason, ..KeptFile::default() });
        }
        let Keeper { writer, files, .. } = keeper;
        end.move_to(writer.end());
        let told = Some(Definition::Files(files.clone())).filter(|_| !files.is_empty());
        end.append(capture.try_clone()?, told.into_iter())?;
        Ok(Bundled { files })
    }
}

/// Two hashes of what nobody knows the keys of: who makes a file cannot make it look like another.
type Contents = [u64; 2];

struct Keeper {
    writer: FilePartsWriter,
    options: Options,
    room: u64,
    /// Of the room, by whose files.
    spent: BTreeMap<u32, u64>,
    /// What is in the capture already: containers have the same files under other paths.
    contents: HashMap<Contents, KeptFile>,
    keys: [RandomState; 2],
    files: Vec<KeptFile>,
}

impl Keeper {
    fn keep(&mut self, module: UnresolvedModule, held: &PinnedFiles) -> Result<(), StoreError> {
        let request = convert::request(module);
        let (path, build_id) = (&request.path, &request.build_id);
        let parts = match parts_of_module(held, &self.options, &request) {
            Ok(parts) => parts,
            Err(reason) => {
                let (path, build_id) = (path.clone(), build_id.clone());
                self.files.push(KeptFile { path, build_id, reason, ..KeptFile::default() });
                return Ok(());
            }
        };
        for parts in parts {
            let is_debug = parts.is_debug();
            let file = self.add(&parts, path, build_id)?;
            let is_kept = file.chunks > 0;
            self.files.push(file);
            // A debug file does not say where code lay.
            if !is_kept && !is_debug {
                break;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        parts: &FileParts,
        path: &str,
        build_id: &BuildId,
    ) -> Result<KeptFile, StoreError> {
        let of_module = KeptFile {
            path: path.to_owned(),
            build_id: build_id.clone(),
            debug: parts.is_debug(),
            length: parts.length(),
            bytes: parts.bytes(),
            ..KeptFile::default()
        };
        let not_kept = |reason: String| KeptFile { reason, ..of_module.clone() };
        let owner = payer(parts.owner());
        let most = self.room_of(owner);
        if of_module.bytes / BEST_COMPRESSION > most {
            return Ok(not_kept(NotKept::NO_ROOM.into()));
        }
        let mut hashes = self.keys.each_ref().map(BuildHasher::build_hasher);
        hashes.iter_mut().for_each(|hash| hash.write_u64(of_module.length));
        let added = self.writer.add::<AddError>(most, |to| {
            parts.read(&mut |offset, bytes| {
                for hash in &mut hashes {
                    hash.write_u64(offset);
                    hash.write(bytes);
                }
                to(offset, bytes)
            })
        });
        let added = match added {
            Err(AddError::Capture(error)) => return Err(error),
            Err(AddError::File(error)) => {
                return Ok(not_kept(format!("it cannot be read: {error}")));
            }
            Ok(None) => return Ok(not_kept(NotKept::NO_ROOM.into())),
            Ok(Some(added)) => added,
        };
        let contents = hashes.map(|hash| hash.finish());
        if let Some(KeptFile { first, chunks, stored, .. }) = self.contents.get(&contents).cloned()
        {
            self.writer.take_back(&added)?;
            return Ok(KeptFile { first, chunks, stored, ..of_module });
        }
        let KeptFile { first, chunks, stored, .. } = added;
        self.room = self.room.saturating_sub(stored);
        *self.spent.entry(owner).or_default() += stored;
        self.contents.insert(contents, added);
        Ok(KeptFile { first, chunks, stored, ..of_module })
    }

    /// What may be kept of another file of this user's: no user's files have more than they leave to
    /// all others; root's, and those of the user who asks, may have all.
    fn room_of(&self, owner: u32) -> u64 {
        if owner == 0 || self.options.asked_by == Some(owner) {
            return self.room;
        }
        let spent = self.spent.get(&owner).copied().unwrap_or(0);
        self.room.saturating_sub(spent) / 2
    }
}

impl Bundled {
    /// What to say of it when the recording has ended.
    pub(crate) fn lines(&self, most: u64) -> Vec<String> {
        let mut lines = vec![format!("kept for naming elsewhere: {}", size_of_files(&self.files))];
        lines.extend(NotKept::of(&self.files).lines(Some(most)));
        lines.iter().map(|line| printable(line)).collect()
    }
}
