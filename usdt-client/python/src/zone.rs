//! `zone(name)`: a context manager, and a decorator by the package's Python part.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use syscollect_usdt_client::zone::{set_color, set_field_dynamic, set_text, set_value};
use syscollect_usdt_client::{TextRole, ZoneToken, enabled};

use crate::annotations::{self, number, text};
use crate::{open, site, threads};

/// Numbers whoever has zones; 0 is nobody.
static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);

/// A number that no other zone object has.
pub(crate) fn next_owner() -> u64 {
    NEXT_OWNER.fetch_add(1, Ordering::Relaxed)
}

/// A zone. May be entered again and again, also while it is entered, and by several threads.
#[pyclass(frozen, module = "syscollect", freelist = 64)]
pub(crate) struct Zone {
    name: Py<PyString>,
    /// The function that it is of; without one it is where it is entered.
    code: Option<Py<PyAny>>,
    /// Whose zones these are; 0 until one was recorded.
    owner: AtomicU64,
}

/// A zone of that name that is a whole function.
#[pyfunction(name = "FunctionZone")]
pub(crate) fn function_zone(name: &Bound<'_, PyString>, code: &Bound<'_, PyAny>) -> Zone {
    let code = Some(code.clone().unbind());
    Zone { name: name.clone().unbind(), code, owner: AtomicU64::new(0) }
}

/// A zone of that name; without one, or with a function, it is a decorator.
#[pyfunction(name = "zone")]
#[pyo3(signature = (name, /))]
pub(crate) fn make_zone<'py>(name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(name) = name.cast::<PyString>() {
        let zone = Zone { name: name.clone().unbind(), code: None, owner: AtomicU64::new(0) };
        return Bound::new(name.py(), zone).map(Bound::into_any);
    }
    decorate(name, None)
}

/// Has the package's Python part make a function with a zone of another one.
fn decorate<'py>(
    function: &Bound<'py, PyAny>,
    name: Option<&Bound<'py, PyString>>,
) -> PyResult<Bound<'py, PyAny>> {
    static DECORATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let python = function.py();
    let decorate = DECORATE.get_or_try_init(python, || {
        python.import("syscollect._wrappers")?.getattr("decorate").map(Bound::unbind)
    })?;
    decorate.bind(python).call1((function, name))
}

impl Zone {
    fn token(&self) -> ZoneToken {
        match self.owner.load(Ordering::Relaxed) {
            0 => ZoneToken::INACTIVE,
            owner => open::token_of(owner),
        }
    }

    fn owner(&self) -> u64 {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            return owner;
        }
        let new = next_owner();
        match self.owner.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(other) => other,
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&self, python: Python<'_>) -> PyResult<()> {
        threads::report(python);
        open::before_zone();
        let name = self.name.bind(python);
        let begun = match &self.code {
            Some(code) => site::begin_function(code.bind(python), Some(name)),
            None => site::begin_here(name),
        }?;
        open::push(self.owner(), begun);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn end(&self, owner: u64, error: &Bound<'_, PyAny>) {
        open::pop(owner, |token| mark(token, error));
    }
}

/// Says of a zone which exception has left it.
pub(crate) fn mark(token: ZoneToken, error: &Bound<'_, PyAny>) {
    let Ok(kind) = error.cast::<PyType>() else { return };
    // Not what the exception says: to ask it would run the program's code.
    if let Ok(name) = kind.name() {
        set_text(token, TextRole::ZoneText, &format!("raised {}", text(&name)));
    }
}

#[pymethods]
impl Zone {
    #[inline]
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        if enabled() {
            slf.get().begin(slf.py())?;
        }
        Ok(slf)
    }

    #[inline]
    fn __exit__(
        &self,
        error: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _at: &Bound<'_, PyAny>,
    ) {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            self.end(owner, error);
        }
    }

    /// As a decorator.
    #[pyo3(signature = (function, /))]
    fn __call__<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        decorate(function, Some(self.name.bind(function.py())))
    }

    /// Adds a text.
    fn text(&self, text: &Bound<'_, PyString>) {
        let token = self.token();
        if token.is_active() {
            set_text(token, TextRole::ZoneText, &annotations::text(text));
        }
    }

    /// Gives it another name.
    fn name(&self, name: &Bound<'_, PyString>) {
        let token = self.token();
        if token.is_active() {
            let name = annotations::text(name);
            set_text(token, TextRole::ZoneName, &name);
            open::rename(self.owner.load(Ordering::Relaxed), &name);
        }
    }

    /// Adds a number, which may have a name.
    #[pyo3(signature = (value, name = None))]
    fn value(&self, value: &Bound<'_, PyAny>, name: Option<&Bound<'_, PyString>>) -> PyResult<()> {
        let (value, token) = (number(value)?, self.token());
        match name {
            Some(name) => set_field_dynamic(token, &text(name), value),
            None => set_value(token, value),
        }
        Ok(())
    }

    /// Gives it a colour, 0xRRGGBB.
    fn color(&self, color: u32) {
        set_color(self.token(), color);
    }

    fn __repr__(&self, python: Python<'_>) -> PyResult<String> {
        Ok(format!("zone({})", text(&self.name.bind(python).repr()?)))
    }
}
