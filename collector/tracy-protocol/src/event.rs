//! What happens, as it is told to a viewer.

use crate::catalogue::{ContextId, EndedRow, LocationId, LockId, PlotId, SetId, StackId, TextId};

/// Something that happened at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A CPU goes from one thread to another.
    Switch(Switch),
    /// It is not known any more what a CPU runs (`None`: any).
    Gap(Option<u8>),
    /// A thread is made runnable.
    Wakeup {
        /// By this CPU.
        cpu: u8,
        /// The thread.
        thread: u32,
    },
    /// A CPU was seen executing.
    Sample {
        /// Which thread.
        thread: u32,
        /// Where.
        stack: StackId,
    },
    /// A zone of a thread begins.
    ZoneBegin {
        /// Whose.
        thread: u32,
        /// Where it comes from.
        location: LocationId,
        /// Where in the code.
        stack: Option<StackId>,
    },
    /// The innermost zone of a thread ends.
    ZoneEnd {
        /// Whose.
        thread: u32,
        /// What it says.
        said: Option<Box<ZoneWords>>,
    },
    /// A thread says something.
    Message(Box<Message>),
    /// A plot has a value from now on.
    Plot(PlotId, f64),
    /// The load of all CPUs, percent.
    Load(f32),
    /// Something happens to a lock.
    Lock {
        /// The lock.
        lock: LockId,
        /// Who does it.
        thread: u32,
        /// What.
        action: LockAction,
        /// As one of several readers.
        shared: bool,
        /// Where in the source.
        location: Option<LocationId>,
    },
    /// Memory is allocated or freed.
    Memory(Memory),
    /// A frame of a set begins.
    FrameBegin(SetId),
    /// A frame ends.
    FrameEnd(SetId),
    /// A job of a GPU ended, and all that lies in it. Those of one context come in order, and none
    /// begins before the one before it ended.
    Job(ContextId, Box<Job>),
    /// Nothing is of this row any more; it may be gone.
    Ended(EndedRow),
    /// A thread took its process down.
    Crash {
        /// Which.
        thread: u32,
        /// By what.
        text: TextId,
    },
}

/// A context switch. Thread 0 is none: the CPU idles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Which CPU.
    pub cpu: u8,
    /// Who leaves; `None` where that is not known.
    pub previous: Option<u32>,
    /// Who comes.
    pub next: u32,
    /// The state of who leaves, as the viewer numbers it.
    pub state: i8,
    /// The priorities of who comes and of who leaves.
    pub priorities: [i8; 2],
    /// Where who leaves left off.
    pub stack: Option<StackId>,
}

/// What is said of a zone beside its location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneWords {
    /// Its own name.
    pub name: Option<Box<str>>,
    /// Its text.
    pub text: Option<Box<str>>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
}

/// What a thread says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who.
    pub thread: u32,
    /// What.
    pub text: Box<str>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
    /// From 0, a trace, to 5, fatal.
    pub severity: u8,
    /// It is the recorder's, not a program's.
    pub own: bool,
    /// Where in the code.
    pub stack: Option<StackId>,
}

/// What happens to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAction {
    /// The thread begins to wait.
    Wait,
    /// It has the lock.
    Obtain,
    /// It lets go.
    Release,
}

/// Memory that is allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Who does it.
    pub thread: u32,
    /// In which pool.
    pub pool: Option<TextId>,
    /// The address.
    pub address: u64,
    /// How many bytes; `None` where it is freed.
    pub allocated: Option<u64>,
    /// Where in the code.
    pub stack: Option<StackId>,
}

/// A job of a GPU. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Who handed it over.
    pub thread: u32,
    /// What it is.
    pub location: LocationId,
    /// Handed over by the program, taken by the driver.
    pub cpu: [i64; 2],
    /// Begun and ended by the GPU.
    pub gpu: [i64; 2],
    /// What the GPU did within it, in order, whoever handed that over. There should be no more than
    /// some dozens in each other.
    pub inside: Vec<Self>,
}

impl Job {
    /// How many there are with those inside.
    pub(crate) fn count(&self) -> usize {
        1 + self.inside.iter().map(Self::count).sum::<usize>()
    }
}

impl Event {
    /// About how many bytes it takes while it waits.
    pub(crate) fn bytes(&self) -> usize {
        let beyond = match self {
            Self::ZoneEnd { said: Some(said), .. } => {
                let texts = [&said.name, &said.text];
                let texts = texts.into_iter().flatten().map(|text| text.len());
                size_of::<ZoneWords>() + texts.sum::<usize>()
            }
            Self::Message(message) => size_of::<Message>() + message.text.len(),
            Self::Job(_, job) => job.count() * size_of::<Job>(),
            _ => 0,
        };
        size_of::<(i64, Self)>() + beyond
    }
}
