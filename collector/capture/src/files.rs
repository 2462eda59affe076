//! The files of a recording, one after another: written on the writer thread.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syscollect_model::{Lane, LossCause, RecorderSummary};
use syscollect_store::{
    CaptureWriter, Definition, EMPTY_CAPTURE_BYTES, LaneLoss, LostRecord, StoreError, TraceBuffer,
    drain_to,
};
use syscollect_symbolize::PinnedFiles;

use crate::disk_reserve::{DiskReserve, cut_off};
use crate::priority::{FirstForPart, FirstParts};
use crate::unwind::StacksInMemory;

/// How long the writer sleeps at most where nothing comes.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Where a recording goes.
pub struct RecordingFiles {
    /// The first file, or the only one.
    pub first: File,
    /// How it goes on in others.
    pub rotation: Option<Rotation>,
}

impl From<File> for RecordingFiles {
    fn from(first: File) -> Self {
        Self { first, rotation: None }
    }
}

/// How a recording goes on in other files.
pub struct Rotation {
    /// A file ends when this time has passed,
    pub every: Duration,
    /// or when it has so many bytes.
    pub bytes: Option<u64>,
    /// Makes the next file. Called on the writer thread, which may wait for a disk.
    pub next: Box<dyn FnMut() -> io::Result<File> + Send>,
    /// Hears of each file, the first included, when something lies in it: it can be opened. Called
    /// on the writer thread.
    pub begun: Box<dyn FnMut() + Send>,
    /// Takes each file that is complete while the recording goes on, in their order. Called on the
    /// writer thread.
    pub ended: Box<dyn FnMut(EndedFile) + Send>,
}

/// A file that is complete while the recording goes on.
pub struct EndedFile {
    /// Gives the files that were mapped meanwhile, still open, for naming addresses.
    pub pinned: Receiver<PinnedFiles>,
    /// Stacks as they lay in memory, whose tables were not made when they were recorded.
    pub stacks: StacksInMemory,
    /// What the file says of the recorder.
    pub summary: RecorderSummary,
    /// What was lost of it.
    pub losses: Vec<LaneLoss>,
    /// Why its end is not in the file (a full disk), if so.
    pub error: Option<String>,
}

/// What the collector says of a file that it has ended.
pub(crate) struct FileEnd {
    pub(crate) pinned: Receiver<PinnedFiles>,
    pub(crate) stacks: StacksInMemory,
    pub(crate) summary: RecorderSummary,
    /// What was lost before the trace buffer.
    pub(crate) losses: Vec<LaneLoss>,
}

/// A file that the collector has begun: what goes into it, and what is said at its end. The sender
/// of that is dropped when it is the last one.
pub(crate) struct BegunFile {
    pub(crate) buffer: Arc<TraceBuffer>,
    pub(crate) end: Receiver<FileEnd>,
}

/// What is known of the files while they are written.
#[derive(Default)]
pub(crate) struct FileAccount {
    /// Bytes of the present file.
    pub(crate) written: Arc<AtomicU64>,
    /// Bytes of all files.
    pub(crate) written_in_all: Arc<AtomicU64>,
    /// What was lost of those that are complete.
    losses: Mutex<Vec<LaneLoss>>,
}

impl FileAccount {
    /// What was lost of the files that are complete.
    pub(crate) fn losses(&self) -> Vec<LaneLoss> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lost(&self, losses: &[LaneLoss]) {
        let mut all = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        add_losses(&mut all, losses);
    }

    /// A file whose bytes are counted here.
    fn output(&self, file: Option<File>, begun: Option<Begun>) -> Output {
        self.written.store(0, Ordering::Relaxed);
        Output {
            reserve: file.as_ref().and_then(DiskReserve::take),
            file,
            begun,
            written: self.written.clone(),
            written_in_all: self.written_in_all.clone(),
        }
    }
}

/// Adds losses to others of the same place and cause.
fn add_losses(all: &mut Vec<LaneLoss>, more: &[LaneLoss]) {
    for loss in more {
        match all.iter_mut().find(|known| is_same_place(known, loss)) {
            Some(known) => known.count = known.count.saturating_add(loss.count),
            None => all.push(loss.clone()),
        }
    }
}

