//! The thread that asks, and the source that hands on what it finds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use syscollect_model::{ClockSource, Lane, LaneKind, SessionInfo, Ticks};
use syscollect_records::CounterRecord;
use syscollect_store::{Chunk, Definition, LaneLoss};

use super::poll::{Poll, PolledCounters};
use crate::clock::ticks_now;
use crate::error::CaptureError;
use crate::source::{Drained, Source};
use crate::stage::{Flush, Stage};

/// Drivers are asked this often.
const INTERVAL: Duration = Duration::from_millis(500);
/// Between two steps of the first search, which is to be over soon.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);
/// Once all processes were looked at, new ones are looked for at every second question.
const QUESTIONS_A_SEARCH: u64 = 2;
/// A driver that does not answer does not hold up the end of the recording longer.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);
/// The counters of the machine have the lane 0.
const LANE: Lane = Lane::new(LaneKind::Counter, 1);

/// What the thread has to say.
enum PollerMessage {
    Chunk(Chunk),
    Missing(String),
}

/// What the thread did so far.
#[derive(Debug, Default)]
struct PollingCost {
    looked: AtomicU64,
    reads: AtomicU64,
    nanoseconds: AtomicU64,
}

/// GPU memory and use of processes, as their drivers tell.
pub(crate) struct GpuClients {
    reported: Receiver<PollerMessage>,
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    effort: Arc<PollingCost>,
    missing: Vec<String>,
}

impl GpuClients {
    /// Starts to ask; without a device of a GPU there is nobody to be asked.
    pub(crate) fn start(root: &Path, clock: ClockSource) -> Result<Self, CaptureError> {
        let (tell, reported) = channel();
        let (stop, stopped) = channel();
        let effort = Arc::new(PollingCost::default());
        let mut this =
            Self { reported, stop: Some(stop), effort: effort.clone(), missing: Vec::new() };
        if !root.join("dev/dri").exists() {
            let why = "there is no /dev/dri, so no driver of a GPU tells of jobs or memory; calls \
                       of GPU libraries are recorded";
            this.missing.push(why.to_owned());
            return Ok(this);
        }
        let asker = Poller {
            poll: Poll::new(root),
            clock,
            stage: Stage::new(LANE, CounterRecord::SIZE),
            tell,
            effort,
        };
        std::thread::Builder::new()
            .name("gpu clients".into())
            .spawn(move || asker.run(&stopped))
            .map_err(CaptureError::no_thread)?;
        Ok(this)
    }

    fn take(&mut self, reported: PollerMessage, out: &mut Drained<'_>) {
        match reported {
            PollerMessage::Chunk(chunk) => (out.chunk)(chunk),
            PollerMessage::Missing(text) => self.missing.push(text),
        }
    }
}

/// The thread's own.
struct Poller {
    poll: Poll,
    clock: ClockSource,
    stage: Stage,
    tell: Sender<PollerMessage>,
    effort: Arc<PollingCost>,
}

impl Poller {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut questions = 0;
        loop {
            let began = Instant::now();
            let complete = questions % QUESTIONS_A_SEARCH != 0 || self.poll.look_for_more();
            // While the first search goes on nobody is asked twice at once.
            if complete {
                questions += 1;
                let found = self.poll.poll(ticks_now(self.clock), &monotonic);
                self.hand_on(found);
            }
            self.account(began.elapsed());
            let wait = if complete { INTERVAL } else { SHORT_INTERVAL };
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        for text in self.poll.missing() {
            // Nobody listens where the end did not wait.
            let _ = self.tell.send(PollerMessage::Missing(text));
        }
    }

    fn hand_on(&mut self, found: PolledCounters) {
        if !found.definitions.is_empty() {
            for chunk in Definition::Counters(found.definitions).chunks() {
                let _ = self.tell.send(PollerMessage::Chunk(chunk));
            }
        }
        if !found.records.is_empty() {
            let data = self.stage.data();
            found.records.iter().for_each(|record| data.extend_from_slice(record.as_bytes()));
        }
        let Self { stage, tell, clock, .. } = self;
        stage.flush(ticks_now(*clock), |_| 0, &mut |chunk| {
            drop(tell.send(PollerMessage::Chunk(chunk)));
        });
    }

