//! What came of asking a Java virtual machine, and what is said of it.

use std::time::Duration;

/// Processes that are told of by their numbers.
const TOLD_MAX: usize = 8;

/// What came of asking a process for its perf map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Answer {
    /// It wrote it.
    Written,
    /// It does not know how.
    UnknownCommand,
    /// It could not.
    Failed,
    /// It is no Java virtual machine, or none of HotSpot's.
    NotJvm,
    /// It has ended.
    Gone,
    /// It is stopped.
    Stopped,
    /// It did not answer in time.
    Silent,
    /// It answered in a way that none does.
    Senseless,
    /// Something else lies where its socket, or the file that asks for it, would.
    Occupied,
    /// This program may not act as its user.
    NotPermitted,
    /// It was told not to take commands.
    TakesNone,
    /// Its files cannot be reached, or not without asking a program.
    OutOfReach,
}

impl Answer {
    const ALL: [Self; 12] = [
        Self::Written,
        Self::UnknownCommand,
        Self::Failed,
        Self::NotJvm,
        Self::Gone,
        Self::Stopped,
        Self::Silent,
        Self::Senseless,
        Self::Occupied,
        Self::NotPermitted,
        Self::TakesNone,
        Self::OutOfReach,
    ];

    /// The number that says it between processes.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    /// What a process that ended with another number found is not known.
    pub(super) fn of_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::OutOfReach)
    }

    /// Why methods have no names; `None` where nothing is missing.
    fn reason(self, limit: Duration) -> Option<String> {
        Some(match self {
            Self::Written | Self::NotJvm | Self::Gone => return None,
            Self::UnknownCommand => {
                "does not know Compiler.perfmap, which JDK 17 and newer do: older ones need an \
                 agent that writes a perf map (perf-map-agent)"
                    .to_owned()
            }
            Self::Failed => "could not write its perf map".to_owned(),
            Self::Stopped => "is stopped".to_owned(),
            Self::Silent => format!("did not answer within {} s", limit.as_secs_f64()),
            Self::Senseless => "answered what no Java virtual machine does".to_owned(),
            Self::Occupied => {
                "cannot be asked: in its /tmp lies something of another's where its socket would"
                    .to_owned()
            }
            Self::NotPermitted => "cannot be asked: only its own user and root may".to_owned(),
            Self::TakesNone => "takes no commands (-Xrs or -XX:+DisableAttachMechanism)".to_owned(),
            Self::OutOfReach => {
                "cannot be asked: its /tmp cannot be written to, or a program serves it".to_owned()
            }
        })
    }
}

/// What to say of those that have no names now, by what kept them from it.
pub(crate) fn notes(answers: &[(u32, Answer)], limit: Duration) -> Vec<String> {
    Answer::ALL
        .iter()
        .filter_map(|kind| {
            let pids = answers.iter().filter(|(_, answer)| answer == kind).map(|(pid, _)| *pid);
            let pids: Vec<u32> = pids.collect();
            let reason = kind.reason(limit).filter(|_| !pids.is_empty())?;
            Some(format!("--jvm: {} {reason}; compiled methods have no names", processes(&pids)))
        })
        .collect()
}

fn processes(pids: &[u32]) -> String {
    let reported: Vec<String> = pids.iter().take(TOLD_MAX).map(u32::to_string).collect();
    let reported = reported.join(", ");
    match pids.len() {
        1 => format!("the Java virtual machine {reported}"),
        all if all > TOLD_MAX => format!("each of {all} Java virtual machines ({reported}, ...)"),
        _ => format!("each of the Java virtual machines {reported}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_their_numbers() {
        for answer in Answer::ALL {
            assert_eq!(Answer::of_code(answer.code()), answer);
        }
        assert_eq!(Answer::of_code(99), Answer::OutOfReach);
    }

    #[test]
    fn it_is_said_once_of_whom_there_are_no_names_and_why() {
        let mut answers = vec![(7, Answer::Written), (8, Answer::Silent), (9, Answer::Gone)];
        let limit = Duration::from_secs(2);
        assert_eq!(
            notes(&answers, limit),
            ["--jvm: the Java virtual machine 8 did not answer within 2 s; compiled methods \
                 have no names"]
        );
        answers = (1..20).map(|pid| (pid, Answer::UnknownCommand)).collect();
        let [note] = &notes(&answers, limit)[..] else { panic!("several notes of one kind") };
        assert!(note.contains("each of 19 Java virtual machines (1, 2, 3, 4, 5, 6, 7, 8, ...)"));
        assert!(note.contains("JDK 17 and newer do: older ones need an agent"), "{note}");
    }
}