/// What of these losses came after those were counted.
pub(crate) fn losses_since(all: &[LaneLoss], before: &[LaneLoss]) -> Vec<LaneLoss> {
    let since = all.iter().map(|loss| LaneLoss {
        count: loss.count.saturating_sub(known_count(before, loss)),
        ..loss.clone()
    });
    since.filter(|loss| loss.count > 0).collect()
}

fn known_count(before: &[LaneLoss], loss: &LaneLoss) -> u64 {
    before.iter().find(|known| is_same_place(known, loss)).map_or(0, |known| known.count)
}

fn is_same_place(one: &LaneLoss, other: &LaneLoss) -> bool {
    (&one.origin, one.cpu, &one.record, one.cause, one.user)
        == (&other.origin, other.cpu, &other.record, other.cause, other.user)
}

/// What a trace buffer lost of a lane.
pub(crate) fn buffer_loss(lane: Lane, cause: LossCause, count: u64) -> LaneLoss {
    let cpu = lane.cpu().map(|cpu| cpu.number);
    let origin = lane.kind.into();
    LaneLoss { origin, cpu, record: LostRecord::Any, cause, user: None, count }
}

/// Hears of files in which something lies.
type Begun = Arc<Mutex<Box<dyn FnMut() + Send>>>;

/// A file whose bytes are counted, or none: then everything is refused, as by a full disk.
pub(crate) struct Output {
    file: Option<File>,
    /// For the end of the file.
    reserve: Option<DiskReserve>,
    /// Who is told when something lies in it; `None` when that was done.
    begun: Option<Begun>,
    written: Arc<AtomicU64>,
    written_in_all: Arc<AtomicU64>,
}

impl Output {
    /// There is room for the end, which comes after so many bytes.
    fn make_room(&mut self, written: u64) {
        self.reserve = None;
        if let Some(file) = &mut self.file {
            cut_off(file, written);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("the file could not be created"));
        };
        let count = file.write(bytes)?;
        let before = self.written.fetch_add(count as u64, Ordering::Relaxed);
        self.written_in_all.fetch_add(count as u64, Ordering::Relaxed);
        if before + count as u64 > EMPTY_CAPTURE_BYTES
            && let Some(begun) = self.begun.take()
        {
            begun.lock().unwrap_or_else(PoisonError::into_inner)();
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// The last file, whose end the recording itself writes.
pub(crate) struct LastFile {
    pub(crate) buffer: Arc<TraceBuffer>,
    pub(crate) writer: CaptureWriter<Output>,
    /// The first thing that went wrong, in any file.
    pub(crate) written: Result<(), StoreError>,
}

/// The writer thread's work.
pub(crate) struct Files {
    begun: Receiver<BegunFile>,
    account: Arc<FileAccount>,
    rotation: Option<FileSuccession>,
    writer: Option<CaptureWriter<Output>>,
}

/// What is called as one file follows another.
struct FileSuccession {
    next: Box<dyn FnMut() -> io::Result<File> + Send>,
    begun: Begun,
    ended: Box<dyn FnMut(EndedFile) + Send>,
}

impl Files {
    /// Creates the first file; `begun` tells of each, the first included.
    pub(crate) fn create(
        files: RecordingFiles,
        begun: Receiver<BegunFile>,
        account: Arc<FileAccount>,
    ) -> Result<Self, StoreError> {
        let RecordingFiles { first, rotation } = files;
        let rotation = rotation.map(|Rotation { next, begun, ended, .. }| FileSuccession {
            next,
            begun: Arc::new(Mutex::new(begun)),
            ended,
        });
        let reported = rotation.as_ref().map(|rotation| rotation.begun.clone());
        let writer = CaptureWriter::create(account.output(Some(first), reported))?;
        Ok(Self { begun, account, rotation, writer: Some(writer) })
    }

    /// Writes the files as they are begun; returns with the last one.
    ///
    /// Returns `None` only where the collector ended without having begun one.
    pub(crate) fn write(mut self) -> Option<LastFile> {
        let mut first_error = Ok(());
        let mut priority = FirstForPart::begin(FirstParts::WRITING);
        let mut longest_wait = || {
            priority.follow();
            priority.wait().map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT))
        };
        loop {
            let BegunFile { buffer, end } = self.begun.recv().ok()?;
            let mut writer = self.writer.take()?;
            let written = drain_to(&buffer, &mut writer, &mut longest_wait);
            let Ok(end) = end.recv() else {
                return Some(LastFile { buffer, writer, written: first_error.and(written) });
            };
            let FileEnd { pinned, stacks, summary, mut losses } = end;
            losses.extend(
                buffer
                    .losses()
                    .into_iter()
                    .map(|(lane, cause, count)| buffer_loss(lane, cause, count)),
            );
            self.account.lost(&losses);
            let written = complete(writer, written, &losses, &summary);
            let error = written.as_ref().err().map(ToString::to_string);
            let (next, could) = self.next_file();
            self.writer = Some(next);
            first_error = first_error.and(written).and(could);
            if let Some(rotation) = &mut self.rotation {
                (rotation.ended)(EndedFile { pinned, stacks, summary, losses, error });
            }
        }
    }

