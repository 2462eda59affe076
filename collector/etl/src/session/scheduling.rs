//! Scheduling events: switches and wakeups.

use super::engine::{Engine, RunningThread, TraceEngine};
use super::labels::{Reasons, leaving};
use super::long_waits::LongWaits;
use super::recent::ANY_THREAD;
use super::waiting::{Deferred, StackSubject};
use crate::Record;
use crate::payload::{ContextSwitch, ReadyThread};
use syscollect_model::{CpuId, OffCpu, Strings, Switch, ThreadId, Wakeup};
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
        if let Some(before) = engine.source.running.replace(record.cpu, running) {
            let stacks = &mut engine.source.stacks;
            stacks.following_switches += 1;
            stacks.linked_switches += u64::from(before.tid == switch.old_tid);
        }
        // From version 4 on, flags of the thread lie in the place of the mode.
        let kernel_mode = (record.version < 4).then_some(switch.old_wait_mode == 0);
        let leaving = leaving(switch.old_state, switch.old_wait_reason, kernel_mode);
        let is_idle = switch.old_tid == 0;
        let event = Switch {
            cpu: CpuId::new(record.cpu.into()),
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
        let (tid, waker) = match (record.task, engine.source.running.get(record.cpu)) {
            (Some(task), _) => (task.tid, Some(engine.thread(task.tid))),
            (None, Some(running)) => (running.tid, Some(running.thread)),
            (None, None) => (ANY_THREAD, None),
        };
        let state = *self.thread(wakee);
        let event = Wakeup {
            cpu: CpuId::new(record.cpu.into()),
            waker,
            from_interrupt: ready.flags & FROM_DPC != 0,
            wakee,
            priority: i32::from(state.priority),
            target_cpu: CpuId::new(state.cpu.into()),
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
        let Some(found) = self.long_waits.get(tid, engine.present.ticks()) else { return false };
        if let Some(event) = engine.source.waiting.get_mut(number) {
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
        let at = engine.present.ticks();
        let switch = engine.source.waiting.get_mut(left);
        if switch.is_some_and(|switch| at.saturating_sub(switch.at) <= self.longest_wait) {
            return StackSubject::waiting(tid, left);
        }
        if is_known || !self.has_stacks {
            return StackSubject::nothing(tid);
        }
        StackSubject::waiting(tid, engine.push(None, Deferred::Resumed(thread)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{ThreadState as State, WaitReason};
    use crate::session::testing::{KeptEvents, record};
    use syscollect_model::{Event, SleepState};

    fn switch(old_tid: u32, new_tid: u32) -> ContextSwitch {
        ContextSwitch {
            new_tid,
            old_tid,
            new_priority: 8,
            old_priority: 9,
            previous_c_state: 0,
            old_wait_reason: WaitReason(6),
            old_wait_mode: 1,
            old_state: State::WAITING,
            old_ideal_cpu: 0,
            new_wait_time: 0,
        }
    }

    /// What scheduling tells of a trace with stacks, in which waits are long from 100 ns on.
    fn decoded(decode: impl FnOnce(&mut Engine<'_>, &mut Scheduling<'_>)) -> KeptEvents {
        let (mut reported, waits) = (KeptEvents::default(), LongWaits::default());
        let mut scheduling = Scheduling::new(&waits, 100, true, &mut reported.tables.strings);
        reported.by(|engine| decode(engine, &mut scheduling));
        reported
    }

    #[test]
    fn a_thread_comes_back_with_the_stack_that_it_left_with() {
        let mut back = Vec::new();
        decoded(|engine, scheduling| {
            for (left, returned) in [(10, 20), (30, 400)] {
                engine.advance(left);
                let idle = scheduling.on_switch(engine, &record(left), &switch(7, 0));
                assert_eq!(idle, StackSubject::nothing(0));
                engine.advance(returned);
                back.push(scheduling.on_switch(engine, &record(returned), &switch(0, 7)));
            }
        });
        // The four switches wait under 0 to 3; behind them that the thread runs again, because the
        // switch at which it left may have gone.
        assert_eq!(back, [0, 4].map(|number| StackSubject::waiting(7, number)));
    }

    #[test]
    fn a_switch_tells_why_the_thread_waits_and_the_idle_thread_waits_for_nothing() {
        let reported = decoded(|engine, scheduling| {
            scheduling.on_switch(engine, &record(0), &switch(7, 0));
            let idle = ContextSwitch { old_state: State::READY, ..switch(0, 7) };
            assert_eq!(
                scheduling.on_switch(engine, &record(0), &idle),
                StackSubject::waiting(7, 0)
            );
            assert_eq!(engine.source.stacks.linked_switches, 1);
        });
        let [(_, Event::Switch(left)), (_, Event::Switch(idle))] = &reported.events[..] else {
            panic!("{:?}", reported.events);
        };
        let reason = left.off_cpu.blocked_in.map(|reason| reported.tables.strings.get(reason));
        assert_eq!((left.off_cpu.state, reason), (SleepState::Interruptible, Some("UserRequest")));
        assert_eq!((idle.off_cpu.preempted, idle.off_cpu.blocked_in), (false, None));
    }

    #[test]
    fn who_runs_on_the_cpu_wakes_others_which_have_their_last_priority_and_cpu() {
        let reported = decoded(|engine, scheduling| {
            let ready =
                ReadyThread { tid: 7, adjust_reason: 0, adjust_increment: 0, flags: FROM_DPC };
            assert_eq!(scheduling.on_ready(engine, &record(0), &ready).tid, ANY_THREAD);
            let on_cpu_3 = Record { cpu: 3, ..record(0) };
            scheduling.on_switch(engine, &on_cpu_3, &switch(7, 8));
            assert_eq!(scheduling.on_ready(engine, &on_cpu_3, &ready).tid, 8);
        });
        let wakeups: Vec<Wakeup> = reported
            .events
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Wakeup(wakeup) => Some(*wakeup),
                _ => None,
            })
            .collect();
        let facts = wakeups.iter().map(|wakeup| {
            let waker = wakeup.waker.map(|thread| reported.tables.thread(thread).tid);
            (waker, wakeup.priority, wakeup.target_cpu.number)
        });
        assert_eq!(facts.collect::<Vec<_>>(), [(None, 0, 0), (Some(8), 9, 3)]);
        assert!(wakeups[0].from_interrupt);
    }
}
