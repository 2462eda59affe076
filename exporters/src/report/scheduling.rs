//! Who was in which state for how long, from switches and wakeups.
//!
//! The definitions are in the documentation of [`super`].

use super::account::{ThreadState, Wait};
use super::after_part::StillAsleep;
use super::cpu::Cpus;
use super::thread_accounts::ThreadAccounts;
use super::waits::{EndedState, Waits};
use super::wakeups::Waker;
use super::worst::Woken;
use crate::gaps::Gaps;
use syscollect_model::{
    CpuId, Event, LossCause, MachineId, OffCpu, OnCpu, ProcessId, SchedulingGap, SleepState,
    Switch, Tables, ThreadId, Time, Wakeup,
};

/// The states of all threads and CPUs. Times are nanoseconds.
pub(super) struct Scheduling {
    on_cpu: OnCpu,
    pub(super) accounts: ThreadAccounts,
    pub(super) cpus: Cpus,
    missing: MissingTimes,
    /// The last end of a thread: when, and who.
    last_end: Option<(u64, ThreadId)>,
    /// There were switches before what is told of.
    switched_before: bool,
    /// Threads were seen asleep: switches are recorded, though there may be none.
    saw_sleepers: bool,
    pub(super) waits: Waits,
}

/// When records are missing.
#[derive(Debug, Default)]
struct MissingTimes {
    /// Records were lost.
    lost: Gaps,
    /// When the last of those came that were overwritten: lanes give way one by one.
    overwritten_until: u64,
    /// An event is missing that nothing says was lost.
    unreported: Gaps,
    /// How often something else ran than the events before say.
    unreported_count: u64,
}

impl MissingTimes {
    /// Whether records are missing since then.
    #[inline]
    fn is_doubtful(&self, since: u64) -> bool {
        self.first_after(since).is_some()
    }

    /// From when on records are missing after that time.
    fn first_after(&self, since: u64) -> Option<u64> {
        let starts = [&self.lost, &self.unreported].map(|gaps| gaps.first(since));
        starts.into_iter().flatten().min()
    }
}

impl Scheduling {
    pub(super) fn new(accounts: ThreadAccounts, cpus: Cpus, waits: Waits) -> Self {
        Self {
            on_cpu: OnCpu::default(),
            accounts,
            cpus,
            missing: MissingTimes::default(),
            last_end: None,
            switched_before: false,
            saw_sleepers: false,
            waits,
        }
    }

    /// What came until now is before what is told of: states last, and nothing counts.
    pub(super) fn forget_before(&mut self, now: u64) {
        self.accounts.forget_before(now, &self.missing.lost);
        self.switched_before |= self.cpus.iter().any(|(_, cpu)| cpu.switches > 0);
        for (_, cpu) in self.cpus.iter_mut() {
            cpu.forget_before(now);
        }
        self.missing.unreported_count = 0;
        self.waits.forget();
    }

    /// How often something else ran than the events before say.
    pub(super) fn unreported_gaps(&self) -> u64 {
        self.missing.unreported_count
    }

