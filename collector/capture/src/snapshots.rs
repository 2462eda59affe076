//! Snapshots of a recording that keeps the newest events: what it holds goes to a file while it
//! goes on.
//!
//! The collector's thread hands out what the trace buffer holds, which takes some milliseconds;
//! whoever asks for the snapshot writes it on a thread of their own.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Thread;
use std::time::{Duration, Instant};

use syscollect_model::{ClockSource, RecorderSummary, SessionInfo, SnapshotMark, Ticks, grouped};
use syscollect_store::{
    BufferSnapshot, CaptureWriter, Definition, LaneLoss, SnapshotLosses, StoreError,
};
use syscollect_symbolize::PinnedFiles;

use crate::chunk_sink::ChunkSink;
use crate::clock::ticks_now;
use crate::collector::Shared;
use crate::error::CaptureError;
use crate::fair_queue::payer_of;
use crate::files::buffer_loss;
use crate::fold::StateFold;
use crate::metadata::MetadataSnapshot;
use crate::priority::RaisedSession;
use crate::recorded::Recorded;
use crate::snapshot_requests::{SnapshotParts, SnapshotRequest};
use crate::usage::CostAccount;

/// How long a snapshot waits for what was observed to be noted. What is not by then lacks a name.
const LONGEST_NOTING: Duration = Duration::from_secs(3);
/// How long it waits for the collector, which looks for orders each time that it empties the lanes.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOrder {
    /// Only the events of that time before now; `None` for all.
    pub last: Option<Duration>,
    /// When that began for which it is taken, if that took time.
    pub began: Option<Ticks>,
    /// Why.
    pub mark: SnapshotMark,
}

/// A snapshot that was written.
pub struct TakenSnapshot {
    /// What a recording has that ends here.
    pub recorded: Recorded,
    /// Bytes that were written. Who else has the file may have made it something else meanwhile.
    pub bytes: u64,
    /// What it is without of the time for which it was taken, in words; the capture says it, too.
    pub lacks: Vec<String>,
}

/// Takes snapshots of a recording, from any thread; several at once are independent.
#[derive(Clone)]
pub struct SnapshotTaker {
    shared: Arc<Shared>,
    sink: Arc<ChunkSink>,
    collector: Thread,
    began: Instant,
    clock: ClockSource,
}

/// How much of a recording is held.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// For how long it records.
    pub age: Duration,
    /// How far back the events reach that are held.
    pub reach: Duration,
}

