//! Numbers of rows of the tables.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The row's index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A row of [`Tables::strings`](crate::Tables::strings).
    StringId
);
id!(
    /// A module: an executable file, a library, the kernel.
    ModuleId
);
id!(
    /// A place in code.
    FrameId
);
id!(
    /// A deduplicated stack.
    StackId
);
id!(
    /// A process; a process id that was used twice is two processes.
    ProcessId
);
id!(
    /// A thread; a thread id that was used twice is two threads.
    ThreadId
);
id!(
    /// A track.
    TrackId
);
id!(
    /// A place in the source.
    LocationId
);
id!(
    /// A kind of marker.
    SchemaId
);
id!(
    /// A lock of a program.
    LockId
);
