//! What happened to each thread: samples, CPU time, markers.

use super::marker_table::MarkerTable;
use super::tables::{Category, OffReason, Shared};

/// A row of a thread's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleRow {
    /// Nanoseconds of the session.
    pub(super) time: u64,
    pub(super) stack: Option<u32>,
    /// CPU time since the row before, nanoseconds.
    pub(super) cpu_ns: u64,
    /// Sampling intervals that it stands for.
    pub(super) weight: u64,
}

/// A stay off the CPU that has not ended.
#[derive(Clone, Copy, Debug)]
struct OffStay {
    since: u64,
    stack: Option<u32>,
    reason: OffReason,
}

/// One thread.
#[derive(Debug, Default)]
pub(super) struct ThreadState {
    pub(super) samples: Vec<SampleRow>,
    pub(super) markers: MarkerTable,
    /// CPU time is counted up to here; `None` while it does not run, as far as it is known.
    running: Option<u64>,
    /// When it came onto its CPU.
    pub(super) came: Option<u64>,
    /// The last moment on a CPU.
    last_ran: u64,
    /// CPU time since the last row.
    cpu_ns: u64,
    off: Option<OffStay>,
    /// It left its CPU for the last time.
    gone: bool,
    /// Off-CPU time that made no whole interval yet.
    off_ns: u64,
}

impl ThreadState {
    /// A sample on the CPU. Idle runs on all CPUs at once, so it has no CPU time.
    #[inline]
    pub(super) fn sample(&mut self, time: u64, stack: u32, idle: bool) {
        if !idle {
            self.count_cpu(time);
            // It runs, even if the switch to it was lost; after the switch away
            // from it, the kernel is only finishing.
            if self.off.is_none() && !self.gone {
                self.running = Some(time);
            }
        }
        self.push(time, Some(stack), 1);
    }

    /// It gets a CPU.
    #[inline]
    pub(super) fn comes(&mut self, time: u64, interval: u64, shared: &mut Shared) {
        self.end_stay(time, interval, shared);
        (self.running, self.came, self.gone) = (Some(time), Some(time), false);
    }

    /// It leaves its CPU; without a reason for good. Gives the time since when it ran.
    #[inline]
    pub(super) fn leaves(
        &mut self,
        time: u64,
        stack: Option<u32>,
        reason: Option<OffReason>,
    ) -> Option<u64> {
        self.count_cpu(time);
        self.running = None;
        self.off = reason.map(|reason| OffStay { since: time, stack, reason });
        self.gone = reason.is_none();
        self.came.take()
    }

    /// It may run from now on, and waits for a CPU.
    #[inline]
    pub(super) fn wakes(&mut self, time: u64, interval: u64, shared: &mut Shared) {
        let Some(stay) = self.off.filter(|stay| stay.reason != OffReason::Runnable) else { return };
        self.end_stay(time, interval, shared);
        self.off = Some(OffStay { since: time, reason: OffReason::Runnable, ..stay });
    }

    /// Switches of its CPU are missing from `time` on: whether it runs is not known.
    pub(super) fn unknown(&mut self, time: u64) {
        self.count_cpu(time);
        (self.running, self.came) = (None, None);
    }

    /// Its CPU turns out to run another thread: it left at a time that nobody recorded.
    pub(super) fn lose(&mut self) {
        (self.running, self.came) = (None, None);
    }

    /// The session ends.
    pub(super) fn finish(&mut self, time: u64, interval: u64, shared: &mut Shared) {
        self.count_cpu(time);
        self.end_stay(time, interval, shared);
        if self.cpu_ns > 0 {
            // Weighs nothing, but keeps the sum of CPU time right.
            self.push(self.last_ran, None, 0);
        }
    }

    /// Not one switch was recorded: each sample stands for the `interval` between two, and nothing
    /// tells more.
    pub(super) fn count_samples(&mut self, interval: u64) {
        self.samples.iter_mut().for_each(|row| row.cpu_ns = interval);
        (self.running, self.cpu_ns) = (None, 0);
    }

    fn count_cpu(&mut self, time: u64) {
        if let Some(since) = self.running.filter(|since| *since < time) {
            self.cpu_ns += time - since;
            (self.running, self.last_ran) = (Some(time), time);
        }
    }

