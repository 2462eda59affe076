//! What is wrong with triggers.

/// Why a trigger cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// Its text cannot be read.
    #[error("{expected} is expected {}", place(found))]
    Syntax {
        /// What could stand there.
        expected: String,
        /// What stands there; empty at the end.
        found: String,
    },
    /// The same of a line of a file.
    #[error("line {line}: {error}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        error: Box<TriggerError>,
    },
    /// Two have one name.
    #[error("two triggers are called {0:?}: a name tells their snapshots apart")]
    SameName(String),
    /// It can never fire, or its snapshots would not have what it fired for.
    #[error("the trigger {name:?} is of no use: {why}")]
    Never {
        /// Its name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// It asks for a user whom nobody knows.
    #[error("there is no user {0:?}")]
    UnknownUser(String),
    /// There are more than can be watched for.
    #[error("there are {0} triggers, and may be {max}", max = crate::found::MOST_TRIGGERS)]
    TooMany(usize),
}

fn place(found: &str) -> String {
    if found.is_empty() { "at its end".to_owned() } else { format!("instead of {found:?}") }
}
