//! Who was in which state for how long, from switches and wakeups.
//!
//! The definitions are in the documentation of [`super`].

use super::Waker;
use super::account::{StateInterval, ThreadAccount, ThreadState, Wait};
use super::cpu::Cpus;
use super::data::{Counts, Times};
use super::durations::Durations;
use super::filter::{Family, ProcessFilter};
use super::off_cpu::{OffCpuTimes, WaitKey};
use super::worst::{BlockedWait, CpuWait, Woken, WorstOfEach};
use crate::gaps::Gaps;
use syscollect_model::{
    CpuId, MachineId, OffCpu, ProcessId, SleepState, StringId, Switch, Tables, ThreadId, Wakeup,
};

/// Digits of the percentiles of waits.
const WAIT_DIGITS: u8 = 3;

/// The states of all threads and CPUs. Times are nanoseconds.
pub(super) struct Scheduling {
    /// When the session begins.
    origin: u64,
    filter: Option<ProcessFilter>,
    /// By machine, the processes of which everything is recorded; `None` for all.
    recorded: Vec<Option<ProcessFilter>>,
    accounts: Vec<ThreadAccount>,
    cpus: Cpus,
    /// When records were lost.
    gaps: Gaps,
    /// When an event is missing that nothing says was lost.
    unreported: Gaps,
    /// The last end of a thread: when, and who.
    last_end: Option<(u64, ThreadId)>,
    /// How often something else ran than the events before say.
    pub(super) unreported_gaps: u64,
    /// There were switches before what is told of.
    switched_before: bool,
    /// Threads were seen asleep: switches are recorded, though there may be none.
    saw_sleepers: bool,
    pub(super) off_cpu: OffCpuTimes,
    /// The last time that was blocked and has ended: who, in what, nanoseconds.
    pub(super) was_blocked: Option<(ThreadId, Option<StringId>, u64)>,
    pub(super) after_wakeup: Durations,
    pub(super) after_preemption: Durations,
    /// The longest wait for a CPU, the first of equals: how long, since when, and whose.
    pub(super) longest_wait: Option<(u64, u64, ThreadId)>,
    pub(super) worst: WorstOfEach,
}

impl Scheduling {
    /// Of all threads; so many of the longest waits of each kind are kept, and with those of idle
    /// threads if these are wanted.
    pub(super) fn new(filter: Option<ProcessFilter>, worst: usize, with_idle: bool) -> Self {
        Self {
            origin: 0,
            filter,
            recorded: Vec::new(),
            accounts: Vec::new(),
            cpus: Cpus::new(worst > 0),
            gaps: Gaps::default(),
            unreported: Gaps::default(),
            last_end: None,
            unreported_gaps: 0,
            switched_before: false,
            saw_sleepers: false,
            off_cpu: OffCpuTimes::default(),
            was_blocked: None,
            after_wakeup: Durations::new(WAIT_DIGITS),
            after_preemption: Durations::new(WAIT_DIGITS),
            longest_wait: None,
            worst: WorstOfEach::new(worst, with_idle),
        }
    }

    /// The session begins; called before any event.
    pub(super) fn begin(&mut self, now: u64) {
        self.origin = now;
    }

    /// The session begins later than it seemed: of what was before only the lives of tasks are
    /// told.
    pub(super) fn begin_anew(&mut self, now: u64) {
        self.origin = now;
        self.accounts.iter_mut().for_each(|account| account.begin_anew(now));
    }

    /// What came until now is before what is told of: states last, and nothing counts.
    pub(super) fn forget_before(&mut self, now: u64) {
        self.origin = now;
        self.accounts.iter_mut().for_each(|account| account.forget_before(now, &self.gaps));
        self.switched_before |= self.cpus.iter().any(|(_, cpu)| cpu.switches > 0);
        for (_, cpu) in self.cpus.iter_mut() {
            cpu.forget_before(now);
        }
        self.unreported_gaps = 0;
        self.off_cpu = OffCpuTimes::default();
        self.was_blocked = None;
        self.after_wakeup = Durations::new(WAIT_DIGITS);
        self.after_preemption = Durations::new(WAIT_DIGITS);
        self.longest_wait = None;
        self.worst = self.worst.emptied();
    }

