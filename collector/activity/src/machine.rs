//! The state of a machine as its records tell it: who has each CPU, and how every thread waits.
//!
//! A thread's time on a CPU is that CPU's, so that both are the same to the tick. Its other times
//! count from one of its records to the next, and are split where an interval ends.

use crate::functions::StackOfThread;
use crate::histogram::Histogram;
use crate::interval::{CpuActivity, Interval, TaskTimes};
use crate::names::Named;
use crate::wakers::{self, Wakers};
use rustc_hash::FxHashMap;
use syscollect_model::Ticks;
use syscollect_records::{SchedRecord, sched_flags, task_state};

/// Threads that are followed; of more it is known in sum how long they ran.
const MOST_THREADS: usize = 1 << 16;
/// From here on threads are forgotten that nothing was heard of for so many seconds.
const MANY_THREADS: usize = MOST_THREADS / 4 * 3;
const QUIET_SECONDS: u16 = 60;
/// Gaps of an interval that are told apart.
const MOST_GAPS: usize = 4096;
/// CPUs that there may be, as lanes number them.
const MOST_CPUS: usize = 1 << 13;

/// Places in the table of threads: the idle thread of each CPU, those that are not followed, and
/// those that are.
const IDLE: u32 = 0;
const OTHERS: u32 = 1;
const FIRST: u32 = 2;
/// The stack of a kernel thread without work, which waits for nothing.
const NOWHERE: u32 = u32::MAX;
/// It is not known who has the CPU.
const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Running,
    Runnable,
    Interruptible,
    Uninterruptible,
    Stopped,
    /// It runs no more.
    Ended,
    /// Nobody has this place.
    Free,
}

impl State {
    /// How the thread is that a switch leaves.
    #[inline]
    fn behind(record: &SchedRecord) -> Self {
        if record.flags & sched_flags::PREEMPTED != 0 {
            return Self::Runnable;
        }
        // The lowest bit counts, as in the kernel.
        match record.state & record.state.wrapping_neg() {
            0 => Self::Runnable,
            // A kernel thread without work sleeps, whatever keeps signals away.
            task_state::INTERRUPTIBLE | task_state::IDLE => Self::Interruptible,
            task_state::UNINTERRUPTIBLE => Self::Uninterruptible,
            task_state::DEAD | task_state::ZOMBIE => Self::Ended,
            _ => Self::Stopped,
        }
    }
}

/// A thread, and what it did in this interval.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    state: State,
    /// On which CPU it runs, or ran last.
    cpu: u16,
    /// Intervals in which nothing was heard of it.
    quiet: u16,
    /// Gaps of this interval before its last record: those behind it may have changed its state.
    gaps: u32,
    /// Its times are told up to here; while it runs, the CPU's are.
    since: u64,
    /// Since when it has been runnable.
    runnable_since: u64,
    /// The number of the stack that it is blocked in; 0 where that is not known.
    blocked_in: u32,
    pub(crate) times: TaskTimes,
    pub(crate) switches: u32,
    pub(crate) preempted: u32,
    pub(crate) wakeups: u32,
    pub(crate) longest_wait: u64,
    pub(crate) wakers: Wakers,
    /// What it was when it ended: its number may be another's by now.
    pub(crate) ended_as: Option<Named>,
}

impl Thread {
    fn new(tid: u32, state: State, since: u64, gaps: usize) -> Self {
        Self {
            tid,
            state,
            cpu: 0,
            quiet: 0,
            gaps: gaps as u32,
            since,
            runnable_since: since,
            blocked_in: 0,
            times: TaskTimes::default(),
            switches: 0,
            preempted: 0,
            wakeups: 0,
            longest_wait: 0,
            wakers: Wakers::default(),
            ended_as: None,
        }
    }

    /// The stack in which it is blocked now; `None` where it is not.
    pub(crate) fn blocked_in(&self) -> Option<StackOfThread> {
        let is_blocked = matches!(self.state, State::Interruptible | State::Uninterruptible);
        is_blocked.then_some(StackOfThread { tid: self.tid, stack: self.blocked_in })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state == State::Ended || self.ended_as.is_some()
    }

    /// Whether it did anything but sleep.
    pub(crate) fn is_active(&self) -> bool {
        self.times.weight() > 0 || self.switches > 0 || self.wakeups > 0 || self.has_ended()
    }

