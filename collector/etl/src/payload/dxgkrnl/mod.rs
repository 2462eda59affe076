//! What the graphics kernel says (provider Microsoft-Windows-DxgKrnl): contexts,
//! packets on their way to the GPU, flips and vertical syncs.
//!
//! Payloads are packed: a pointer is as long as the record's bitness says, and
//! nothing is aligned. Fields that later versions add lie behind the others, but
//! for those that are decoded by version.

mod decode;

#[cfg(test)]
mod tests;

pub use decode::{decode, is_of_interest};

use crate::Guid;
use syscollect_model::Fence;

/// Microsoft-Windows-DxgKrnl.
pub const PROVIDER: Guid = Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d);

/// An event of the graphics kernel. Handles are kernel addresses that stand for
/// an object as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dxgkrnl {
    /// A GPU.
    Adapter {
        /// What became of it.
        change: Change,
        /// Its handle.
        adapter: u64,
    },
    /// What one process has of one GPU.
    Device {
        /// What became of it.
        change: Change,
        /// Its handle.
        device: u64,
        /// Its GPU.
        adapter: u64,
        /// Its process's id.
        process: u64,
    },
    /// A queue of one program for one engine.
    Context {
        /// What became of it.
        change: Change,
        /// Its handle.
        context: u64,
        /// Its device.
        device: u64,
        /// The engine's number within its GPU.
        node: u32,
    },
    /// A queue that the GPU itself schedules; packets name it as their context.
    HardwareQueue {
        /// What became of it.
        change: Change,
        /// Its handle.
        queue: u64,
        /// The context it belongs to.
        context: u64,
    },
    /// An engine of a GPU.
    Node {
        /// Its GPU.
        adapter: u64,
        /// Its number within that.
        node: u32,
        /// What it does.
        engine: Engine,
        /// The driver's name for it.
        name: String,
    },
    /// The scheduler turned to a context.
    SelectContext {
        /// The GPU.
        adapter: u64,
        /// The context, 0 for none.
        context: u64,
        /// The engine.
        node: u32,
    },
    /// A thread handed a packet over.
    QueuePacketStart(QueuePacket),
    /// The scheduler took a packet from its queue.
    QueuePacketTaken {
        /// Its context.
        context: u64,
        /// Its number within that.
        sequence: u32,
    },
    /// A packet is done with.
    QueuePacketStop {
        /// Its context.
        context: u64,
        /// Its number within that.
        sequence: u32,
        /// What it is.
        kind: QueuePacketKind,
        /// The GPU had to let it go for something more urgent.
        preempted: bool,
        /// The GPU took too long and was reset.
        timed_out: bool,
    },
    /// The scheduler gave a DMA packet to the GPU.
    DmaStart {
        /// Its context.
        context: u64,
        /// The context of the queue packet it is made of; 0 where that is the same.
        queue_context: u64,
        /// What it is.
        kind: DmaKind,
        /// Its number within its context, for [`Self::DmaDone`].
        id: u64,
        /// The number of the queue packet it is made of.
        sequence: u32,
    },
    /// The GPU's interrupt: it is done with a DMA packet.
    DmaDone {
        /// Its context.
        context: u64,
        /// What it is.
        kind: DmaKind,
        /// Its number within its context.
        id: u64,
        /// The number of the queue packet it is made of.
        sequence: u32,
        /// How it ended.
        end: DmaEnd,
    },
    /// The scheduler noticed that a DMA packet is done with, later than [`Self::DmaDone`].
    DmaStop {
        /// Its context.
        context: u64,
        /// What it is.
        kind: DmaKind,
        /// Its number within its context.
        id: u64,
        /// The number of the queue packet it is made of.
        sequence: u32,
        /// The GPU had to let it go for something more urgent.
        preempted: bool,
    },
    /// A display began to scan out a frame. Told twice where the display has
    /// several planes: once by each of two events.
    VSync(VSync),
    /// A thread asked that a display show another surface.
    Flip {
        /// The display source.
        source: u32,
        /// Syncs to wait for, as far as it is said.
        interval: Option<u32>,
        /// Which event said so.
        kind: FlipKind,
    },
    /// A display was told the address of what to show next.
    MmioFlip {
        /// The GPU.
        adapter: u64,
        /// The display source.
        source: u32,
        /// The plane, where the display has several.
        layer: Option<u32>,
        /// The flip's number.
        sequence: u64,
    },
    /// A thread copied what it drew to where it is shown.
    Blit {
        /// The window.
        window: u64,
        /// To a surface that the compositor reads, not to the screen.
        redirected: bool,
    },
    /// A thread's request to show something went through the graphics kernel.
    Present {
        /// The window.
        window: u64,
        /// The display source.
        source: u32,
        /// What was asked for, `D3DKMT_PRESENTFLAGS`.
        flags: u32,
        /// The status that it ended with; 0 is success.
        status: u32,
    },
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was made.
    Start,
    /// It is gone.
    Stop,
    /// It was there when the recording began or ended.
    Rundown,
}

