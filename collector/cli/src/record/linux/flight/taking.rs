//! Snapshots on their way: each is written and named on a thread of its own.

use super::asked::{AnswerSocket, Asker};
use super::closing::Brought;
use super::folder::SnapshotFolder;
use super::message::Answer;
use super::places::{PlaceNumber, Places, Requester, SnapshotStage};
use super::urgency::{Urgencies, Urgency};
use crate::confine;
use crate::escape::printable;
use crate::output::DraftFile;
use crate::record::backend::finish::{CaptureNaming, Finish, Naming, Read, Unwinding};
use crate::record::files::OutputFiles;
use crate::signals::Abandon;
use crate::terminal::Terminal;
use crate::timings::Timings;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syscollect_capture::{Held, Recorded, SnapshotOrder, SnapshotTaker, TakenSnapshot};
use syscollect_model::SnapshotMark;
use syscollect_store::{CaptureReader, Damage};
use syscollect_symbolize::PinnedFiles;

/// How long it may take to read what is to be named. Whoever asked may still change the file, and
/// so what is read of it.
const LONGEST_READING: Duration = Duration::from_secs(60);
/// How long names are still looked for when the recorder ends,
const LONGEST_NAMING_AT_END: Duration = Duration::from_secs(20);
/// and how long the end waits for snapshots in all.
const LONGEST_END: Duration = Duration::from_secs(30);
/// How often who waits to be named looks whether the recorder ends.
const TICK: Duration = Duration::from_millis(100);

/// How many snapshots there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SnapshotCounts {
    pub(super) taken: u64,
    pub(super) writing: u64,
    pub(super) failed: u64,
}

/// Takes snapshots.
pub(super) struct Snapshots {
    taker: SnapshotTaker,
    abandon: Abandon,
    counts: Mutex<SnapshotCounts>,
    changed: Condvar,
    places: Mutex<Places>,
    place_is_free: Condvar,
    urgencies: Arc<Urgencies>,
    /// The recorder ends: who waits to be named does without.
    is_ending: AtomicBool,
    /// Since when.
    ending: Mutex<Option<Instant>>,
    /// Who is named does without the rest of the names.
    is_naming_over: Arc<AtomicBool>,
}

/// The thread that writes and names a snapshot, and the place that it has until this is dropped.
struct SnapshotThread {
    requester: Requester,
    place: SnapshotPlace,
    urgency: Urgency,
}

impl SnapshotThread {
    /// It is written, and others may be. Waits until it may be named; how long names may be looked
    /// for then, and when that is given up.
    fn wait_for_naming(&mut self) -> (Duration, Abandon) {
        self.place.pass(SnapshotStage::Written);
        let longest = self.urgency.written();
        let waiting = self.urgency.wait();
        let SnapshotPlace { snapshots, number, stage } = &mut self.place;
        let mut places = snapshots.places();
        let does_without = |places: &Places| {
            places.gives_way(*number)
                || snapshots.is_ending.load(Ordering::Relaxed)
                || snapshots.is_abandoned()
        };
        let may_name = loop {
            if does_without(&places) {
                break false;
            }
            if places.may_name(*number) {
                break true;
            }
            let waited = snapshots.place_is_free.wait_timeout(places, TICK);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        if may_name {
            places.pass(*number, SnapshotStage::Naming);
            *stage = SnapshotStage::Naming;
            // The next one may be another's turn.
            snapshots.place_is_free.notify_all();
            return (longest, snapshots.abandon.or_once(&snapshots.is_naming_over));
        }
        drop((places, waiting));
        self.urgency.hurry();
        // It is not even read.
        (Duration::ZERO, self.place.snapshots.abandon.after(Duration::ZERO))
    }
}

/// A place among those that are taken, until this is dropped.
struct SnapshotPlace {
    snapshots: Arc<Snapshots>,
    number: PlaceNumber,
    stage: SnapshotStage,
}

impl SnapshotPlace {
    fn pass(&mut self, to: SnapshotStage) {
        self.snapshots.places().pass(self.number, to);
        self.stage = to;
        self.snapshots.place_is_free.notify_all();
    }
}

impl Drop for SnapshotPlace {
    fn drop(&mut self) {
        if self.stage == SnapshotStage::Naming {
            // Before the next one's turn.
            return_free_memory();
        }
        self.snapshots.places().give_back(self.number);
        self.snapshots.place_is_free.notify_all();
    }
}

/// What came of one.
struct Outcome {
    is_done: bool,
    /// What whoever asked is told.
    answer: Option<(AnswerSocket, Answer)>,
}

impl Outcome {
    fn tell(self) {
        if let Some((socket, answer)) = self.answer {
            socket.send(&answer);
        }
    }
}

/// One that is complete in the folder.
struct PublishedSnapshot {
    path: PathBuf,
    /// What it lacks of the time for which it was taken.
    lacks: Vec<String>,
}

impl fmt::Display for PublishedSnapshot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.path.display())?;
        self.lacks.iter().try_for_each(|lacks| write!(out, "; without {lacks}"))
    }
}