    /// Its times up to then: up to the first gap in its state of before, from there on not known.
    #[inline]
    fn settle(&mut self, at: u64, gaps: &[u64], blocked: &mut BlockedTimes) {
        if self.state == State::Running {
            return;
        }
        if (self.gaps as usize) < gaps.len() {
            let from = gaps[self.gaps as usize];
            self.gaps = gaps.len() as u32;
            self.credit(from.min(at), blocked);
            if self.state != State::Ended {
                self.state = State::Unknown;
            }
        }
        self.credit(at, blocked);
    }

    #[inline]
    fn credit(&mut self, at: u64, blocked: &mut BlockedTimes) {
        let ticks = at.saturating_sub(self.since);
        self.since += ticks;
        match self.state {
            State::Unknown => self.times.unknown += ticks,
            State::Runnable => self.times.runnable += ticks,
            State::Interruptible => {
                self.times.interruptible += ticks;
                blocked.add(self.blocked_in, ticks);
            }
            State::Uninterruptible => {
                self.times.uninterruptible += ticks;
                blocked.add(self.blocked_in, ticks);
            }
            State::Stopped => self.times.stopped += ticks,
            State::Running | State::Ended | State::Free => {}
        }
    }

    /// The next interval begins.
    fn restart(&mut self) {
        self.quiet = if self.is_active() { 0 } else { self.quiet.saturating_add(1) };
        self.gaps = 0;
        self.times = TaskTimes::default();
        (self.switches, self.preempted, self.wakeups, self.longest_wait) = (0, 0, 0, 0);
        self.wakers = Wakers::default();
    }
}

/// How long threads were blocked in this interval, by the numbers of the stacks that they are
/// blocked in; of what has no number it is the sum.
#[derive(Debug, Default)]
struct BlockedTimes(Vec<u64>);

impl BlockedTimes {
    #[inline]
    fn add(&mut self, stack: u32, ticks: u64) {
        // Nothing is counted where nobody asks.
        if let Some(blocked) = self.0.get_mut(stack as usize) {
            *blocked += ticks;
        }
    }

    /// There is a stack of that number.
    #[inline]
    fn make_room(&mut self, stack: u32) {
        if stack as usize >= self.0.len() && stack > 0 {
            self.0.resize((stack as usize + 1).next_power_of_two(), 0);
        }
    }
}

/// A CPU, and what it did in this interval.
#[derive(Clone, Debug)]
struct Cpu {
    /// Its lane has begun.
    is_known: bool,
    /// Chunks of its lane were left out, and the next one has not come.
    is_blind: bool,
    /// Who has it: a place in the table of threads.
    current: u32,
    current_tid: u32,
    /// Its time is told up to here.
    since: u64,
    /// Its last record.
    last: u64,
    busy: u64,
    idle: u64,
    unknown: u64,
    switches: u64,
}

impl Cpu {
    fn new(since: u64) -> Self {
        Self {
            is_known: false,
            is_blind: false,
            current: UNKNOWN,
            current_tid: wakers::UNKNOWN,
            since,
            last: since,
            busy: 0,
            idle: 0,
            unknown: 0,
            switches: 0,
        }
    }

    fn activity(&self, cpu: u16) -> CpuActivity {
        let Self { busy, idle, unknown, switches, .. } = *self;
        let is_thread = self.current != UNKNOWN && self.current != IDLE;
        let current = is_thread.then_some(self.current_tid);
        CpuActivity { cpu, busy, idle, unknown, switches, current }
    }
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    threads: Vec<Thread>,
    free: Vec<u32>,
    by_tid: FxHashMap<u32, u32>,
    cpus: Vec<Cpu>,
    /// From where on records of this interval are missing.
    gaps: Vec<u64>,
    blocked: BlockedTimes,
    /// Where this interval begins.
    start: u64,
    latency: Histogram,
    switches: u64,
    wakeups: u64,
    new_threads: u64,
    ended_threads: u64,
    is_incomplete: bool,
}

impl Default for Machine {
    fn default() -> Self {
        let [idle, others] = [(); 2].map(|()| Thread::new(0, State::Running, 0, 0));
        Self {
            threads: vec![idle, others],
            free: Vec::new(),
            by_tid: FxHashMap::default(),
            cpus: Vec::new(),
            gaps: Vec::new(),
            blocked: BlockedTimes::default(),
            start: 0,
            latency: Histogram::default(),
            switches: 0,
            wakeups: 0,
            new_threads: 0,
            ended_threads: 0,
            is_incomplete: false,
        }
    }
}

impl Machine {
    /// There is such a CPU, whether or not anything is recorded of it.
    pub(crate) fn add_cpu(&mut self, cpu: u32) {
        if (cpu as usize) < MOST_CPUS {
            self.cpu(cpu as u16);
        }
    }