    /// One row for each whole interval off the CPU, as if the clock of the
    /// samples went on ticking: the first where it left, the others together
    /// where it came back.
    fn end_stay(&mut self, time: u64, interval: u64, shared: &mut Shared) {
        let Some(OffStay { since, stack, reason }) = self.off.take() else { return };
        self.off_ns = self.off_ns.saturating_add(time.saturating_sub(since));
        let count = self.off_ns / interval;
        self.off_ns %= interval;
        if count == 0 {
            return;
        }
        let stack = shared.labelled(stack, reason.name(), Category::OffCpu, reason as u8);
        self.push(since, Some(stack), 1);
        if count > 1 {
            self.push(time, Some(stack), count - 1);
        }
    }

    fn push(&mut self, time: u64, stack: Option<u32>, weight: u64) {
        // The viewer needs rows in order; a sample just after a switch may lie behind it.
        let time = self.samples.last().map_or(time, |row| row.time.max(time));
        self.samples.push(SampleRow {
            time,
            stack,
            cpu_ns: std::mem::take(&mut self.cpu_ns),
            weight,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rows(state: &ThreadState) -> Vec<(u64, u64, u64)> {
        state.samples.iter().map(|row| (row.time / MS, row.cpu_ns / MS, row.weight)).collect()
    }

    #[test]
    fn cpu_time_is_counted_from_switch_to_switch() {
        let (mut state, mut shared) = (ThreadState::default(), Shared::default());
        state.comes(0, MS, &mut shared);
        state.sample(3 * MS, 0, false);
        state.leaves(5 * MS, None, Some(OffReason::Sleeping));
        state.wakes(8 * MS, MS, &mut shared);
        state.comes(10 * MS, MS, &mut shared);
        state.leaves(11 * MS, None, None);
        state.finish(20 * MS, MS, &mut shared);
        let sleeping = [(5, 2, 1), (8, 0, 2)];
        let waiting = [(8, 0, 1), (10, 0, 1)];
        assert_eq!(rows(&state), [&[(3, 3, 1)][..], &sleeping, &waiting, &[(11, 1, 0)]].concat());
        assert_eq!(state.samples.iter().map(|row| row.cpu_ns).sum::<u64>(), 6 * MS);
    }

    #[test]
    fn short_stays_add_up_until_they_make_an_interval() {
        let (mut state, mut shared) = (ThreadState::default(), Shared::default());
        for at in 0..10 {
            state.leaves(at * MS, None, Some(OffReason::Blocked));
            state.comes(at * MS + MS / 4, MS, &mut shared);
        }
        assert_eq!(state.samples.iter().map(|row| row.weight).sum::<u64>(), 2, "ten quarters");
    }

    #[test]
    fn a_sample_behind_its_switch_keeps_the_order() {
        let (mut state, mut shared) = (ThreadState::default(), Shared::default());
        state.comes(0, MS, &mut shared);
        state.leaves(2 * MS, None, Some(OffReason::Sleeping));
        state.sample(2 * MS + 100, 0, false);
        state.comes(9 * MS, MS, &mut shared);
        let times: Vec<u64> = state.samples.iter().map(|row| row.time).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(state.samples.iter().map(|row| row.cpu_ns).sum::<u64>(), 2 * MS);
    }

    #[test]
    fn a_sample_behind_the_last_switch_of_a_thread_gives_it_no_time() {
        let (mut state, mut shared) = (ThreadState::default(), Shared::default());
        state.comes(0, MS, &mut shared);
        state.leaves(2 * MS, None, None);
        state.sample(2 * MS + 100, 0, false);
        state.finish(900 * MS, MS, &mut shared);
        assert_eq!(state.samples.iter().map(|row| row.cpu_ns).sum::<u64>(), 2 * MS);
    }

    #[test]
    fn while_switches_are_missing_no_cpu_time_is_invented() {
        let (mut state, mut shared) = (ThreadState::default(), Shared::default());
        state.comes(0, MS, &mut shared);
        state.unknown(MS);
        state.leaves(9 * MS, None, None);
        state.finish(9 * MS, MS, &mut shared);
        assert_eq!(rows(&state), [(1, 1, 0)]);
    }
}