    /// What an event tells of states, whether it is told of or comes before that.
    #[inline]
    pub(super) fn event(&mut self, time: Time, event: &Event, tables: &Tables) {
        let now = time.0;
        // Where the event contradicts those before, what ran on its CPU is not known.
        let contradicts = self.on_cpu.apply(time, event, tables);
        match event {
            Event::Switch(switch) => {
                if contradicts {
                    self.contradicted(now, switch.cpu, tables);
                }
                self.switch(now, switch, tables);
            }
            Event::Wakeup(wakeup) => {
                if contradicts {
                    self.contradicted(now, wakeup.cpu, tables);
                }
                self.wakeup(now, wakeup, tables);
            }
            Event::Sample(sample) => {
                self.observe_running(now, sample.cpu, sample.thread, tables);
            }
            Event::ThreadStart(thread) => self.thread_start(now, *thread, tables),
            Event::ThreadEnd(thread) => self.thread_end(now, *thread, tables),
            Event::Asleep(thread, off_cpu) => self.asleep(now, *thread, *off_cpu, tables),
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    self.gap(now, gap, tables);
                    if loss.cause == LossCause::Overwritten {
                        self.missing.overwritten_until = now;
                        self.accounts.doubt_sleepers();
                    }
                }
            }
            Event::RecordingEnd(machine) => self.end_machine(now, *machine, tables),
            _ => {}
        }
    }

    #[inline]
    fn switch(&mut self, now: u64, switch: &Switch, tables: &Tables) {
        match switch.previous {
            Some(previous) => self.leave(now, switch.cpu, previous, &switch.off_cpu, tables),
            None => self.lose_current(now, switch.cpu, tables),
        }
        self.enter(now, switch.cpu, switch.next, tables);
        let cpu = self.cpus.get(switch.cpu);
        cpu.switches += 1;
        cpu.last_event = now;
    }

    #[inline]
    fn leave(&mut self, now: u64, cpu: CpuId, thread: ThreadId, off_cpu: &OffCpu, tables: &Tables) {
        if self.cpus.get(cpu).current.is_some_and(|current| current != thread) {
            self.lose_current(now, cpu, tables);
        }
        let state = self.cpus.get(cpu);
        if let (None, Some(at)) = (state.current, state.resumed) {
            self.runs_since(at, cpu, thread, tables);
        }
        let state = self.cpus.get(cpu);
        let expected = state.current == Some(thread);
        state.settle(now);
        if thread == Tables::IDLE_THREAD {
            return;
        }
        if !expected {
            self.lose_track(now, thread, tables);
        }
        let preempted = off_cpu.preempted || off_cpu.state == SleepState::Runnable;
        let next = match off_cpu.state {
            _ if preempted => ThreadState::Waiting(Wait::Preemption),
            SleepState::Dead | SleepState::Zombie => ThreadState::Ended,
            _ => ThreadState::Blocked(*off_cpu),
        };
        let account = self.accounts.get(thread, tables);
        account.counts.preemptions += u64::from(preempted);
        if !account.woken_early {
            account.woken = None;
        }
        self.change(now, thread, next, tables);
    }

    #[inline]
    fn enter(&mut self, now: u64, cpu: CpuId, thread: ThreadId, tables: &Tables) {
        let state = self.cpus.get(cpu);
        (state.current, state.since, state.resumed) = (Some(thread), now, None);
        if thread == Tables::IDLE_THREAD {
            return;
        }
        let account = self.accounts.get(thread, tables);
        account.counts.switches += 1;
        let (before, since) = (account.state, account.since);
        let woken_early = std::mem::take(&mut account.woken_early);
        match before {
            // It left another CPU, and that is missing.
            ThreadState::Running(_) => self.lose_track(now, thread, tables),
            // It was woken where records are missing.
            ThreadState::Blocked(_) if self.missing.is_doubtful(since) => {
                self.lose_track(now, thread, tables);
            }
            // The wakeup came while it was on its way off the CPU.
            ThreadState::Blocked(_) if woken_early => {
                self.accounts.get(thread, tables).state = ThreadState::Waiting(Wait::Wakeup);
            }
            _ => {}
        }
        self.change(now, thread, ThreadState::Running(cpu), tables);
    }

    #[inline]
    fn wakeup(&mut self, now: u64, wakeup: &Wakeup, tables: &Tables) {
        if let Some(waker) = wakeup.waker {
            self.wakes(now, wakeup.cpu, waker, tables);
        }
        let woken = Woken { waker: Waker::of(wakeup), cpu: wakeup.cpu, stack: wakeup.stack };
        let account = self.accounts.get(wakeup.wakee, tables);
        account.counts.wakeups += 1;
        match account.state {
            ThreadState::Unknown | ThreadState::Blocked(_) => account.woken = Some(woken),
            ThreadState::Running(_) => {
                (account.woken_early, account.woken) = (true, Some(woken));
                return;
            }
            ThreadState::Ended => return,
            ThreadState::Waiting(_) => {
                let since = account.since;
                // It was runnable already, unless it ran and slept where records are missing.
                if !self.missing.is_doubtful(since) {
                    return;
                }
                self.lose_track(now, wakeup.wakee, tables);
            }
        }
        self.change(now, wakeup.wakee, ThreadState::Waiting(Wait::Wakeup), tables);
    }

    /// The thread was seen asleep. What was told of it before is certain; where nothing was, it has
    /// slept all the time.
    fn asleep(&mut self, now: u64, thread: ThreadId, off_cpu: OffCpu, tables: &Tables) {
        self.saw_sleepers = true;
        let account = self.accounts.get(thread, tables);
        if account.state != ThreadState::Unknown || account.exiting {
            return;
        }
        if !account.is_told_nothing() || tables.thread(thread).start.is_some() {
            return self.change(now, thread, ThreadState::Blocked(off_cpu), tables);
        }
        // The session's beginning is that of the first machine.
        if tables.machine_of(thread) != MachineId::FIRST {
            self.change(now, thread, ThreadState::Unknown, tables);
        }
        self.accounts.get(thread, tables).slept_before(off_cpu);
    }

    /// The thread was seen asleep after what is told of, and had done nothing since: where nothing
    /// was told of it at all, it has slept all the time.
    pub(super) fn asleep_since_before(&mut self, asleep: StillAsleep, tables: &Tables) {
        self.saw_sleepers = true;
        let StillAsleep { thread, off_cpu } = asleep;
        let is_of_first = tables.machine_of(thread) == MachineId::FIRST;
        let is_older = tables.thread(thread).start.is_none();
        let account = self.accounts.get(thread, tables);
        let is_unknown = account.state == ThreadState::Unknown && !account.exiting;
        if is_of_first && is_older && is_unknown && account.is_told_nothing() {
            account.slept_before(off_cpu);
        }
    }

    /// The waker is what runs on its CPU.
    #[inline]
    fn wakes(&mut self, now: u64, cpu: CpuId, waker: ThreadId, tables: &Tables) {
        if self.cpus.get(cpu).current.is_some_and(|current| current != waker) {
            self.lose_current(now, cpu, tables);
        }
        self.observe_running(now, cpu, waker, tables);
        self.cpus.get(cpu).last_event = now;
    }

    /// A sample or a wakeup shows what runs on a CPU: news only where that is not known.
    #[inline]
    fn observe_running(&mut self, now: u64, cpu: CpuId, thread: ThreadId, tables: &Tables) {
        let state = self.cpus.get(cpu);
        if state.current.is_none() {
            let since = state.resumed.unwrap_or(now);
            self.runs_since(since, cpu, thread, tables);
        }
    }

    /// The thread is found on a CPU of which nothing was known.
    #[cold]
    fn runs_since(&mut self, since: u64, cpu: CpuId, thread: ThreadId, tables: &Tables) {
        let mut since = since;
        if thread != Tables::IDLE_THREAD {
            self.lose_track(since, thread, tables);
            let account = self.accounts.get(thread, tables);
            account.state = ThreadState::Running(cpu);
            since = account.since;
        }
        let state = self.cpus.get(cpu);
        (state.current, state.since, state.resumed) = (Some(thread), since, None);
    }

    /// Something else runs on the CPU than was known: a switch is missing since
    /// its last event, though no loss tells of it. Who was off the CPU need not
    /// have run meanwhile, and is doubted only where its own events say so.
    #[cold]
    fn contradicted(&mut self, now: u64, cpu: CpuId, tables: &Tables) {
        self.missing.unreported_count += 1;
        let since = self.cpus.get(cpu).last_event;
        self.missing.unreported.add(since, now);
        self.stop(now, cpu, since, tables);
    }

    /// Nothing is known of the CPU any more.
    #[cold]
    fn lose_current(&mut self, now: u64, cpu: CpuId, tables: &Tables) {
        let state = self.cpus.get(cpu);
        state.resumed = None;
        let Some(thread) = state.current.take() else { return };
        if thread != Tables::IDLE_THREAD
            && self.accounts.get(thread, tables).state == ThreadState::Running(cpu)
        {
            self.lose_track(now, thread, tables);
        }
    }

    #[cold]
    fn lose_track(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        let account = self.accounts.get(thread, tables);
        let missing_from = self.missing.first_after(account.since);
        let interval = account.lose_track(now, missing_from);
        if let ThreadState::Running(cpu) = interval.state {
            let state = self.cpus.get(cpu);
            if state.current == Some(thread) {
                (state.current, state.resumed) = (None, None);
            }
        }
        self.waits.add_blocked(EndedState { thread, account, interval: &interval });
    }

    #[inline]
    fn change(&mut self, now: u64, thread: ThreadId, next: ThreadState, tables: &Tables) {
        let account = self.accounts.get(thread, tables);
        let interval = account.change(next, now, &self.missing.lost);
        if let (ThreadState::Waiting(wait), ThreadState::Running(cpu)) = (interval.state, next) {
            if interval.unknown == 0 {
                self.waits.add_for_cpu(thread, account, &interval, wait);
            }
            let ended = EndedState { thread, account, interval: &interval };
            self.waits.keep_for_cpu(ended, wait, Some(cpu), &mut self.cpus);
        }
        let ended = EndedState { thread, account, interval: &interval };
        match interval.state {
            ThreadState::Running(cpu) => self.cpus.get(cpu).busy += interval.known,
            ThreadState::Blocked(off_cpu) => self.waits.keep_blocked(ended, off_cpu, tables),
            ThreadState::Waiting(wait) if next == ThreadState::Ended => {
                self.waits.keep_for_cpu(ended, wait, None, &mut self.cpus);
            }
            _ => {}
        }
        self.waits.add_blocked(ended);
    }

    /// Scheduling records are missing until now, of a CPU or of any.
    fn gap(&mut self, now: u64, gap: SchedulingGap, tables: &Tables) {
        let origin = self.accounts.origin();
        let since = gap.since.map_or(origin, |since| since.0).clamp(origin, now);
        self.missing.lost.add(since, now);
        match gap.cpu {
            Some(cpu) => self.stop(now, cpu, since, tables),
            None => {
                let cpus = self.cpus.ids();
                cpus.into_iter().for_each(|cpu| self.stop(now, cpu, since, tables));
            }
        }
    }

    /// What runs on the CPU is known up to `since` and from now on.
    fn stop(&mut self, now: u64, cpu: CpuId, since: u64, tables: &Tables) {
        let state = self.cpus.get(cpu);
        state.settle(since);
        (state.resumed, state.last_event) = (Some(now), now);
        let Some(thread) = state.current.take() else { return };
        if thread != Tables::IDLE_THREAD
            && self.accounts.get(thread, tables).state == ThreadState::Running(cpu)
        {
            self.change(since, thread, ThreadState::Unknown, tables);
        }
    }

    fn thread_end(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        let account = self.accounts.get(thread, tables);
        (account.exiting, account.reported) = (true, true);
        self.last_end = Some((now, thread));
    }

    /// Not one switch was recorded: samples tell what ran at moments, and nothing of the time
    /// between them.
    fn forget(&mut self, now: u64) {
        for (_, cpu) in self.cpus.iter_mut() {
            (cpu.current, cpu.busy, cpu.idle) = (None, 0, 0);
        }
        self.accounts.forget(now);
    }

    /// A thread begins. One that takes the place of another of its process,
    /// which ends at the same moment, is the same task after an exec: it runs on.
    fn thread_start(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        let account = self.accounts.get(thread, tables);
        account.reported = true;
        let (process, unseen) = (account.process, account.state == ThreadState::Unknown);
        let Some((at, old)) = self.last_end else { return };
        let main = tables.thread(thread).tid == tables.process(process).pid;
        let old = &self.accounts[old];
        let ThreadState::Running(cpu) = old.state else { return };
        if at != now || old.process != process || !main || !unseen {
            return;
        }
        if let Some((_, old)) = self.last_end.take() {
            self.change(now, old, ThreadState::Ended, tables);
            self.change(now, thread, ThreadState::Running(cpu), tables);
            let state = self.cpus.get(cpu);
            state.settle(now);
            state.current = Some(thread);
        }
    }

    /// The recording of a machine ends: what lasts there, lasts until now.
    fn end_machine(&mut self, now: u64, machine: MachineId, tables: &Tables) {
        for (_, cpu) in self.cpus.iter_mut().filter(|(cpu, _)| cpu.machine == machine) {
            cpu.settle(now);
            (cpu.current, cpu.resumed) = (None, None);
        }
        self.end_threads(now, tables, |process| tables.process(process).machine == machine);
    }

    /// The session ends: what lasts, lasts until now.
    pub(super) fn end(&mut self, now: u64, tables: &Tables) {
        let has_switches = self.switched_before || self.saw_sleepers;
        if !has_switches && self.cpus.iter().all(|(_, cpu)| cpu.switches == 0) {
            return self.forget(now);
        }
        for (_, cpu) in self.cpus.iter_mut() {
            cpu.settle(now);
        }
        self.end_threads(now, tables, |_| true);
    }

    /// What threads of these processes do lasts until now, and no longer.
    fn end_threads(&mut self, now: u64, tables: &Tables, of: impl Fn(ProcessId) -> bool) {
        let MissingTimes { lost, overwritten_until, .. } = &self.missing;
        self.waits.overwritten_ns = lost.missing(self.accounts.origin(), *overwritten_until);
        for thread in self.accounts.ids() {
            let account = &self.accounts[thread];
            if !of(account.process) {
                continue;
            }
            // A thread that has ended is not waiting for anything; its last switch is missing.
            if !account.exiting || matches!(account.state, ThreadState::Running(_)) {
                self.change(now, thread, ThreadState::Ended, tables);
            }
        }
    }
}
