//! Event loops among the threads of a session: what its events mean to
//! [`EventLoops`], and what became of the time of a stretch, in words.

use super::filter::{Family, ProcessFilter};
use super::off_cpu::Reason;
use super::stack_labels::OwnCall;
use super::wait_for::{CachedWaits, WaitFor, is_kernel, is_recorder, of_kernel_function};
use crate::event_loops::{
    Departure, EventLoops, Leaver, LoopLimit, LoopSample, LoopSummary, LoopSwitch, LoopWait, Sleep,
    Stretch,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{
    Event, MachineId, OffCpu, ProcessId, SleepState, StackId, Switch, Tables, ThreadId, Time,
};

/// What a thread slept in during a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StretchSleep {
    waits_for: WaitFor,
    reason: Reason,
    stack: Option<StackId>,
}

/// Finds event loops and the stretches in which they did not come back.
#[derive(Debug)]
pub(crate) struct LoopWatch {
    loops: EventLoops<StretchSleep>,
    waits: CachedWaits,
    /// Of samples: the wait in whose function of the kernel they are.
    sampled: FxHashMap<StackId, Option<LoopWait>>,
    /// By process, whether its threads are followed.
    followed: FxHashMap<ProcessId, bool>,
}

impl LoopWatch {
    pub(crate) fn new(limit: LoopLimit) -> Self {
        Self {
            loops: EventLoops::new(limit.nanoseconds()),
            waits: CachedWaits::default(),
            sampled: FxHashMap::default(),
            followed: FxHashMap::default(),
        }
    }

    pub(crate) fn loops(&self) -> impl Iterator<Item = LoopSummary> {
        self.loops.loops()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.loops.limit()
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.loops.left_out()
    }

    /// What came until now is not told of.
    pub(crate) fn forget(&mut self) {
        self.loops.forget();
    }

    /// The stretches that are known with this event.
    #[inline]
    pub(crate) fn event(
        &mut self,
        time: Time,
        event: &Event,
        tables: &Tables,
    ) -> Vec<Stretch<StretchSleep>> {
        let now = time.0;
        match event {
            Event::Switch(switch) => self.switch(now, switch, tables),
            Event::Wakeup(wakeup) if self.is_followed(wakeup.wakee, tables) => {
                self.loops.wakeup(now, wakeup.wakee);
            }
            Event::Sample(sample) if self.is_followed(sample.thread, tables) => {
                let wait = sample.stack.and_then(|stack| self.sampled_wait(stack, tables));
                let (cpu, thread, stack) = (sample.cpu, sample.thread, sample.stack);
                self.loops.sample(now, &LoopSample { cpu, thread, stack, wait });
            }
            Event::ThreadStart(thread) if self.is_followed(*thread, tables) => {
                self.loops.start(*thread);
            }
            Event::ThreadEnd(thread) => self.loops.end_thread(*thread),
            Event::Asleep(thread, off_cpu) if self.is_followed(*thread, tables) => {
                let sleep = self.sleep(*thread, off_cpu, tables);
                self.loops.asleep(now, *thread, sleep);
            }
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    let machine = loss.machine();
                    let since = gap.since.map_or(0, |since| since.0);
                    let of = |thread| tables.machine_of(thread) == machine;
                    self.loops.gap(since, gap.cpu, of);
                }
            }
            Event::RecordingEnd(machine) => self.end_machine(now, *machine, tables),
            _ => {}
        }
        if self.loops.has_found() { self.loops.take() } else { Vec::new() }
    }

    fn end_machine(&mut self, now: u64, machine: MachineId, tables: &Tables) {
        self.loops.finish(now, |thread| tables.machine_of(thread) == machine);
    }

    /// The stretches that last when the session ends.
    pub(crate) fn finish(&mut self, now: Time) -> Vec<Stretch<StretchSleep>> {
        self.loops.finish(now.0, |_| true);
        self.loops.take()
    }

    /// Threads of the kernel and of the recorder are none of anybody's loops, and of those that
    /// were not recorded only a part is told.
    fn is_followed(&mut self, thread: ThreadId, tables: &Tables) -> bool {
        let process = tables.thread(thread).process;
        thread != Tables::IDLE_THREAD
            && *self.followed.entry(process).or_insert_with(|| {
                let row = tables.process(process);
                let pids = &tables.machine(row.machine).filter_pids;
                let is_recorded = pids.is_empty()
                    || ProcessFilter::Family(Family::new(pids.clone())).matches(process, tables);
                is_recorded && !row.kernel && !is_recorder(process, tables)
            })
    }

    fn switch(&mut self, now: u64, switch: &Switch, tables: &Tables) {
        let previous = switch.previous.filter(|thread| self.is_followed(*thread, tables));
        let previous = previous.map(|thread| {
            let off_cpu = &switch.off_cpu;
            let departure = match off_cpu.state {
                _ if off_cpu.preempted => Departure::Runnable,
                SleepState::Runnable => Departure::Runnable,
                SleepState::Dead | SleepState::Zombie => Departure::Ended,
                _ => Departure::Asleep(self.sleep(thread, off_cpu, tables)),
            };
            Leaver { thread, departure }
        });
        let next = Some(switch.next).filter(|thread| self.is_followed(*thread, tables));
        self.loops.switch(now, &LoopSwitch { cpu: switch.cpu, previous, next });
    }

    fn sleep(
        &mut self,
        thread: ThreadId,
        off_cpu: &OffCpu,
        tables: &Tables,
    ) -> Sleep<StretchSleep> {
        let (process, stack) = (tables.thread(thread).process, off_cpu.stack);
        let reason = Reason::of(off_cpu);
        let waits_for = self.waits.of(process, stack, reason, tables);
        Sleep { wait: loop_wait(waits_for), what: StretchSleep { waits_for, reason, stack } }
    }

    /// The wait in which a sample found its thread.
    fn sampled_wait(&mut self, stack: StackId, tables: &Tables) -> Option<LoopWait> {
        *self.sampled.entry(stack).or_insert_with(|| {
            let frames = tables.stack(stack).iter();
            let kernel = frames.take_while(|frame| is_kernel(frame, tables));
            let names = kernel.filter_map(|frame| tables.frame(*frame).function);
            let waits = names.filter_map(|name| of_kernel_function(tables.strings.get(name)));
            let mut waits = waits.filter_map(loop_wait);
            waits.find(|wait| matches!(wait, LoopWait::Events | LoopWait::IoUring))
        })
    }
}

