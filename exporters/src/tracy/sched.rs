//! Switches and wakeups as intervals: of each thread, and of each CPU.

use super::options::TracyLayout;
use super::rows::{Interval, Row, RowId, RowOwner, RowWakeup, Rows};
use super::threads::Threads;
use super::wire::Payload;
use std::io::{self, Write};
use syscollect_model::{CpuId, CpuInfo, MachineId, SessionInfo, SleepState, Switch, Tables};

/// The file always has this many lists.
const MAX_CPUS: usize = 256;
/// `ContextSwitchData::NoState`: the reason of every switch on Linux, which has states instead.
const REASON: i8 = 100;
/// How a thread left its CPU was lost; the viewer shows nothing.
const UNKNOWN_STATE: i8 = -1;

/// A CPU: which intervals it ran, by row and index.
#[derive(Default)]
struct Cpu {
    ran: Vec<(u32, u32)>,
    current: Option<RowId>,
    /// Whether it has switched, or lost switches.
    observed: bool,
}

/// All CPUs.
#[derive(Default)]
pub(crate) struct Cpus {
    cpus: Vec<Cpu>,
    /// Where the CPUs of each machine lie.
    first: Vec<u32>,
    /// Switches on CPUs that the file has no room for.
    pub(crate) refused: u64,
}

impl Cpus {
    /// Cpus of these machines: the file numbers them all, one machine's behind another's.
    pub(crate) fn new(machines: &[SessionInfo]) -> Self {
        let sizes = machines.iter().map(|machine| {
            machine.cpus.iter().map(|cpu| cpu.cpu.saturating_add(1)).max().unwrap_or(0)
        });
        let first = sizes.scan(0u32, |next, size| {
            let first = *next;
            *next = next.saturating_add(size);
            Some(first)
        });
        Self { first: first.collect(), ..Self::default() }
    }

    /// The CPUs of all machines, as the file numbers them and their packages.
    pub(crate) fn all(&self, tables: &Tables) -> Vec<CpuInfo> {
        let mut all = Vec::new();
        let mut first_package = 0;
        for (info, first) in tables.machines.iter().zip(&self.first) {
            let packages =
                info.cpus.iter().map(|cpu| cpu.package.saturating_add(1)).max().unwrap_or(0);
            all.extend(info.cpus.iter().map(|cpu| CpuInfo {
                cpu: first.saturating_add(cpu.cpu),
                package: cpu.package.saturating_add(first_package),
                ..cpu.clone()
            }));
            first_package = packages.saturating_add(first_package);
        }
        all
    }

    /// The CPU's number in the file; `None` where that has no room for it.
    pub(crate) fn number(&self, cpu: CpuId) -> Option<u8> {
        let first = self.first.get(usize::from(cpu.machine.0)).copied().unwrap_or(0);
        u8::try_from(first.saturating_add(cpu.number)).ok()
    }

    fn get(&mut self, number: u8) -> &mut Cpu {
        let index = usize::from(number);
        if index >= self.cpus.len() {
            self.cpus.resize_with(index + 1, Cpu::default);
        }
        &mut self.cpus[index]
    }

    /// Records of a CPU (`None`: of any) were lost: who ran on it is told by its next switch only.
    pub(crate) fn lost(&mut self, cpu: Option<CpuId>) {
        match cpu.map(|cpu| self.number(cpu)) {
            Some(number) => number.into_iter().for_each(|number| self.get(number).observed = true),
            None => self.cpus.iter_mut().for_each(|cpu| cpu.observed = true),
        }
    }