/// One that is being written, until this is dropped.
struct SnapshotInWork {
    snapshots: Arc<Snapshots>,
    is_done: bool,
}

impl Drop for SnapshotInWork {
    fn drop(&mut self) {
        let mut counts = self.snapshots.lock();
        counts.writing -= 1;
        counts.taken += u64::from(self.is_done);
        counts.failed += u64::from(!self.is_done);
        self.snapshots.changed.notify_all();
    }
}

impl Snapshots {
    pub(super) fn new(taker: SnapshotTaker, abandon: Abandon) -> Self {
        keep_little_free_memory();
        Self {
            taker,
            abandon,
            counts: Mutex::default(),
            changed: Condvar::new(),
            places: Mutex::default(),
            place_is_free: Condvar::new(),
            urgencies: Arc::default(),
            is_ending: AtomicBool::new(false),
            ending: Mutex::default(),
            is_naming_over: Arc::default(),
        }
    }

    /// One is named at a time, whoever wants it: where memory is limited.
    pub(super) fn named_one_by_one(self) -> Self {
        self.places().named_one_by_one();
        self
    }

    /// Something is said on the recording's own track.
    pub(super) fn log(&self, message: String) {
        self.taker.log(message);
    }

    /// What the recording holds.
    pub(super) fn held(&self) -> Held {
        self.taker.held()
    }

    /// The files of what is mapped.
    pub(super) fn pinned(&self) -> Option<PinnedFiles> {
        self.taker.pinned()
    }

    /// Stacks are sent again for who watches.
    pub(super) fn ask_stacks_anew(&self) {
        self.taker.ask_stacks_anew();
    }

    pub(super) fn counts(&self) -> SnapshotCounts {
        *self.lock()
    }

