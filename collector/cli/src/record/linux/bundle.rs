//! `record --bundle`: the capture keeps what other machines need to name the files that stacks lead
//! through.

use crate::convert::{self, CaptureEnd};
use crate::escape::printable;
use crate::kept_files::{UnkeptFiles, size_of_files};
use crate::signals::Abandon;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::{Duration, Instant};
use syscollect_playback::UnresolvedModule;
use syscollect_store::{CaptureReader, Definition, FilePartsWriter, KeptFile, StoreError};
use syscollect_symbolize::{
    FileParts, ModuleRequest, Options, PinnedFiles, owner_of_module, parts_of_module,
};
use syscollect_untrusted_files::payer;

/// What has more bytes than so many times the room is not tried: symbols hardly ever become smaller
/// by more than 4.
const BEST_COMPRESSION: u64 = 16;
/// How long files are read for: those that fewer stacks lead through come last.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The same of the files of a user other than root and the one who asks.
const USER_TIME_MAX: Duration = Duration::from_secs(5);
/// Why a file was not kept, or not looked at.
const SLOW: &str = "reading files took too long";
const UNWANTED: &str = "nobody waited for it";

/// How much of files is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bundling {
    /// Bytes of the capture.
    pub(crate) most: u64,
    /// Files are not named here.
    pub(crate) name_later: bool,
}

/// The capture of a recording that has ended.
pub(crate) struct RecordedCapture<'a> {
    pub(crate) file: &'a File,
    pub(crate) reader: &'a CaptureReader,
    /// Where it is written on.
    pub(crate) end: &'a mut CaptureEnd,
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
    Unwanted(&'static str),
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
        pinned: &PinnedFiles,
        capture: RecordedCapture<'_>,
        abandon: &Abandon,
    ) -> Result<Bundled> {
        let RecordedCapture { file, reader, end } = capture;
        let options = convert::naming_options();
        let asked_by = options.asked_by;
        let mut keeper = BundleWriter {
            writer: FilePartsWriter::append(file.try_clone()?, end.length(), reader),
            options,
            room: BundleRoom { free: self.most, spent: BTreeMap::new(), asked_by },
            clock: ReadingTime { begin: Instant::now(), spent: BTreeMap::new(), asked_by },
            abandon,
            contents: HashMap::new(),
            keys: [RandomState::new(), RandomState::new()],
            files: Vec::new(),
        };
        let mut modules = modules;
        modules.retain(|module| !module.kernel && module.memory.is_none());
        modules.sort_by_key(|module| std::cmp::Reverse(module.uses));
        for module in modules {
            keeper.keep(module, pinned).context("cannot add parts of files to the capture")?;
        }
        let BundleWriter { writer, files, .. } = keeper;
        end.move_to(writer.end());
        let reported = Some(Definition::Files(files.clone())).filter(|_| !files.is_empty());
        end.append(file.try_clone()?, reported.into_iter())?;
        Ok(Bundled { files })
    }
}

/// Two hashes of what nobody knows the keys of: who makes a file cannot make it look like another.
type Contents = [u64; 2];

struct BundleWriter<'a> {
    writer: FilePartsWriter,
    options: Options,
    room: BundleRoom,
    clock: ReadingTime,
    abandon: &'a Abandon,
    /// What is in the capture already: containers have the same files under other paths.
    contents: HashMap<Contents, KeptFile>,
    keys: [RandomState; 2],
    files: Vec<KeptFile>,
}