    pub(super) fn cpus(&self) -> &Cpus {
        &self.cpus
    }

    /// The books of all threads but idle that were heard of.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (ThreadId, &ThreadAccount)> {
        (0..).map(ThreadId).zip(&self.accounts).skip(1)
    }

    /// The thread's books. Those of threads that began later begin there.
    #[inline]
    pub(super) fn account(&mut self, thread: ThreadId, tables: &Tables) -> &mut ThreadAccount {
        if thread.index() >= self.accounts.len() {
            self.add_accounts(thread, tables);
        }
        &mut self.accounts[thread.index()]
    }

    #[cold]
    fn add_accounts(&mut self, up_to: ThreadId, tables: &Tables) {
        for index in self.accounts.len()..=up_to.index() {
            let row = tables.thread(ThreadId(index as u32));
            let since = row.start.map_or(self.origin, |start| start.0.max(self.origin));
            let chosen =
                self.filter.as_ref().is_none_or(|filter| filter.matches(row.process, tables));
            let mut account = ThreadAccount::new(row.process, chosen, since);
            account.is_partial = !self.is_recorded(row.process, tables);
            self.accounts.push(account);
        }
    }

    /// Whether all that the process does is recorded, and not only what concerns others.
    fn is_recorded(&mut self, process: ProcessId, tables: &Tables) -> bool {
        let new = tables.machines.iter().skip(self.recorded.len());
        self.recorded.extend(new.map(|machine| match &machine.filter_pids[..] {
            [] => None,
            pids => Some(ProcessFilter::Family(Family::new(pids.to_vec()))),
        }));
        let machine = usize::from(tables.process(process).machine.0);
        let filter = self.recorded.get(machine).and_then(Option::as_ref);
        filter.is_none_or(|filter| filter.matches(process, tables))
    }

    #[inline]
    pub(super) fn switch(&mut self, now: u64, switch: &Switch, tables: &Tables) {
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
        let account = self.account(thread, tables);
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
        let account = self.account(thread, tables);
        account.counts.switches += 1;
        let (before, since) = (account.state, account.since);
        let woken_early = std::mem::take(&mut account.woken_early);
        match before {
            // It left another CPU, and that is missing.
            ThreadState::Running(_) => self.lose_track(now, thread, tables),
            // It was woken where records are missing.
            ThreadState::Blocked(_) if self.is_doubtful(since) => {
                self.lose_track(now, thread, tables);
            }
            // The wakeup came while it was on its way off the CPU.
            ThreadState::Blocked(_) if woken_early => {
                self.account(thread, tables).state = ThreadState::Waiting(Wait::Wakeup);
            }
            _ => {}
        }
        self.change(now, thread, ThreadState::Running(cpu), tables);
    }

    #[inline]
    pub(super) fn wakeup(&mut self, now: u64, wakeup: &Wakeup, tables: &Tables) {
        if let Some(waker) = wakeup.waker {
            self.wakes(now, wakeup.cpu, waker, tables);
        }
        let woken = Woken { waker: Waker::of(wakeup), cpu: wakeup.cpu, stack: wakeup.stack };
        let account = self.account(wakeup.wakee, tables);
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
                if !self.is_doubtful(since) {
                    return;
                }
                self.lose_track(now, wakeup.wakee, tables);
            }
        }
        self.change(now, wakeup.wakee, ThreadState::Waiting(Wait::Wakeup), tables);
    }

    /// The thread was seen asleep. What was told of it before is certain; where nothing was, it has
    /// slept all the time.
    pub(super) fn asleep(&mut self, now: u64, thread: ThreadId, off_cpu: OffCpu, tables: &Tables) {
        self.saw_sleepers = true;
        let account = self.account(thread, tables);
        if account.state != ThreadState::Unknown || account.exiting {
            return;
        }
        let told_nothing = account.counts == Counts::default() && account.times == Times::default();
        if !told_nothing || tables.thread(thread).start.is_some() {
            return self.change(now, thread, ThreadState::Blocked(off_cpu), tables);
        }
        // The session's beginning is that of the first machine.
        if tables.machine_of(thread) != MachineId::FIRST {
            self.change(now, thread, ThreadState::Unknown, tables);
        }
        self.account(thread, tables).slept_before(off_cpu);
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
    pub(super) fn observe_running(
        &mut self,
        now: u64,
        cpu: CpuId,
        thread: ThreadId,
        tables: &Tables,
    ) {
        let state = self.cpus.get(cpu);
        if state.current.is_none() {
            let since = state.resumed.unwrap_or(now);
            self.runs_since(since, cpu, thread, tables);
        }
    }

    /// Whether records are missing since then.
    #[inline]
    fn is_doubtful(&self, since: u64) -> bool {
        self.first_missing(since).is_some()
    }

    /// From when on records are missing after that time.
    fn first_missing(&self, since: u64) -> Option<u64> {
        let starts = [&self.gaps, &self.unreported].map(|gaps| gaps.first(since));
        starts.into_iter().flatten().min()
    }

    /// The thread is found on a CPU of which nothing was known.
    #[cold]
    fn runs_since(&mut self, since: u64, cpu: CpuId, thread: ThreadId, tables: &Tables) {
        let mut since = since;
        if thread != Tables::IDLE_THREAD {
            self.lose_track(since, thread, tables);
            let account = self.account(thread, tables);
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
    pub(super) fn contradicted(&mut self, now: u64, cpu: CpuId, tables: &Tables) {
        self.unreported_gaps += 1;
        let since = self.cpus.get(cpu).last_event;
        self.unreported.add(since, now);
        self.stop(now, cpu, since, tables);
    }

    /// Nothing is known of the CPU any more.
    #[cold]
    fn lose_current(&mut self, now: u64, cpu: CpuId, tables: &Tables) {
        let state = self.cpus.get(cpu);
        state.resumed = None;
        let Some(thread) = state.current.take() else { return };
        if thread != Tables::IDLE_THREAD
            && self.account(thread, tables).state == ThreadState::Running(cpu)
        {
            self.lose_track(now, thread, tables);
        }
    }

    #[cold]
    fn lose_track(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        self.account(thread, tables);
        let since = self.accounts[thread.index()].since;
        let missing = self.first_missing(since);
        let stay = self.accounts[thread.index()].lose_track(now, missing);
        if let ThreadState::Running(cpu) = stay.state {
            let state = self.cpus.get(cpu);
            if state.current == Some(thread) {
                (state.current, state.resumed) = (None, None);
            }
        }
        self.book(thread, &stay);
    }

    #[inline]
    fn change(&mut self, now: u64, thread: ThreadId, next: ThreadState, tables: &Tables) {
        self.account(thread, tables);
        let stay = self.accounts[thread.index()].change(next, now, &self.gaps);
        if let (ThreadState::Waiting(wait), ThreadState::Running(cpu)) = (stay.state, next) {
            if stay.unknown == 0 {
                self.waited(thread, wait, &stay);
            }
            self.keep_wait(&stay, thread, wait, cpu);
        }
        match stay.state {
            ThreadState::Running(cpu) => self.cpus.get(cpu).busy += stay.known,
            ThreadState::Blocked(off_cpu) if next != ThreadState::Ended => {
                self.keep_blocked(&stay, thread, off_cpu, tables);
            }
            _ => {}
        }
        self.book(thread, &stay);
    }

    /// A wait for a CPU has ended, with this length: it may be among the longest.
    #[inline]
    fn keep_wait(&mut self, stay: &StateInterval, thread: ThreadId, began: Wait, cpu: CpuId) {
        let ThreadAccount { chosen, is_partial, woken, .. } = self.accounts[thread.index()];
        let is_of_interest = chosen && !is_partial;
        let Some(StateInterval { since, known, unknown, .. }) =
            stay.whole().filter(|_| is_of_interest)
        else {
            return;
        };
        let cpus = &mut self.cpus;
        let woken = woken.filter(|_| began == Wait::Wakeup);
        self.worst.for_cpu.add(known, since, || {
            let meanwhile = cpus.ran(cpu, since, since + known + unknown);
            CpuWait { thread, unknown, began, woken, cpu, meanwhile }
        });
    }

    /// A time blocked has ended. Who is idle waits for nothing that anybody lacks.
    #[inline]
    fn keep_blocked(
        &mut self,
        stay: &StateInterval,
        thread: ThreadId,
        off_cpu: OffCpu,
        tables: &Tables,
    ) {
        let ThreadAccount { process, chosen, is_partial, woken, .. } =
            self.accounts[thread.index()];
        if chosen
            && !is_partial
            && let Some(StateInterval { since, known, unknown, .. }) = stay.whole()
            && let Some(waits_for) = self.worst.waited_for(process, &off_cpu, tables)
        {
            self.worst.blocked.add(known, since, || BlockedWait {
                thread,
                unknown,
                off_cpu,
                waits_for,
                woken,
            });
        }
    }

    /// Books why a thread was blocked.
    #[inline]
    fn book(&mut self, thread: ThreadId, stay: &StateInterval) {
        let account = &self.accounts[thread.index()];
        let ThreadState::Blocked(off_cpu) = &stay.state else { return };
        if !account.chosen {
            return;
        }
        if stay.slept_before && account.state == ThreadState::Ended {
            // Where switches are missing it may have run, and slept elsewhere then.
            if stay.unknown == 0 {
                let key = WaitKey::new(thread, account.process, off_cpu);
                self.off_cpu.asleep_throughout.push(key);
            }
        } else {
            self.off_cpu.add(thread, account.process, off_cpu, stay.known);
            self.was_blocked = Some((thread, off_cpu.blocked_in, stay.known));
        }
    }

    #[inline]
    fn waited(&mut self, thread: ThreadId, wait: Wait, stay: &StateInterval) {
        let Some(StateInterval { since, known: nanoseconds, cut, .. }) = stay.whole() else {
            return;
        };
        let account = &mut self.accounts[thread.index()];
        // That it ran meanwhile is not recorded.
        if account.is_partial {
            return;
        }
        if nanoseconds > account.longest_wait {
            (account.longest_wait, account.longest_wait_since) = (nanoseconds, since);
        }
        if !account.chosen {
            return;
        }
        if self.longest_wait.is_none_or(|(longest, ..)| nanoseconds > longest) {
            self.longest_wait = Some((nanoseconds, since, thread));
        }
        match wait {
            // What began before a part is no latency of it: most of those are missing.
            _ if cut => {}
            Wait::Wakeup => self.after_wakeup.add(nanoseconds),
            Wait::Preemption => self.after_preemption.add(nanoseconds),
        }
    }

    /// Scheduling records of a CPU (`None`: of any) are missing from `since` until now.
    pub(super) fn gap(
        &mut self,
        now: u64,
        cpu: Option<CpuId>,
        since: Option<u64>,
        tables: &Tables,
    ) {
        let since = since.unwrap_or(self.origin).clamp(self.origin, now);
        self.gaps.add(since, now);
        match cpu {
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
            && self.account(thread, tables).state == ThreadState::Running(cpu)
        {
            self.change(since, thread, ThreadState::Unknown, tables);
        }
    }

    pub(super) fn thread_end(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        self.account(thread, tables).exiting = true;
        self.last_end = Some((now, thread));
    }

    /// Not one switch was recorded: samples tell what ran at moments, and nothing of the time
    /// between them.
    fn forget(&mut self, now: u64) {
        for (_, cpu) in self.cpus.iter_mut() {
            (cpu.current, cpu.busy, cpu.idle) = (None, 0, 0);
        }
        self.accounts.iter_mut().for_each(|account| account.forget(now));
    }

    /// A thread begins. One that takes the place of another of its process,
    /// which ends at the same moment, is the same task after an exec: it runs on.
    pub(super) fn thread_start(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        let account = self.account(thread, tables);
        let (process, unseen) = (account.process, account.state == ThreadState::Unknown);
        let Some((at, old)) = self.last_end else { return };
        let main = tables.thread(thread).tid == tables.process(process).pid;
        let old = &self.accounts[old.index()];
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
    pub(super) fn end_machine(&mut self, now: u64, machine: MachineId, tables: &Tables) {
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
        for index in 1..self.accounts.len() as u32 {
            let account = &self.accounts[index as usize];
            if !of(account.process) {
                continue;
            }
            // A thread that has ended is not waiting for anything; its last switch is missing.
            if !account.exiting || matches!(account.state, ThreadState::Running(_)) {
                self.change(now, ThreadId(index), ThreadState::Ended, tables);
            }
        }
    }
}
