//! Scheduling events: switches and wakeups.

use super::engine::{Engine, RunningThread};
use super::labels::{Reasons, leaving};
use super::long_waits::LongWaits;
use super::recent::ANY_THREAD;
use super::waiting::{Deferred, StackSubject};
use crate::Record;
use crate::payload::{ContextSwitch, ReadyThread};
use syscollect_model::{OffCpu, Strings, Switch, ThreadId, Wakeup};
use syscollect_playback::EventType;

/// A flag of ready-thread records: a DPC made the thread ready.
const FROM_DPC: u8 = 1;
/// No event waits under this number.
const NOWHERE: u64 = u64::MAX;
/// A wait so long is found when its end is told: a little less than events are
/// held, because its stack comes after its end.
const LONGEST_WAIT_MS: u64 = 450;

/// Ticks of a wait whose beginning cannot be reached at its end.
pub(super) fn longest_wait(ticks_per_second: u64) -> u64 {
    ticks_per_second / 1000 * LONGEST_WAIT_MS
}

/// The present of a thread.
#[derive(Clone, Copy, Debug)]
struct ThreadState {
    /// The number under which the switch waits at which it left its CPU.
    left: u64,
    /// Its stack at that switch is known already.
    is_known: bool,
    priority: i8,
    cpu: u16,
}

/// Decodes switches and wakeups.
#[derive(Debug)]
pub(super) struct Scheduling<'a> {
    /// By row.
    threads: Vec<ThreadState>,
    reasons: Reasons,
    long_waits: &'a LongWaits,
    /// Ticks after which the switch at which a thread left is taken to be on its way out.
    longest_wait: u64,
    /// The trace has stacks, which threads come back with.
    has_stacks: bool,
}

impl<'a> Scheduling<'a> {
    pub(super) fn new(
        long_waits: &'a LongWaits,
        longest_wait: u64,
        has_stacks: bool,
        strings: &mut Strings,
    ) -> Self {
        Self {
            threads: Vec::new(),
            reasons: Reasons::new(strings),
            long_waits,
            longest_wait,
            has_stacks,
        }
    }

    /// A switch. Its stack, which comes later, is the one that the thread comes
    /// back with, and so the one that it left with: it goes to that switch.
    #[inline]
    pub(super) fn on_switch(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        switch: &ContextSwitch,
    ) -> StackSubject {
        let (previous, next) = (engine.thread(switch.old_tid), engine.thread(switch.new_tid));
        let running = RunningThread { tid: switch.new_tid, thread: next };
        if let Some(before) = engine.running.replace(record.cpu, running) {
            let stacks = &mut engine.tally.stacks;
            stacks.following_switches += 1;
            stacks.linked_switches += u64::from(before.tid == switch.old_tid);
        }
        // From version 4 on, flags of the thread lie in the place of the mode.
        let kernel_mode = (record.version < 4).then_some(switch.old_wait_mode == 0);
        let leaving = leaving(switch.old_state, switch.old_wait_reason, kernel_mode);
        let is_idle = switch.old_tid == 0;
        let event = Switch {
            cpu: u32::from(record.cpu),
            previous: Some(previous),
            previous_priority: i32::from(switch.old_priority),
            off_cpu: OffCpu {
                state: leaving.state,
                preempted: leaving.preempted && !is_idle,
                io_wait: leaving.io_wait,
                blocked_in: if leaving.waits {
                    self.reasons.name(switch.old_wait_reason)
                } else {
                    None
                },
                stack: None,
            },
            next,
            next_priority: i32::from(switch.new_priority),
        };
        let number = engine.push(Some(EventType::Switch), Deferred::Switch(event));
        if !is_idle {
            let (priority, cpu) = (switch.old_priority, record.cpu);
            let is_known = self.long_wait(engine, switch.old_tid, number);
            *self.thread(previous) = ThreadState { left: number, is_known, priority, cpu };
        }
        self.resumed(engine, switch.new_tid, next)
    }

    /// Whoever runs on the CPU made the thread ready.
    #[inline]
    pub(super) fn on_ready(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        ready: &ReadyThread,
    ) -> StackSubject {
        let wakee = engine.thread(ready.tid);
        let (tid, waker) = match (record.task, engine.running.get(record.cpu)) {
            (Some(task), _) => (task.tid, Some(engine.thread(task.tid))),
            (None, Some(running)) => (running.tid, Some(running.thread)),
            (None, None) => (ANY_THREAD, None),
        };
        let state = *self.thread(wakee);
        let event = Wakeup {
            cpu: u32::from(record.cpu),
            waker,
            from_interrupt: ready.flags & FROM_DPC != 0,
            wakee,
            priority: i32::from(state.priority),
            target_cpu: u32::from(state.cpu),
            new: false,
            stack: None,
        };
        let number = engine.push(Some(EventType::Waking), Deferred::Wakeup(event));
        StackSubject::waiting(tid, number)
    }

    #[inline]
    fn thread(&mut self, thread: ThreadId) -> &mut ThreadState {
        let index = thread.index();
        if self.threads.len() <= index {
            let fresh = ThreadState { left: NOWHERE, is_known: false, priority: 0, cpu: 0 };
            self.threads.resize((index + 1).next_power_of_two(), fresh);
        }
        &mut self.threads[index]
    }

    /// Gives the switch its stack now, if the thread will not be back soon.
    #[inline]
    fn long_wait(&self, engine: &mut Engine<'_>, tid: u32, number: u64) -> bool {
        let Some(found) = self.long_waits.get(tid, engine.present.at) else { return false };
        if let Some(event) = engine.waiting.get_mut(number) {
            (event.stack, event.pid) = (found.stack, found.pid);
        }
        true
    }

    /// Where the stack goes that a thread comes back with.
    #[inline]
    fn resumed(&mut self, engine: &mut Engine<'_>, tid: u32, thread: ThreadId) -> StackSubject {
        if tid == 0 {
            return StackSubject::nothing(tid);
        }
        let ThreadState { left, is_known, .. } = *self.thread(thread);
        let at = engine.present.at;
        let switch = engine.waiting.get_mut(left);
        if switch.is_some_and(|switch| at.saturating_sub(switch.at) <= self.longest_wait) {
            return StackSubject::waiting(tid, left);
        }
        if is_known || !self.has_stacks {
            return StackSubject::nothing(tid);
        }
        StackSubject::waiting(tid, engine.push(None, Deferred::Resumed(thread)))
    }
}
