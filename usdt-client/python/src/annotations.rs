//! Texts and numbers of Python as the client takes them.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};
use syscollect_usdt_client::Value;

/// A text; surrogates, which no file can hold, become U+FFFD.
pub(crate) fn text<'a>(text: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    text.to_cow().unwrap_or_else(|_| text.to_string_lossy())
}

/// An integer or a float, or what can be made one. Integers of more than 64 bits become floats.
pub(crate) fn number(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if let Ok(value) = value.cast::<PyInt>() {
        if let Ok(value) = value.extract::<i64>() {
            return Ok(Value::Signed(value));
        }
        if let Ok(value) = value.extract::<u64>() {
            return Ok(Value::Unsigned(value));
        }
        // One that no float is as large as.
        let beyond = if value.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY };
        return Ok(Value::Float(value.extract().unwrap_or(beyond)));
    }
    if value.cast::<PyString>().is_err()
        && let Ok(value) = value.extract::<f64>()
    {
        return Ok(Value::Float(value));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("a number is needed, not {}", text(&kind))))
}
