//! A recording from its start to its end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use syscollect_model::{RecorderSummary, RecorderWork, SessionInfo, StopReason, WorkCost};
use syscollect_store::{Chunk, TraceBuffer};

use crate::chunk_sink::ChunkSink;
use crate::collector::{Children, Collector, EndedRecording, Output, RotationLimits, Shared};
use crate::error::CaptureError;
use crate::files::{self, Begin, Files, LastFile, RecordingFiles, buffer_loss};
use crate::host::Host;
use crate::memory::{BufferUse, MemoryRoom, own_memory};
use crate::options::RecordOptions;
use crate::recorded::Recorded;
use crate::snapshot::with_descendants;
use crate::snapshots::SnapshotTaker;
use crate::usage::CostAccount;
use crate::worker::{Unfinished, Worker};

/// A recording that goes on.
pub struct Recording {
    shared: Arc<Shared>,
    collector: Worker<EndedRecording>,
    writer: Worker<Option<LastFile>>,
    sink: Arc<ChunkSink>,
    missing: Vec<String>,
    pids: Vec<u32>,
    session: SessionInfo,
    startup: Duration,
    began: Instant,
    attaching: Duration,
    costs: CostAccount,
}

/// How long the end waits for the collector. Detaching takes part of a second, and what follows has
/// limits of its own.
const LONGEST_END: Duration = Duration::from_secs(60);
/// How long the disk may take in nothing at all.
const LONGEST_STANDSTILL: Duration = Duration::from_secs(60);

/// How far a recording has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of records that were taken out of the lanes.
    pub bytes: u64,
    /// Events among them.
    pub records: u64,
    /// Records lost so far, as last counted.
    pub lost: u64,
    /// Bytes of the present file.
    pub written: u64,
    /// Bytes of all files.
    pub written_in_all: u64,
    /// Bytes that wait for the disk, or, where the newest are kept, are kept.
    pub buffered: u64,
    /// Bytes that the trace buffer may have of events.
    pub buffer_bytes: u64,
}

impl Recording {
    /// Starts to record into `out`. When it returns, events are being recorded.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] says what is not permitted or not there; then nothing
    /// is left behind but what the files hold by then.
    pub fn start(
        options: RecordOptions,
        out: impl Into<RecordingFiles>,
    ) -> Result<Self, CaptureError> {
        let cpus = Host::at(Path::new("/")).possible_cpus();
        let root = Path::new("/");
        let room = MemoryRoom::read(root).at_most(options.memory, own_memory(root));
        room.suffices_for(&options)?;
        let room = room.without(options.unwind_memory.unwrap_or(0));
        let memory = room.plan(options.buffer_bytes, BufferUse::of(&options), cpus)?;
        let options = RecordOptions { buffer_bytes: memory.buffer_bytes, ..options };
        // Before there are threads, and anything is large: they are copies of this process.
        let children = Children::start(&options);
        Self::with(options, out.into(), |options, output| {
            // Whether the recording goes on is for those to say that were asked for.
            let pids = with_descendants(Path::new("/"), &options.pids);
            let options = RecordOptions { pids, ..options.clone() };
            Collector::start(&options, &memory, children, output)
        })
    }

    /// Replays recorded chunks as if a machine produced them: the trace buffer,
    /// the writer and the accounts of losses work as in a recording, without a
    /// kernel. The clock, the session and all else must be among the chunks.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Store`] when `out` refuses the first bytes.
    pub fn replay(
        options: RecordOptions,
        chunks: Vec<Chunk>,
        out: impl Into<RecordingFiles>,
    ) -> Result<Self, CaptureError> {
        Self::with(options, out.into(), |_, output| Ok(Collector::replay(chunks, output)))
    }