    #[inline]
    pub(crate) fn switch(&mut self, rows: &mut Rows, time: i64, switch: &Switch) {
        let Some(number) = self.number(switch.cpu) else {
            self.refused += 1;
            return;
        };
        let cpu = self.get(number);
        let previous = switch.previous.and_then(|thread| rows.thread(thread));
        let first = !std::mem::replace(&mut cpu.observed, true);
        match (cpu.current.take(), previous) {
            (Some(current), _) => {
                let known = previous == Some(current);
                let state = if known { state(switch) } else { UNKNOWN_STATE };
                rows.get(current).leave(time, state);
            }
            (None, Some(previous)) if first => {
                let before = (number, rows.get(previous), previous);
                Self::ran_before(cpu, before, time, switch);
            }
            (None, _) => (),
        }
        let Some(next) = rows.thread(switch.next) else { return };
        let row = rows.get(next);
        if row.running {
            // Its switch away from the other CPU was lost.
            let before = row.intervals.last().map(|interval| usize::from(interval.cpu));
            row.leave(time, UNKNOWN_STATE);
            before
                .and_then(|before| self.cpus.get_mut(before))
                .into_iter()
                .for_each(|cpu| cpu.current = None);
        }
        let cpu = self.get(number);
        cpu.ran.push((next.0, row.intervals.len() as u32));
        cpu.current = Some(next);
        row.run(time, number);
    }

    /// The recording of a machine ends: what runs on its CPUs is known until now.
    pub(crate) fn end_machine(&mut self, rows: &mut Rows, time: i64, machine: MachineId) {
        let end = usize::from(machine.0) + 1;
        let first = self.first.get(end - 1).map_or(0, |first| *first as usize);
        let end = self.first.get(end).map_or(MAX_CPUS, |end| *end as usize);
        let cpus = self.cpus.iter_mut().take(end).skip(first);
        for current in cpus.filter_map(|cpu| cpu.current.take()) {
            rows.get(current).leave(time, UNKNOWN_STATE);
        }
    }

    /// The thread that a CPU's first switch ends ran since the recording began.
    fn ran_before(
        cpu: &mut Cpu,
        (number, row, id): (u8, &mut Row, RowId),
        time: i64,
        switch: &Switch,
    ) {
        let start = row.intervals.last().map_or(1, |interval| interval.end);
        if row.running || start >= time {
            return;
        }
        cpu.ran.push((id.0, row.intervals.len() as u32));
        row.wakeup = None;
        row.run(start, number);
        row.leave(time, state(switch));
    }

    /// The CPU that woke a thread. The viewer looks up who ran there, so it is one that ran
    /// something.
    fn wakeup_cpu(&self, interval: &Interval) -> u8 {
        let known =
            self.cpus.get(usize::from(interval.wakeup_cpu)).filter(|cpu| !cpu.ran.is_empty());
        if known.is_some() { interval.wakeup_cpu } else { interval.cpu }
    }

    /// Writes the context switches of every thread, then of every CPU.
    pub(crate) fn write<W: Write>(
        &self,
        out: &mut Payload<W>,
        rows: &Rows,
        threads: &Threads,
    ) -> io::Result<()> {
        let ran = threads.of_rows(rows).filter(|(_, thread)| thread.external != 0);
        out.count(ran.clone().count())?;
        for (row, thread) in ran {
            out.u64(thread.number)?;
            out.count(row.intervals.len())?;
            let mut reference = 0;
            for interval in &row.intervals {
                write_interval(out, interval, &mut reference)?;
                if out.layout >= TracyLayout::V0_13 {
                    out.u8(self.wakeup_cpu(interval))?;
                }
            }
        }
        // What rows ran that are left out is gone.
        let interval = |(row, interval): &(u32, u32)| {
            let row = RowId(*row);
            let found = rows.find(row)?.intervals.get(*interval as usize)?;
            Some((found, threads.of(row).external))
        };
        out.count(self.cpus.iter().map(|cpu| cpu.ran.iter().filter_map(interval).count()).sum())?;
        for index in 0..MAX_CPUS {
            let ran = self.cpus.get(index).map_or(&[][..], |cpu| &cpu.ran);
            out.count(ran.iter().filter_map(interval).count())?;
            let mut reference = 0;
            for (Interval { start, end, .. }, external) in ran.iter().filter_map(interval) {
                out.i64(start - reference)?;
                out.i64(end - start)?;
                out.u16(external)?;
                reference = *end;
            }
        }
        Ok(())
    }
}

