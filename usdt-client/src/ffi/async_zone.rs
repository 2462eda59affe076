//! Async zones and tasks: `struct syscollect_task`, `syscollect_async_zone`.

use super::{CLocation, text};
use crate::task::{self, AsyncZone, Task};
use core::ffi::c_char;

/// `struct syscollect_task`.
#[repr(C)]
pub struct CTask {
    name: *const c_char,
    /// 0: none was given.
    number: u64,
}

/// A number that no other task of the process has.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_task_number() -> u64 {
    task::next_number()
}

/// Begins an async zone, of a task if there is one, with words if there are any.
///
/// # Safety
/// Each is null, or what its type says; the location and its texts last as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_async_begin_recorded(
    location: *const CLocation,
    task: *const CTask,
    words: *const c_char,
) -> u64 {
    // SAFETY: as the caller says.
    let (location, task, words) = unsafe { (location.as_ref(), task.as_ref(), text(words)) };
    let Some(location) = location else { return 0 };
    // SAFETY: as the caller says.
    let task = task
        .filter(|task| task.number != 0)
        .map(|task| unsafe { Task::numbered(task.number, text(task.name)) });
    AsyncZone::begin_enabled(location, task.as_ref(), words).into_number()
}

/// Ends it, on any thread.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_async_end_recorded(zone: u64) {
    drop(AsyncZone::from_number(zone));
}
