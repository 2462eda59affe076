//! Snapshots on their way: each is written and named on a thread of its own.

use super::asked::{AnswerSocket, Asker};
use super::closing::Brought;
use super::folder::SnapshotFolder;
use super::message::Answer;
use super::places::{Places, Requester};
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
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syscollect_capture::{Held, Recorded, SnapshotOrder, SnapshotTaker, TakenSnapshot};
use syscollect_model::SnapshotMark;
use syscollect_store::{CaptureReader, Damage};
use syscollect_symbolize::PinnedFiles;

/// How long it may take to read what is to be named. Whoever asked may still change the file, and
/// so what is read of it.
const LONGEST_READING: Duration = Duration::from_secs(60);
/// How long the end waits for those.
const LONGEST_END: Duration = Duration::from_secs(60);

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
    places: Mutex<Places>,
    changed: Condvar,
    urgencies: Arc<Urgencies>,
    /// Who names one has this, where memory is limited: what is read of a snapshot to name it may
    /// be as much as the buffer has.
    naming: Option<Mutex<()>>,
}

/// Its turn to be named; with its end what that took is given back.
struct NamingTurn<'a>(Option<MutexGuard<'a, ()>>);

impl Drop for NamingTurn<'_> {
    fn drop(&mut self) {
        // Before the next one's.
        return_free_memory();
        self.0.take();
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

/// One that is being written, until this is dropped.
struct Written {
    snapshots: Arc<Snapshots>,
    /// Whose place it has.
    place: Option<Requester>,
    is_done: bool,
}

impl Written {
    /// Another one may be written.
    fn give_place_back(&mut self) {
        if let Some(requester) = self.place.take() {
            self.snapshots.places().give_back(requester);
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.give_place_back();
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
            places: Mutex::default(),
            changed: Condvar::new(),
            urgencies: Arc::default(),
            naming: None,
        }
    }

    /// One is named at a time, so that all together take no more memory than the largest.
    pub(super) fn named_one_by_one(self) -> Self {
        Self { naming: Some(Mutex::default()), ..self }
    }

    /// Until this is dropped another may have to wait to be named.
    fn naming(&self, urgency: &Urgency) -> NamingTurn<'_> {
        let turn = self.naming.as_ref();
        let _waiting = turn.and_then(|_| urgency.wait());
        NamingTurn(turn.map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner)))
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

    /// Waits until none is being written.
    pub(super) fn wait(&self) {
        let end = Instant::now() + LONGEST_END;
        let mut counts = self.lock();
        while counts.writing > 0 && !self.abandon.wanted() {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            let wait = left.min(Duration::from_millis(100));
            counts =
                self.changed.wait_timeout(counts, wait).unwrap_or_else(PoisonError::into_inner).0;
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
        let order = SnapshotOrder { last: last_ns.map(Duration::from_nanos), mark };
        self.spawn(asker.into(), move |snapshots, taken| {
            let written =
                taken.and_then(|urgency| snapshots.write(&order, &regular(file)?, urgency));
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

    /// Whether one that a trigger takes could be written now.
    pub(super) fn has_place_for_trigger(&self) -> bool {
        self.places().has_one_for(Requester::Trigger)
    }

    /// Whether nobody waits for what is written any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandon.wanted()
    }

    /// Takes one into the folder, which a trigger asks for if it names one.
    pub(super) fn take_into_folder(self: Arc<Self>, folder: &SnapshotFolder, order: SnapshotOrder) {
        let SnapshotMark { reason, trigger, .. } = &order.mark;
        let reason = match trigger.is_empty() {
            true => printable(reason),
            false => format!("trigger {}: {}", printable(trigger), printable(reason)),
        };
        let folder = folder.clone();
        let requester = if trigger.is_empty() { Requester::Owner } else { Requester::Trigger };
        self.spawn(requester, move |snapshots, taken| {
            let published = taken.and_then(|urgency| snapshots.publish(&order, &folder, urgency));
            let is_done = match published {
                Ok(path) => {
                    snapshots.log(format!("a snapshot was written ({reason})"));
                    eprint_line!("syscollect: snapshot ({reason}): {}", path.display());
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
        work: impl FnOnce(&Self, Result<&mut Urgency>) -> Outcome + Send + 'static,
    ) {
        if let Err(why) = self.places().take(requester) {
            // None has failed.
            return work(&self, Err(anyhow::anyhow!(why))).tell();
        }
        self.lock().writing += 1;
        let mut written = Written { snapshots: self, place: Some(requester), is_done: false };
        let thread = std::thread::Builder::new().name("snapshot".into()).spawn(move || {
            // It shares threads that open files with the recorder.
            confine::to_naming_a_part();
            let mut urgency = Urgency::begin(&written.snapshots.urgencies, requester);
            let outcome = work(&written.snapshots, Ok(&mut urgency));
            written.is_done = outcome.is_done;
            // Who is answered may ask for the next one at once.
            written.give_place_back();
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
        urgency: &mut Urgency,
    ) -> Result<(Recorded, Option<String>)> {
        let TakenSnapshot { mut recorded, bytes } = self.taker.take(order, file.try_clone()?)?;
        if recorded.error.is_some() {
            return Ok((recorded, None));
        }
        let unwinding = Unwinding {
            stacks: std::mem::take(&mut recorded.stacks),
            summary: &mut recorded.summary,
        };
        let pinned = std::mem::take(&mut recorded.pinned);
        let longest = urgency.written();
        let _turn = self.naming(urgency);
        let abandon = self.abandon.after(LONGEST_READING);
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

    /// Writes one into the folder; where it is.
    fn publish(
        &self,
        order: &SnapshotOrder,
        folder: &SnapshotFolder,
        urgency: &mut Urgency,
    ) -> Result<PathBuf> {
        let (files, draft) = folder.draft(&order.mark.trigger)?;
        let finished = self.finish(order, &files, draft, urgency);
        // What has no room is not left behind as a file of nothing.
        if !matches!(&finished, Ok((_, None))) {
            folder.remove_if_empty(&files);
        }
        match finished? {
            (path, Some(error)) => bail!("{} is incomplete: {error}", path.display()),
            (path, None) => Ok(path),
        }
    }

    /// Where it is, and why it is incomplete, if it is.
    fn finish(
        &self,
        order: &SnapshotOrder,
        files: &OutputFiles,
        draft: DraftFile,
        urgency: &mut Urgency,
    ) -> Result<(PathBuf, Option<String>)> {
        let recorded = self.taker.take(order, draft.file().try_clone()?)?.recorded;
        let error = recorded.error.clone();
        let finish = Finish {
            files,
            abandon: &self.abandon,
            terminal: &Terminal::quiet(),
            read: Read::Nothing,
            longest_naming: Some(urgency.written()),
            bundling: None,
            is_accounted: false,
        };
        let _turn = self.naming(urgency);
        let finished = finish.finish(draft, recorded, &mut Timings::start())?;
        let (path, _) = finished.output.context("it has no file")?;
        Ok((path, error))
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
