//! Places in the source at which zones begin: described once, and found again by the code and the
//! instruction that run.
//!
//! A place is kept until the process ends, and its code with it, so that no other code gets its
//! address; there is room for [`MOST`]. Names that change from call to call at one place are said
//! with the zone, so that the log of definitions does not grow with them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{ffi, intern};
use rustc_hash::FxBuildHasher;
use syscollect_usdt_client::zone::{begin_cached, set_text};
use syscollect_usdt_client::{CachedLocation, DynamicLocation, MAX_TEXT, TextRole, ZoneToken};

use crate::annotations::text;

/// Places that are kept.
const MOST: usize = 65_536;
/// The instruction of a place that is a whole function.
pub(crate) const FUNCTION: i32 = -1;

/// A place.
pub(crate) struct Site {
    pub(crate) location: CachedLocation<'static>,
    /// The name of its first zone: mostly that of all, and then the same object.
    name: Py<PyAny>,
    /// Kept, so that its address stays its own.
    _code: Py<PyAny>,
}

type Sites = HashMap<(usize, i32), &'static Site, FxBuildHasher>;

/// No Python code runs while this is locked, so whoever holds it goes on.
static SITES: Mutex<Sites> = Mutex::new(HashMap::with_hasher(FxBuildHasher));

/// A zone has begun: where, if the place is kept.
pub(crate) struct Begun {
    pub(crate) token: ZoneToken,
    pub(crate) site: Option<&'static Site>,
    /// Its name, if that is not the place's.
    pub(crate) name: Option<Box<str>>,
}

/// Begins a zone of that name at what Python runs now.
pub(crate) fn begin_here(name: &Bound<'_, PyString>) -> PyResult<Begun> {
    let python = name.py();
    // SAFETY: the interpreter is attached; what it gives is its own, or null.
    let frame = unsafe { ffi::PyEval_GetFrame() };
    if frame.is_null() {
        return Ok(begin_at(name, "", "", 0));
    }
    // SAFETY: a frame that runs has a code, of which this is a reference of our own.
    let code: Bound<'_, PyAny> =
        unsafe { Bound::from_owned_ptr(python, ffi::PyFrame_GetCode(frame).cast()) };
    // SAFETY: as above; the frame runs as long as this function does.
    let frame = unsafe { Bound::from_borrowed_ptr(python, frame.cast()) };
    let instruction: i32 = frame.getattr(intern!(python, "f_lasti"))?.extract()?;
    if let Some(site) = known(&code, instruction) {
        return Ok(site.begin(name));
    }
    let line = frame.getattr(intern!(python, "f_lineno"))?.extract().unwrap_or(0);
    new_site(&code, instruction, name, line)
}

/// Begins a zone that is a whole function, named by it or by `name`.
pub(crate) fn begin_function(
    code: &Bound<'_, PyAny>,
    name: Option<&Bound<'_, PyString>>,
) -> PyResult<Begun> {
    if let Some(site) = known(code, FUNCTION) {
        let begun = match name {
            Some(name) => site.begin(name),
            None => Begun { token: begin_cached(&site.location), site: Some(site), name: None },
        };
        return Ok(begun);
    }
    let line = code.getattr(intern!(code.py(), "co_firstlineno"))?.extract().unwrap_or(0);
    let function = function_name(code)?;
    new_site(code, FUNCTION, name.unwrap_or(&function), line)
}

/// The place that is a whole function, for zones that are not of a thread.
pub(crate) fn site_of(
    code: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
) -> PyResult<Option<&'static Site>> {
    if let Some(site) = known(code, FUNCTION) {
        return Ok(Some(site));
    }
    let line = code.getattr(intern!(code.py(), "co_firstlineno"))?.extract().unwrap_or(0);
    insert(code, FUNCTION, name, line)
}

