//! Where CPython keeps its frames, and what its code objects say.
//!
//! The kernel programs read a Python thread's frames while it runs, without its help. Where these
//! lie differs between versions; what a frame's code is called comes with it, undecoded.
//!
//! **Duties.** Find the interpreter in an ELF file and say where its structures lie
//! ([`interpreter`]): CPython 3.8 to 3.12 by what is known of these versions, from 3.13 on by what
//! the file says of itself. Read what was sent of code objects ([`PythonCode`]): names, and the
//! line of an instruction. Both are foreign bytes: whatever they hold, there is an answer or none,
//! in bounded time and memory.
//!
//! **Non-goals.** Reading processes (the kernel programs do). Builds for debugging, whose
//! structures are larger. Interpreters besides the main one of a process. Other implementations of
//! Python.
//!
//! ```
//! use syscollect_cpython::{PythonCode, may_hold_interpreter};
//! use syscollect_records::python::CodeHeader;
//!
//! assert!(may_hold_interpreter("/usr/lib/libpython3.11.so.1.0"));
//!
//! let header = CodeHeader { first_line: 7, name_bytes: 4, name_kind: 1, version: 11, ..CodeHeader::default() };
//! let mut sent = header.as_bytes().to_vec();
//! sent.extend(*b"main\0\0\0\0");
//! let code = PythonCode::read(&sent).unwrap();
//! assert_eq!((code.name.as_str(), code.first_line), ("main", 7));
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod arch;
mod code;
mod error;
mod file;
mod lines;
mod versions;

pub use code::PythonCode;
pub use error::PythonFileError;
pub use file::{interpreter, may_hold_interpreter};
