//! Scheduling: what ran where, who woke whom, why threads slept.
//!
//! Rules of trace_processor (v55.3) that shape this file:
//! - a compact switch says only what comes; what leaves is what came before, so
//!   each CPU begins with a full `sched_switch`, and so does each gap;
//! - a compact waking's waker is what runs on the CPU; any other waker needs a
//!   full `sched_waking`;
//! - `sched_blocked_reason` counts only between the switch away and the wakeup;
//! - compact and full events of one nanosecond come in any order.

use super::fields::{ftrace, interned};
use super::intern::{WrittenIds, interned_string, string_iid};
use super::lane::{CompactSwitch, CompactWaking, Lane};
use super::names::{Names, UNRECORDED_NAME, UNRECORDED_TID};
use super::packets::Sequence;
use super::stream::Stream;
use crate::ExportError;
use crate::proto::Message;
use std::io::Write;
use syscollect_model::{
    CpuId, Migration, OffCpu, OperatingSystem, PerCpu, SchedulingGap, SessionInfo, SleepState,
    StringId, Switch, Tables, ThreadId, Time, Wakeup,
};

/// `TRACE_FLAG_HARDIRQ` of the kernel's trace records: the waker was an interrupt.
/// Soft and hard interrupts are not told apart; viewers show both alike.
const IN_INTERRUPT: u64 = 0x08;
/// The state of a thread whose last switch was not recorded: asleep, which says
/// least. (A state that the kernel does not have is an import error to viewers.)
const UNKNOWN_STATE: u64 = 0x01;

/// A thread as an event names it.
#[derive(Clone, Copy)]
struct Task<'a> {
    tid: u32,
    name: &'a str,
    priority: i32,
}

impl<'a> Task<'a> {
    fn of(id: ThreadId, priority: i32, names: &Names, tables: &'a Tables) -> Self {
        Self { tid: tables.thread(id).tid, name: tables.strings.get(names.name(id)), priority }
    }
}

/// Stands for whatever ran while nothing was recorded.
const UNRECORDED: Task<'static> = Task { tid: UNRECORDED_TID, name: UNRECORDED_NAME, priority: 0 };

/// A preempted thread, since Linux 4.14 (`TASK_REPORT_MAX`).
const PREEMPTED: u64 = 0x100;
/// The same before 4.8 (`TASK_STATE_MAX`), which trace_processor takes for the age of every system
/// but Linux.
const PREEMPTED_BEFORE_4_8: u64 = 0x800;

/// The scheduling events of all CPUs.
pub(crate) struct Scheduling {
    sequence: Sequence,
    /// How viewers tell that a thread was preempted.
    preempted: u64,
    lanes: PerCpu<Lane>,
    symbols: WrittenIds,
    /// Names of kernel functions that no bundle has carried yet, as fields of `InternedData`.
    /// They go with the next bundle of any CPU, and so before or with their first user.
    new_symbols: Vec<u8>,
}

impl Scheduling {
    pub(crate) fn new(sequence: Sequence) -> Self {
        let (lanes, symbols, new_symbols) = Default::default();
        Self { sequence, preempted: PREEMPTED, lanes, symbols, new_symbols }
    }

    /// Sees to it that thread states are told as viewers read those of this system.
    pub(crate) fn begin(&mut self, session: &SessionInfo) {
        self.preempted = match session.os {
            OperatingSystem::Windows => PREEMPTED_BEFORE_4_8,
            OperatingSystem::Linux | OperatingSystem::Other(_) => PREEMPTED,
        };
    }

    #[inline]
    fn lane(&mut self, cpu: CpuId) -> &mut Lane {
        self.lanes.get_or(cpu, Lane::default)
    }

    /// The CPU on which a thread runs, as far as it is known.
    pub(crate) fn cpu_of(&self, thread: ThreadId) -> Option<CpuId> {
        self.lanes.iter().find(|(_, lane)| lane.current == Some(thread)).map(|(cpu, _)| cpu)
    }

    /// Notes that records of switches are missing, as is known now.
    pub(crate) fn gap(&mut self, now: Time, gap: SchedulingGap) {
        let since = gap.since.unwrap_or(now);
        match gap.cpu {
            Some(cpu) => self.lane(cpu).note_gap(since),
            None => self.lanes.iter_mut().for_each(|(_, lane)| lane.note_gap(since)),
        }
    }

