//! Systems that have no files of Linux' processes.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

pub(crate) fn raise_descriptor_limit(_: u64) -> u64 {
    0
}

pub(crate) fn copy_of_memory(_: &str, _: u64, _: usize) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "code of Linux is named on Linux"))
}

/// There are no such processes here.
pub(crate) const CAN_BE_APART: bool = false;

/// See Linux.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "nobody has a child to limit")]
pub(crate) struct ChildLimits {
    pub(crate) memory: u64,
    pub(crate) cpu_time: Duration,
}

/// There is none.
#[derive(Debug)]
pub(crate) enum Child {}

/// There is none.
pub(crate) type ChildSocket = io::Empty;

impl Child {
    pub(crate) fn start(_: ChildLimits, _: impl FnOnce(ChildSocket)) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn send(&mut self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn receive(&mut self, _: &mut [u8], _: Duration) -> io::Result<Option<usize>> {
        match *self {}
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        match *self {}
    }
}

/// Nothing is named here that could take CPU time worth counting: time stands for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadClock(Instant);

impl ThreadClock {
    pub(crate) fn of_this_thread() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn is_as_urgent_as_this(&self) {}

    pub(crate) fn yield_to_all(&self) {}
}
