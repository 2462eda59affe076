//! What occurrences are called where they are counted.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

/// Declares the types with their names.
macro_rules! event_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A type of occurrence. What Linux and Windows both know has one name.
        ///
        /// In order of the names, and found by them too: `events_by_type["sample"]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventType {
            $($(#[$doc])* $variant,)*
        }

        impl EventType {
            /// All types, in the order in which they are declared: `ALL[event_type as usize]`.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name that reports have.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

event_types!(
    /// A CPU switched to another thread.
    Switch = "switch",
    /// A thread was woken.
    Waking = "waking",
    /// A new thread became runnable.
    WakeupNew = "wakeup_new",
    /// A thread moved to another CPU's run queue.
    Migrate = "migrate",
    /// A CPU's frequency changed.
    Frequency = "frequency",
    /// A CPU sample.
    Sample = "sample",
    /// A thread was made.
    Fork = "fork",
    /// A process replaced its program.
    Exec = "exec",
    /// A thread ended.
    Exit = "exit",
    /// A thread changed its name.
    Rename = "rename",
    /// A value of a polled counter.
    Counter = "counter",
    /// A hit of a probe.
    Probe = "probe",
    /// A tracepoint of the kernel.
    Tracepoint = "tracepoint",
    /// Work of a GPU ended with an error.
    GpuFailure = "gpu_failure",
    /// A zone of an instrumented program.
    Zone = "zone",
    /// A message of an instrumented program.
    Message = "message",
    /// A value of a program's plot.
    Plot = "plot",
    /// A frame of a program.
    Frame = "frame",
    /// An image of a frame.
    FrameImage = "frame-image",
    /// An event loop of a program waits, or goes on.
    LoopMark = "loop-mark",
    /// A marker of a program.
    Marker = "marker",
    /// A zone that may end in another thread.
    AsyncZone = "async-zone",
    /// Something happened to a program's lock.
    Lock = "lock",
    /// A program allocated memory.
    Allocation = "allocation",
    /// A program freed memory.
    Free = "free",
    /// A program crashed.
    Crash = "crash",
    /// A process started.
    ProcessStart = "process-start",
    /// A process ended.
    ProcessEnd = "process-end",
    /// A thread started.
    ThreadStart = "thread-start",
    /// A thread ended.
    ThreadEnd = "thread-end",
    /// A deferred procedure call (Windows).
    Dpc = "dpc",
    /// An interrupt's service routine (Windows).
    Isr = "isr",
    /// A disk's read or write.
    DiskIo = "disk-io",
    /// A page fault that a disk answered.
    HardFault = "hard-fault",
    /// An event of a provider, shown as an instant (Windows).
    ProviderEvent = "provider-event",
    /// A job of a GPU.
    GpuJob = "gpu-job",
    /// A display's vertical blank.
    Vsync = "vsync",
    /// A program presented a frame.
    Present = "present",
    /// A display shows another frame.
    Flip = "flip",
);

impl Ord for EventType {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for EventType {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Borrow<str> for EventType {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn counts_are_in_the_order_of_names_and_found_by_them() {
        let counts: BTreeMap<_, _> =
            [(EventType::Switch, 3), (EventType::Dpc, 1), (EventType::WakeupNew, 2)].into();
        let names: Vec<_> = counts.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["dpc", "switch", "wakeup_new"]);
        assert_eq!((counts["switch"], counts[&EventType::Dpc]), (3, 1));
        assert!(!counts.contains_key("sample"));
    }
}