    fn account(&self, spent: Duration) {
        let (looked, reads) = self.poll.effort();
        self.effort.looked.store(looked, Ordering::Relaxed);
        self.effort.reads.store(reads, Ordering::Relaxed);
        self.effort.nanoseconds.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Nanoseconds, for rates.
fn monotonic() -> u64 {
    ticks_now(ClockSource::Monotonic).0
}

impl Source for GpuClients {
    fn attach(&mut self, _cpus: &[u32]) -> Result<(), CaptureError> {
        Ok(())
    }

    fn add_cpu(&mut self, _cpu: u32) -> Result<(), CaptureError> {
        Ok(())
    }

    fn drain(&mut self, _now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        while let Ok(reported) = self.reported.try_recv() {
            self.take(reported, out);
        }
        let until = Instant::now() + LONGEST_GOODBYE;
        while flush.is_all() && self.stop.is_none() {
            match self.reported.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(reported) => self.take(reported, out),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.missing
                        .push("a GPU driver did not answer when the recording ended".to_owned());
                    break;
                }
            }
        }
        0.0
    }

    fn detach(&mut self, _cpus: &[u32]) {
        self.stop = None;
    }

    fn losses(&self) -> Vec<LaneLoss> {
        Vec::new()
    }

    fn statistics(&self) -> BTreeMap<String, u64> {
        let PollingCost { looked, reads, nanoseconds } = &*self.effort;
        let named = [("descriptors", looked), ("reads", reads), ("ns", nanoseconds)];
        named
            .map(|(name, count)| (format!("gpu_clients_{name}"), count.load(Ordering::Relaxed)))
            .into()
    }

    fn describe(&self, _session: &mut SessionInfo) {}

    fn missing(&self) -> &[String] {
        &self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::fake::open;
    use super::*;

    fn recorded(root: &Path) -> (Vec<Chunk>, Vec<String>) {
        let mut source = GpuClients::start(root, ClockSource::Monotonic).unwrap();
        let (mut chunks, until) = (Vec::new(), Instant::now() + Duration::from_secs(10));
        let is_asking = source.missing().is_empty();
        while is_asking && Instant::now() < until {
            drain(&mut source, Flush::USUAL, &mut chunks);
            if chunks.len() >= 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        source.detach(&[]);
        drain(&mut source, Flush::All, &mut chunks);
        (chunks, source.missing)
    }

    fn drain(source: &mut GpuClients, flush: Flush, chunks: &mut Vec<Chunk>) {
        let mut out = Drained {
            chunk: &mut |chunk| chunks.push(chunk),
            of_programs: &mut Vec::new(),
            observe: &mut |_| (),
        };
        source.drain(Ticks(0), flush, &mut out);
    }

    #[test]
    fn what_is_open_becomes_a_definition_and_records_and_the_thread_ends_with_the_recording() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("dev/dri")).unwrap();
        let text = "drm-driver: x\ndrm-client-id: 1\ndrm-memory-vram: 7 KiB\n";
        open(root.path(), 70, 3, "/dev/dri/renderD128", Some(text));
        let (chunks, missing) = recorded(root.path());
        assert_eq!(chunks[0].header.lane.kind, LaneKind::Definition);
        assert!(String::from_utf8_lossy(&chunks[0].data).contains("GPU memory vram (x)"));
        assert_eq!(
            (chunks[1].header.lane, chunks[1].header.records, chunks[1].data.len()),
            (LANE, 1, 24)
        );
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_driver_that_does_not_answer_holds_nobody_up_and_is_told() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("dev/dri")).unwrap();
        open(root.path(), 70, 3, "/dev/dri/renderD128", None);
        let fdinfo = root.path().join("proc/70/fdinfo/3");
        std::fs::remove_file(&fdinfo).unwrap();
        // Whoever opens a pipe waits for somebody at its other end.
        assert!(std::process::Command::new("mkfifo").arg(&fdinfo).status().unwrap().success());
        let mut source = GpuClients::start(root.path(), ClockSource::Monotonic).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        source.detach(&[]);
        let began = Instant::now();
        source.drain(
            Ticks(0),
            Flush::All,
            &mut Drained { chunk: &mut |_| (), of_programs: &mut Vec::new(), observe: &mut |_| () },
        );
        assert!(began.elapsed() < 5 * LONGEST_GOODBYE);
        assert_eq!(source.missing(), ["a GPU driver did not answer when the recording ended"]);
        // Lets the thread go.
        drop(std::fs::OpenOptions::new().write(true).open(&fdinfo));
    }

    #[test]
    fn a_machine_without_devices_is_not_asked_and_says_so() {
        let root = tempfile::tempdir().unwrap();
        let (chunks, missing) = recorded(root.path());
        assert!(
            chunks.is_empty() && missing.len() == 1 && missing[0].contains("no /dev/dri"),
            "{missing:?}"
        );
    }
}
