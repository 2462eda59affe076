//! Names that captures keep as text and that the program decides by.
//!
//! Each is an enum. In files it is the same text as ever, and a name that a later version wrote
//! is kept as it is, so that reading never fails on it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares such an enum: each variant with its name, and after `|` how older versions spelt it.
macro_rules! stored_names {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal $(| $older:literal)*,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A name that this version does not know, as the file has it; empty where it has none.
            Other(String),
        }

        impl $name {
            /// The name that captures, reports and traces have.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(name) => name,
                }
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($text $(| $older)* => Self::$variant,)*
                    _ => Self::Other(name),
                }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.name().to_owned()
            }
        }

        /// What a file says that does not have the field.
        impl Default for $name {
            fn default() -> Self {
                Self::from(String::new())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

stored_names!(
    /// The system that was recorded, as `uname -s` calls it.
    OperatingSystem {
        /// Linux.
        Linux = "Linux",
        /// Windows, of any version.
        Windows = "Windows",
    }
);

stored_names!(
    /// What drives CPU samples.
    SampleEvent {
        /// Nothing: no samples were asked for, or the source does not say.
        None = "",
        /// The PMU's count of CPU cycles.
        Cycles = "cycles",
        /// A timer of the CPU.
        CpuClock = "cpu-clock",
    }
);

stored_names!(
    /// What stacks were asked for with.
    StackOrigin {
        /// CPU samples.
        Samples = "samples",
        /// Switches of threads that block.
        OffCpu = "off-cpu" | "offcpu",
        /// Wakeups: the waker's stack.
        Wakers = "wakers",
        /// Hits of probes, and entries of functions and zones.
        Probes = "probes",
        /// Events of any kind: a Windows trace has stacks of whatever its session asked for.
        Events = "events",
    }
);

stored_names!(
    /// Why a recording ended, or one of its files.
    StopReason {
        /// Ctrl-C.
        Interrupt = "interrupt",
        /// SIGTERM.
        Terminate = "terminate",
        /// SIGHUP: the terminal went away.
        HangUp = "hangup",
        /// Another signal.
        Signal = "signal",
        /// The time that was asked for is over.
        Duration = "duration",
        /// The launched command ended.
        Command = "command",
        /// Every process that was asked for has ended.
        ProcessesEnded = "processes-ended",
        /// The file has the size that it may have.
        MaxSize = "max-size",
        /// The recording goes on in another file.
        Rotation = "rotation",
        /// It goes on: this is what it held when somebody, or a trigger, asked for it.
        Snapshot = "snapshot",
        /// The launched command could not be run.
        Failed = "failed",
        /// The recorded chunks that were replayed are over.
        ReplayEnded = "end of the replay",
    }
);

stored_names!(
    /// A part of the recorder's work.
    RecorderWork {
        /// From the program's start to the first event.
        Start = "start",
        /// The recording.
        Recording = "recording",
        /// Taking out what was recorded last, and noting what still waits to be noted.
        Stopping = "stopping",
        /// Finding names of code.
        Naming = "naming",
        /// Writing the file in another format.
        Export = "export",
        /// Reading a raw capture for what cannot be read of it.
        Reading = "reading",
    }
);

stored_names!(
    /// What the ticks of an instrumented program are.
    ProgramTicks {
        /// The CPU's time stamp counter.
        Tsc = "tsc",
        /// Nanoseconds of CLOCK_MONOTONIC.
        Monotonic = "monotonic",
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecorderSummary, SessionInfo, WorkCost};
    use serde_json::{Value, from_value, json, to_value};

    /// Reads it from that text and writes it again.
    fn round_trip<Name>(text: &str) -> (Name, Value)
    where
        Name: for<'de> Deserialize<'de> + Serialize + Default,
    {
        let name: Name = from_value(json!(text)).unwrap();
        let written = to_value(&name).unwrap();
        (name, written)
    }

    #[test]
    fn names_are_the_same_text_in_files_as_ever() {
        assert_eq!(round_trip("cpu-clock"), (SampleEvent::CpuClock, json!("cpu-clock")));
        assert_eq!(round_trip("cycles"), (SampleEvent::Cycles, json!("cycles")));
        assert_eq!(round_trip(""), (SampleEvent::None, json!("")));
        assert_eq!(round_trip("off-cpu"), (StackOrigin::OffCpu, json!("off-cpu")));
        assert_eq!(
            round_trip("processes-ended"),
            (StopReason::ProcessesEnded, json!("processes-ended"))
        );
        assert_eq!(
            round_trip("end of the replay"),
            (StopReason::ReplayEnded, json!("end of the replay"))
        );
        assert_eq!(round_trip("naming"), (RecorderWork::Naming, json!("naming")));
        assert_eq!(round_trip("Linux"), (OperatingSystem::Linux, json!("Linux")));
        assert_eq!(round_trip("Windows"), (OperatingSystem::Windows, json!("Windows")));
        assert_eq!(round_trip("monotonic"), (ProgramTicks::Monotonic, json!("monotonic")));
    }

    #[test]
    fn names_of_later_versions_are_kept() {
        assert_eq!(round_trip("retired"), (SampleEvent::Other("retired".into()), json!("retired")));
        assert_eq!(round_trip("Plan9"), (OperatingSystem::Other("Plan9".into()), json!("Plan9")));
        assert_eq!(round_trip("sunset"), (StopReason::Other("sunset".into()), json!("sunset")));
        assert_eq!(round_trip("locks"), (StackOrigin::Other("locks".into()), json!("locks")));
    }

    #[test]
    fn an_older_spelling_means_the_same() {
        assert_eq!(round_trip("offcpu"), (StackOrigin::OffCpu, json!("off-cpu")));
    }

    #[test]
    fn definitions_of_other_versions_are_read() {
        let old = json!({"sample_event": "", "stacks": ["samples", "offcpu"]});
        let session: SessionInfo = from_value(old).unwrap();
        assert_eq!(session.sample_event, SampleEvent::None);
        assert_eq!(session.stacks, [StackOrigin::Samples, StackOrigin::OffCpu]);
        let session: SessionInfo = from_value(json!({})).unwrap();
        assert_eq!(session, SessionInfo::default());

        let new = json!({
            "stop_reason": "sunset",
            "costs": [{"work": "start", "cpu_ns": 1}, {"work": "signing", "cpu_ns": 2}, {}],
        });
        let summary: RecorderSummary = from_value(new).unwrap();
        assert_eq!(summary.stop_reason.name(), "sunset");
        let works: Vec<_> = summary.costs.iter().map(|cost| cost.work.name()).collect();
        assert_eq!(works, ["start", "signing", ""]);
        assert_eq!(summary.costs[0].work, RecorderWork::Start);
        assert_eq!(summary.costs[2], WorkCost::default());
        assert_eq!(to_value(&summary).unwrap()["costs"][1]["work"], "signing");
    }
}
