//! What happens on the timeline, and who receives it.

use crate::{
    CpuId, Crash, Forgotten, FrameImage, GpuJob, LockEvent, Loss, MachineId, MemoryEvent, Message,
    ProcessId, RecorderSummary, Scope, SignalExit, Slice, SliceUpdate, StackId, StringId, Tables,
    ThreadId, Time, TrackId,
};

/// Something that happened at a [`Time`], the same whatever recorded it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A CPU went from one thread to another.
    Switch(Switch),
    /// A thread was made runnable.
    Wakeup(Wakeup),
    /// A thread was moved to another CPU's run queue.
    Migration(Migration),
    /// A CPU was seen executing.
    Sample(Sample),
    /// A process began; its row in [`Tables`] says what is known of it.
    ProcessStart(ProcessId),
    /// A process replaced its program; the new name.
    ProcessExec(ProcessId, StringId),
    /// A process ended.
    ProcessEnd(ProcessId),
    /// A thread began.
    ThreadStart(ThreadId),
    /// A thread has this name from now on.
    ThreadName(ThreadId, StringId),
    /// A thread ended.
    ThreadEnd(ThreadId),
    /// A thread was seen asleep, so: where no event before told what it did, it has slept since
    /// before the recording. It has no stack.
    Asleep(ThreadId, OffCpu),
    /// A counter track has this value from now on, in the track's unit.
    Counter(TrackId, f64),
    /// A slice begins on a slice track; slices of one track nest.
    SliceBegin(TrackId, Slice),
    /// More is known of the innermost open slice of the track. What is named
    /// here replaces what was said; a new field is added.
    SliceUpdate(TrackId, SliceUpdate),
    /// The innermost open slice of the track ends.
    SliceEnd(TrackId),
    /// Something without a duration happened.
    Instant(TrackId, Slice),
    /// A thread says something; the track is one of slices.
    Message(TrackId, Message),
    /// Something happened to a lock.
    Lock(LockEvent),
    /// Memory was allocated or freed.
    Memory(MemoryEvent),
    /// A job of a GPU ended, on its track.
    GpuJob(TrackId, Box<GpuJob>),
    /// An image of a frame of this track is complete.
    FrameImage(TrackId, Box<FrameImage>),
    /// The event loop that a thread runs says what it does.
    LoopMark(ThreadId, LoopMark),
    /// A thread takes its process down.
    Crash(Crash),
    /// A signal ends a process; that it ended comes behind.
    SignalExit(SignalExit),
    /// Events are missing; [`Loss`] says how many, where and why.
    Loss(Loss),
    /// The recording of this machine ends, while others go on: what its threads and CPUs do from
    /// now on is not known.
    RecordingEnd(MachineId),
}

impl Event {
    /// On which machine.
    pub fn machine(&self, tables: &Tables) -> MachineId {
        match *self {
            Self::Switch(Switch { cpu, .. })
            | Self::Wakeup(Wakeup { cpu, .. })
            | Self::Migration(Migration { from_cpu: cpu, .. })
            | Self::Sample(Sample { cpu, .. }) => cpu.machine,
            Self::ProcessStart(process)
            | Self::ProcessExec(process, _)
            | Self::ProcessEnd(process)
            | Self::SignalExit(SignalExit { process, .. }) => tables.process(process).machine,
            Self::ThreadStart(thread)
            | Self::ThreadName(thread, _)
            | Self::ThreadEnd(thread)
            | Self::Asleep(thread, _)
            | Self::LoopMark(thread, _)
            | Self::Lock(LockEvent { thread, .. })
            | Self::Memory(MemoryEvent { thread, .. })
            | Self::Crash(Crash { thread, .. }) => tables.machine_of(thread),
            Self::Counter(track, _)
            | Self::SliceBegin(track, _)
            | Self::SliceUpdate(track, _)
            | Self::SliceEnd(track)
            | Self::Instant(track, _)
            | Self::Message(track, _)
            | Self::GpuJob(track, _)
            | Self::FrameImage(track, _) => match tables.track(track).scope {
                Scope::Machine(machine) => machine,
                Scope::Cpu(cpu) => cpu.machine,
                Scope::Process(process) => tables.process(process).machine,
                Scope::Thread(thread) => tables.machine_of(thread),
            },
            Self::Loss(ref loss) => loss.machine(),
            Self::RecordingEnd(machine) => machine,
        }
    }
}

/// What an event loop says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopMark {
    /// It begins to wait for something to do, or looks for it.
    Waits,
    /// It goes on with what it found, or because its time is over.
    Turns,
}

