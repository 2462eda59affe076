//! Why a recording could not start or go on.

use std::io;

/// What keeps a recording from starting.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The kernel refuses this process what the recording needs.
    #[error(
        "{what}: the kernel does not permit it ({source}); run as root, or give the program CAP_BPF \
         and CAP_PERFMON: `syscollect doctor` tells what is missing"
    )]
    NotPermitted {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel carries no type information.
    #[error(
        "the kernel has no type information at /sys/kernel/btf/vmlinux ({0}); \
         it must be built with CONFIG_DEBUG_INFO_BTF, as those of Debian 12, Ubuntu 20.10, Fedora \
         34 and later are"
    )]
    NoBtf(String),
    /// Unwind tables were asked for.
    #[error(
        "this kernel cannot unwind user stacks by tables; without --unwind tables they are walked \
         by frame pointers: {0}"
    )]
    NoUnwindTables(Box<CaptureError>),
    /// A kernel program was refused.
    #[error("the kernel refused the program {program}: {reason}")]
    Program {
        /// Its name.
        program: String,
        /// The end of the verifier's log, or the error.
        reason: String,
    },
    /// A tracepoint that was asked for cannot be recorded.
    #[error("there is no tracepoint {asked} on this kernel{near}")]
    NoTracepoint {
        /// As the user named it.
        asked: String,
        /// What is near to it, in words: `; did you mean ...?`, or nothing.
        near: String,
    },
    /// Not even a small recording has room.
    #[error(
        "a recording needs {needed_text} of memory and there is not so much: {limit}; give it \
         more, or record fewer things",
        needed_text = megabytes(*needed)
    )]
    TooLittleMemory {
        /// Bytes that the smallest one needs.
        needed: u64,
        /// Bytes that there are.
        room: u64,
        /// Who says so, in words.
        limit: String,
    },
    /// Something else that the recording stands on failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A probe that was asked for is in nothing that runs, nor in the file that it names.
    #[error("{0}")]
    NothingToProbe(String),
    /// [`RecordOptions::stop_asked`](crate::RecordOptions::stop_asked) was set while the recording
    /// started.
    #[error("stopped before the recording began; nothing was recorded")]
    Stopped,
    /// The output cannot be written.
    #[error("cannot write the capture: {0}")]
    Store(#[from] syscollect_store::StoreError),
}

impl CaptureError {
    /// The error of a system call, with permission told apart.
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { what, source },
            _ => Self::System { what, source },
        }
    }

    /// What the kernel said, where it did not permit it; else all of it.
    pub(crate) fn into_io(self) -> io::Error {
        match self {
            Self::NotPermitted { source, .. } => source,
            error => io::Error::other(error),
        }
    }

    pub(crate) fn no_thread(source: io::Error) -> Self {
        Self::system("cannot start a thread", source)
    }
}

/// Bytes as people read them.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
