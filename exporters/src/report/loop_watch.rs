//! Event loops among the threads of a session: what its events mean to
//! [`EventLoops`], and what became of the time of a stretch, in words.

use super::filter::{Family, ProcessFilter};
use super::off_cpu::Reason;
use super::stack_labels::OwnCall;
use super::wait_for::{CachedWaits, WaitFor, is_kernel, is_recorder, of_kernel_function};
use crate::event_loops::{
    Departure, EventLoops, LeavingThread, LoopLimit, LoopSample, LoopSummary, LoopSwitch, LoopWait,
    Sleep, Stretch,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{
    Event, FrameId, MachineId, OffCpu, ProcessId, SleepState, StackId, Switch, Tables, ThreadId,
    Time,
};

/// Frames of a sample's program that are looked at for a function that waits: it may have called
/// others of its library.
const WAIT_FRAMES: usize = 3;

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
    sampled: SampledWaits,
    followed: FollowedThreads,
}

/// Which threads may be loops of those that are looked for.
#[derive(Debug, Default)]
struct FollowedThreads {
    /// By thread; `None` where it was not asked for yet.
    threads: Vec<Option<bool>>,
    /// By thread, what it slept in last, which is what it mostly sleeps in.
    sleeps: Vec<Option<KnownSleep>>,
    /// By process.
    processes: FxHashMap<ProcessId, FollowedProcess>,
}

/// What a sleep is, of which this is known.
#[derive(Clone, Copy, Debug)]
struct KnownSleep {
    reason: Reason,
    stack: Option<StackId>,
    sleep: Sleep<StretchSleep>,
}

/// A process of which a thread was met.
#[derive(Clone, Copy, Debug)]
struct FollowedProcess {
    is_followed: bool,
    /// The thread that an exec leaves.
    leader: Option<ThreadId>,
}

impl FollowedThreads {
    /// Threads of the kernel and of the recorder are none of anybody's loops, and of those that
    /// were not recorded only a part is told.
    #[inline]
    fn has(&mut self, thread: ThreadId, tables: &Tables) -> bool {
        match self.threads.get(thread.index()) {
            Some(Some(known)) => *known,
            _ => self.look(thread, tables),
        }
    }

    fn look(&mut self, thread: ThreadId, tables: &Tables) -> bool {
        let row = tables.thread(thread);
        let process = tables.process(row.process);
        let known = self.processes.entry(row.process).or_insert_with(|| {
            let pids = &tables.machine(process.machine).filter_pids;
            let is_recorded = pids.is_empty()
                || ProcessFilter::Family(Family::new(pids.clone())).matches(row.process, tables);
            let is_followed = is_recorded && !process.kernel && !is_recorder(row.process, tables);
            FollowedProcess { is_followed, leader: None }
        });
        if row.tid == process.pid {
            known.leader = Some(thread);
        }
        let is_followed = known.is_followed && thread != Tables::IDLE_THREAD;
        if thread.index() >= self.threads.len() {
            self.threads.resize(thread.index() + 1, None);
        }
        self.threads[thread.index()] = Some(is_followed);
        is_followed
    }

    /// The thread that goes on where a process replaces its program.
    fn leader(&self, process: ProcessId) -> Option<ThreadId> {
        let known = self.processes.get(&process).filter(|known| known.is_followed);
        known.and_then(|known| known.leader)
    }
}

impl LoopWatch {
    pub(crate) fn new(limit: LoopLimit) -> Self {
        Self {
            loops: EventLoops::new(limit.nanoseconds()),
            waits: CachedWaits::default(),
            sampled: SampledWaits::default(),
            followed: FollowedThreads::default(),
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

    /// Whether there are stretches to be taken that are known with this event.
    #[inline]
    pub(crate) fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> bool {
        let now = time.0;
        match event {
            Event::Switch(switch) => self.switch(now, switch, tables),
            Event::Wakeup(wakeup) if self.followed.has(wakeup.wakee, tables) => {
                self.loops.wakeup(now, wakeup.wakee);
            }
            Event::Sample(sample) if self.followed.has(sample.thread, tables) => {
                let wait = sample.stack.and_then(|stack| self.sampled.of(stack, tables));
                let (cpu, thread, stack) = (sample.cpu, sample.thread, sample.stack);
                self.loops.sample(now, &LoopSample { cpu, thread, stack, wait });
            }
            Event::ThreadStart(thread) if self.followed.has(*thread, tables) => {
                self.loops.start(*thread);
            }
            Event::ProcessExec(process, _) => {
                if let Some(leader) = self.followed.leader(*process) {
                    self.loops.start(leader);
                }
            }
            Event::ThreadEnd(thread) => self.loops.end_thread(now, *thread),
            Event::Asleep(thread, off_cpu) if self.followed.has(*thread, tables) => {
                let sleep = self.sleep(*thread, off_cpu, tables);
                self.loops.asleep(now, *thread, sleep);
            }
            Event::LoopMark(thread, mark) if self.followed.has(*thread, tables) => {
                self.loops.mark(now, *thread, *mark);
            }
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    let machine = loss.machine();
                    self.loops.gap(now, gap, |thread| tables.machine_of(thread) == machine);
                }
            }
            Event::RecordingEnd(machine) => self.end_machine(now, *machine, tables),
            _ => {}
        }
        self.loops.has_found()
    }