/// A context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The CPU that switched.
    pub cpu: CpuId,
    /// The thread that leaves the CPU; `None` where that was lost or is not yet known.
    pub previous: Option<ThreadId>,
    /// Priority of the leaving thread, in its kernel's own numbering: on Linux the
    /// lower runs first, on Windows the higher.
    pub previous_priority: i32,
    /// Why the previous thread leaves.
    pub off_cpu: OffCpu,
    /// The thread that runs from now on; idle is a thread too ([`Tables::IDLE_THREAD`]).
    pub next: ThreadId,
    /// Priority of the coming thread.
    pub next_priority: i32,
}

/// How and why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// The state it goes to.
    pub state: SleepState,
    /// It was preempted rather than blocked.
    pub preempted: bool,
    /// It waits for I/O.
    pub io_wait: bool,
    /// The function it waits in: its first kernel frame outside the scheduler.
    pub blocked_in: Option<StringId>,
    /// Where it left off, kernel frames first.
    pub stack: Option<StackId>,
}

/// State of a thread that is not on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SleepState {
    /// Runnable: it waits for a CPU.
    Runnable,
    /// Interruptible sleep.
    Interruptible,
    /// Uninterruptible sleep.
    Uninterruptible,
    /// An idle kernel thread: uninterruptible, but no load.
    Idle,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by a debugger or tracer.
    Traced,
    /// Exiting, not yet reaped.
    Dead,
    /// Exited, waiting for its parent.
    Zombie,
    /// A parked kernel thread.
    Parked,
}

/// A wakeup: `waker` makes `wakee` runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// The CPU the waker ran on.
    pub cpu: CpuId,
    /// The thread that was current there; `None` where that was lost.
    pub waker: Option<ThreadId>,
    /// The waker was interrupt code that happened to run over the current thread.
    pub from_interrupt: bool,
    /// The thread that becomes runnable.
    pub wakee: ThreadId,
    /// Its priority.
    pub priority: i32,
    /// The CPU it last ran on.
    pub target_cpu: CpuId,
    /// The thread is new and was never runnable before.
    pub new: bool,
    /// The waker's stack, kernel frames first.
    pub stack: Option<StackId>,
}

/// A move to another run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The thread moved.
    pub thread: ThreadId,
    /// Where it was.
    pub from_cpu: CpuId,
    /// Where it goes.
    pub to_cpu: CpuId,
}

/// A CPU sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The CPU.
    pub cpu: CpuId,
    /// What ran; [`Tables::IDLE_THREAD`] when the CPU idled.
    pub thread: ThreadId,
    /// Kernel frames first, then user frames; `None` where no stack was taken or it was lost.
    pub stack: Option<StackId>,
    /// The CPU executed kernel code.
    pub in_kernel: bool,
}

/// Receives a session in time order and writes it somewhere.
///
/// Everything an event points to is in `tables` when it arrives; tables only
/// grow, so a writer may remember which ids it has already written.
pub trait Exporter {
    /// What can go wrong while writing.
    type Error;

    /// Called once, before the first event; the rows of machines say how each was recorded.
    ///
    /// # Errors
    ///
    /// Whatever keeps the writer from writing.
    fn begin(&mut self, _: &Tables) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called for each event; `time` never decreases. While a recording is played that goes on,
    /// what programs said may come late, with its own times: who tells of such a recording puts it
    /// in order where that matters.
    ///
    /// # Errors
    ///
    /// Whatever keeps the writer from writing.
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error>;

    /// Called between events of a recording that goes on: what nothing names any more, so that
    /// whoever keeps something of it lets go of that, and what is still needed of texts.
    ///
    /// # Errors
    ///
    /// Whatever keeps the writer from writing.
    fn forget(&mut self, _: &mut Forgotten, _: &Tables) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called for each event before the part of the session that was asked for, so that who
    /// follows states knows them when that part begins. All such calls come before those of
    /// [`event`](Self::event).
    ///
    /// # Errors
    ///
    /// Whatever keeps the writer from writing.
    #[inline]
    fn before(&mut self, _: Time, _: &Event, _: &Tables) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called for each event after that part, for who learns of the part from what came later. All
    /// such calls come between those of [`event`](Self::event) and that of [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// Whatever keeps the writer from writing.
    #[inline]
    fn after(&mut self, _: Time, _: &Event, _: &Tables) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called once, after the last event, with every loss of the session
    /// (those that came as events included) and what the recorder said of itself.
    ///
    /// # Errors
    ///
    /// Whatever keeps the writer from writing.
    fn end(
        &mut self,
        _losses: &[Loss],
        _recorder: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}