    fn with(
        options: RecordOptions,
        out: RecordingFiles,
        start: impl FnOnce(&RecordOptions, Output) -> Result<Collector, CaptureError>,
    ) -> Result<Self, CaptureError> {
        let pace = out
            .rotation
            .as_ref()
            .map(|rotation| RotationLimits { every: rotation.every, bytes: rotation.bytes });
        let sink = ChunkSink::new(options.buffer_bytes, options.mode, pace.is_some());
        let sink = sink.spanning(options.buffer_span).retaining(options.snapshots);
        let sink = sink.with_tee(options.tee.clone());
        let sink = Arc::new(sink);
        let shared = Arc::new(Shared::default());
        let (mut begin, begun) = Begin::new();
        let files = Files::create(out, begun, shared.files.clone())?;
        begin.file(sink.buffer());
        // Before anything is attached: the rest may take long to attach, and what is recorded
        // meanwhile would fill the buffer.
        let writer = Worker::start("writer", move || {
            // While it waits for a CPU the buffer fills.
            crate::priority::go_before_most();
            files.write()
        })
        .map_err(CaptureError::no_thread)?;
        let output = Output { sink: sink.clone(), shared: shared.clone(), begin, pace };
        let collector = start(&options, output).inspect_err(|_| {
            // What was written is of a recording that never was; why is what the user hears of.
            sink.buffer().close();
            let _ = wait_for_disk(&writer, &sink.buffer());
        })?;
        let startup = collector.attached().duration_since(options.program_start);
        let attaching = collector.began().elapsed();
        let mut costs = CostAccount::default();
        costs.note(RecorderWork::Start);
        let (missing, session, began) =
            (collector.missing().to_vec(), collector.session().clone(), collector.began());
        let collector =
            Worker::start("collector", move || collector.run()).map_err(CaptureError::no_thread)?;
        Ok(Self {
            shared,
            collector,
            writer,
            sink,
            missing,
            pids: options.pids,
            session,
            startup,
            began,
            attaching,
            costs,
        })
    }

    /// How far the recording has come.
    pub fn progress(&self) -> Progress {
        let Shared { bytes, records, lost, files, .. } = &*self.shared;
        Progress {
            bytes: load(bytes),
            records: load(records),
            lost: load(lost),
            written: load(&files.written),
            written_in_all: load(&files.written_in_all),
            buffered: self.sink.buffer().buffered() as u64,
            buffer_bytes: self.sink.buffer().limit() as u64,
        }
    }

    /// What takes snapshots of a recording that overwrites and [keeps what they
    /// need](RecordOptions::snapshots).
    pub fn snapshots(&self) -> SnapshotTaker {
        SnapshotTaker::new(
            self.shared.clone(),
            self.sink.clone(),
            self.collector.thread().clone(),
            self.began,
            self.session.clock_source,
        )
    }

    /// What this machine lacks, in words, each once.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// What the capture says of the machine.
    pub fn session(&self) -> &SessionInfo {
        &self.session
    }

