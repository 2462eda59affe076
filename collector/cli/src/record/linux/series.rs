//! A recording in several files (`--rotate`): `x-0001.syscap`, `x-0002.syscap` and so on.
//!
//! A file that is complete is named, published and, when it is one too many, deleted on a thread of
//! its own that goes behind everything else, while the recording goes on.

use super::bundle::Bundling;
use super::files::is_empty;
use super::finish::{Finish, FinishedRecording, Read};
use super::options::Rotate;
use crate::confine;
use crate::format::Format;
use crate::lost::Lost;
use crate::output::DraftFile;
use crate::record::files::{OutputFiles, is_existing};
use crate::signals::Abandon;
use crate::summary::Series as SeriesSummary;
use crate::terminal::Terminal;
use crate::timings::Timings;
use anyhow::{Context, Result, anyhow, bail};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use syscollect_capture::{
    CostAccount, EndedFile, RaisedSession, Recorded, RecordingFiles, Rotation,
};

/// A folder with more files of one name is somebody's mistake.
const MOST_FILES: u32 = 999_999;

/// What is done to each file that is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileCompletion {
    /// What of it is read for losses.
    pub(crate) read: Read,
    /// What of files of code is kept in it.
    pub(crate) bundling: Option<Bundling>,
}

/// The files of a recording, those to come included.
pub(crate) struct Series {
    drafts: Arc<DraftSeries>,
    thread: JoinHandle<KeptFiles>,
}

/// Makes the files, one after another.
struct DraftSeries {
    place: OutputFiles,
    state: Mutex<SeriesState>,
}

#[derive(Default)]
struct SeriesState {
    last_number: u32,
    /// Those that are not published yet, the oldest first; the last one is being written.
    open: VecDeque<(OutputFiles, DraftFile)>,
    /// The thread that names files, once it runs.
    naming_thread: Option<u32>,
}

/// What is kept of the files that are complete.
struct KeptFiles {
    rotate: Rotate,
    files: VecDeque<(OutputFiles, PathBuf, u64)>,
    deleted: usize,
    events: u64,
    lost: Lost,
}

impl Series {
    /// Makes the first file, and what makes the others.
    pub(crate) fn begin(
        place: &OutputFiles,
        rotate: Rotate,
        each: FileCompletion,
        abandon: Abandon,
    ) -> Result<(Self, RecordingFiles)> {
        let drafts = Arc::new(DraftSeries::new(place.clone()));
        let first = drafts.next()?;
        let (sender, ended) = channel();
        let (makes, shows) = (drafts.clone(), drafts.clone());
        let rotation = Rotation {
            every: rotate.every,
            // The file that is written has its part of the room, and the others the rest.
            bytes: rotate.max_bytes.map(|most| most / 4),
            next: Box::new(move || {
                makes.next().map_err(|error| io::Error::other(crate::message(&error)))
            }),
            begun: Box::new(move || shows.show()),
            // Nobody is left to tell where the thread has panicked; the files are there under their
            // draft names.
            ended: Box::new(move |file| drop(sender.send(file))),
        };
        let (of_thread, kept) = (drafts.clone(), KeptFiles::nothing(rotate));
        let thread = std::thread::Builder::new().name("naming".into());
        let thread = thread
            .spawn(move || kept.follow(&ended, &of_thread, each, &abandon))
            .context("cannot start a thread")?;
        Ok((Self { drafts, thread }, RecordingFiles { first, rotation: Some(rotation) }))
    }

    /// The file that was written last, with its place, and what became of those before. To be asked
    /// when the recording has ended.
    pub(crate) fn end(self) -> Result<(OutputFiles, DraftFile, EarlierFiles)> {
        // Nothing goes before it any more, and somebody waits.
        let naming_thread = self.drafts.lock().naming_thread;
        naming_thread.inspect(|thread| set_nice(*thread, 0));
        let kept =
            self.thread.join().map_err(|_| anyhow!("the thread that names files panicked"))?;
        let (place, draft) = self.drafts.take().context("the recording has no file")?;
        Ok((place, draft, EarlierFiles(kept)))
    }

    /// Removes what there is of a recording that did not begin.
    pub(crate) fn discard(self) {
        self.drafts.lock().open.clear();
    }

    /// Keeps what there is of a recording that broke off; where the last file is.
    pub(crate) fn keep(self) -> PathBuf {
        let mut state = self.drafts.lock();
        let mut open = std::mem::take(&mut state.open);
        let SeriesState { last_number, .. } = &mut *state;
        for (place, draft) in &mut open {
            self.drafts.appear(last_number, place, draft);
        }
        let paths: Vec<_> = open.into_iter().map(|(_, draft)| draft.keep()).collect();
        paths.last().cloned().unwrap_or_default()
    }
}

