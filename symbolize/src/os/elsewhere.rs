//! Systems that have no files of Linux' processes.

use std::fs::File;
use std::io;

pub(crate) fn raise_descriptor_limit(_: u64) -> u64 {
    0
}

pub(crate) fn copy_of_memory(_: &str, _: u64, _: usize) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "code of Linux is named on Linux"))
}
