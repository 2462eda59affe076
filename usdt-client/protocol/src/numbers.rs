//! Numbers that mean one of several things.

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident: $repr:ident { $($(#[$item_meta:meta])* $item:ident = $number:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($repr)]
        pub enum $name { $($(#[$item_meta])* $item = $number,)* }

        impl $name {
            /// The value of that number, if there is one.
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number {
                    $($number => Some(Self::$item),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use numbered;

numbered! {
    /// What a text says.
    TextRole: u8 {
        /// Words about the innermost open zone.
        ZoneText = 1,
        /// Another name for the innermost open zone.
        ZoneName = 2,
        /// The text of the message before.
        Message = 3,
        /// The name of the thread.
        ThreadName = 4,
        /// A field of the marker before.
        Field = 5,
        /// Words about the async zone before.
        AsyncText = 6,
    }
}

numbered! {
    /// How 64 bits are read.
    ValueType: u8 {
        /// Unsigned.
        Unsigned = 1,
        /// Signed.
        Signed = 2,
        /// An IEEE double.
        Float = 3,
        /// A string's number in the log.
        String = 4,
    }
}

numbered! {
    /// What of a frame.
    FramePhase: u8 {
        /// One frame ends here and the next begins.
        Mark = 0,
        /// A frame of a discontinuous set begins.
        Begin = 1,
        /// It ends.
        End = 2,
    }
}

numbered! {
    /// What of a marker.
    MarkerPhase: u8 {
        /// It has no duration.
        Instant = 0,
        /// The first half.
        Begin = 1,
        /// The second half.
        End = 2,
    }
}

numbered! {
    /// What happens to a lock.
    LockAction: u8 {
        /// A thread begins to wait.
        Wait = 0,
        /// It has the lock.
        Obtain = 1,
        /// It lets go.
        Release = 2,
        /// The same for one of several readers.
        WaitShared = 3,
        /// A reader has the lock.
        ObtainShared = 4,
        /// A reader lets go.
        ReleaseShared = 5,
        /// It stops waiting without the lock (a try that failed, a time that ran out).
        GiveUp = 6,
    }
}

numbered! {
    /// How a field is shown.
    FieldFormat: u8 {
        /// A text.
        Text = 0,
        /// A whole number.
        Integer = 1,
        /// A number with decimals.
        Decimal = 2,
        /// Nanoseconds.
        Duration = 3,
        /// Bytes.
        Bytes = 4,
        /// 0 to 1, shown as percent.
        Percentage = 5,
        /// Hexadecimal.
        Address = 6,
    }
}

numbered! {
    /// How the walk of a stack ended.
    StackEnding: u8 {
        /// Nothing is said of it: an older client.
        Unsaid = 0,
        /// At the thread's first function: the stack is whole.
        Start = 1,
        /// The stack has more frames than are written.
        TooDeep = 2,
        /// Nothing says where the last function's caller is.
        NoUnwindInformation = 3,
        /// The memory where the caller should be told cannot be read.
        Unreadable = 4,
        /// What is said of the last function cannot be used.
        UnusableInformation = 5,
        /// It was cut for a reason that is not known here: a newer client.
        Other = 255,
    }
}

numbered! {
    /// What of an event loop, on the thread that runs it.
    LoopPhase: u8 {
        /// It begins to wait for something to do, or only looks.
        Waits = 0,
        /// It begins a turn: it has something to do, or its time is over.
        Turns = 1,
    }
}

numbered! {
    /// Whose interface a context of a GPU is.
    GpuApi: u32 {
        /// What none of the others is.
        Custom = 0,
        /// OpenGL.
        OpenGl = 1,
        /// Vulkan.
        Vulkan = 2,
        /// OpenCL.
        OpenCl = 3,
        /// Direct3D 12.
        Direct3d12 = 4,
        /// Direct3D 11.
        Direct3d11 = 5,
        /// Metal.
        Metal = 6,
        /// CUDA.
        Cuda = 7,
    }
}

numbered! {
    /// The clock of the host that a calibration names.
    HostClock: u8 {
        /// Ticks, as items are stamped with.
        Ticks = 0,
        /// CLOCK_MONOTONIC, in nanoseconds.
        Monotonic = 1,
    }
}