/// The files before the last one.
pub(crate) struct EarlierFiles(KeptFiles);

impl EarlierFiles {
    /// Whether any of them is kept.
    pub(crate) fn has_files(&self) -> bool {
        !self.0.files.is_empty()
    }

    /// The whole recording, whose last file has become this; its place is needed to count it.
    pub(crate) fn and(self, place: OutputFiles, finished: &mut FinishedRecording) -> SeriesSummary {
        let mut kept = self.0;
        let files = kept.files.len();
        kept.add(place, finished, 0);
        let first = kept.files.front().filter(|_| files > 0).map(|(_, path, _)| path.clone());
        // Where nothing lies in the last one, the one before it is.
        if finished.output.is_none()
            && let Some((_, path, bytes)) = kept.files.back()
        {
            (finished.output, finished.bytes) = (Some((path.clone(), Format::Syscap)), *bytes);
        }
        finished.events = kept.events;
        finished.lost = std::mem::take(&mut kept.lost);
        SeriesSummary { first, files: kept.files.len(), deleted: kept.deleted, bytes: kept.bytes() }
    }
}

impl DraftSeries {
    fn new(place: OutputFiles) -> Self {
        // Where somebody took the last one, what is free before it does as well.
        let last_number = Some(place.last_number()).filter(|last| *last < MOST_FILES / 2);
        let state = SeriesState { last_number: last_number.unwrap_or(0), ..SeriesState::default() };
        Self { place, state: Mutex::new(state) }
    }

    /// Makes the next file under the first number that is free: nothing that lies there is
    /// replaced.
    fn next(&self) -> Result<File> {
        let mut state = self.lock();
        while state.last_number < MOST_FILES {
            state.last_number += 1;
            let Some(place) = self.place.numbered(state.last_number) else { continue };
            let draft = place.capture_draft()?;
            let file = draft.file().try_clone()?;
            state.open.push_back((place, draft));
            return Ok(file);
        }
        bail!(
            "all names like {} are taken: name another file with -o",
            self.place.capture.path().display()
        )
    }

    /// The file that was made last takes its name, now that it can be opened. Where another
    /// recorder has taken that meanwhile, it takes the next one that is free.
    fn show(&self) {
        let mut state = self.lock();
        let SeriesState { last_number, open, .. } = &mut *state;
        let Some((place, draft)) = open.back_mut() else { return };
        self.appear(last_number, place, draft);
    }

    fn appear(&self, last_number: &mut u32, place: &mut OutputFiles, draft: &mut DraftFile) {
        loop {
            let error = match draft.appear() {
                Ok(()) => return,
                Err(error) => error,
            };
            let next = is_existing(&error).then(|| {
                (*last_number + 1..=MOST_FILES)
                    .find_map(|number| Some((number, self.place.numbered(number)?)))
            });
            let Some(Some((number, next))) = next else {
                // It is written on, and may get its name when it is complete.
                return eprint_line!("syscollect: {}", crate::message(&error));
            };
            draft.call(next.draft_name());
            (*last_number, *place) = (number, next);
        }
    }

