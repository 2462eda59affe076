//! What threads of Python programs wait for.
//!
//! Everything in Python's library that waits does so in the locks of its interpreter: events,
//! queues, semaphores and locks are one wait to the C library. Only the functions of Python say
//! which. The innermost one waits; what calls it says what for, as far as these are functions of
//! the library: a condition in `Queue.get` is a wait for an item, and that one in a worker of a
//! pool is a wait for work.

use super::wait_for::WaitFor::{self, *};
use std::path::Path;
use syscollect_model::{FrameId, ModuleKind, Tables};

/// Functions of Python's library that wait in locks, and what for. Until 3.10 frames have no
/// classes; then the first of a name counts.
const LIBRARY: &[(&str, &[&str], WaitFor)] = &[
    ("threading.py", &["Condition.wait", "Condition.wait_for", "Event.wait"], PythonEvent),
    // Who gets the lock of a condition, at its beginning and at the end of a wait.
    ("threading.py", &["Condition.__enter__", "Condition._acquire_restore"], PythonLock),
    ("threading.py", &["_RLock.acquire", "_RLock._acquire_restore"], PythonLock),
    ("threading.py", &["Semaphore.acquire"], PythonSemaphore),
    ("threading.py", &["Barrier._wait", "Barrier._enter", "Barrier.wait"], PythonBarrier),
    ("threading.py", &["Thread._wait_for_tstate_lock", "Thread.join", "_shutdown"], ThreadEnd),
    ("queue.py", &["Queue.get", "_PySimpleQueue.get"], PythonQueue),
    ("queue.py", &["Queue.put", "Queue.join"], PythonQueueRoom),
    ("concurrent/futures/_base.py", &["Future.result", "Future.exception"], PythonFuture),
    ("concurrent/futures/_base.py", &["wait", "as_completed"], PythonFuture),
    ("concurrent/futures/thread.py", &["_worker"], Pool),
    ("multiprocessing/pool.py", &["ApplyResult.wait", "ApplyResult.get"], PythonFuture),
    ("multiprocessing/pool.py", &["IMapIterator.next"], PythonFuture),
    ("multiprocessing/pool.py", &["worker"], Pool),
];

/// Functions of CPython that wait for one of its locks, whatever that is for.
const ANY_LOCK: &[&str] =
    &["PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock", "PyMutex_LockTimed"];
/// How the file of CPython's module with `SimpleQueue` begins, whose functions may have no names.
const QUEUE_MODULE: &str = "_queue.cpython-";

/// Whether this function of CPython, without the underscores that it begins with, waits for any of
/// its locks.
pub(super) fn is_any_lock(function: &str) -> bool {
    ANY_LOCK.contains(&function)
}

/// What Python's library waits for; `None` where none of its functions is the innermost one of
/// Python.
pub(super) fn of_library(user: &[FrameId], tables: &Tables) -> Option<WaitFor> {
    let mut functions = user.iter().filter(|frame| is_python(frame, tables));
    let mut wait = known(*functions.next()?, tables, |_| true)?;
    if wait == PythonLock {
        return Some(wait);
    }
    for caller in functions {
        match known(*caller, tables, |wait| wait != PythonLock) {
            // Of a condition within a condition nothing more is known.
            Some(PythonEvent) => {}
            Some(more) => wait = more,
            None => break,
        }
    }
    Some(wait)
}

/// What a wait for any lock of CPython is for, outside of Python's library. Without functions of
/// Python in the stack it may be anything.
pub(super) fn of_any_lock(user: &[FrameId], tables: &Tables) -> Option<WaitFor> {
    let innermost = user.iter().position(|frame| is_python(frame, tables));
    match user[..innermost.unwrap_or(user.len())].iter().any(|frame| is_queue(*frame, tables)) {
        true => Some(PythonQueue),
        false => innermost.map(|_| PythonLock),
    }
}

fn is_queue(frame: FrameId, tables: &Tables) -> bool {
    let module = tables.frame(frame).module.map(|module| tables.module(module).path);
    let path = module.map_or("", |path| tables.strings.get(path));
    path.rsplit('/').next().is_some_and(|file| file.starts_with(QUEUE_MODULE))
}

/// What a function of Python's library waits for, of those that are `meant`.
fn known(frame: FrameId, tables: &Tables, meant: fn(WaitFor) -> bool) -> Option<WaitFor> {
    let place = tables.frame(frame);
    let name = tables.strings.get(place.function?);
    let (function, file) = name.strip_suffix(')')?.split_once(" (")?;
    let mut library = LIBRARY.iter().filter(|(_, _, wait)| meant(*wait));
    let found = library.find(|(known, functions, _)| {
        // Programs have files of these names, too.
        let is_file = match place.file {
            Some(path) => Path::new(tables.strings.get(path)).ends_with(known),
            None => known.rsplit('/').next() == Some(file),
        };
        is_file
            && functions.iter().any(|known| {
                let plain = known.rsplit('.').next();
                *known == function || plain == Some(function)
            })
    });
    found.map(|(_, _, wait)| *wait)
}

pub(super) fn is_python(frame: &FrameId, tables: &Tables) -> bool {
    let module = tables.frame(*frame).module;
    module.is_some_and(|module| tables.module(module).kind == ModuleKind::Python)
}