    /// The stretches that are known by now.
    pub(crate) fn take(&mut self) -> Vec<Stretch<StretchSleep>> {
        self.loops.take()
    }

    fn end_machine(&mut self, now: u64, machine: MachineId, tables: &Tables) {
        self.loops.finish(now, |thread| tables.machine_of(thread) == machine);
    }

    /// The stretches that last when the session ends.
    pub(crate) fn finish(&mut self, now: Time) -> Vec<Stretch<StretchSleep>> {
        self.loops.finish(now.0, |_| true);
        self.loops.take()
    }

    fn switch(&mut self, now: u64, switch: &Switch, tables: &Tables) {
        let previous = switch.previous.filter(|thread| self.followed.has(*thread, tables));
        let previous = previous.map(|thread| {
            let off_cpu = &switch.off_cpu;
            let departure = match off_cpu.state {
                _ if off_cpu.preempted => Departure::Runnable,
                SleepState::Runnable => Departure::Runnable,
                SleepState::Dead | SleepState::Zombie => Departure::Ended,
                _ => Departure::Asleep(self.sleep(thread, off_cpu, tables)),
            };
            LeavingThread { thread, departure }
        });
        let next = Some(switch.next).filter(|thread| self.followed.has(*thread, tables));
        self.loops.switch(now, &LoopSwitch { cpu: switch.cpu, previous, next });
    }

    fn sleep(
        &mut self,
        thread: ThreadId,
        off_cpu: &OffCpu,
        tables: &Tables,
    ) -> Sleep<StretchSleep> {
        let (reason, stack) = (Reason::of(off_cpu), off_cpu.stack);
        let sleeps = &mut self.followed.sleeps;
        if thread.index() >= sleeps.len() {
            sleeps.resize(thread.index() + 1, None);
        }
        let last = &mut sleeps[thread.index()];
        if let Some(known) = last.filter(|known| known.stack == stack && known.reason == reason) {
            return known.sleep;
        }
        let waits_for = self.waits.of(tables.thread(thread).process, stack, reason, tables);
        let what = StretchSleep { waits_for, reason, stack };
        let sleep = Sleep { wait: loop_wait(waits_for), what };
        *last = Some(KnownSleep { reason, stack, sleep });
        sleep
    }
}

/// In which waits samples found their threads, by the kernel's functions and the C library's.
#[derive(Debug, Default)]
struct SampledWaits {
    frames: Vec<Option<WaitFrame>>,
}

/// What a frame says of that.
#[derive(Clone, Copy, Debug)]
struct WaitFrame {
    is_kernel: bool,
    wait: Option<LoopWait>,
}

impl SampledWaits {
    fn of(&mut self, stack: StackId, tables: &Tables) -> Option<LoopWait> {
        let mut near = 0;
        for frame in tables.stack(stack) {
            let WaitFrame { is_kernel, wait } = self.of_frame(*frame, tables);
            near += usize::from(!is_kernel);
            if wait.is_some() || near == WAIT_FRAMES {
                return wait;
            }
        }
        None
    }

    fn of_frame(&mut self, frame: FrameId, tables: &Tables) -> WaitFrame {
        if frame.index() >= self.frames.len() {
            self.frames.resize(frame.index() + 1, None);
        }
        *self.frames[frame.index()].get_or_insert_with(|| {
            let is_kernel = is_kernel(&frame, tables);
            let name = tables.frame(frame).function.map(|name| tables.strings.get(name));
            let of = if is_kernel { wait_of_kernel_function } else { wait_of_call };
            WaitFrame { is_kernel, wait: name.and_then(of) }
        })
    }
}

fn wait_of_kernel_function(name: &str) -> Option<LoopWait> {
    let wait = of_kernel_function(name).and_then(loop_wait).filter(|wait| wait.is_of_events());
    let call = || wait_of_call(name.split_once("_sys_")?.1);
    wait.or_else(call)
}

/// What a system call waits for, or the C library's function for it.
fn wait_of_call(name: &str) -> Option<LoopWait> {
    let name = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    match name.split('@').next().unwrap_or(name) {
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select" | "pselect"
        | "pselect6" => Some(LoopWait::Events),
        "io_uring_enter" => Some(LoopWait::IoUring),
        _ => None,
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
        LoopWait::Marked => "its own marks",
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
    for sampled in &stretch.activity.stacks {
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
    let words = stretch.activity.asleep.iter().map(|sleep| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_in_a_wait_by_the_kernels_functions_and_the_libraries() {
        for name in ["do_epoll_wait", "ep_poll", "__x64_sys_epoll_wait", "__arm64_sys_ppoll"] {
            assert_eq!(wait_of_kernel_function(name), Some(LoopWait::Events), "{name}");
        }
        assert_eq!(wait_of_kernel_function("__x64_sys_io_uring_enter"), Some(LoopWait::IoUring));
        for name in ["__x64_sys_futex", "__x64_sys_read", "futex_do_wait", "ksys_sync"] {
            assert_eq!(wait_of_kernel_function(name), None, "{name}");
        }
        for name in ["epoll_wait", "__poll", "__GI___poll", "select@@GLIBC_2.2.5"] {
            assert_eq!(wait_of_call(name), Some(LoopWait::Events), "{name}");
        }
        assert_eq!(wait_of_call("my::Future::poll"), None);
    }
}
