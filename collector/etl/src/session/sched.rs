//! Switches, wakeups and samples.

use super::labels::leaving;
use super::play::{CpuState, Pending, Player, Target, ThreadState};
use super::recent::ANY_THREAD;
use crate::Record;
use crate::payload::{self, ContextSwitch, ReadyThread};
use syscollect_model::{OffCpu, Sample, Switch, ThreadId, Wakeup};
use syscollect_playback::EventType;

/// A flag of ready-thread records: a DPC made the thread ready.
const FROM_DPC: u8 = 1;
/// No slot has this number.
const NOWHERE: u64 = u64::MAX;

impl Player<'_> {
    #[inline]
    fn cpu(&mut self, cpu: u16) -> &mut CpuState {
        let index = usize::from(cpu);
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, CpuState::default());
        }
        &mut self.cpus[index]
    }

    #[inline]
    pub(super) fn thread_state(&mut self, thread: ThreadId) -> &mut ThreadState {
        let index = thread.index();
        if self.thread_states.len() <= index {
            let fresh = ThreadState { left: NOWHERE, is_known: false, priority: 0, cpu: 0 };
            self.thread_states.resize((index + 1).next_power_of_two(), fresh);
        }
        &mut self.thread_states[index]
    }

    /// A switch. Its stack, which comes later, is the one that the thread comes
    /// back with, and so the one that it left with: it goes to that switch.
    #[inline]
    pub(super) fn switch(&mut self, record: &Record<'_>, switch: &ContextSwitch) -> (u32, Target) {
        let (previous, next) = (self.thread(switch.old_tid), self.thread(switch.new_tid));
        let before = self.cpu(record.cpu).current.replace((switch.new_tid, next));
        if let Some((tid, _)) = before {
            self.stacks.following_switches += 1;
            self.stacks.linked_switches += u64::from(tid == switch.old_tid);
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
        let number = self.push(Some(EventType::Switch), Pending::Switch(event), 0, 0);
        if !is_idle {
            let (priority, cpu) = (switch.old_priority, record.cpu);
            let is_known = self.long_wait(switch.old_tid, number);
            *self.thread_state(previous) = ThreadState { left: number, is_known, priority, cpu };
        }
        (switch.new_tid, self.resumed(switch.new_tid, next))
    }

    /// Gives the switch its stack now, if the thread will not be back soon.
    #[inline]
    fn long_wait(&mut self, tid: u32, number: u64) -> bool {
        let Some((stack, pid)) = self.long_waits.get(tid, self.at) else { return false };
        if let Some(slot) = self.delay.get_mut(number) {
            (slot.stack, slot.pid) = (stack, pid);
        }
        true
    }

    /// Where the stack goes that a thread comes back with.
    #[inline]
    fn resumed(&mut self, tid: u32, thread: ThreadId) -> Target {
        if tid == 0 {
            return Target::Nothing;
        }
        let ThreadState { left, is_known, .. } = *self.thread_state(thread);
        let (at, longest) = (self.at, self.longest_wait);
        if self.delay.get_mut(left).is_some_and(|slot| at.saturating_sub(slot.at) <= longest) {
            return Target::Slot(left);
        }
        if is_known || !self.has_stacks {
            return Target::Nothing;
        }
        Target::Slot(self.push(None, Pending::Resumed(thread), 0, 0))
    }

    /// Whoever runs on the CPU made the thread ready.
    #[inline]
    pub(super) fn ready(&mut self, record: &Record<'_>, ready: &ReadyThread) -> (u32, Target) {
        let wakee = self.thread(ready.tid);
        let current = self.cpu(record.cpu).current;
        let (tid, waker) = match (record.task, current) {
            (Some(task), _) => (task.tid, Some(self.thread(task.tid))),
            (None, Some((tid, thread))) => (tid, Some(thread)),
            (None, None) => (ANY_THREAD, None),
        };
        let state = *self.thread_state(wakee);
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
        (tid, Target::Slot(self.push(Some(EventType::Waking), Pending::Wakeup(event), 0, 0)))
    }

    #[inline]
    pub(super) fn sample(
        &mut self,
        record: &Record<'_>,
        sample: &payload::Sample,
    ) -> (u32, Target) {
        let thread = self.thread(sample.tid);
        let pid = self.pid(thread);
        let address = sample.address;
        let in_kernel = self.code.images.is_kernel(self.at, address);
        self.stacks.samples += 1;
        self.stacks.samples_in_images += u64::from(self.code.is_in_image(pid, self.at, address));
        let event = Sample { cpu: u32::from(record.cpu), thread, stack: None, in_kernel };
        let number = self.push(Some(EventType::Sample), Pending::Sample(event), pid, address);
        (sample.tid, Target::Slot(number))
    }
}