    /// The recorder ends: what waits for names does without, and the others hurry.
    pub(super) fn end_soon(&self) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.get_or_insert_with(Instant::now);
        self.is_ending.store(true, Ordering::Relaxed);
        self.urgencies.hurry();
        self.place_is_free.notify_all();
    }

    /// Waits until none is being written, but not for ever; says how many are left then.
    pub(super) fn wait(&self) {
        self.end_soon();
        let began = *self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let began = began.unwrap_or_else(Instant::now);
        let mut counts = self.lock();
        while counts.writing > 0 && !self.abandon.wanted() {
            let took = began.elapsed();
            if took >= LONGEST_NAMING_AT_END {
                self.is_naming_over.store(true, Ordering::Relaxed);
            }
            if took >= LONGEST_END {
                let left = counts.writing;
                eprint_line!("syscollect: {left} snapshots were not complete: the recorder ends");
                return;
            }
            counts =
                self.changed.wait_timeout(counts, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes one into the file of whoever asked, and answers when it is complete: of that long
    /// before now (nanoseconds), for that reason.
    pub(super) fn take_for(
        self: Arc<Self>,
        asker: Asker,
        file: Brought,
        (last_ns, reason): (Option<u64>, String),
        answer: AnswerSocket,
    ) {
        let mark = SnapshotMark { reason, ..SnapshotMark::default() };
        let last = last_ns.map(Duration::from_nanos);
        let order = SnapshotOrder { last, mark, ..SnapshotOrder::default() };
        self.spawn(asker.into(), move |snapshots, taken| {
            let written = taken.and_then(|thread| snapshots.write(&order, &regular(file)?, thread));
            let answered = match written {
                Ok((recorded, unnamed)) => Answer::Snapshot {
                    duration_ns: recorded.duration.as_nanos() as u64,
                    incomplete: recorded.error,
                    unnamed,
                },
                Err(error) => Answer::Refused { why: crate::message(&error) },
            };
            let is_done = matches!(&answered, Answer::Snapshot { incomplete: None, .. });
            Outcome { is_done, answer: Some((answer, answered)) }
        });
    }

    /// Whether one could be written now.
    pub(super) fn has_place_for(&self, requester: Requester) -> bool {
        self.places().has_one_for(requester)
    }

    /// Whether nobody waits for what is written any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandon.wanted()
    }

    /// Takes one into the folder.
    pub(super) fn take_into_folder(
        self: Arc<Self>,
        folder: &SnapshotFolder,
        order: SnapshotOrder,
        requester: Requester,
    ) {
        let SnapshotMark { reason, trigger, .. } = &order.mark;
        let reason = match trigger.is_empty() {
            true => printable(reason),
            false => format!("trigger {}: {}", printable(trigger), printable(reason)),
        };
        let folder = folder.clone();
        self.spawn(requester, move |snapshots, taken| {
            let published = taken.and_then(|thread| snapshots.publish(&order, &folder, thread));
            let is_done = match published {
                Ok(published) => {
                    snapshots.log(format!("a snapshot was written ({reason})"));
                    eprint_line!("syscollect: snapshot ({reason}): {published}");
                    true
                }
                Err(error) => {
                    let why = crate::message(&error);
                    snapshots.log(format!("no snapshot was written ({reason}): {why}"));
                    eprint_line!("syscollect: no snapshot ({reason}): {why}");
                    false
                }
            };
            Outcome { is_done, answer: None }
        });
    }

    /// Does it on another thread, or tells it here that there is no place for it; counts what came
    /// of it.
    fn spawn(
        self: Arc<Self>,
        requester: Requester,
        work: impl FnOnce(&Self, Result<&mut SnapshotThread>) -> Outcome + Send + 'static,
    ) {
        let taken = self.places().take(requester);
        let number = match taken {
            Ok(number) => number,
            // None has failed.
            Err(why) => return work(&self, Err(anyhow::anyhow!(why))).tell(),
        };
        // One that waits for its names may have to give way.
        self.place_is_free.notify_all();
        let (snapshots, stage) = (Arc::clone(&self), SnapshotStage::Writing);
        let place = SnapshotPlace { snapshots, number, stage };
        self.lock().writing += 1;
        let in_work = SnapshotInWork { snapshots: self, is_done: false };
        let thread = std::thread::Builder::new().name("snapshot".into()).spawn(move || {
            let mut in_work = in_work;
            // It shares threads that open files with the recorder.
            confine::to_naming_a_part();
            let urgency = Urgency::begin(&in_work.snapshots.urgencies, requester);
            let mut thread = SnapshotThread { requester, place, urgency };
            let outcome = work(&in_work.snapshots, Ok(&mut thread));
            in_work.is_done = outcome.is_done;
            // Who is answered may ask for the next one at once.
            drop(thread);
            outcome.tell();
        });
        if let Err(error) = thread {
            eprint_line!("syscollect: no snapshot: cannot start a thread: {error}");
        }
    }

    /// Writes one and names what it can; why names are missing, if so.
    fn write(
        &self,
        order: &SnapshotOrder,
        file: &File,
        thread: &mut SnapshotThread,
    ) -> Result<(Recorded, Option<String>)> {
        let TakenSnapshot { mut recorded, bytes, .. } =
            self.taker.take(order, file.try_clone()?)?;
        if recorded.error.is_some() {
            return Ok((recorded, None));
        }
        let unwinding = Unwinding {
            stacks: std::mem::take(&mut recorded.stacks),
            summary: &mut recorded.summary,
        };
        let pinned = std::mem::take(&mut recorded.pinned);
        let (longest, abandon) = thread.wait_for_naming();
        let abandon = abandon.at_most(LONGEST_READING);
        let naming = CaptureNaming {
            capture: file,
            bundling: None,
            abandon: &abandon,
            terminal: &Terminal::quiet(),
            longest: Some(longest),
            bytes: Some(bytes),
        };
        let unnamed = name(&naming, bytes, pinned, unwinding)?;
        Ok((recorded, unnamed))
    }

    /// Writes one into the folder.
    fn publish(
        &self,
        order: &SnapshotOrder,
        folder: &SnapshotFolder,
        thread: &mut SnapshotThread,
    ) -> Result<PublishedSnapshot> {
        let (files, draft) = folder.draft(&order.mark.trigger, thread.requester)?;
        let finished = self.finish(order, &files, draft, thread);
        // What has no room is not left behind as a file of nothing.
        if !matches!(&finished, Ok((_, None))) {
            folder.settle(&files);
        }
        let (published, error) = finished?;
        match error {
            Some(error) => bail!("{} is incomplete: {error}", published.path.display()),
            None => Ok(published),
        }
    }

    /// Why it is incomplete, if it is, comes with it.
    fn finish(
        &self,
        order: &SnapshotOrder,
        files: &OutputFiles,
        draft: DraftFile,
        thread: &mut SnapshotThread,
    ) -> Result<(PublishedSnapshot, Option<String>)> {
        let taken = self.taker.take(order, draft.file().try_clone()?)?;
        let TakenSnapshot { recorded, lacks, .. } = taken;
        let error = recorded.error.clone();
        let (longest, abandon) = thread.wait_for_naming();
        let finish = Finish {
            files,
            abandon: &abandon,
            terminal: &Terminal::quiet(),
            read: Read::Nothing,
            longest_naming: Some(longest),
            bundling: None,
            is_accounted: false,
        };
        let finished = finish.finish(draft, recorded, &mut Timings::start())?;
        let (path, _) = finished.output.context("it has no file")?;
        Ok((PublishedSnapshot { path, lacks }, error))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, SnapshotCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names what was written into a file that others may write to, too; why names are missing, if so.
///
/// # Errors
///
/// What was written is not what the file has.
fn name(
    naming: &CaptureNaming<'_>,
    bytes: u64,
    pinned: PinnedFiles,
    unwinding: Unwinding<'_>,
) -> Result<Option<String>> {
    let (length, unnamed) = match naming.name(pinned, unwinding, &mut Timings::start())? {
        Naming::Done { session, end, unnamed, .. } => {
            whole(session.reader(), bytes)?;
            (end.length(), unnamed)
        }
        Naming::Unwanted { end, .. } => {
            (end.length(), Some("it could not be read in time".to_owned()))
        }
    };
    let file = naming.capture.try_clone()?;
    whole(&CaptureReader::from_part(file, length)?, length.max(bytes))?;
    Ok(unnamed)
}

/// Refuses a file that has not all of what was written.
fn whole(reader: &CaptureReader, bytes: u64) -> Result<()> {
    // What newer events overwrote is missing from its lanes, and from nobody's file.
    let is_intact = |damage: &Damage| matches!(damage, Damage::Gap { .. });
    let is_whole = reader.valid_length() == bytes && reader.damage().iter().all(is_intact);
    if !is_whole || !reader.is_complete() {
        bail!("somebody else changed the file while the snapshot was written");
    }
    Ok(())
}

/// Has memory that is freed go back to the system, beyond a little: each thread that names has an
/// arena of its own (mallopt(3)), of whose end the allocator keeps up to 64 MiB otherwise, which
/// [`return_free_memory`] does not reach (glibc 2.36).
fn keep_little_free_memory() {
    // SAFETY: these set numbers of the allocator, under its own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}

/// Gives back to the system what naming has freed: the allocator would keep it for the next snapshot,
/// which may be days away.
fn return_free_memory() {
    // SAFETY: it takes no pointers, and whoever allocates meanwhile waits for it, a part of the memory
    // at a time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What was brought, if it is a regular file. To ask takes as long as its file system wants, as
/// closing it does: a snapshot's own thread does both.
fn regular(file: Brought) -> Result<File> {
    let file = file.into_file().filter(|file| file.metadata().is_ok_and(|data| data.is_file()));
    file.context("a snapshot is written into a regular file only")
}

#[cfg(test)]
mod tests {
    use super::super::closing::Closer;
    use super::*;
    use crate::record::backend::tests::fake;
    use syscollect_capture::StacksInMemory;
    use syscollect_model::{RecorderSummary, StopReason};

    /// A snapshot, and how many bytes it has.
    fn capture() -> (tempfile::NamedTempFile, u64) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fake::write_capture(file.as_file(), &[], Some(fake::summary(StopReason::Snapshot)));
        let bytes = file.as_file().metadata().unwrap().len();
        (file, bytes)
    }

    fn named(file: &File, bytes: u64, abandon: &Abandon) -> Result<Option<String>> {
        let mut summary = RecorderSummary::default();
        let unwinding = Unwinding { stacks: StacksInMemory::default(), summary: &mut summary };
        let naming = CaptureNaming {
            capture: file,
            bundling: None,
            abandon,
            terminal: &Terminal::quiet(),
            longest: None,
            bytes: Some(bytes),
        };
        name(&naming, bytes, PinnedFiles::default(), unwinding)
    }

    #[test]
    fn a_snapshot_is_written_into_a_regular_file_only() {
        let closer = Closer::start().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert!(regular(Brought::new(file.into(), &closer)).is_ok());
        let (_reader, writer) = std::io::pipe().unwrap();
        let error = regular(Brought::new(writer.into(), &closer)).unwrap_err();
        assert!(error.to_string().contains("regular file"), "{error}");
    }

    #[test]
    fn a_snapshot_whose_file_is_cut_off_or_overwritten_meanwhile_is_an_error() {
        let (file, bytes) = capture();
        assert_eq!(named(file.as_file(), bytes, &Abandon::default()).unwrap(), None);
        for length in [0, 1, bytes / 2, bytes - 1] {
            let (file, bytes) = capture();
            file.as_file().set_len(length).unwrap();
            assert!(named(file.as_file(), bytes, &Abandon::default()).is_err(), "cut to {length}");
        }
        let (file, bytes) = capture();
        file.as_file().set_len(bytes / 2).unwrap();
        file.as_file().set_len(bytes).unwrap();
        assert!(named(file.as_file(), bytes, &Abandon::default()).is_err());
    }

    #[test]
    fn a_file_that_somebody_makes_endless_is_read_as_far_as_it_was_written() {
        let (file, bytes) = capture();
        file.as_file().set_len(1 << 42).unwrap();
        let began = Instant::now();
        assert_eq!(named(file.as_file(), bytes, &Abandon::default()).unwrap(), None);
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_snapshot_that_has_no_names_says_so() {
        let (file, bytes) = capture();
        let in_no_time = Abandon::default().after(Duration::ZERO);
        let why = named(file.as_file(), bytes, &in_no_time).unwrap().unwrap();
        assert!(why.contains("in time"), "{why}");
        // It takes no more.
        let only_read = File::open(file.path()).unwrap();
        let why = named(&only_read, bytes, &Abandon::default()).unwrap().unwrap();
        assert!(why.contains("capture"), "{why}");
    }
}
