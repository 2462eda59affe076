//! What each CPU runs.

use super::data::CpuRow;
use super::runs::{CpuMeanwhile, Runs};
use syscollect_model::{CpuId, PerCpu, Tables, ThreadId};

/// One CPU, nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    /// What runs, where it is known.
    pub(super) current: Option<ThreadId>,
    /// Since when `current` runs.
    pub(super) since: u64,
    /// Nothing was known until then; what is seen next has run since.
    pub(super) resumed: Option<u64>,
    /// Its last scheduling event: up to there it is known what ran.
    pub(super) last_event: u64,
    /// Time in which threads ran, as their own accounts have it.
    pub(super) busy: u64,
    pub(super) idle: u64,
    pub(super) switches: u64,
    /// What it ran last, where that is asked for.
    runs: Option<Runs>,
}

impl Cpu {
    /// Books the time that it idles, and remembers what runs, until `now`.
    #[inline]
    pub(super) fn settle(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.since);
        if self.current == Some(Tables::IDLE_THREAD) {
            self.idle += elapsed;
        }
        if let (Some(runs), Some(thread)) = (&mut self.runs, self.current)
            && elapsed > 0
        {
            runs.add(thread, self.since, now);
        }
        self.since = self.since.max(now);
    }

    /// What it ran until now does not count.
    pub(super) fn forget_before(&mut self, now: u64) {
        self.settle(now);
        (self.busy, self.idle, self.switches) = (0, 0, 0);
        self.resumed = self.resumed.map(|resumed| resumed.max(now));
    }
}

/// All CPUs.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    cpus: PerCpu<Cpu>,
    keeps_runs: bool,
}

impl Cpus {
    /// CPUs that remember what they ran last, or do not.
    pub(super) fn new(keeps_runs: bool) -> Self {
        Self { cpus: PerCpu::default(), keeps_runs }
    }

    /// What a CPU ran between two times, as far as it remembers.
    pub(super) fn ran(&mut self, cpu: CpuId, since: u64, until: u64) -> CpuMeanwhile {
        self.get(cpu)
            .runs
            .as_ref()
            .map_or_else(CpuMeanwhile::default, |runs| runs.between(since, until))
    }

    #[inline]
    pub(super) fn get(&mut self, cpu: CpuId) -> &mut Cpu {
        let keeps_runs = self.keeps_runs;
        self.cpus.get_or(cpu, || Cpu { runs: keeps_runs.then(Runs::default), ..Cpu::default() })
    }

    /// All of which something is known.
    pub(super) fn ids(&self) -> Vec<CpuId> {
        self.cpus.iter().map(|(id, _)| id).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CpuId, &Cpu)> {
        self.cpus.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (CpuId, &mut Cpu)> {
        self.cpus.iter_mut()
    }

    /// By number, of a session that lasted so long.
    pub(super) fn rows(&self, duration_ns: u64) -> Vec<CpuRow> {
        let rows = self.cpus.iter().map(|(number, cpu)| CpuRow {
            cpu: number,
            busy_ns: cpu.busy,
            idle_ns: cpu.idle,
            unknown_ns: duration_ns.saturating_sub(cpu.busy + cpu.idle),
            switches: cpu.switches,
        });
        rows.collect()
    }
}