    /// The next file, or one that refuses everything, and why.
    fn next_file(&mut self) -> (CaptureWriter<Output>, Result<(), StoreError>) {
        let made = match &mut self.rotation {
            Some(rotation) => (rotation.next)(),
            None => Err(io::Error::other("nobody makes files")),
        };
        let begun = self.rotation.as_ref().map(|rotation| rotation.begun.clone());
        let created = made
            .map_err(|source| StoreError::Write { written: 0, source })
            .and_then(|file| CaptureWriter::create(self.account.output(Some(file), begun)));
        match created {
            Ok(writer) => (writer, Ok(())),
            Err(error) => (CaptureWriter::append(self.account.output(None, None), 0), Err(error)),
        }
    }
}

/// Says what was lost and how it went, and ends the file. The error is that of writing the rest of
/// it (`written`), if there was one: then its end is written into the room that is left for it.
pub(crate) fn complete(
    mut writer: CaptureWriter<Output>,
    written: Result<(), StoreError>,
    losses: &[LaneLoss],
    summary: &RecorderSummary,
) -> Result<(), StoreError> {
    let bytes = writer.bytes();
    match &written {
        Err(StoreError::Write { .. }) => writer.output_mut().make_room(bytes),
        _ => writer.output_mut().reserve = None,
    }
    written.and(end(writer, losses, summary))
}

fn end(
    mut writer: CaptureWriter<Output>,
    losses: &[LaneLoss],
    summary: &RecorderSummary,
) -> Result<(), StoreError> {
    writer.define(&Definition::Losses(losses.to_vec()))?;
    writer.define(&Definition::Summary(Box::new(summary.clone())))?;
    writer.finish().map(drop)
}

/// Tells the writer thread of files; what the collector holds.
pub(crate) struct Begin {
    files: Sender<BegunFile>,
    end: Option<Sender<FileEnd>>,
    count: u64,
}

impl Begin {
    /// Where files are told of, and where that is received.
    pub(crate) fn new() -> (Self, Receiver<BegunFile>) {
        let (files, begun) = std::sync::mpsc::channel();
        (Self { files, end: None, count: 0 }, begun)
    }

    /// A file begins, into which goes what this buffer gets.
    pub(crate) fn file(&mut self, buffer: Arc<TraceBuffer>) {
        let (sender, end) = std::sync::mpsc::channel();
        self.end = Some(sender);
        self.count += 1;
        // The writer thread ends later than this.
        let _ = self.files.send(BegunFile { buffer, end });
    }

    /// Whether the present file is not the first.
    pub(crate) fn is_later(&self) -> bool {
        self.count > 1
    }