    /// The recording ends: what runs from now on was not recorded.
    pub(crate) fn end_recording<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        names: &Names,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        for (_, lane) in self.lanes.iter_mut() {
            if let Some(current) = lane.current.take() {
                let task = Task {
                    tid: tables.thread(current).tid,
                    name: tables.strings.get(names.name(current)),
                    priority: 0,
                };
                push_full(lane, time, (task, UNKNOWN_STATE), UNRECORDED);
            }
        }
        self.flush(stream)
    }

    /// Whether a switch changes nothing: both threads were left out, and idle stands for them.
    pub(crate) fn stays_idle(&self, switch: &Switch) -> bool {
        const IDLE: Option<ThreadId> = Some(Tables::IDLE_THREAD);
        let lane = self.lanes.get(switch.cpu);
        switch.previous == IDLE
            && Some(switch.next) == IDLE
            && lane.is_some_and(|lane| lane.runs(IDLE))
    }

    /// A context switch.
    #[inline]
    pub(crate) fn switch<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        switch: &Switch,
        names: &Names,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let previous_state = state(&switch.off_cpu, self.preempted);
        let lane = self.lane(switch.cpu);
        // Who runs before a gap and after it may have been away in between.
        if lane.gap.is_none() && lane.runs(switch.previous) {
            let compact = CompactSwitch {
                time,
                previous_state,
                tid: tables.thread(switch.next).tid,
                priority: switch.next_priority,
                name: names.name(switch.next),
            };
            lane.push_switch(compact, &tables.strings);
        } else {
            resume(lane, time, (switch, previous_state), names, tables);
        }
        lane.current = Some(switch.next);
        lane.last_switch = time;
        lane.gap = None;
        if !switch.off_cpu.preempted
            && (switch.off_cpu.io_wait || switch.off_cpu.blocked_in.is_some())
        {
            self.blocked(time, switch, tables);
        }
        self.flush_if_full(stream, switch.cpu)
    }

    /// Says why the thread that left sleeps.
    #[inline]
    fn blocked(&mut self, time: Time, switch: &Switch, tables: &Tables) {
        let Some(previous) = switch.previous else { return };
        let caller = switch.off_cpu.blocked_in.map(|name| self.symbol(name, tables));
        let tid = tables.thread(previous).tid;
        let next = tables.thread(switch.next).tid;
        // A nanosecond after the switch, which it must not precede.
        self.lane(switch.cpu).push_event(Time(time.0.saturating_add(1)), next, |event| {
            event.message(ftrace::SCHED_BLOCKED_REASON, |blocked| {
                blocked.uint(ftrace::BLOCKED_PID, u64::from(tid));
                if let Some(iid) = caller {
                    blocked.uint(ftrace::BLOCKED_CALLER, iid);
                }
                blocked.uint(ftrace::BLOCKED_IO_WAIT, u64::from(switch.off_cpu.io_wait));
            });
        });
    }

    fn symbol(&mut self, name: StringId, tables: &Tables) -> u64 {
        if self.symbols.insert(name.0) {
            let text = tables.strings.get(name).as_bytes();
            interned_string(
                &mut self.new_symbols,
                interned::KERNEL_SYMBOLS,
                string_iid(name),
                text,
            );
        }
        string_iid(name)
    }

    /// A wakeup of a thread that slept, or the first one of a new thread.
    #[inline]
    pub(crate) fn wakeup<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        wakeup: &Wakeup,
        names: &Names,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let tid = tables.thread(wakeup.wakee).tid;
        let lane = self.lane(wakeup.cpu);
        if !wakeup.new && lane.runs(wakeup.waker) {
            let compact = CompactWaking {
                time,
                tid,
                target_cpu: wakeup.target_cpu.number,
                priority: wakeup.priority,
                name: names.name(wakeup.wakee),
                flags: if wakeup.from_interrupt { IN_INTERRUPT } else { 0 },
            };
            lane.push_waking(compact, &tables.strings);
        } else {
            let waker = wakeup.waker.map_or(UNRECORDED_TID, |id| tables.thread(id).tid);
            let name = tables.strings.get(names.name(wakeup.wakee));
            lane.push_event(time, waker, |event| {
                // No flags: trace_processor reads them in compact wakings only, and shows
                // an event without a name for them here.
                let field =
                    if wakeup.new { ftrace::SCHED_WAKEUP_NEW } else { ftrace::SCHED_WAKING };
                event.message(field, |waking| {
                    waking.string(ftrace::WAKING_COMM, name);
                    waking.uint(ftrace::WAKING_PID, u64::from(tid));
                    waking.int(ftrace::WAKING_PRIO, i64::from(wakeup.priority));
                    waking.uint(ftrace::WAKING_SUCCESS, 1);
                    waking.uint(ftrace::WAKING_TARGET_CPU, u64::from(wakeup.target_cpu.number));
                });
            });
        }
        self.flush_if_full(stream, wakeup.cpu)
    }

    /// A move to another run queue.
    pub(crate) fn migrate<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        migration: &Migration,
        names: &Names,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let tid = tables.thread(migration.thread).tid;
        let name = tables.strings.get(names.name(migration.thread));
        // Where the moving code ran is not told; the thread's old CPU is the place to look for it.
        self.event(stream, time, migration.from_cpu, 0, |event| {
            event.message(ftrace::SCHED_MIGRATE_TASK, |fields| {
                fields.string(ftrace::MIGRATE_COMM, name);
                fields.uint(ftrace::MIGRATE_PID, u64::from(tid));
                fields.uint(ftrace::MIGRATE_ORIG_CPU, u64::from(migration.from_cpu.number));
                fields.uint(ftrace::MIGRATE_DEST_CPU, u64::from(migration.to_cpu.number));
            });
        })
    }

    /// A CPU's frequency from now on.
    pub(crate) fn frequency<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        cpu: CpuId,
        kilohertz: u64,
    ) -> Result<(), ExportError> {
        self.event(stream, time, cpu, 0, |event| {
            event.message(ftrace::CPU_FREQUENCY, |fields| {
                fields.uint(ftrace::CPU_FREQUENCY_STATE, kilohertz);
                fields.uint(ftrace::CPU_FREQUENCY_CPU_ID, u64::from(cpu.number));
            });
        })
    }

    /// Any other event of `cpu`, where `tid` was current.
    pub(crate) fn event<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        cpu: CpuId,
        tid: u32,
        fill: impl FnOnce(&mut Message<'_>),
    ) -> Result<(), ExportError> {
        self.lane(cpu).push_event(time, tid, fill);
        self.flush_if_full(stream, cpu)
    }

    #[inline]
    fn flush_if_full<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        cpu: CpuId,
    ) -> Result<(), ExportError> {
        let lane = self.lanes.get_or(cpu, Lane::default);
        if !lane.is_full() {
            return Ok(());
        }
        lane.flush(stream, &mut self.sequence, cpu, &mut self.new_symbols)
    }

    /// Writes what is still held.
    pub(crate) fn flush<W: Write>(&mut self, stream: &mut Stream<W>) -> Result<(), ExportError> {
        for (cpu, lane) in self.lanes.iter_mut() {
            lane.flush(stream, &mut self.sequence, cpu, &mut self.new_symbols)?;
        }
        Ok(())
    }
}

