//! Interpreters in files of code: which frames of theirs the programs read.

use syscollect_cpython::{interpreter, may_hold_interpreter};
use syscollect_elf::ReadRef;
use syscollect_hotspot::{machine, may_hold_machine};
use syscollect_records::hotspot::HotspotFile;
use syscollect_records::python::PythonFile;
use syscollect_records::unwind::PAGE_BYTES;

/// Pages of an interpreter's loop that are asked for; loops have one or two.
const LOOP_PAGES_MAX: usize = 8;

/// What interpreters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterpreterKind {
    /// CPython.
    Python,
    /// HotSpot.
    Jvm,
}

/// Where the interpreter in a file keeps what the programs read.
#[derive(Debug)]
pub(super) enum Interpreter {
    Python(PythonFile),
    Jvm(HotspotFile),
}

/// There is one, but it is not known.
#[derive(Debug)]
pub(super) struct UnknownInterpreter;

impl InterpreterKind {
    /// Which the file at such a path may hold: what is called otherwise is not looked at.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        if may_hold_interpreter(path) {
            Some(Self::Python)
        } else {
            may_hold_machine(path).then_some(Self::Jvm)
        }
    }

    /// The interpreter in a file that lay at that path, if there is one.
    pub(super) fn find<'d, R: ReadRef<'d>>(
        self,
        data: R,
        path: &str,
    ) -> Result<Option<Interpreter>, UnknownInterpreter> {
        match self {
            Self::Python => match interpreter(data, path) {
                Ok(found) => Ok(found.map(Interpreter::Python)),
                Err(_) => Err(UnknownInterpreter),
            },
            Self::Jvm => match machine(data) {
                Ok(found) => Ok(found.map(Interpreter::Jvm)),
                Err(_) => Err(UnknownInterpreter),
            },
        }
    }
}

/// The pages of code in which an interpreter's loop lies.
pub(super) fn pages_of_loop(python: &PythonFile) -> Vec<u32> {
    let (ranges, _) = python.loops.as_chunks::<2>();
    let ranges = ranges.iter().filter(|[first, end]| first < end);
    let pages = ranges.flat_map(|[first, end]| first / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
    pages.take(LOOP_PAGES_MAX).filter_map(|page| u32::try_from(page).ok()).collect()
}
