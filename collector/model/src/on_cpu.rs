//! Who runs on each CPU as events report it, and where these contradict each other.

use crate::clock::Time;
use crate::event::Event;
use crate::lane::{CpuId, MachineId};
use crate::per_cpu::PerCpu;
use crate::{Tables, ThreadId};
use rustc_hash::FxHashMap;

/// Who runs on each CPU, as far as the events until now report it.
///
/// A thread that leaves a CPU, or wakes another there, while a different one is known to run there,
/// shows that a switch is missing since the CPU's event before, though no
/// [`Loss`](crate::Loss) reports it: a gap. All who count gaps ask this, so that they agree.
#[derive(Debug, Default)]
pub struct OnCpu {
    threads: PerCpu<Option<ThreadId>>,
    /// By thread that runs, without idle, which runs on many.
    cpus: FxHashMap<ThreadId, CpuId>,
    /// The last end of a thread: when, and who.
    last_end: Option<(Time, ThreadId)>,
}

impl OnCpu {
    /// Applies the next event; whether it shows a gap.
    ///
    /// Where a recorder left processes out, events that contradict each other are none.
    #[inline]
    pub fn apply(&mut self, now: Time, event: &Event, tables: &Tables) -> bool {
        match event {
            Event::Switch(switch) => {
                let is_gap = switch
                    .previous
                    .is_some_and(|previous| self.contradicts(switch.cpu, previous, tables));
                if let Some(previous) = switch.previous {
                    self.leaves(previous);
                }
                self.runs(switch.cpu, switch.next);
                is_gap
            }
            Event::Wakeup(wakeup) => {
                let Some(waker) = wakeup.waker else { return false };
                let is_gap = self.contradicts(wakeup.cpu, waker, tables);
                self.runs(wakeup.cpu, waker);
                is_gap
            }
            Event::Sample(sample) => {
                if self.thread(sample.cpu).is_none() {
                    self.runs(sample.cpu, sample.thread);
                }
                false
            }
            other => {
                self.apply_other(now, other, tables);
                false
            }
        }
    }

    fn apply_other(&mut self, now: Time, event: &Event, tables: &Tables) {
        match event {
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    self.forget(|cpu| gap.cpu.is_none_or(|of| of == cpu));
                }
            }
            Event::ThreadStart(thread) => self.starts(now, *thread, tables),
            Event::ThreadEnd(thread) => self.last_end = Some((now, *thread)),
            Event::RecordingEnd(machine) => self.forget_machine(*machine),
            _ => {}
        }
    }

    #[inline]
    fn thread(&self, cpu: CpuId) -> Option<ThreadId> {
        self.threads.get(cpu).copied().flatten()
    }

    #[inline]
    fn contradicts(&self, cpu: CpuId, thread: ThreadId, tables: &Tables) -> bool {
        self.thread(cpu).is_some_and(|known| known != thread) && records_all(cpu.machine, tables)
    }

    #[inline]
    fn runs(&mut self, cpu: CpuId, thread: ThreadId) {
        let before = self.threads.get_or(cpu, || None).replace(thread);
        if before == Some(thread) {
            return;
        }
        if let Some(before) = before.filter(|before| self.cpu_of(*before) == Some(cpu)) {
            self.cpus.remove(&before);
        }
        if thread == Tables::IDLE_THREAD {
            return;
        }
        // It left another CPU, and that is missing.
        if let Some(other) = self.cpus.insert(thread, cpu)
            && self.thread(other) == Some(thread)
        {
            *self.threads.get_or(other, || None) = None;
        }
    }

    /// The thread runs nowhere any more.
    #[inline]
    fn leaves(&mut self, thread: ThreadId) {
        if let Some(cpu) = self.cpus.remove(&thread)
            && self.thread(cpu) == Some(thread)
        {
            *self.threads.get_or(cpu, || None) = None;
        }
    }

    /// One that takes the place of another of its process, which ends at the same moment, is the
    /// same task after an exec: it runs on.
    fn starts(&mut self, now: Time, thread: ThreadId, tables: &Tables) {
        let Some((at, old)) = self.last_end else { return };
        let (row, old_row) = (tables.thread(thread), tables.thread(old));
        let is_main = row.tid == tables.process(row.process).pid;
        if at != now || row.process != old_row.process || !is_main || self.cpu_of(thread).is_some()
        {
            return;
        }
        if let Some(cpu) = self.cpu_of(old) {
            self.last_end = None;
            self.runs(cpu, thread);
        }
    }

    fn cpu_of(&self, thread: ThreadId) -> Option<CpuId> {
        self.cpus.get(&thread).copied()
    }

    fn forget_machine(&mut self, machine: MachineId) {
        self.forget(|cpu| cpu.machine == machine);
    }

    /// Nothing is known any more of who runs on these CPUs.
    fn forget(&mut self, of: impl Fn(CpuId) -> bool) {
        for (_, thread) in self.threads.iter_mut().filter(|(cpu, _)| of(*cpu)) {
            if let Some(thread) = thread.take() {
                self.cpus.remove(&thread);
            }
        }
    }
}

