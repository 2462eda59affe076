//! Functions of programs that stacks begin with, by their names.

use syscollect_model::{FrameId, Tables};

/// Of glibc and musl, and of Go.
const FIRST: [&str; 15] = [
    "_start",
    "_dl_start_user",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "libc_start_main_stage2",
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mstart.abi0",
    "runtime.rt0_go",
    "runtime.rt0_go.abi0",
];

/// Whether a frame is the first of its thread in every program: whatever the
/// walk met beyond it, nothing is missing that anybody looks for.
///
/// glibc and musl keep no frame pointers, so that a walk from a program that
/// does ends in these with whatever lies in the register; and so does Go, up to 1.25, in its own.
pub(crate) fn begins_stacks(frame: FrameId, tables: &Tables) -> bool {
    is_function(frame, &FIRST, tables)
}

/// Whether a frame has begun to run on another stack than its caller, which goes on without it: a
/// thread of Go that looks for work has called this from a goroutine that may run elsewhere by now,
/// or have ended. Up to Go 1.25 its frame pointer still leads there.
pub(crate) fn leaves_stack(frame: FrameId, tables: &Tables) -> bool {
    is_function(frame, &["runtime.mcall", "runtime.mcall.abi0"], tables)
}

fn is_function(frame: FrameId, names: &[&str], tables: &Tables) -> bool {
    tables.frame(frame).function.is_some_and(|name| names.contains(&tables.strings.get(name)))
}