/// What loops come back to.
fn loop_wait(wait: WaitFor) -> Option<LoopWait> {
    match wait {
        WaitFor::Events => Some(LoopWait::Events),
        WaitFor::IoUring => Some(LoopWait::IoUring),
        WaitFor::Pool
        | WaitFor::PythonQueue
        | WaitFor::PythonEvent
        | WaitFor::Connection
        | WaitFor::Signal
        | WaitFor::Timer
        | WaitFor::FileChanges => Some(LoopWait::Work),
        WaitFor::Futex
        | WaitFor::Condition
        | WaitFor::Semaphore
        | WaitFor::Parked
        | WaitFor::Channel => Some(LoopWait::Futex),
        _ => None,
    }
}

/// What loops wait in, in words.
pub(crate) fn wait_name(wait: LoopWait) -> &'static str {
    match wait {
        LoopWait::Events => "epoll, poll or select",
        LoopWait::IoUring => "io_uring",
        LoopWait::Work => "a wait for work",
        LoopWait::Futex => "a futex",
    }
}

/// What samples found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampledFunction {
    pub(crate) name: String,
    pub(crate) samples: u64,
}

/// The program's own functions that samples of a stretch hit, the most frequent first.
pub(crate) fn functions<B>(stretch: &Stretch<B>, tables: &Tables) -> Vec<SampledFunction> {
    let mut by_name = FxHashMap::<String, u64>::default();
    for sampled in &stretch.spent.stacks {
        let own = OwnCall::of(sampled.stack, tables).function;
        let innermost = || tables.stack(sampled.stack).first().map(|it| tables.frame_label(*it));
        if let Some(name) = own.or_else(innermost) {
            *by_name.entry(name).or_default() += sampled.count;
        }
    }
    let all = by_name.into_iter().map(|(name, samples)| SampledFunction { name, samples });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable_by(|a, b| (Reverse(a.samples), &a.name).cmp(&(Reverse(b.samples), &b.name)));
    all
}

/// What a thread slept in during a stretch, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StretchSleepWords {
    pub(crate) waits_for: &'static str,
    pub(crate) blocked_in: Option<String>,
    /// The program's own function, and what it called.
    pub(crate) function: Option<String>,
    pub(crate) called: Option<String>,
    pub(crate) nanoseconds: u64,
}

impl StretchSleepWords {
    /// `I/O in write_journal (fdatasync)`.
    pub(crate) fn text(&self) -> String {
        let place = match (&self.function, &self.called, &self.blocked_in) {
            (Some(function), Some(called), _) => format!(" in {function} ({called})"),
            (Some(function), None, _) => format!(" in {function}"),
            (None, _, Some(kernel)) => format!(" in {kernel}"),
            (None, _, None) => String::new(),
        };
        format!("{}{place}", self.waits_for)
    }
}

/// What the thread slept in, the longest first.
pub(crate) fn sleeps(stretch: &Stretch<StretchSleep>, tables: &Tables) -> Vec<StretchSleepWords> {
    let words = stretch.spent.asleep.iter().map(|sleep| {
        let StretchSleep { waits_for, reason, stack } = sleep.what;
        let OwnCall { function, called } =
            stack.map_or_else(OwnCall::default, |stack| OwnCall::of(stack, tables));
        let blocked_in = reason.blocked_in.map(|name| tables.strings.get(name).to_owned());
        let (waits_for, nanoseconds) = (waits_for.name(), sleep.time);
        StretchSleepWords { waits_for, blocked_in, function, called, nanoseconds }
    });
    let mut words: Vec<_> = words.filter(|sleep| sleep.nanoseconds > 0).collect();
    words.sort_by_key(|sleep| Reverse(sleep.nanoseconds));
    words
}