impl SnapshotTaker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        sink: Arc<ChunkSink>,
        collector: Thread,
        began: Instant,
        clock: ClockSource,
    ) -> Self {
        Self { shared, sink, collector, began, clock }
    }

    /// Writes what the recording holds into `file`. The capture is complete then, but for the names
    /// of what stacks lead through, as that of a recording that has just ended.
    ///
    /// # Errors
    ///
    /// [`CaptureError::System`] when the recording has ended, [`CaptureError::Store`] when the file
    /// takes nothing. If it takes a part only, [`Recorded::error`] says so.
    pub fn take(&self, order: &SnapshotOrder, file: File) -> Result<TakenSnapshot, CaptureError> {
        let metadata = self.ask(SnapshotRequest::Metadata, LONGEST_NOTING);
        let parts = self
            .ask(|answer| SnapshotRequest::Buffer(answer, order.last), LONGEST_WAIT)
            .ok_or_else(|| {
                let error = std::io::Error::other("it has ended, or stands still");
                CaptureError::system("the recording of which a snapshot was asked for", error)
            })?;
        let MetadataSnapshot { pinned, processes, stacks: of_sleepers, unread } =
            metadata.unwrap_or_default();
        let SnapshotParts { at, buffer, mut session, mut summary, mut losses, mut stacks } = parts;
        stacks.extend(of_sleepers);
        if unread > 0 {
            summary.missing.push(format!(
                "{unread} threads were not looked at when the snapshot was taken: those that slept \
                 all the time are not shown"
            ));
        }
        let mut mark = order.mark.clone();
        if mark.at == Ticks(0) {
            mark.at = at;
        }
        session.snapshot = Some(mark);
        // Of the recording, of which the file has the end.
        summary.duration_ns = self.began.elapsed().as_nanos() as u64;
        let oldest = buffer.oldest();
        let held = nanoseconds(at.0.saturating_sub(oldest.0), &session);
        let later = |at: Ticks| {
            let ticks = oldest.0.checked_sub(at.0).filter(|ticks| *ticks > 0);
            ticks.map(|ticks| Duration::from_nanos(nanoseconds(ticks, &session)))
        };
        let marked = session.snapshot.as_ref().map(|mark| mark.at);
        let mut lacks = Vec::new();
        if let Some(late) = marked.and_then(later) {
            lacks.push(format!(
                "its own moment: it begins {late:.1?} after it, which newer events had overwritten"
            ));
        } else if let Some(late) = order.began.and_then(later) {
            lacks.push(format!(
                "the beginning of what it was taken for, which lies {late:.1?} before its first \
                 event"
            ));
        }
        let contents = SnapshotContents { buffer, processes, session, lacks };
        let written = contents.write_to(file, &mut losses, &mut summary);
        let (error, bytes, lacks) = match written {
            Ok(written) => (None, written.bytes, written.lacks),
            Err(error) => (Some(error.to_string()), 0, Vec::new()),
        };
        let recorded = Recorded {
            pinned,
            stacks,
            duration: Duration::from_nanos(held),
            attaching: Duration::ZERO,
            records: 0,
            error,
            summary,
            losses,
            losses_before: Vec::new(),
            costs: CostAccount::default(),
            priority: RaisedSession::default(),
        };
        Ok(TakenSnapshot { recorded, bytes, lacks })
    }

    /// The files of what is mapped, for naming what stacks lead through; `None` where no answer
    /// comes in time.
    pub fn pinned(&self) -> Option<PinnedFiles> {
        self.ask(SnapshotRequest::Pinned, LONGEST_NOTING)
    }

    /// Each stack is sent once, and again some time after this was called: for whoever watches the
    /// recording and did not before.
    pub fn ask_stacks_anew(&self) {
        self.shared.snapshots.add(SnapshotRequest::StacksAnew);
    }

    /// Something happened that is worth a line on the recording's own track.
    pub fn log(&self, message: String) {
        let clock = self.clock;
        self.shared.log.add(ticks_now(clock), message);
    }

    /// How much of the recording is held.
    pub fn held(&self) -> Held {
        Held { age: self.began.elapsed(), reach: self.sink.buffer().reach() }
    }

    /// `None` where no answer comes: then nobody holds the other end, or not in time.
    fn ask<T>(
        &self,
        request: impl FnOnce(Sender<T>) -> SnapshotRequest,
        longest: Duration,
    ) -> Option<T> {
        let (answer, received) = channel();
        self.shared.snapshots.add(request(answer));
        self.collector.unpark();
        received.recv_timeout(longest).ok()
    }
}

fn nanoseconds(ticks: u64, session: &SessionInfo) -> u64 {
    (ticks as f64 * 1e9 / session.tick_rate_hz.max(1.0)) as u64
}

