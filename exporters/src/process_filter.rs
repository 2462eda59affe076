//! Only what concerns some processes.

use crate::ProcessFilter;
use std::borrow::Cow;
use syscollect_model::{
    Event, OffCpu, ProcessId, Scope, SignalExit, SleepState, Switch, Tables, ThreadId, TrackId,
};

/// How the idle thread leaves its CPU.
const IDLE: OffCpu = OffCpu {
    state: SleepState::Runnable,
    preempted: false,
    io_wait: false,
    blocked_in: None,
    stack: None,
};

/// What is left of an event: nothing, or all, or, of a switch, the side that
/// concerns those processes. The machine's own counters, slices and losses stay,
/// and so do jobs of its GPUs of which nobody knows whose they are.
pub(crate) fn concerning<'a>(
    filter: &ProcessFilter,
    event: &'a Event,
    tables: &Tables,
) -> Option<Cow<'a, Event>> {
    let wanted = FilteredProcesses { filter, tables };
    let stays = match event {
        Event::Switch(switch) => {
            return Some(Cow::Owned(Event::Switch(wanted.sides(*switch))));
        }
        Event::Wakeup(wakeup) => wanted.thread(wakeup.wakee),
        Event::Sample(sample) => wanted.thread(sample.thread),
        Event::Migration(migration) => wanted.thread(migration.thread),
        Event::ProcessStart(id)
        | Event::ProcessExec(id, _)
        | Event::ProcessEnd(id)
        | Event::SignalExit(SignalExit { process: id, .. }) => wanted.process(*id),
        Event::ThreadStart(id) | Event::ThreadName(id, _) | Event::ThreadEnd(id) => {
            wanted.thread(*id)
        }
        Event::Asleep(id, _) | Event::LoopMark(id, _) => wanted.thread(*id),
        Event::Counter(track, _)
        | Event::SliceBegin(track, _)
        | Event::SliceUpdate(track, _)
        | Event::SliceEnd(track)
        | Event::Instant(track, _)
        | Event::Message(track, _)
        | Event::FrameImage(track, _) => wanted.track(*track),
        Event::GpuJob(track, job) => {
            job.thread.map_or_else(|| wanted.track(*track), |id| wanted.thread(id))
        }
        Event::Lock(event) => wanted.thread(event.thread),
        Event::Memory(event) => wanted.thread(event.thread),
        Event::Crash(crash) => wanted.thread(crash.thread),
        Event::Loss(_) | Event::RecordingEnd(_) => true,
    };
    stays.then_some(Cow::Borrowed(event))
}

/// Whom a filter asks for.
#[derive(Clone, Copy)]
struct FilteredProcesses<'a> {
    filter: &'a ProcessFilter,
    tables: &'a Tables,
}

impl FilteredProcesses<'_> {
    fn process(self, process: ProcessId) -> bool {
        process != Tables::IDLE_PROCESS && self.filter.matches(process, self.tables)
    }

    fn thread(self, thread: ThreadId) -> bool {
        self.process(self.tables.thread(thread).process)
    }

    fn track(self, track: TrackId) -> bool {
        match self.tables.track(track).scope {
            Scope::Machine(_) | Scope::Cpu(_) => true,
            Scope::Process(process) => self.process(process),
            Scope::Thread(thread) => self.thread(thread),
        }
    }

    /// Other threads become the idle one: the CPU does not run what is looked at.
    fn sides(self, switch: Switch) -> Switch {
        let mut narrowed = switch;
        if switch.previous.is_some_and(|thread| !self.thread(thread)) {
            (narrowed.previous, narrowed.off_cpu) = (Some(Tables::IDLE_THREAD), IDLE);
        }
        if !self.thread(switch.next) {
            narrowed.next = Tables::IDLE_THREAD;
        }
        narrowed
    }
}
