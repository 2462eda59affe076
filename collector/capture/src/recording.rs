//! A recording from its start to its end.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use syscollect_model::{LossCause, RecorderSummary, SessionInfo, WorkCost};
use syscollect_store::{CaptureWriter, Chunk, Definition, Lane, LaneKind, LaneLoss, StoreError, TraceBuffer, drain_to};
use syscollect_symbolize::HeldFiles;

use crate::collector::{Collector, Ended};
use crate::error::CaptureError;
use crate::options::RecordOptions;
use crate::usage::CostAccount;

/// A recording that goes on.
pub struct Recording {
    shared: Arc<Shared>,
    collector: JoinHandle<Ended>,
    writer: JoinHandle<(CaptureWriter<File>, Result<(), StoreError>)>,
    buffer: Arc<TraceBuffer>,
    missing: Vec<String>,
    pids: Vec<u32>,
    session: SessionInfo,
    startup: Duration,
    began: Instant,
    costs: CostAccount,
}

/// What the threads tell one another.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// How far a recording has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of records that were taken out of the lanes.
    pub bytes: u64,
    /// Events among them.
    pub records: u64,
    /// Records lost so far, as last counted.
    pub lost: u64,
}

/// A recording that has ended; its capture is complete.
pub struct Recorded {
    /// Files that were mapped, still open, for naming addresses.
    pub held: HeldFiles,
    /// What the capture says of the recorder.
    pub summary: RecorderSummary,
    /// What was lost, by lane, kind and cause.
    pub losses: Vec<LaneLoss>,
    /// Events recorded.
    pub records: u64,
    /// Why the end of the recording is not in the file (a full disk), if so.
    pub error: Option<String>,
    /// What starting and recording cost; what comes after it may be added.
    pub costs: CostAccount,
}

impl Recording {
    /// Starts to record into `out`. When it returns, events are being recorded.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] says what is not permitted or not there; then nothing
    /// is left behind.
    pub fn start(options: RecordOptions, out: File) -> Result<Self, CaptureError> {
        let start = |options: &_, buffer, shared| Collector::start(options, buffer, shared);
        Self::with(options, out, start)
    }

    /// Replays recorded chunks as if a machine produced them: the trace buffer,
    /// the writer and the accounts of losses work as in a recording, without a
    /// kernel. The clock, the session and all else must be among the chunks.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Store`] when `out` refuses the first bytes.
    pub fn replay(options: RecordOptions, chunks: Vec<Chunk>, out: File) -> Result<Self, CaptureError> {
        Self::with(options, out, |_, buffer, shared| Ok(Collector::replay(chunks, buffer, shared)))
    }

    fn with(
        options: RecordOptions,
        out: File,
        start: impl FnOnce(&RecordOptions, Arc<TraceBuffer>, Arc<Shared>) -> Result<Collector, CaptureError>,
    ) -> Result<Self, CaptureError> {
        let writer = CaptureWriter::create(out)?;
        let buffer = Arc::new(TraceBuffer::new(options.buffer_bytes, options.mode));
        let shared = Arc::new(Shared::default());
        let collector = start(&options, buffer.clone(), shared.clone())?;
        let startup = options.program_start.elapsed();
        let mut costs = CostAccount::default();
        costs.note("start");
        let failed = |error| CaptureError::system("cannot start a thread", error);
        let to_write = buffer.clone();
        let writer = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || write(&to_write, writer))
            .map_err(failed)?;
        let (missing, session) = (collector.missing().to_vec(), collector.session().clone());
        let collector =
            std::thread::Builder::new().name("collector".into()).spawn(move || collector.run()).map_err(failed)?;
        Ok(Self {
            shared,
            collector,
            writer,
            buffer,
            missing,
            pids: options.pids,
            session,
            startup,
            began: Instant::now(),
            costs,
        })
    }

    /// How far the recording has come.
    pub fn progress(&self) -> Progress {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress { bytes: load(&self.shared.bytes), records: load(&self.shared.records), lost: load(&self.shared.lost) }
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
        self.pids.is_empty() || self.pids.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists())
    }

    /// Ends the recording: detaches, takes out what is left, completes the file.
    ///
    /// # Errors
    ///
    /// Only where a thread of the recorder panicked. A file that could not be
    /// completed is reported in [`Recorded::error`], with what was recorded.
    pub fn stop(self, reason: &str) -> Result<Recorded, CaptureError> {
        self.shared.stop.store(true, Ordering::Release);
        self.collector.thread().unpark();
        let duration = self.began.elapsed();
        let ended = self.collector.join().map_err(|_| panicked("collector"))?;
        self.buffer.close();
        let (mut writer, mut written) = self.writer.join().map_err(|_| panicked("writer"))?;
        let mut losses = ended.losses;
        losses.extend(self.buffer.losses().into_iter().map(|(lane, cause, count)| buffer_loss(lane, cause, count)));
        let mut costs = self.costs;
        costs.note("recording");
        let WorkCost { cpu_ns, peak_bytes, .. } = costs.of("recording");
        let summary = RecorderSummary {
            stop_reason: reason.to_owned(),
            recorder_cpu_ns: cpu_ns,
            kernel_program_ns: crate::usage::program_time(&ended.statistics),
            recorder_peak_bytes: peak_bytes,
            startup_ns: self.startup.as_nanos() as u64,
            duration_ns: duration.as_nanos() as u64,
            statistics: ended.statistics,
            missing: ended.missing,
            costs: costs.costs().to_vec(),
        };
        for definition in [Definition::Losses(losses.clone()), Definition::Summary(Box::new(summary.clone()))] {
            written = written.and_then(|()| writer.define(&definition));
        }
        let written = written.and_then(|()| writer.finish().map(drop));
        let records = self.shared.records.load(Ordering::Relaxed);
        drop(ended.sources);
        let error = written.err().map(|error| error.to_string());
        Ok(Recorded { held: ended.held, summary, losses, records, error, costs })
    }
}

fn write(buffer: &TraceBuffer, mut writer: CaptureWriter<File>) -> (CaptureWriter<File>, Result<(), StoreError>) {
    let result = drain_to(buffer, &mut writer);
    (writer, result)
}

fn buffer_loss(lane: Lane, cause: LossCause, count: u64) -> LaneLoss {
    // The collector's own lanes and those of programs belong to no CPU; readers add losses up by lane and CPU.
    let of_no_cpu = matches!(
        lane.kind,
        LaneKind::Counter | LaneKind::Clock | LaneKind::Definition | LaneKind::Zone | LaneKind::ZoneLog
    );
    let cpu = (!of_no_cpu).then_some(u32::from(lane.cpu));
    LaneLoss { lane: lane.kind.name().to_owned(), cpu, record: String::new(), cause, count }
}

fn panicked(thread: &str) -> CaptureError {
    CaptureError::system(format!("the {thread} thread panicked"), std::io::Error::other("a bug in syscollect"))
}
