//! The native part of the Python package `syscollect`: zones of Python programs.
//!
//! **Duties.** While nobody records, a with-block makes one object and looks at one word. While
//! somebody does, its place in the source is looked up by the code and the instruction that run,
//! described once, and named by a number from then on.
//!
//! **Non-goals.** What Python can do itself is in the package's Python files: wrappers of functions
//! and coroutines, and switching on the calls of all functions. Rings and collectors are the
//! Rust client's.

mod annotations;
mod asynchronous;
mod functions;
mod open;
mod site;
mod testing;
mod threads;
mod zone;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use syscollect_usdt_client::set_thread_name;
use syscollect_usdt_client::{FrameImage, event_loop, frame, frame_image, message, plot};

use annotations::{number, text};

/// Whether anybody records this process.
#[pyfunction]
fn enabled() -> bool {
    syscollect_usdt_client::enabled()
}

/// Records a text; `color` is 0xRRGGBB.
#[pyfunction(name = "message")]
#[pyo3(signature = (text, color = 0))]
fn message_recorded(text: &Bound<'_, PyString>, color: u32) {
    if syscollect_usdt_client::enabled() {
        threads::report(text.py());
        message::message(&annotations::text(text), color);
    }
}

/// Records what a number is now.
#[pyfunction(name = "plot")]
#[pyo3(signature = (name, value, unit = None))]
fn plot_recorded(
    name: &Bound<'_, PyString>,
    value: &Bound<'_, PyAny>,
    unit: Option<&Bound<'_, PyString>>,
) -> PyResult<()> {
    // Looked at in any case: a program must not fail only because somebody records.
    let value = number(value)?;
    if syscollect_usdt_client::enabled() {
        threads::report(name.py());
        plot::set_dynamic(&text(name), &unit.map(text).unwrap_or_default(), value);
    }
    Ok(())
}

/// Ends a frame, of the main set or of a named one.
#[pyfunction(name = "frame")]
#[pyo3(signature = (name = None))]
fn frame_recorded(python: Python<'_>, name: Option<&Bound<'_, PyString>>) {
    if syscollect_usdt_client::enabled() {
        threads::report(python);
        frame::mark_dynamic(&name.map(text).unwrap_or_default());
    }
}

/// Hands over what a frame looked like: four bytes a pixel, row by row.
#[pyfunction(name = "frame_image")]
#[pyo3(signature = (rgba, width, height, frames_ago = 0, flipped = false))]
fn frame_image_recorded(
    rgba: &Bound<'_, PyBytes>,
    width: u32,
    height: u32,
    frames_ago: u8,
    flipped: bool,
) -> PyResult<()> {
    let bytes = rgba.as_bytes();
    // Looked at in any case: a program must not fail only because somebody records.
    if bytes.len() as u64 != u64::from(width) * u64::from(height) * 4 {
        return Err(PyValueError::new_err("an image has four bytes for each pixel"));
    }
    frame_image(&FrameImage { rgba: bytes, width, height, frames_ago, is_flipped: flipped });
    Ok(())
}

/// The event loop of the calling thread begins to wait.
#[pyfunction]
fn loop_waits(python: Python<'_>) {
    if syscollect_usdt_client::enabled() {
        threads::report(python);
        event_loop::waits();
    }
}

/// It goes on.
#[pyfunction]
fn loop_turns() {
    event_loop::turns();
}

/// Names the calling thread.
#[pyfunction]
fn thread_name(name: &Bound<'_, PyString>) {
    threads::given();
    set_thread_name(&text(name));
}

/// The module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::asynchronous::{AsyncZone, Steps, async_zone};
    #[pymodule_export]
    use super::functions::{forget_functions, function_begins, function_ends, profile};
    #[pymodule_export]
    use super::testing::{hide, lower, raise_, read_beside, stop_reading, take};
    #[pymodule_export]
    use super::zone::{Zone, function_zone, make_zone};
    #[pymodule_export]
    use super::{enabled, frame_image_recorded, frame_recorded, loop_turns, loop_waits};
    #[pymodule_export]
    use super::{message_recorded, plot_recorded, thread_name};
}