impl BundleWriter<'_> {
    fn keep(&mut self, module: UnresolvedModule, pinned: &PinnedFiles) -> Result<(), StoreError> {
        let request = convert::request(module);
        let begin = Instant::now();
        let owner = owner_of_module(pinned, &request).map(payer);
        let parts = match self.clock.unwanted(owner, begin, self.abandon) {
            Some(reason) => Err(reason.to_owned()),
            None => parts_of_module(pinned, &self.options, &request),
        };
        let parts = match parts {
            Ok(parts) => parts,
            Err(reason) => {
                let ModuleRequest { path, build_id, .. } = request;
                self.files.push(KeptFile { path, build_id, reason, ..KeptFile::default() });
                self.clock.spend(owner, begin.elapsed());
                return Ok(());
            }
        };
        let owner = owner.or_else(|| Some(payer(parts.first()?.owner())));
        for parts in parts {
            let is_debug = parts.is_debug();
            let file = self.add(&parts, &request, begin)?;
            let is_kept = file.chunks > 0;
            self.files.push(file);
            // A debug file does not say where code lay.
            if !is_kept && !is_debug {
                break;
            }
        }
        self.clock.spend(owner, begin.elapsed());
        Ok(())
    }

    fn add(
        &mut self,
        parts: &FileParts,
        request: &ModuleRequest,
        begin: Instant,
    ) -> Result<KeptFile, StoreError> {
        let of_module = KeptFile {
            path: request.path.clone(),
            build_id: request.build_id.clone(),
            debug: parts.is_debug(),
            length: parts.length(),
            bytes: parts.bytes(),
            ..KeptFile::default()
        };
        let owner = payer(parts.owner());
        let most = self.room.of(owner);
        if of_module.bytes / BEST_COMPRESSION > most {
            return Ok(KeptFile { reason: UnkeptFiles::NO_ROOM.into(), ..of_module });
        }
        let mut hashes = self.keys.each_ref().map(BuildHasher::build_hasher);
        hashes.iter_mut().for_each(|hash| hash.write_u64(of_module.length));
        let Self { writer, clock, abandon, .. } = self;
        let added = writer.add::<AddError>(most, |to| {
            parts.read(|offset, bytes| {
                if let Some(reason) = clock.unwanted(Some(owner), begin, abandon) {
                    return Err(AddError::Unwanted(reason));
                }
                for hash in &mut hashes {
                    hash.write_u64(offset);
                    hash.write(bytes);
                }
                to(offset, bytes)
            })
        });
        let added = match added {
            Err(AddError::Capture(error)) => return Err(error),
            Err(AddError::Unwanted(reason)) => {
                return Ok(KeptFile { reason: reason.into(), ..of_module });
            }
            Err(AddError::File(error)) => {
                let reason = format!("it cannot be read: {error}");
                return Ok(KeptFile { reason, ..of_module });
            }
            Ok(None) => return Ok(KeptFile { reason: UnkeptFiles::NO_ROOM.into(), ..of_module }),
            Ok(Some(added)) => added,
        };
        let contents = hashes.map(|hash| hash.finish());
        if let Some(KeptFile { first, chunks, stored, .. }) = self.contents.get(&contents).cloned()
        {
            self.writer.take_back(&added)?;
            return Ok(KeptFile { first, chunks, stored, ..of_module });
        }
        let KeptFile { first, chunks, stored, .. } = added;
        self.room.take(owner, stored);
        self.contents.insert(contents, added);
        Ok(KeptFile { first, chunks, stored, ..of_module })
    }
}

/// Bytes of the capture that files may still take.
#[derive(Debug)]
struct BundleRoom {
    free: u64,
    /// What was taken, by whose files.
    spent: BTreeMap<u32, u64>,
    asked_by: Option<u32>,
}

impl BundleRoom {
    /// How large another file of this user's may be: no user's files have more than they leave to
    /// all others; root's, and those of the user who asks, may have all.
    fn of(&self, owner: u32) -> u64 {
        if owner == 0 || self.asked_by == Some(owner) {
            return self.free;
        }
        let spent = self.spent.get(&owner).copied().unwrap_or(0);
        self.free.saturating_sub(spent) / 2
    }

    fn take(&mut self, owner: u32, bytes: u64) {
        self.free = self.free.saturating_sub(bytes);
        *self.spent.entry(owner).or_default() += bytes;
    }
}

/// For how long files were read.
#[derive(Debug)]
struct ReadingTime {
    begin: Instant,
    /// By whose they are.
    spent: BTreeMap<u32, Duration>,
    asked_by: Option<u32>,
}

