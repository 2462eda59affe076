//! Only what concerns some processes.

use crate::ProcessFilter;
use std::borrow::Cow;
use syscollect_model::{
    Event, OffCpu, ProcessId, Scope, SleepState, Switch, Tables, ThreadId, TrackId,
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
    let wanted =
        |process: ProcessId| process != Tables::IDLE_PROCESS && filter.matches(process, tables);
    let runs = |thread: ThreadId| wanted(tables.thread(thread).process);
    let lies = |track: TrackId| match tables.track(track).scope {
        Scope::Machine(_) | Scope::Cpu(_) => true,
        Scope::Process(process) => wanted(process),
        Scope::Thread(thread) => runs(thread),
    };
    let stays = match event {
        Event::Switch(switch) => {
            return Some(Cow::Owned(Event::Switch(switch_sides(*switch, runs))));
        }
        Event::Wakeup(wakeup) => runs(wakeup.wakee),
        Event::Sample(sample) => runs(sample.thread),
        Event::Migration(migration) => runs(migration.thread),
        Event::ProcessStart(id) | Event::ProcessExec(id, _) | Event::ProcessEnd(id) => wanted(*id),
        Event::ThreadStart(id) | Event::ThreadName(id, _) | Event::ThreadEnd(id) => runs(*id),
        Event::Asleep(id, _) => runs(*id),
        Event::Counter(track, _)
        | Event::SliceBegin(track, _)
        | Event::SliceUpdate(track, _)
        | Event::SliceEnd(track)
        | Event::Instant(track, _)
        | Event::Message(track, _) => lies(*track),
        Event::GpuJob(track, job) => job.thread.map_or_else(|| lies(*track), runs),
        Event::Lock(event) => runs(event.thread),
        Event::Memory(event) => runs(event.thread),
        Event::Crash(crash) => runs(crash.thread),
        Event::Loss(_) | Event::RecordingEnd(_) => true,
    };
    stays.then_some(Cow::Borrowed(event))
}

/// Other threads become the idle one: the CPU does not run what is looked at.
fn switch_sides(switch: Switch, runs: impl Fn(ThreadId) -> bool) -> Switch {
    let mut narrowed = switch;
    if switch.previous.is_some_and(|thread| !runs(thread)) {
        (narrowed.previous, narrowed.off_cpu) = (Some(Tables::IDLE_THREAD), IDLE);
    }
    if !runs(switch.next) {
        narrowed.next = Tables::IDLE_THREAD;
    }
    narrowed
}