/// Counts the bytes that go to a file.
struct Counted {
    file: File,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// What goes to the file.
struct SnapshotContents {
    buffer: BufferSnapshot,
    processes: Vec<Definition>,
    session: SessionInfo,
    lacks: Vec<String>,
}

/// What became of it.
struct WrittenContents {
    bytes: u64,
    lacks: Vec<String>,
}

impl SnapshotContents {
    /// Writes all of the file, and adds to `losses` and to the summary what it lacks.
    fn write_to(
        self,
        file: File,
        losses: &mut Vec<LaneLoss>,
        summary: &mut RecorderSummary,
    ) -> Result<WrittenContents, StoreError> {
        let Self { buffer, processes, session, mut lacks } = self;
        let file = std::io::BufWriter::new(Counted { file, bytes: 0 });
        let mut writer = CaptureWriter::create(file)?;
        // First, so that a file that is cut off says what it is.
        writer.define(&Definition::Session(Box::new(session.clone())))?;
        let SnapshotLosses { records, taken_back } =
            buffer.write_to(&mut writer, &mut StateFold::new(payer_of))?;
        if taken_back > 0 {
            lacks.push(format!(
                "its {} oldest records, which newer ones had overwritten before they were written",
                grouped(taken_back)
            ));
        }
        let records = records.into_iter();
        losses.extend(records.map(|(lane, cause, count)| buffer_loss(lane, cause, count)));
        summary.missing.extend(lacks.iter().cloned());
        processes.iter().try_for_each(|processes| writer.define(processes))?;
        writer.define(&Definition::Session(Box::new(session)))?;
        writer.define(&Definition::Losses(losses.clone()))?;
        writer.define(&Definition::Summary(Box::new(summary.clone())))?;
        Ok(WrittenContents { bytes: writer.finish()?.get_ref().bytes, lacks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::{LANE, chunk};
    use crate::{RecordOptions, Recording};
    use syscollect_model::StopReason;
    use syscollect_store::{BufferMode, CaptureReader};

    const CHUNKS: u64 = 100;

    fn recording() -> Recording {
        let options = RecordOptions {
            mode: BufferMode::Overwrite,
            snapshots: true,
            ..RecordOptions::default()
        };
        let file = tempfile::tempfile().expect("there is a folder for it");
        let recording = Recording::replay(options, (0..CHUNKS).map(chunk).collect(), file)
            .expect("a replay needs nothing");
        let patience = Instant::now();
        while recording.progress().records < 2 * CHUNKS
            && patience.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        recording
    }

    #[test]
    fn what_lies_before_the_first_event_is_said_to_be_missing() {
        let recording = recording();
        let taker = recording.snapshots();
        let lacks = |last: Option<Duration>, began: Option<u64>, at: u64| {
            let mark = SnapshotMark { at: Ticks(at), ..SnapshotMark::default() };
            let order = SnapshotOrder { last, began: began.map(Ticks), mark };
            taker.take(&order, tempfile::tempfile().unwrap()).unwrap().lacks.join("; ")
        };
        assert_eq!(lacks(None, Some(0), u64::MAX), "");
        let nothing = Some(Duration::ZERO);
        assert_eq!(lacks(nothing, None, u64::MAX), "");
        let without = lacks(nothing, Some(0), u64::MAX);
        assert!(without.starts_with("the beginning of what"), "{without}");
        let without = lacks(nothing, Some(0), 1);
        assert!(without.starts_with("its own moment"), "{without}");
    }

    /// The chunks of a file by their numbers, and why it was taken.
    fn read(file: File) -> (Vec<u64>, Option<SnapshotMark>) {
        let reader = CaptureReader::from_file(file).expect("it is a capture");
        assert!(reader.is_complete() && reader.damage().is_empty(), "{:?}", reader.damage());
        let chunks = reader.chunks(LANE).iter().map(|chunk| chunk.sequence).collect();
        let sessions = reader.definitions().filter_map(|definition| match definition {
            Ok(Definition::Session(session)) => Some(session.snapshot),
            _ => None,
        });
        (chunks, sessions.last().flatten())
    }

    #[test]
    fn snapshots_have_what_was_recorded_and_the_recording_goes_on_to_its_end() {
        let recording = recording();
        let taker = recording.snapshots();
        let mark = SnapshotMark { reason: "p99 alarm".into(), ..SnapshotMark::default() };
        let order = SnapshotOrder { mark, ..SnapshotOrder::default() };
        let all: Vec<u64> = (0..CHUNKS).collect();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let file = tempfile::tempfile().unwrap();
                    let taken = taker.take(&order, file.try_clone().unwrap()).unwrap();
                    assert_eq!(taken.bytes, file.metadata().unwrap().len());
                    let taken = taken.recorded;
                    assert_eq!((taken.error, taken.losses), (None, Vec::new()));
                    assert_eq!(taken.summary.stop_reason, StopReason::Snapshot);
                    let (chunks, marked) = read(file);
                    assert_eq!(chunks, all);
                    let marked = marked.unwrap();
                    assert!(marked.at > Ticks(0), "it says when");
                    assert_eq!(marked.reason, "p99 alarm");
                });
            }
        });
        let recorded = recording.stop(StopReason::Interrupt).unwrap();
        assert_eq!((recorded.error, recorded.records), (None, 2 * CHUNKS));
        let error = taker.take(&order, tempfile::tempfile().unwrap()).err().unwrap().to_string();
        assert!(error.contains("it has ended"), "{error}");
    }
}