#[cold]
fn records_all(machine: MachineId, tables: &Tables) -> bool {
    tables.machine(machine).filter_pids.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{OffCpu, SleepState, Switch, Wakeup};
    use crate::loss::{Loss, LossCause};
    use crate::tables::{Process, Thread};
    use crate::{LaneKind, ProcessId, StringId};

    /// Threads 1 to `count`, each the main thread of a process of its own.
    fn tables(count: u32) -> Tables {
        let mut tables = Tables::default();
        for id in 1..=count {
            tables.processes.push(Process { pid: id, ..tables.processes[0].clone() });
            tables.threads.push(thread(id, id));
        }
        tables
    }

    fn thread(tid: u32, process: u32) -> Thread {
        let (process, name) = (ProcessId(process), StringId(0));
        Thread { tid, process, name, start: None, end: None }
    }

    fn switch(cpu: u32, previous: Option<u32>, next: u32) -> Event {
        Event::Switch(Switch {
            cpu: CpuId::new(cpu),
            previous: previous.map(ThreadId),
            previous_priority: 120,
            off_cpu: OffCpu {
                state: SleepState::Interruptible,
                preempted: false,
                io_wait: false,
                blocked_in: None,
                stack: None,
            },
            next: ThreadId(next),
            next_priority: 120,
        })
    }

    fn wakes(cpu: u32, waker: u32, wakee: u32) -> Event {
        Event::Wakeup(Wakeup {
            cpu: CpuId::new(cpu),
            waker: Some(ThreadId(waker)),
            from_interrupt: false,
            wakee: ThreadId(wakee),
            priority: 120,
            target_cpu: CpuId::new(cpu),
            new: false,
            stack: None,
        })
    }

    fn gaps(events: &[Event], tables: &Tables) -> Vec<bool> {
        let mut on_cpu = OnCpu::default();
        events.iter().map(|event| on_cpu.apply(Time(7), event, tables)).collect()
    }

    #[test]
    fn who_leaves_or_wakes_where_another_runs_shows_a_gap_once() {
        let events = [switch(0, Some(0), 1), wakes(0, 2, 3), wakes(0, 2, 3), switch(0, Some(3), 0)];
        assert_eq!(gaps(&events, &tables(3)), [false, true, false, true]);
        assert_eq!(gaps(&[switch(0, None, 1), switch(1, Some(2), 0)], &tables(3)), [false; 2]);
    }

    #[test]
    fn a_loss_of_the_cpu_explains_it_and_so_does_a_filter() {
        assert_eq!(gaps(&events(0), &tables(2)), [false; 3]);
        assert_eq!(gaps(&events(1), &tables(2)), [false, false, true]);
        let mut filtered = tables(2);
        filtered.machines[0].filter_pids = vec![2];
        assert_eq!(gaps(&events(1), &filtered), [false; 3]);
    }

    fn events(cpu: u32) -> [Event; 3] {
        [switch(0, Some(0), 1), lost(cpu), switch(0, Some(2), 0)]
    }

    fn lost(cpu: u32) -> Event {
        Event::Loss(Loss {
            origin: LaneKind::Sched.into(),
            cpu: Some(CpuId::new(cpu)),
            cause: LossCause::LaneFull,
            user: None,
            count: 1,
            between: None,
        })
    }

    #[test]
    fn who_comes_onto_another_cpu_has_left_the_first() {
        let events = [switch(0, Some(0), 1), switch(1, Some(0), 1), switch(0, Some(2), 0)];
        assert_eq!(gaps(&events, &tables(2)), [false; 3], "nothing was known of the first");
    }

    #[test]
    fn a_thread_that_takes_over_its_process_by_exec_runs_on() {
        let mut tables = tables(1);
        tables.threads.push(thread(9, 1));
        let [main, worker] = [1, 2];
        let exec = [
            switch(0, Some(0), worker),
            Event::ThreadEnd(ThreadId(worker)),
            Event::ThreadStart(ThreadId(main)),
            switch(0, Some(main), 0),
        ];
        assert_eq!(gaps(&exec, &tables), [false; 4]);
    }
}