/// A packet as its thread handed it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePacket {
    /// Its context, or hardware queue.
    pub context: u64,
    /// Its number within that.
    pub sequence: u32,
    /// What it is.
    pub kind: QueuePacketKind,
    /// It shows a frame.
    pub present: bool,
    /// The fences that it waits for, or signals, by its kind. A fence's timeline
    /// is its object's handle.
    pub fences: Vec<Fence>,
}

/// A vertical sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VSync {
    /// The GPU.
    pub adapter: u64,
    /// The display source.
    pub source: u32,
    /// The display's own count.
    pub frame: u32,
    /// Physical address of what it shows now, of the first plane.
    pub address: Option<u64>,
    /// It was told by the event for several planes.
    pub multi_plane: bool,
}

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// One that Windows up to 11 does not have.
            Other(u32),
        }

        impl $name {
            fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// What people read.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(_) => "Other",
                }
            }
        }
    };
}

kinds!(
    /// What a queue packet is.
    QueuePacketKind {
        /// Commands for the GPU.
        Render = 0 "Render",
        /// Commands that were put off.
        Deferred = 1 "Deferred",
        /// The system's own commands.
        System = 2 "System",
        /// A change of what is shown, written to the display's registers.
        MmioFlip = 3 "Flip",
        /// Waits for a fence.
        Wait = 4 "Wait",
        /// Signals a fence.
        Signal = 5 "Signal",
        /// Work of the device.
        Device = 6 "Device",
        /// Done by the CPU, in its order.
        Software = 7 "Software",
        /// Moves memory to and from the GPU.
        Paging = 8 "Paging",
    }
);

kinds!(
    /// What a DMA packet is.
    DmaKind {
        /// Commands of a program.
        Render = 0 "Render",
        /// Moves memory for a program.
        Paging = 1 "Paging",
        /// Moves memory for the system.
        SystemPaging = 2 "System paging",
        /// Asks the GPU to let go what it does.
        Preemption = 3 "Preemption",
    }
);

kinds!(
    /// How a DMA packet ended.
    DmaEnd {
        /// The GPU is done with it.
        Completed = 1 "completed",
        /// The GPU let it go for something more urgent; it will come again.
        Preempted = 2 "preempted",
        /// The GPU gave it up.
        Faulted = 4 "faulted",
        /// The GPU gave it up: memory was not there.
        PageFaulted = 9 "page fault",
    }
);

kinds!(
    /// What an engine does, by Windows' classes.
    Engine {
        /// Draws and computes.
        ThreeD = 1 "3D",
        /// Decodes videos.
        VideoDecode = 2 "Video Decode",
        /// Encodes videos.
        VideoEncode = 3 "Video Encode",
        /// Converts and scales videos.
        VideoProcessing = 4 "Video Processing",
        /// Builds scenes.
        SceneAssembly = 5 "Scene Assembly",
        /// Copies memory.
        Copy = 6 "Copy",
        /// Puts planes over each other.
        Overlay = 7 "Overlay",
        /// Encrypts and decrypts.
        Crypto = 8 "Crypto",
    }
);

/// Which event told of a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlipKind {
    /// Of the whole display.
    Whole,
    /// Of one plane of it.
    Plane,
    /// A plane is not shown any more.
    PlaneOff,
    /// Of a window that has the display's plane for itself.
    Independent,
}