    /// Whether any of the processes that were asked for is still there.
    pub fn pids_alive(&self) -> bool {
        self.pids.is_empty()
            || self.pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists())
    }

    /// Ends the recording: detaches, takes out what is left, completes the file. From now on all
    /// threads of the process, which then names and exports, go before many others.
    ///
    /// # Errors
    ///
    /// Only where a thread of the recorder panicked or stands still; what it had written is in the
    /// file. A file that could not be completed is reported in [`Recorded::error`], with what was
    /// recorded.
    pub fn stop(self, reason: StopReason) -> Result<Recorded, CaptureError> {
        let mut costs = self.costs;
        costs.note(RecorderWork::Recording);
        let priority = crate::priority::all_go_before_many();
        self.shared.stop.store(true, Ordering::Release);
        self.collector.unpark();
        let ended = self.collector.wait(LONGEST_END);
        let buffer = self.sink.buffer();
        buffer.close();
        let last =
            wait_for_disk(&self.writer, &buffer).and_then(|last| last.ok_or(Unfinished::Panicked));
        let last = last.map_err(|why| broken("writer", why))?;
        let ended =
            ended.map_err(|why| broken(&format!("collector ({})", self.shared.doing()), why))?;
        // What is recorded while the programs are detached is in the capture, too.
        let duration = ended.at.saturating_duration_since(self.began);
        let mut losses = ended.losses;
        losses.extend(
            last.buffer
                .losses()
                .into_iter()
                .map(|(lane, cause, count)| buffer_loss(lane, cause, count)),
        );
        // Before the file is completed, so that it says what is left.
        let (mut sources, mut missing) = (ended.sources, ended.missing);
        missing.extend(sources.iter_mut().filter_map(|source| source.wait_until_gone()));
        drop(sources);
        costs.note(RecorderWork::Stopping);
        let WorkCost { cpu_ns, peak_bytes, .. } = costs.of(&RecorderWork::Recording);
        let (cpu_ns, file_duration) = ended.file.as_ref().map_or((cpu_ns, duration), |file| {
            (file.cpu_ns(), ended.at.saturating_duration_since(file.at))
        });
        let summary = RecorderSummary {
            stop_reason: reason,
            recorder_cpu_ns: cpu_ns,
            kernel_program_ns: crate::usage::program_time(&ended.statistics),
            recorder_peak_bytes: peak_bytes,
            startup_ns: self.startup.as_nanos() as u64,
            duration_ns: file_duration.as_nanos() as u64,
            statistics: ended.statistics,
            missing,
            refused_tables: ended.refused_tables,
            refused_lists: Vec::new(),
            costs: costs.costs().to_vec(),
        };
        let written = files::complete(last.writer, last.written, &losses, &summary);
        let losses_before = self.shared.files.losses();
        let records = self.shared.records.load(Ordering::Relaxed);
        let error = written.err().map(|error| error.to_string());
        Ok(Recorded {
            pinned: ended.pinned,
            stacks: ended.stacks,
            summary,
            losses,
            losses_before,
            duration,
            attaching: self.attaching,
            records,
            error,
            costs,
            priority,
        })
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn broken(thread: &str, why: Unfinished) -> CaptureError {
    CaptureError::system(format!("the thread {thread}"), std::io::Error::other(why))
}

/// Waits for the writer as long as the buffer becomes emptier.
fn wait_for_disk<T: Send + 'static>(
    writer: &Worker<T>,
    buffer: &TraceBuffer,
) -> Result<T, Unfinished> {
    let mut buffered = buffer.buffered();
    loop {
        match writer.wait(LONGEST_STANDSTILL) {
            Err(Unfinished::Late(_)) if buffer.buffered() < buffered => {
                buffered = buffer.buffered();
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use syscollect_model::{Lane, LaneKind, Ticks};
    use syscollect_store::{CaptureReader, ChunkHeader};

    use super::*;
    use crate::files::Rotation;

    const LONGEST: Duration = Duration::from_secs(20);
    const BUFFER: usize = 1 << 20;

    fn chunk(number: u64) -> Chunk {
        let data = vec![0; 16 << 10];
        let header = ChunkHeader {
            lane: Lane::new(LaneKind::Sched, 1),
            sequence: number,
            first: Ticks(number),
            last: Ticks(number),
            current_tid: 0,
            stride: 8,
            records_before: number,
            records: 1,
            length: data.len() as u32,
        };
        Chunk { header, data }
    }

    /// Pushes four times what the buffer holds, as the disk takes it in. Whether it did.
    fn fills_buffer(output: &Output) -> bool {
        let end = Instant::now() + LONGEST;
        (0..(4 * BUFFER as u64) >> 14).all(|number| {
            while output.sink.is_behind() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            output.sink.push(chunk(number));
            Instant::now() < end
        })
    }

    fn small() -> RecordOptions {
        RecordOptions { buffer_bytes: BUFFER, ..RecordOptions::default() }
    }

    #[test]
    fn what_is_recorded_while_the_rest_attaches_does_not_wait_for_the_end_of_that() {
        let file = tempfile::tempfile().unwrap();
        let recording = Recording::with(small(), file.try_clone().unwrap().into(), |_, output| {
            assert!(fills_buffer(&output), "nothing takes in what is recorded");
            Ok(Collector::replay(Vec::new(), output))
        });
        let recorded = recording.unwrap().stop(StopReason::Interrupt).unwrap();
        assert_eq!((recorded.error, recorded.losses.len()), (None, 0));
        let reader = CaptureReader::from_file(file).unwrap();
        let chunks = reader.chunks(Lane::new(LaneKind::Sched, 1)).len();
        assert_eq!(chunks, (4 * BUFFER) >> 14);
    }

    #[test]
    fn a_start_that_fails_late_leaves_nobody_who_writes() {
        let visible = Arc::new(AtomicU64::new(0));
        let (reported, kept) = (visible.clone(), Arc::new(()));
        let of_writer = kept.clone();
        let rotation = Rotation {
            every: Duration::MAX,
            bytes: None,
            next: Box::new(|| Err(std::io::ErrorKind::Unsupported.into())),
            begun: Box::new(move || {
                reported.fetch_add(1, Ordering::Relaxed);
            }),
            ended: Box::new(move |_| drop(of_writer.clone())),
        };
        let first = tempfile::tempfile().unwrap();
        let out = RecordingFiles { first, rotation: Some(rotation) };
        let recording = Recording::with(small(), out, |_, output| {
            assert!(fills_buffer(&output), "nothing takes in what is recorded");
            Err(CaptureError::Stopped)
        });
        assert!(matches!(recording, Err(CaptureError::Stopped)));
        assert_eq!(visible.load(Ordering::Relaxed), 1, "the caller has a file to remove");
        assert_eq!(Arc::strong_count(&kept), 1, "the writer has ended");
    }
}