#[inline]
fn write_interval<W: Write>(
    out: &mut Payload<W>,
    interval: &Interval,
    reference: &mut i64,
) -> io::Result<()> {
    let Interval { wakeup, start, end, cpu, state, .. } = *interval;
    let mut bytes = [0; 35];
    bytes[..8].copy_from_slice(&(wakeup - *reference).to_le_bytes());
    bytes[8..16].copy_from_slice(&(start - wakeup).to_le_bytes());
    bytes[16..24].copy_from_slice(&(end - start).to_le_bytes());
    bytes[24..27].copy_from_slice(&[cpu, if end < 0 { -1 } else { REASON } as u8, state as u8]);
    *reference = end;
    out.bytes(&bytes)
}

impl Row {
    fn run(&mut self, time: i64, cpu: u8) {
        let (wakeup, wakeup_cpu) = match self.wakeup.take() {
            Some(RowWakeup { time, cpu: waker }) => (time, waker.unwrap_or(cpu)),
            None => (time, cpu),
        };
        self.intervals.push(Interval {
            wakeup,
            start: time,
            end: -1,
            cpu,
            wakeup_cpu,
            state: UNKNOWN_STATE,
        });
        self.running = true;
    }

    fn leave(&mut self, time: i64, state: i8) {
        if let Some(last) = self.intervals.last_mut() {
            (last.end, last.state) = (time, state);
        }
        self.running = false;
    }

    /// The thread is woken. A wakeup may come while the thread is still on its
    /// way to sleep, and counts then; the first one counts once it sleeps.
    #[inline]
    pub(crate) fn wake(&mut self, time: i64, cpu: Option<u8>) {
        let asleep_since = self.intervals.last().map_or(0, |interval| interval.end);
        if self.running || self.wakeup.is_none_or(|first| first.time < asleep_since) {
            self.wakeup = Some(RowWakeup { time, cpu });
        }
    }

    /// Time on CPUs that has ended, how often it ran, how often on another CPU than before.
    fn totals(&self) -> (i64, u32, u32) {
        let running = self
            .intervals
            .iter()
            .filter(|interval| interval.end >= 0)
            .map(|i| i.end - i.start)
            .sum();
        let ended = self.intervals.iter().filter(|interval| interval.end >= 0).count();
        let migrations = self.intervals.windows(2).filter(|two| two[0].cpu != two[1].cpu).count();
        (running, ended as u32, migrations as u32)
    }

    /// What makes a thread visible that would only switch: the viewer hides it.
    pub(crate) fn summary(&self) -> Option<(i64, String)> {
        let hidden = self.samples.is_empty() && self.messages.is_empty() && self.zones.is_empty();
        let first = self
            .intervals
            .first()
            .filter(|_| hidden && matches!(self.owner, RowOwner::Thread(_)))?;
        let (running, ..) = self.totals();
        let times = self.intervals.len();
        let milliseconds = running as f64 / 1e6;
        Some((
            first.start,
            format!("runs {times} times, {milliseconds:.3} ms in all; no stack of it was taken"),
        ))
    }
}

/// Writes the sums of every thread.
pub(crate) fn write_totals<W: Write>(
    out: &mut Payload<W>,
    rows: &Rows,
    threads: &Threads,
) -> io::Result<()> {
    let ran = threads.of_rows(rows).filter(|(_, thread)| thread.external != 0);
    out.count(ran.clone().count())?;
    for (row, thread) in ran {
        let (running, regions, migrations) = row.totals();
        out.u64(thread.number)?;
        out.i64(running)?;
        out.u32(regions)?;
        out.u32(migrations)?;
    }
    Ok(())
}

/// The state as the viewer numbers it.
pub(crate) fn state(switch: &Switch) -> i8 {
    match switch.off_cpu.state {
        _ if switch.off_cpu.preempted => 103,
        SleepState::Uninterruptible => 101,
        SleepState::Idle => 102,
        SleepState::Runnable => 103,
        SleepState::Interruptible => 104,
        SleepState::Stopped => 105,
        SleepState::Traced => 106,
        SleepState::Dead => 108,
        SleepState::Zombie => 109,
        SleepState::Parked => 110,
    }
}