/// The place at which Python runs now, for zones that are not of a thread.
pub(crate) fn site_here(name: &Bound<'_, PyString>) -> PyResult<Option<&'static Site>> {
    let python = name.py();
    // SAFETY: as in `begin_here`.
    let frame = unsafe { ffi::PyEval_GetFrame() };
    if frame.is_null() {
        return Err(PyRuntimeError::new_err("no Python function runs"));
    }
    // SAFETY: as in `begin_here`.
    let code: Bound<'_, PyAny> =
        unsafe { Bound::from_owned_ptr(python, ffi::PyFrame_GetCode(frame).cast()) };
    // SAFETY: as in `begin_here`.
    let frame = unsafe { Bound::from_borrowed_ptr(python, frame.cast()) };
    let instruction: i32 = frame.getattr(intern!(python, "f_lasti"))?.extract()?;
    if let Some(site) = known(&code, instruction) {
        return Ok(Some(site));
    }
    let line = frame.getattr(intern!(python, "f_lineno"))?.extract().unwrap_or(0);
    insert(&code, instruction, name, line)
}

impl Site {
    fn begin(&'static self, name: &Bound<'_, PyString>) -> Begun {
        let other = || Some(text(name)).filter(|name| *name != self.location.location().name);
        let name = if self.name.as_ptr() == name.as_ptr() { None } else { other() };
        self.begin_named(name.map(Into::into))
    }

    /// One that has another name than the place, if any.
    pub(crate) fn begin_named(&'static self, name: Option<Box<str>>) -> Begun {
        let token = begin_cached(&self.location);
        if let Some(name) = &name {
            set_text(token, TextRole::ZoneName, name);
        }
        Begun { token, site: Some(self), name }
    }

    /// The name that zones of another name have to say.
    pub(crate) fn other_name(&self, name: &str) -> Option<String> {
        (name != self.location.location().name).then(|| name.to_owned())
    }
}

fn key(code: &Bound<'_, PyAny>, instruction: i32) -> (usize, i32) {
    (code.as_ptr() as usize, instruction)
}

fn known(code: &Bound<'_, PyAny>, instruction: i32) -> Option<&'static Site> {
    let sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    sites.get(&key(code, instruction)).copied()
}

#[cold]
fn new_site(
    code: &Bound<'_, PyAny>,
    instruction: i32,
    name: &Bound<'_, PyString>,
    line: u32,
) -> PyResult<Begun> {
    if let Some(site) = insert(code, instruction, name, line)? {
        return Ok(site.begin(name));
    }
    let file = code.getattr(intern!(code.py(), "co_filename"))?;
    let (function, file) = (function_name(code)?, file.cast::<PyString>()?.clone());
    Ok(begin_at(name, &text(&function), &text(&file), line))
}

/// Keeps a place; nothing if there is no room for it.
#[cold]
fn insert(
    code: &Bound<'_, PyAny>,
    instruction: i32,
    name: &Bound<'_, PyString>,
    line: u32,
) -> PyResult<Option<&'static Site>> {
    let file = code.getattr(intern!(code.py(), "co_filename"))?;
    let function = function_name(code)?;
    let (named, function) = (text(name), text(&function));
    let file = text(file.cast::<PyString>()?);
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    if sites.len() >= MOST {
        return Ok(None);
    }
    // Kept as long as the process lives, like the text of a program.
    let keep = |text: &str| -> &'static str {
        let fits = syscollect_zone_protocol::log::cut(text.as_bytes(), MAX_TEXT);
        Box::leak(String::from_utf8_lossy(fits).into_owned().into_boxed_str())
    };
    let location = DynamicLocation {
        name: keep(&named),
        function: keep(&function),
        file: keep(&file),
        line,
        color: 0,
    };
    let site: &'static Site = Box::leak(Box::new(Site {
        location: CachedLocation::new(location),
        name: name.clone().into_any().unbind(),
        _code: code.clone().unbind(),
    }));
    sites.insert(key(code, instruction), site);
    Ok(Some(site))
}

/// The function's name with the classes and functions around it, where this Python knows it.
fn function_name<'py>(code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let python = code.py();
    let name = match code.getattr_opt(intern!(python, "co_qualname"))? {
        Some(name) => name,
        None => code.getattr(intern!(python, "co_name"))?,
    };
    Ok(name.cast_into::<PyString>()?)
}

fn begin_at(name: &Bound<'_, PyString>, function: &str, file: &str, line: u32) -> Begun {
    let name = text(name);
    let location = DynamicLocation { name: &name, function, file, line, color: 0 };
    Begun { token: syscollect_usdt_client::zone::begin_dynamic(&location), site: None, name: None }
}
