//! All functions as zones: what `sys.monitoring` or `sys.setprofile` calls.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use syscollect_usdt_client::enabled;

use crate::{open, site, threads};

/// Whose zones those of a code are: its address, with a bit that no other owner has.
fn owner(code: &Bound<'_, PyAny>) -> u64 {
    code.as_ptr() as u64 | open::IS_FUNCTION
}

/// A function begins or goes on.
#[pyfunction]
#[pyo3(signature = (code, _offset, _value = None, /))]
pub(crate) fn function_begins(
    code: &Bound<'_, PyAny>,
    _offset: &Bound<'_, PyAny>,
    _value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    if enabled() {
        begin(code)?;
    }
    Ok(())
}

/// A function returns, yields, or is left by an exception.
#[pyfunction]
#[pyo3(signature = (code, _offset, _value, /))]
pub(crate) fn function_ends(
    code: &Bound<'_, PyAny>,
    _offset: &Bound<'_, PyAny>,
    _value: &Bound<'_, PyAny>,
) {
    open::pop(owner(code), |_| {});
}

/// What `sys.setprofile` takes.
#[pyfunction]
#[pyo3(signature = (frame, event, _argument, /))]
pub(crate) fn profile(
    frame: &Bound<'_, PyAny>,
    event: &Bound<'_, PyString>,
    _argument: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let python = frame.py();
    let begins = event == "call";
    if begins && enabled() {
        begin(&frame.getattr(intern!(python, "f_code"))?)?;
    } else if event == "return" {
        open::pop(owner(&frame.getattr(intern!(python, "f_code"))?), |_| {});
    }
    Ok(())
}

/// Functions are no longer seen.
#[pyfunction]
pub(crate) fn forget_functions() {
    open::forget_functions();
}

fn begin(code: &Bound<'_, PyAny>) -> PyResult<()> {
    threads::report(code.py());
    open::before_zone();
    let begun = site::begin_function(code, None)?;
    open::push(owner(code), begun);
    Ok(())
}