    /// The file that was made first, which has its name by now.
    fn take(&self) -> Option<(OutputFiles, DraftFile)> {
        let mut state = self.lock();
        let (mut place, mut draft) = state.open.pop_front()?;
        self.appear(&mut state.last_number, &mut place, &mut draft);
        Some((place, draft))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SeriesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptFiles {
    fn nothing(rotate: Rotate) -> Self {
        Self { rotate, files: VecDeque::new(), deleted: 0, events: 0, lost: Lost::default() }
    }

    /// Names and publishes what is complete until the recording ends.
    fn follow(
        mut self,
        ended: &Receiver<EndedFile>,
        drafts: &DraftSeries,
        each: FileCompletion,
        abandon: &Abandon,
    ) -> Self {
        // It was started before the recorder gave up anything.
        confine::to_naming_a_part();
        drafts.lock().naming_thread = Some(go_behind());
        let terminal = Terminal::quiet();
        for EndedFile { pinned, stacks, summary, losses, error } in ended {
            let Some((place, draft)) = drafts.take() else { break };
            let path = draft.path();
            if let Some(error) = &error {
                eprint_line!("syscollect: {} is incomplete: {error}", path.display());
            }
            if is_empty(draft.file()) {
                // Dropping the draft removes it.
                self.lost.add(Lost::default().at_least(&losses));
                continue;
            }
            let recorded = Recorded {
                pinned: pinned.recv().unwrap_or_default(),
                stacks,
                duration: Duration::from_nanos(summary.duration_ns),
                attaching: Duration::ZERO,
                priority: RaisedSession::default(),
                summary,
                losses,
                losses_before: Vec::new(),
                records: 0,
                error,
                costs: CostAccount::default(),
            };
            let FileCompletion { read, bundling } = each;
            let finish = Finish {
                files: &place,
                abandon,
                terminal: &terminal,
                read,
                longest_naming: None,
                bundling,
                is_accounted: false,
            };
            match finish.finish(draft, recorded, &mut Timings::start()) {
                // One more is being written.
                Ok(mut finished) => self.add(place, &mut finished, 1),
                Err(error) => {
                    eprint_line!("syscollect: {}: {}", path.display(), crate::message(&error));
                }
            }
        }
        self
    }

    /// Counts a file that is published, and deletes those that are too many beside `open` others.
    fn add(&mut self, place: OutputFiles, finished: &mut FinishedRecording, open: usize) {
        self.events += finished.events;
        self.lost.add(std::mem::take(&mut finished.lost));
        if let Some((path, _)) = &finished.output {
            self.files.push_back((place, path.clone(), finished.bytes));
        }
        while self.files.len() > 1
            && self.is_too_much(open)
            && let Some((place, path, _)) = self.files.pop_front()
        {
            match place.capture.remove() {
                Ok(()) => self.deleted += 1,
                Err(error) => eprint_line!("syscollect: cannot delete {}: {error}", path.display()),
            }
        }
    }

    fn is_too_much(&self, open: usize) -> bool {
        let too_many = self.rotate.keep.is_some_and(|keep| self.files.len() + open > keep);
        // What is being written has a quarter.
        let room = self.rotate.max_bytes.map(|most| if open > 0 { most / 4 * 3 } else { most });
        too_many || room.is_some_and(|room| self.bytes() > room)
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, _, bytes)| bytes).sum()
    }
}

/// The calling thread goes behind everything else, for naming takes seconds of CPU time, and what is
/// recorded goes first; its number.
pub(super) fn go_behind() -> u32 {
    // SAFETY: gettid takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() } as u32;
    set_nice(thread, 19);
    thread
}

/// Sets the nice value of a thread of this process, as far as that is permitted.
fn set_nice(thread: u32, nice: i32) {
    // SAFETY: plain numbers; no memory is involved.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, nice) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use std::fs;

    fn drafts(folder: &std::path::Path) -> DraftSeries {
        let output = folder.join("x.syscap");
        let output = output.to_str().unwrap();
        let arguments = ["syscollect", "--rotate", "10m", "-o", output];
        let options = Cli::try_parse_from(arguments).unwrap().record.finish().unwrap();
        let place = OutputFiles::choose(&options, None).unwrap();
        DraftSeries::new(place)
    }

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_no_name_until_something_lies_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let drafts = drafts(folder.path());
        for number in 1..3 {
            drafts.next().unwrap();
            assert_eq!(names(folder.path()).len(), number - 1, "who is killed now leaves no more");
            drafts.show();
            assert_eq!(names(folder.path())[number - 1], format!("x-000{number}.syscap.partial"));
        }
        let (place, draft) = drafts.take().unwrap();
        draft.publish(&place.capture).unwrap();
        assert_eq!(names(folder.path()), ["x-0001.syscap", "x-0002.syscap.partial"]);
    }

    #[test]
    fn numbers_go_on_behind_those_of_recordings_before() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x-0002.syscap", "x-0004.syscap.partial", "x-9.syscap", "y-0007.syscap"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let drafts = drafts(folder.path());
        for expected in ["x-0005.syscap", "x-0006.syscap"] {
            drafts.next().unwrap();
            drafts.show();
            let (place, draft) = drafts.take().unwrap();
            draft.publish(&place.capture).unwrap();
            assert!(folder.path().join(expected).exists(), "{:?}", names(folder.path()));
        }
    }

    #[test]
    fn a_name_that_another_recorder_took_meanwhile_stays_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let drafts = drafts(folder.path());
        drafts.next().unwrap();
        fs::write(folder.path().join("x-0001.syscap.partial"), "another's").unwrap();
        drafts.show();
        drafts.next().unwrap();
        let (place, draft) = drafts.take().unwrap();
        draft.publish(&place.capture).unwrap();
        // Whatever never held anything has its name when it ends.
        let (place, draft) = drafts.take().unwrap();
        draft.publish(&place.capture).unwrap();
        assert_eq!(
            names(folder.path()),
            ["x-0001.syscap.partial", "x-0002.syscap", "x-0003.syscap"]
        );
        let theirs = fs::read(folder.path().join("x-0001.syscap.partial")).unwrap();
        assert_eq!(theirs, b"another's");
    }
}