    /// A list says that a thread was asleep, in a state as proc_pid_stat(5) has it. Records tell it
    /// better.
    pub(crate) fn listed_asleep(&mut self, tid: u32, state: char) {
        let state = match state {
            'S' | 'I' => State::Interruptible,
            'D' => State::Uninterruptible,
            'T' | 't' | 'P' => State::Stopped,
            _ => return,
        };
        if !self.by_tid.contains_key(&tid) {
            let thread = self.thread(tid, self.start);
            if thread >= FIRST {
                self.threads[thread as usize].state = state;
            }
        }
    }

    /// A chunk of a CPU's lane begins: who has the CPU (`u32::MAX`: that is not known), and whether
    /// records before it are missing; from where on, if so.
    pub(crate) fn chunk(&mut self, cpu: u16, at: u64, current: u32, missing: bool) -> Option<u64> {
        let gap = missing.then(|| self.gap(cpu));
        let is_first = !std::mem::replace(&mut self.cpu(cpu).is_known, true);
        self.cpu(cpu).is_blind = false;
        // Nothing happened there before its first record: it was so all the time.
        let at = if is_first && !missing { self.start } else { at };
        if current != UNKNOWN {
            self.set_current(cpu, at, current);
        }
        gap
    }

    /// So many records of a CPU are missing, and who has it now; from where on.
    pub(crate) fn resume(&mut self, cpu: u16, at: u64, record: &SchedRecord) -> Option<u64> {
        let is_missing = record.state | record.prio | record.next_prio != 0;
        let gap = is_missing.then(|| self.gap(cpu));
        self.set_current(cpu, at, record.tid);
        self.cpu(cpu).last = at;
        gap
    }

    /// Chunks of a CPU's lane were left out behind what came; from where on.
    pub(crate) fn left_out(&mut self, cpu: u16) -> u64 {
        let from = self.gap(cpu);
        self.cpu(cpu).is_blind = true;
        from
    }

    /// Something else is missing: what threads are called, for example.
    pub(crate) fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Records of a CPU are missing from its last one on.
    fn gap(&mut self, cpu: u16) -> u64 {
        let from = self.cpu(cpu).last;
        let told = self.advance(cpu, from);
        if self.gaps.len() >= MOST_GAPS {
            let Self { threads, gaps, blocked, .. } = self;
            // What those before could have changed is settled here.
            threads.iter_mut().for_each(|thread| {
                thread.settle(from.max(thread.since), gaps, blocked);
                thread.gaps = 0;
            });
            gaps.clear();
        }
        self.gaps.push(from);
        self.is_incomplete = true;
        let gaps = self.gaps.len() as u32;
        let Cpu { current, current_tid, .. } = self.cpu(cpu);
        let before = std::mem::replace(current, UNKNOWN);
        *current_tid = wakers::UNKNOWN;
        if let Some(thread) = self.running_on(before, cpu) {
            thread.state = State::Unknown;
            (thread.since, thread.gaps) = (told, gaps);
        }
        from
    }

    /// Who has a CPU, as far as that is known.
    #[inline]
    pub(crate) fn current_tid(&mut self, cpu: u16) -> u32 {
        self.cpu(cpu).current_tid
    }

