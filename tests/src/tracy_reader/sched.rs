//! Context switches.

use super::cursor::Cursor;
use super::{Damage, TracyFile};

/// A time that a thread ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When it was woken, else when it began to run.
    pub wakeup: i64,
    /// When it began to run.
    pub start: i64,
    /// When it left.
    pub end: i64,
    /// Where.
    pub cpu: u8,
    /// The CPU that woke it; its own where the layout does not say or nobody knows.
    pub wakeup_cpu: u8,
    /// 100 on Linux, -1 while it runs.
    pub reason: i8,
    /// 101 uninterruptible, 102 idle, 103 runnable, 104 interruptible, 105 stopped, 106 traced, 108
    /// dead, 109 zombie, 110 parked.
    pub state: i8,
}

/// A time that a CPU ran a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The thread's number.
    pub thread: u64,
}

/// Sums of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Nanoseconds on CPUs.
    pub running: i64,
    /// How often.
    pub regions: u32,
    /// How often on another CPU than before.
    pub migrations: u32,
}

pub(super) fn switches(cursor: &mut Cursor<'_>, trace: &mut TracyFile) -> Result<(), Damage> {
    cursor.section("context switches");
    for _ in 0..cursor.count(16)? {
        let id = cursor.u64()?;
        let mut reference = 0;
        let list = cursor.list(35, |cursor| {
            let [wakeup, start, end] = [
                cursor.time(&mut reference)?,
                cursor.time(&mut reference)?,
                cursor.time(&mut reference)?,
            ];
            let (cpu, reason, state) = (cursor.u8()?, cursor.i8()?, cursor.i8()?);
            let thread = cursor.u64()?;
            cursor.check(thread == 0, || format!("thread {thread} in a field that nobody uses"))?;
            cursor
                .check(reason == if end < 0 { -1 } else { 100 }, || format!("reason {reason}"))?;
            cursor
                .check(state == -1 || (101..=110).contains(&state), || format!("state {state}"))?;
            let wakeup_cpu = if cursor.since([0, 11, 3]) { cursor.u8()? } else { cpu };
            Ok(Switch { wakeup, start, end, cpu, wakeup_cpu, reason, state })
        })?;
        cursor.check(!list.is_empty(), || format!("thread {id} has none"))?;
        cursor.check(trace.switches.insert(id, list).is_none(), || {
            format!("thread {id} is there twice")
        })?;
    }
    Ok(())
}

pub(super) fn cpus(
    cursor: &mut Cursor<'_>,
    external: &[u64],
    trace: &mut TracyFile,
) -> Result<(), Damage> {
    cursor.section("CPUs");
    let total = cursor.u64()?;
    for _ in 0..256 {
        let mut reference = 0;
        let list = cursor.list(18, |cursor| {
            let [start, end] = [cursor.time(&mut reference)?, cursor.time(&mut reference)?];
            let index = cursor.u16()?;
            let thread = external.get(usize::from(index)).filter(|_| index != 0);
            let thread = *thread
                .ok_or_else(|| cursor.damage(format!("there is no external thread {index}")))?;
            Ok(CpuTime { start, end, thread })
        })?;
        trace.cpus.push(list);
    }
    let found: usize = trace.cpus.iter().map(Vec::len).sum();
    cursor.check(total == found as u64, || format!("{total} were told, {found} are there"))
}

pub(super) fn sums(cursor: &mut Cursor<'_>, trace: &mut TracyFile) -> Result<(), Damage> {
    cursor.section("process ids");
    trace.pids =
        cursor.list(16, |cursor| Ok((cursor.u64()?, cursor.u64()?)))?.into_iter().collect();
    cursor.section("sums of threads");
    let sums = cursor.list(24, |cursor| {
        let id = cursor.u64()?;
        Ok((
            id,
            Totals { running: cursor.i64()?, regions: cursor.u32()?, migrations: cursor.u32()? },
        ))
    })?;
    trace.totals = sums.into_iter().collect();
    Ok(())
}

/// Threads and CPUs do one thing at a time, and agree on it.
pub(super) fn check_times(trace: &TracyFile) -> Result<(), Damage> {
    let mut of_threads: Vec<(u8, CpuTime)> = Vec::new();
    for (id, list) in &trace.switches {
        if !in_order(list.iter().map(|switch| (switch.start, switch.end)).collect()) {
            return Err(Damage(format!("thread {id} runs out of order")));
        }
        if list.iter().any(|switch| switch.wakeup > switch.start) {
            return Err(Damage(format!("thread {id} is woken after it runs")));
        }
        // The viewer looks for the thread that ran there.
        if let Some(switch) =
            list.iter().find(|switch| trace.cpus[usize::from(switch.wakeup_cpu)].is_empty())
        {
            return Err(Damage(format!(
                "thread {id} is woken by CPU {}, which ran nothing",
                switch.wakeup_cpu
            )));
        }
        of_threads.extend(
            list.iter().map(|s| (s.cpu, CpuTime { start: s.start, end: s.end, thread: *id })),
        );
    }
    let mut of_cpus: Vec<(u8, CpuTime)> = Vec::new();
    for (cpu, list) in (0..=255).zip(&trace.cpus) {
        if !in_order(list.iter().map(|time| (time.start, time.end)).collect()) {
            return Err(Damage(format!("CPU {cpu} runs out of order")));
        }
        of_cpus.extend(list.iter().map(|time| (cpu, *time)));
    }
    for list in [&mut of_threads, &mut of_cpus] {
        list.sort_by_key(|(cpu, time)| (*cpu, time.start, time.end, time.thread));
    }
    if of_threads != of_cpus {
        return Err(Damage("threads and CPUs do not agree on who ran where".into()));
    }
    let last = trace.header.last_time;
    let late =
        of_cpus.iter().map(|(_, time)| time.start.max(time.end)).max().filter(|time| *time > last);
    late.map_or(Ok(()), |time| {
        Err(Damage(format!("something ends at {time}, after the last time {last}")))
    })
}

fn in_order(mut times: Vec<(i64, i64)>) -> bool {
    let last = times.pop();
    times.iter().all(|(start, end)| (0..=*end).contains(start))
        && times.windows(2).all(|two| two[0].1 <= two[1].0)
        && last.is_none_or(|(start, end)| {
            times.last().is_none_or(|l| l.1 <= start) && (end < 0 || end >= start)
        })
}
