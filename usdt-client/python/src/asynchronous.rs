//! Zones that belong to no thread: `async_zone`, and the lives of coroutines, tasks and generators.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use syscollect_usdt_client::{AsyncZone as Recorded, enabled};

use crate::annotations::text;
use crate::open::{self, Suspended};
use crate::site::{self, Site};
use crate::threads;
use crate::zone::{mark, next_owner};

/// What is held while no Python code runs, so that a panic or a signal leaves it whole.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a zone of that name at a place, if there is room for the place.
fn begin(site: Option<&'static Site>, name: &str) -> Option<Recorded> {
    let site = site?;
    let said = site.other_name(name);
    Some(Recorded::begin_cached(&site.location, None, said.as_deref().unwrap_or_default()))
}

/// A zone that may overlap others and end on another thread.
#[pyclass(frozen, module = "syscollect", name = "AsyncZone")]
pub(crate) struct AsyncZone {
    name: Py<PyString>,
    /// Those that are open, the innermost last.
    open: Mutex<Vec<Recorded>>,
}

/// A zone of that name that may overlap others and end on another thread.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn async_zone(name: &Bound<'_, PyString>) -> AsyncZone {
    AsyncZone { name: name.clone().unbind(), open: Mutex::new(Vec::new()) }
}

#[pymethods]
impl AsyncZone {
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        if enabled() {
            let name = slf.get().name.bind(slf.py());
            threads::report(slf.py());
            let zone = begin(site::site_here(name)?, &text(name));
            held(&slf.get().open).extend(zone);
        }
        Ok(slf)
    }

    fn __exit__(
        &self,
        _error: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _at: &Bound<'_, PyAny>,
    ) {
        drop(held(&self.open).pop());
    }
}

/// What a coroutine or a generator does: an async zone from its first step to its end, and a zone
/// of the thread for each step.
#[pyclass(frozen, module = "syscollect")]
pub(crate) struct Steps {
    name: Py<PyString>,
    code: Py<PyAny>,
    owner: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    whole: Option<Recorded>,
    /// Zones that were open within the step before.
    inner: Suspended,
}

#[pymethods]
impl Steps {
    #[new]
    fn new(name: &Bound<'_, PyString>, code: &Bound<'_, PyAny>) -> Self {
        Self {
            name: name.clone().unbind(),
            code: code.clone().unbind(),
            owner: next_owner(),
            state: Mutex::default(),
        }
    }

    /// A step begins.
    fn begin(&self, python: Python<'_>) -> PyResult<()> {
        if !enabled() {
            return Ok(());
        }
        threads::report(python);
        open::before_zone();
        let (name, code) = (self.name.bind(python), self.code.bind(python));
        let site = site::site_of(code, name)?;
        let mut state = held(&self.state);
        if state.whole.is_none() {
            state.whole = begin(site, &text(name));
        }
        let inner = std::mem::take(&mut state.inner);
        drop(state);
        let begun = site::begin_function(code, Some(name))?;
        open::push(self.owner, begun);
        open::resume(inner);
        Ok(())
    }

    /// It ends, and another one is to come.
    fn suspend(&self) {
        let inner = open::suspend(self.owner);
        held(&self.state).inner = inner;
    }

    /// It ends and was the last; `error` is the exception's type.
    fn finish(&self, error: &Bound<'_, PyAny>) {
        open::pop(self.owner, |token| mark(token, error));
        *held(&self.state) = State::default();
    }
}
