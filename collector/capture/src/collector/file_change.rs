//! How a recording goes on in another file without losing an event between the two.
//!
//! Everything that happened until now goes into the ended file. The kernel programs forget which
//! stacks they have sent, so that what comes later refers to stacks that are sent again; what they
//! send until the change is in both files. Then chunks go into the next file's buffer, and what is
//! known of processes and mappings is read again as at the beginning of a recording. The collector
//! thread touches no file and waits for nobody.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use syscollect_model::{RecorderSummary, StopReason};
use syscollect_store::{Definition, LaneLoss};

use super::Collector;
use crate::files::{FileEnd, losses_since};
use crate::stage::Flush;
use crate::usage::{cpu_time, peak_memory, program_time};

/// No file is shorter than this because of its size: each begins with what is known of all
/// processes, which may be more than it may have.
const SHORTEST: Duration = Duration::from_millis(250);

/// When a file ends and another begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RotationLimits {
    /// When this time has passed,
    pub(crate) every: Duration,
    /// or when it has so many bytes.
    pub(crate) bytes: Option<u64>,
}

/// How far everything was when a file began.
#[derive(Clone, Debug)]
pub(crate) struct FileStart {
    /// When.
    pub(crate) at: Instant,
    pub(crate) cpu: Duration,
    pub(crate) losses: Vec<LaneLoss>,
    pub(crate) statistics: BTreeMap<String, u64>,
}

impl FileStart {
    /// The first file begins; nothing was counted before.
    pub(crate) fn of_the_first() -> Self {
        Self {
            at: Instant::now(),
            cpu: cpu_time(),
            losses: Vec::new(),
            statistics: BTreeMap::new(),
        }
    }

    /// CPU time of the recorder since then, nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        cpu_time().saturating_sub(self.cpu).as_nanos() as u64
    }

    /// What of these losses came since then.
    pub(crate) fn losses(&self, all: &[LaneLoss]) -> Vec<LaneLoss> {
        losses_since(all, &self.losses)
    }

    /// What of these counts came since then.
    pub(crate) fn statistics(&self, all: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let since = all.into_iter().map(|(name, count)| {
            let before = self.statistics.get(&name).copied().unwrap_or(0);
            (name, count.saturating_sub(before))
        });
        since.collect()
    }
}

impl Collector {
    /// Begins another file if it is time. Not while the disk is behind: then both files' chunks
    /// would be in memory.
    pub(crate) fn follow_pace(&mut self) {
        let Some(RotationLimits { every, bytes }) = self.output.pace else { return };
        let written = self.output.shared.files.written.load(Ordering::Relaxed);
        let age = self.file.at.elapsed();
        let is_due =
            age >= every || (age >= SHORTEST && bytes.is_some_and(|bytes| written >= bytes));
        if is_due && !self.output.sink.is_behind() {
            self.next_file();
        }
    }

    fn next_file(&mut self) {
        self.read_machine(Flush::All);
        self.drain(Flush::All);
        self.output.sink.begin_overlap();
        self.sources.iter_mut().for_each(|source| source.restate());
        self.read_machine(Flush::All);
        self.drain(Flush::All);
        self.note_losses();
        self.collect_missing();
        self.describe_again();

        let (losses, statistics) = (self.losses(), self.statistics());
        let began = Instant::now();
        let (sender, pinned) = channel();
        let of_file = self.file.statistics(statistics.clone());
        let summary = RecorderSummary {
            stop_reason: StopReason::Rotation,
            recorder_cpu_ns: self.file.cpu_ns(),
            kernel_program_ns: program_time(&of_file),
            recorder_peak_bytes: peak_memory(),
            duration_ns: (began - self.file.at).as_nanos() as u64,
            statistics: of_file,
            missing: self.missing.clone(),
            refused_tables: self.refused_tables.all(),
            ..RecorderSummary::default()
        };
        let end = FileEnd {
            pinned,
            stacks: self.take_stacks_in_memory(),
            summary,
            losses: self.file.losses(&losses),
        };
        let next = self.output.sink.next_file();
        self.output.begin.ended(end);
        self.output.begin.file(next);
        self.output.define(&Definition::Session(Box::new(self.session.clone())));
        if let Some(machine) = &self.machine {
            machine.metadata.next_file(sender);
        }
        self.sources.iter_mut().for_each(|source| source.file_began());
        self.last_losses.clear();
        self.file = FileStart { at: began, cpu: cpu_time(), losses, statistics };
    }
}