impl ReadingTime {
    /// Whether a file of this owner's, on which so much was spent, has no more time.
    fn is_over(&self, owner: Option<u32>, on_this: Duration) -> bool {
        self.begin.elapsed() > TIME_MAX
            || owner.is_some_and(|owner| {
                let spent = self.spent.get(&owner).copied().unwrap_or_default();
                owner != 0 && self.asked_by != Some(owner) && spent + on_this > USER_TIME_MAX
            })
    }

    /// Why a file of this owner's that was begun then is not gone on with.
    fn unwanted(
        &self,
        owner: Option<u32>,
        begin: Instant,
        abandon: &Abandon,
    ) -> Option<&'static str> {
        let is_late = self.is_over(owner, begin.elapsed());
        abandon.wanted().then_some(UNWANTED).or(is_late.then_some(SLOW))
    }

    fn spend(&mut self, owner: Option<u32>, time: Duration) {
        if let Some(owner) = owner {
            *self.spent.entry(owner).or_default() += time;
        }
    }
}

impl Bundled {
    /// What to say of it when the recording has ended.
    pub(crate) fn lines(&self, most: u64) -> Vec<String> {
        let mut lines = vec![format!("kept for naming elsewhere: {}", size_of_files(&self.files))];
        lines.extend(UnkeptFiles::of(&self.files).lines(Some(most)));
        lines.iter().map(|line| printable(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};
    use syscollect_symbolize::build_id_of;

    /// Files that a recording's stacks lead through, and its capture.
    struct Scenario {
        _kept: tempfile::TempDir,
        folder: PathBuf,
        capture: File,
    }

    impl Scenario {
        fn new() -> Self {
            let kept = tempfile::tempdir().unwrap();
            let folder = kept.path().canonicalize().unwrap();
            let capture = syscollect_store::CaptureWriter::create(tempfile::tempfile().unwrap());
            Self { _kept: kept, folder, capture: capture.unwrap().finish().unwrap() }
        }

        /// A copy of this test program with bytes behind its end, in so many stacks.
        fn module(&self, name: &str, uses: u64) -> UnresolvedModule {
            let path = self.folder.join(name);
            fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
            Self::of(&path, uses)
        }

        fn of(path: &Path, uses: u64) -> UnresolvedModule {
            let build_id = build_id_of(&File::open(path).unwrap()).unwrap_or_default();
            UnresolvedModule {
                path: path.to_str().unwrap().into(),
                build_id,
                uses,
                ..UnresolvedModule::default()
            }
        }

        fn reader(&self) -> CaptureReader {
            CaptureReader::from_file(self.capture.try_clone().unwrap()).unwrap()
        }

        fn keep(&self, most: u64, modules: Vec<UnresolvedModule>) -> Vec<String> {
            let reader = self.reader();
            let mut end = CaptureEnd::of(&reader);
            let bundling = Bundling { most, name_later: false };
            let capture = RecordedCapture { file: &self.capture, reader: &reader, end: &mut end };
            let pinned = PinnedFiles::new();
            let bundled = bundling.keep(modules, &pinned, capture, &Abandon::default()).unwrap();
            assert_eq!(self.capture.metadata().unwrap().len(), end.length());
            bundled.lines(most)
        }

        /// Names of files, and what each takes of the capture.
        fn kept(&self) -> Vec<(String, u64)> {
            let own = self.reader().files().filter(|file| !file.debug).collect::<Vec<_>>();
            own.iter().map(|file| (file_name(&file.path), file.stored)).collect()
        }
    }

    fn file_name(path: &str) -> String {
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_most_stacks_lead_through_comes_first_and_what_has_no_room_is_told() {
        let scenario = Scenario::new();
        let all = Scenario::new();
        all.keep(u64::MAX, vec![all.module("busy", 1)]);
        let size = all.kept()[0].1;
        let libc = libc();
        let modules = vec![
            scenario.module("rare", 1),
            UnresolvedModule { uses: 5, ..Scenario::of(&libc, 5) },
            // Files are told apart by what is in them, so that this one is not the other.
            altered(&scenario.module("busy", 900)),
            UnresolvedModule { kernel: true, uses: 10_000, ..UnresolvedModule::default() },
        ];
        let lines = scenario.keep(size + size / 2, modules);
        let kept = scenario.kept();
        assert_eq!(kept[0].0, "busy");
        assert_eq!(kept[2], ("rare".into(), 0), "{kept:?}");
        assert!(kept[1].1 > 0, "a small one has room where a large one has none: {kept:?}");
        let text = lines.join("\n");
        for part in [
            "symbols of 2 files",
            "not kept: 1 file",
            "/rare, ",
            ": no room",
            "--bundle-size (now ",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(scenario.reader().damage().is_empty());
    }

    /// Another file, of the same build.
    fn altered(module: &UnresolvedModule) -> UnresolvedModule {
        let file = File::options().append(true).open(&module.path).unwrap();
        io::Write::write_all(&mut &file, b"behind its end").unwrap();
        module.clone()
    }

    fn libc() -> PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
        let libc = paths.map(PathBuf::from).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc"))
        });
        libc.unwrap()
    }

    #[test]
    fn one_file_at_two_paths_lies_in_the_capture_once() {
        let scenario = Scenario::new();
        let modules = vec![scenario.module("one", 2), scenario.module("other", 1)];
        let lines = scenario.keep(u64::MAX, modules);
        let files: Vec<_> = scenario.reader().files().filter(|file| !file.debug).collect();
        assert_eq!((files.len(), files[0].first), (2, files[1].first));
        assert!(lines[0].contains("symbols of 2 files"), "{lines:?}");
        let length = scenario.capture.metadata().unwrap().len();
        assert!(length < files[0].stored + files[0].stored / 2, "{length}, {}", files[0].stored);
        let reader = scenario.reader();
        assert!(reader.damage().is_empty());
        assert!(files.iter().all(|file| reader.file_parts(file).all(|part| part.is_ok())));
    }

    #[test]
    fn files_that_are_gone_are_told_and_keep_nothing_else_from_being_kept() {
        let scenario = Scenario::new();
        let gone = scenario.module("gone", 7);
        fs::remove_file(&gone.path).unwrap();
        let lines = scenario.keep(u64::MAX, vec![gone, scenario.module("there", 1)]).join("\n");
        assert!(lines.contains("/gone: ") && lines.contains("cannot be opened"), "{lines}");
        assert!(!lines.contains("--bundle-size"), "more room is of no use: {lines}");
        assert!(scenario.kept().iter().any(|(name, stored)| name == "there" && *stored > 0));
    }

    #[test]
    fn a_users_files_are_read_for_a_while_and_roots_as_long_as_there_is_time() {
        let (begin, asked_by) = (Instant::now(), Some(1000));
        let mut clock = ReadingTime { begin, spent: BTreeMap::new(), asked_by };
        let seconds = Duration::from_secs;
        for owner in [0, 1000, 1001] {
            clock.spend(Some(owner), seconds(4));
            assert!(!clock.is_over(Some(owner), seconds(1)));
            assert_eq!(clock.is_over(Some(owner), seconds(2)), owner == 1001);
        }
        assert!(!clock.is_over(Some(1002), seconds(2)) && !clock.is_over(None, seconds(9)));
        clock.begin -= TIME_MAX;
        assert!([Some(0), Some(1002), None].iter().all(|owner| clock.is_over(*owner, seconds(0))));
    }

    #[test]
    fn no_users_files_have_more_than_they_leave() {
        let mut room = BundleRoom { free: 100, spent: BTreeMap::new(), asked_by: Some(1000) };
        assert_eq!([0, 1000, 1001].map(|owner| room.of(owner)), [100, 100, 50]);
        room.take(1001, 40);
        assert_eq!([0, 1001, 1002].map(|owner| room.of(owner)), [60, 10, 30]);
        room.take(1001, 10);
        assert_eq!([0, 1001, 1002].map(|owner| room.of(owner)), [50, 0, 25]);
        room.take(0, 50);
        assert_eq!([0, 1000, 1002].map(|owner| room.of(owner)), [0, 0, 0]);
    }
}