    /// The present file has ended, and another one will begin.
    pub(crate) fn ended(&mut self, end: FileEnd) {
        if let Some(sender) = self.end.take() {
            let _ = sender.send(end);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{RecordOptions, Recording};
    use std::time::Instant;
    use syscollect_model::{LaneKind, StopReason, Ticks};
    use syscollect_records::RecordKind;
    use syscollect_store::{CaptureReader, Chunk, ChunkHeader};

    const CHUNKS: u64 = 4000;
    pub(crate) const LANE: Lane = Lane::new(LaneKind::Sched, 1);

    /// The `number`th chunk of that lane, of two records.
    pub(crate) fn chunk(number: u64) -> Chunk {
        let header = ChunkHeader {
            lane: LANE,
            sequence: number,
            first: Ticks(number),
            last: Ticks(number),
            current_tid: 0,
            stride: 8,
            records_before: 2 * number,
            records: 2,
            length: 16,
        };
        Chunk { header, data: [number.to_le_bytes(), number.to_le_bytes()].concat() }
    }

    /// The chunks of a file by their content.
    fn numbers(file: &File) -> Vec<u64> {
        let reader = CaptureReader::from_file(file.try_clone().unwrap()).unwrap();
        assert!(reader.is_complete() && reader.damage().is_empty(), "{:?}", reader.damage());
        let chunks = reader.chunks(LANE).iter().map(|entry| reader.read(entry).unwrap());
        chunks.map(|chunk| u64::from_le_bytes(chunk.data[..8].try_into().unwrap())).collect()
    }

    #[test]
    fn a_recording_goes_on_in_other_files_and_every_chunk_is_in_one_of_them() {
        let files = Arc::new(Mutex::new(vec![tempfile::tempfile().unwrap()]));
        let ended = Arc::new(Mutex::new(Vec::new()));
        let (made, reported, written) = (files.clone(), ended.clone(), files.clone());
        let begun = Arc::new(AtomicU64::new(0));
        let counted = begun.clone();
        let rotation = Rotation {
            every: Duration::from_millis(50),
            bytes: None,
            next: Box::new(move || {
                let file = tempfile::tempfile()?;
                made.lock().unwrap().push(file.try_clone()?);
                Ok(file)
            }),
            begun: Box::new(move || {
                let files = written.lock().unwrap();
                let bytes = files.last().unwrap().metadata().unwrap().len();
                assert!(bytes > EMPTY_CAPTURE_BYTES, "{bytes} bytes are not worth a name");
                assert_eq!(counted.fetch_add(1, Ordering::Relaxed) + 1, files.len() as u64);
            }),
            ended: Box::new(move |file| reported.lock().unwrap().push(file.summary.stop_reason)),
        };
        let first = files.lock().unwrap()[0].try_clone().unwrap();
        let out = RecordingFiles { first, rotation: Some(rotation) };
        let recording =
            Recording::replay(RecordOptions::default(), (0..CHUNKS).map(chunk).collect(), out)
                .unwrap();
        let patience = Instant::now();
        while recording.progress().records < 2 * CHUNKS
            && patience.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let recorded = recording.stop(StopReason::Interrupt).unwrap();
        assert_eq!((recorded.error, recorded.losses.len()), (None, 0));

        let files = files.lock().unwrap();
        assert!(files.len() > 1, "only {} file", files.len());
        assert_eq!(begun.load(Ordering::Relaxed), files.len() as u64);
        assert_eq!(*ended.lock().unwrap(), vec![StopReason::Rotation; files.len() - 1]);
        assert_eq!(
            files.iter().flat_map(numbers).collect::<Vec<_>>(),
            (0..CHUNKS).collect::<Vec<_>>()
        );
    }

    #[test]
    fn losses_of_a_file_are_those_since_it_began() {
        let before = [loss(RecordKind::Switch, 5)];
        let all = [loss(RecordKind::Switch, 7), loss(RecordKind::Waking, 1)];
        let since = losses_since(&all, &before);
        assert_eq!(since, [loss(RecordKind::Switch, 2), loss(RecordKind::Waking, 1)]);
        let mut sum = before.to_vec();
        add_losses(&mut sum, &since);
        assert_eq!(sum, all);
    }

    fn loss(kind: RecordKind, count: u64) -> LaneLoss {
        LaneLoss {
            origin: LaneKind::Sched.into(),
            cpu: Some(0),
            record: LostRecord::Kind(kind),
            cause: LossCause::LaneFull,
            user: None,
            count,
        }
    }
}