    /// Stacks have other numbers from now on.
    pub(crate) fn forget_stacks(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.blocked_in = 0);
        self.blocked.0.clear();
    }

    /// A switch, behind all that was told before; the number of the stack in which the thread is
    /// that leaves the CPU.
    #[inline]
    pub(crate) fn switch(&mut self, cpu: u16, at: u64, record: &SchedRecord, stack: u32) {
        let at = self.advance(cpu, at);
        self.switches += 1;
        let gaps = self.gaps.len() as u32;
        let of = self.cpu(cpu);
        (of.last, of.switches) = (at, of.switches + 1);
        let before = of.current;
        if before == OTHERS {
            self.threads[OTHERS as usize].switches += 1;
        } else if let Some(thread) = self.running_on(before, cpu) {
            thread.switches += 1;
            thread.state = State::behind(record);
            (thread.since, thread.gaps) = (at, gaps);
            thread.blocked_in = match record.state & record.state.wrapping_neg() {
                task_state::IDLE => NOWHERE,
                _ => stack,
            };
            match thread.state {
                State::Runnable => {
                    thread.preempted += 1;
                    thread.runnable_since = at;
                }
                State::Ended => {
                    let tid = thread.tid;
                    self.unbind(tid, before);
                }
                _ => {}
            }
        }
        self.blocked.make_room(stack);
        self.set_current(cpu, at, record.tid);
    }

    /// Somebody is woken, or is made and runs for the first time.
    #[inline]
    pub(crate) fn waking(&mut self, cpu: u16, at: u64, record: &SchedRecord, is_new: bool) {
        let start = self.start;
        let of = self.cpu(cpu);
        of.last = of.last.max(at);
        let at = at.max(start);
        let waker = match record.flags & sched_flags::FROM_INTERRUPT {
            0 => of.current_tid,
            _ => wakers::INTERRUPT,
        };
        self.wakeups += 1;
        if is_new {
            self.begins(record.tid);
        }
        let place = self.thread(record.tid, at);
        let Self { threads, gaps, blocked, .. } = self;
        let thread = &mut threads[place as usize];
        thread.wakeups = thread.wakeups.saturating_add(1);
        if place == OTHERS {
            return;
        }
        thread.wakers.add(waker);
        thread.settle(at, gaps, blocked);
        if !matches!(thread.state, State::Running | State::Runnable) {
            thread.state = State::Runnable;
            thread.runnable_since = at;
        }
    }

    /// Another record of a CPU's lane.
    pub(crate) fn heard(&mut self, cpu: u16, at: u64) {
        let of = self.cpu(cpu);
        of.last = of.last.max(at);
    }

    /// A thread is made that has this number: whoever had it before has ended.
    fn begins(&mut self, tid: u32) {
        self.new_threads += 1;
        if let Some(before) = self.by_tid.remove(&tid) {
            self.end(before);
        }
    }

    /// A thread ends, and is this. It has a CPU until it leaves that for good.
    pub(crate) fn exits(&mut self, tid: u32, named: Named) {
        self.ended_threads += 1;
        if let Some(place) = self.by_tid.get(&tid) {
            self.threads[*place as usize].ended_as = Some(named);
        }
    }

    /// A thread takes the first one's place in its process, and so its number.
    pub(crate) fn takes_number(&mut self, from: u32, tid: u32) {
        let Some(place) = self.by_tid.remove(&from) else { return };
        self.threads[place as usize].tid = tid;
        if let Some(first) = self.by_tid.insert(tid, place) {
            self.end(first);
        }
        for cpu in self.cpus.iter_mut().filter(|cpu| cpu.current == place) {
            cpu.current_tid = tid;
        }
    }

    /// It is not followed any more, but for what it did.
    fn end(&mut self, place: u32) {
        let Self { threads, gaps, blocked, .. } = self;
        let thread = &mut threads[place as usize];
        if thread.state != State::Running {
            thread.settle(thread.since, gaps, blocked);
            thread.state = State::Ended;
        }
    }

    /// This number is nobody's, if it was that thread's.
    fn unbind(&mut self, tid: u32, place: u32) {
        if self.by_tid.get(&tid) == Some(&place) {
            self.by_tid.remove(&tid);
        }
    }

    /// Who has a CPU from then on.
    #[inline]
    fn set_current(&mut self, cpu: u16, at: u64, tid: u32) {
        let is_same = self.cpu(cpu).current_tid == tid && self.cpu(cpu).current != UNKNOWN;
        if is_same && self.running_on(self.cpus[usize::from(cpu)].current, cpu).is_some() {
            return;
        }
        let at = self.advance(cpu, at);
        let place = match tid {
            0 => IDLE,
            _ => self.thread(tid, at),
        };
        let of = self.cpu(cpu);
        let before = std::mem::replace(&mut of.current, place);
        of.current_tid = tid;
        let gaps = self.gaps.len() as u32;
        if before != place
            && let Some(thread) = self.running_on(before, cpu)
        {
            // A chunk says that somebody else has it, and no switch did.
            thread.state = State::Unknown;
            (thread.since, thread.gaps) = (at, gaps);
        }
        if place < FIRST {
            return;
        }
        let Thread { state, cpu: elsewhere, .. } = self.threads[place as usize];
        if state == State::Running && elsewhere != cpu {
            // It left that one, and the record of it is missing, or comes a moment later.
            self.advance(elsewhere, at);
            let of = self.cpu(elsewhere);
            if of.current == place {
                (of.current, of.current_tid) = (UNKNOWN, wakers::UNKNOWN);
            }
        }
        let Self { threads, gaps, latency, blocked, .. } = self;
        let thread = &mut threads[place as usize];
        thread.settle(at, gaps, blocked);
        if thread.state == State::Runnable {
            let waited = at.saturating_sub(thread.runnable_since);
            thread.longest_wait = thread.longest_wait.max(waited);
            latency.add(waited);
        }
        (thread.state, thread.cpu) = (State::Running, cpu);
    }

    /// Whoever has a CPU has had it up to then; that time, which no interval before has.
    #[inline]
    fn advance(&mut self, cpu: u16, at: u64) -> u64 {
        let start = self.start;
        let of = self.cpu(cpu);
        // A lane that comes late has nothing to say of what is over.
        let at = at.max(of.since).max(start);
        let ticks = at - of.since;
        of.since = at;
        let current = of.current;
        match current {
            UNKNOWN => of.unknown += ticks,
            IDLE => of.idle += ticks,
            _ => {
                of.busy += ticks;
                self.threads[current as usize].times.running += ticks;
            }
        }
        at
    }

    /// The thread at that place, if it is one that is followed and has that CPU.
    #[inline]
    fn running_on(&mut self, place: u32, cpu: u16) -> Option<&mut Thread> {
        if place < FIRST {
            return None;
        }
        let thread = self.threads.get_mut(place as usize)?;
        (thread.state == State::Running && thread.cpu == cpu).then_some(thread)
    }

    #[inline]
    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let cpu = usize::from(cpu).min(MOST_CPUS - 1);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Cpu::new(self.start));
        }
        &mut self.cpus[cpu]
    }

    /// The place of a thread, which is a new one where nothing was told of it.
    #[inline]
    fn thread(&mut self, tid: u32, at: u64) -> u32 {
        if let Some(place) = self.by_tid.get(&tid) {
            return *place;
        }
        if self.by_tid.len() >= MOST_THREADS {
            return OTHERS;
        }
        let thread = Thread::new(tid, State::Unknown, at, self.gaps.len());
        let place = match self.free.pop() {
            Some(place) => {
                self.threads[place as usize] = thread;
                place
            }
            // Those that ended in this interval have places, too.
            None if self.threads.len() >= 2 * MOST_THREADS => return OTHERS,
            None => {
                self.threads.push(thread);
                (self.threads.len() - 1) as u32
            }
        };
        self.by_tid.insert(tid, place);
        place
    }

    /// Ends the interval there: what it was as far as this knows it, with its threads, the sum of
    /// those that are not followed, and how long threads were blocked by stacks.
    pub(crate) fn close(
        &mut self,
        end: u64,
        keep: impl FnOnce(&[Thread], &Thread, &[u64], &mut Interval),
    ) -> Interval {
        for cpu in 0..self.cpus.len() {
            self.advance(cpu as u16, end);
        }
        let Self { threads, gaps, blocked, .. } = self;
        threads.iter_mut().for_each(|thread| thread.settle(end, gaps, blocked));
        let cpus = self.cpus.iter().enumerate().map(|(number, cpu)| cpu.activity(number as u16));
        let is_blind = self.cpus.iter().any(|cpu| cpu.is_blind);
        let mut interval = Interval {
            start: Ticks(self.start),
            ticks: end.saturating_sub(self.start),
            is_incomplete: self.is_incomplete || is_blind,
            cpus: cpus.collect(),
            latency: std::mem::take(&mut self.latency),
            switches: self.switches,
            wakeups: self.wakeups,
            new_threads: self.new_threads,
            ended_threads: self.ended_threads,
            ..Interval::default()
        };
        let (unfollowed, followed) = self.threads.split_at(FIRST as usize);
        let blocked = &self.blocked.0;
        keep(followed, &unfollowed[OTHERS as usize], blocked, &mut interval);
        self.restart(end);
        interval
    }

    fn restart(&mut self, start: u64) {
        self.start = start;
        self.gaps.clear();
        self.blocked.0.fill(0);
        (self.switches, self.wakeups, self.new_threads, self.ended_threads) = (0, 0, 0, 0);
        self.is_incomplete = false;
        for cpu in &mut self.cpus {
            (cpu.busy, cpu.idle, cpu.unknown, cpu.switches) = (0, 0, 0, 0);
        }
        let is_full = self.by_tid.len() > MANY_THREADS;
        for place in 0..self.threads.len() as u32 {
            let thread = &mut self.threads[place as usize];
            if thread.state == State::Free {
                continue;
            }
            thread.restart();
            if place < FIRST || thread.state == State::Running {
                continue;
            }
            let is_stale = thread.state == State::Unknown || thread.quiet > QUIET_SECONDS;
            if thread.has_ended() || (is_full && is_stale) {
                thread.state = State::Free;
                let tid = thread.tid;
                self.unbind(tid, place);
                self.free.push(place);
            }
        }
    }
}

impl Thread {
    /// Nobody has its place.
    pub(crate) fn is_free(&self) -> bool {
        self.state == State::Free
    }
}