/// The first switch of a CPU, and the first after switches that are missing
/// (lost, or left out by a filter): what leaves is not what a reader believes to run.
///
/// The time in between is given to a thread of its own, so that nobody is
/// charged for it; then the thread that leaves appears for no time at all, so
/// that its state is right from there on.
#[cold]
fn resume(
    lane: &mut Lane,
    time: Time,
    (switch, state): (&Switch, u64),
    names: &Names,
    tables: &Tables,
) {
    let previous = switch.previous.map(|id| Task::of(id, switch.previous_priority, names, tables));
    if let Some(current) = lane.current {
        let since = lane.gap.unwrap_or(lane.last_switch).min(time);
        push_full(lane, since, (Task::of(current, 0, names, tables), UNKNOWN_STATE), UNRECORDED);
        if let Some(previous) = previous {
            push_full(lane, time, (UNRECORDED, UNKNOWN_STATE), previous);
        }
    }
    let leaves = previous.unwrap_or(UNRECORDED);
    let follows = Task::of(switch.next, switch.next_priority, names, tables);
    push_full(lane, time, (leaves, state), follows);
}

fn push_full(lane: &mut Lane, time: Time, (previous, state): (Task<'_>, u64), next: Task<'_>) {
    let time = lane.full_time(time);
    lane.push_event(time, previous.tid, |event| {
        event.message(ftrace::SCHED_SWITCH, |fields| {
            fields.string(ftrace::SWITCH_PREV_COMM, previous.name);
            fields.uint(ftrace::SWITCH_PREV_PID, u64::from(previous.tid));
            fields.int(ftrace::SWITCH_PREV_PRIO, i64::from(previous.priority));
            fields.uint(ftrace::SWITCH_PREV_STATE, state);
            fields.string(ftrace::SWITCH_NEXT_COMM, next.name);
            fields.uint(ftrace::SWITCH_NEXT_PID, u64::from(next.tid));
            fields.int(ftrace::SWITCH_NEXT_PRIO, i64::from(next.priority));
        });
    });
}

/// The state as the kernel's `sched_switch` reports it since 4.14
/// (include/linux/sched.h: `TASK_*`, `TASK_REPORT_IDLE`), and `preempted` as viewers expect it.
#[inline]
fn state(off_cpu: &OffCpu, preempted: u64) -> u64 {
    if off_cpu.preempted {
        return preempted;
    }
    match off_cpu.state {
        SleepState::Runnable => 0,
        SleepState::Interruptible => 0x01,
        SleepState::Uninterruptible => 0x02,
        SleepState::Stopped => 0x04,
        SleepState::Traced => 0x08,
        SleepState::Dead => 0x10,
        SleepState::Zombie => 0x20,
        SleepState::Parked => 0x40,
        SleepState::Idle => 0x80,
    }
}
