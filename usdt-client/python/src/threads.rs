//! Names of threads: those that Python's `threading` knows, without being asked.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::PyString;
use syscollect_usdt_client::set_thread_name;

use crate::annotations::text;

thread_local! {
    static IS_NAMED: Cell<bool> = const { Cell::new(false) };
}

/// The program has named the thread itself.
pub(crate) fn given() {
    IS_NAMED.set(true);
}

/// Says the thread's name with its first event.
#[inline]
pub(crate) fn report(python: Python<'_>) {
    if !IS_NAMED.get() {
        find(python);
    }
}

#[cold]
fn find(python: Python<'_>) {
    // First: what is called below may be recorded itself.
    IS_NAMED.set(true);
    let ask = || -> PyResult<Option<String>> {
        let names = python.import("syscollect._names")?;
        let name = names.getattr("thread_name")?.call0()?;
        Ok(name.cast::<PyString>().ok().map(|name| text(name).into_owned()))
    };
    // A thread whose name cannot be had has the kernel's.
    if let Ok(Some(name)) = ask() {
        set_thread_name(&name);
    }
}
