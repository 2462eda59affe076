//! Why a stack lacks frames.

/// Why a stack ends before its thread's first function, or lacks its frames in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackCut {
    /// It has more frames than are recorded.
    TooDeep,
    /// Where the next frame should be, there is no code: what led there was none's caller.
    NoCode,
    /// For a reason that only later versions know.
    Unknown,
    /// Nothing says where the caller of the last frame is.
    NoUnwindInformation,
    /// The memory where the next frame lies could not be read: it was never touched, or swapped
    /// out.
    Unreadable,
    /// The unwind table for the last frame's code was not made yet.
    NoTableYet,
    /// Nor was it then, and the next frame lies further up than what was kept of the stack.
    BeyondMemory,
    /// The thread had ended, or begun to run another program: the memory of what called was gone.
    MemoryGone,
    /// There is unwind information for the last frame's code, but none that can be used.
    UnusableInformation,
    /// The walk was by frame pointers alone, and the last frame's leads to no other: the code there
    /// keeps none, or it is the thread's first.
    FramePointers,
    /// They were recorded apart from the others, and that record was lost: of the user's or of the
    /// kernel's part of a stack that has both.
    Lost,
}

impl StackCut {
    /// Why, in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooDeep => "more frames than are recorded",
            Self::NoCode => "no code above",
            Self::Unknown => "unknown to this version",
            Self::NoUnwindInformation => "no unwind information",
            Self::Unreadable => "stack not readable",
            Self::NoTableYet => "no unwind table yet",
            Self::BeyondMemory => "no unwind table yet, and a larger stack than is kept",
            Self::MemoryGone => "the program's memory was gone",
            Self::UnusableInformation => "unwind information that cannot be used",
            Self::FramePointers => "frame pointers lead no further",
            Self::Lost => "frames lost",
        }
    }

    /// What the frame is called that stands for the missing ones.
    pub fn frame_name(self) -> &'static str {
        match self {
            Self::TooDeep => "[truncated: more frames than are recorded]",
            Self::NoCode => "[truncated: no code above]",
            Self::Unknown => "[truncated]",
            Self::NoUnwindInformation => "[truncated: no unwind information]",
            Self::Unreadable => "[truncated: stack not readable]",
            Self::NoTableYet => "[truncated: no unwind table yet]",
            Self::BeyondMemory => {
                "[truncated: no unwind table yet, and a larger stack than is kept]"
            }
            Self::MemoryGone => "[truncated: the program's memory was gone]",
            Self::UnusableInformation => "[truncated: unwind information that cannot be used]",
            Self::FramePointers => "[truncated: frame pointers lead no further]",
            Self::Lost => "[frames lost]",
        }
    }
}
