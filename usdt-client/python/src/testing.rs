//! For tests and measurements without a collector: records this process alone, and reads what is
//! recorded. No part of the interface.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use syscollect_usdt_client::testing::{self, Drain};

static READS: AtomicBool = AtomicBool::new(false);

/// Keeps the process from recorders that run on this machine.
#[pyfunction]
pub(crate) fn hide() {
    testing::hide_from_recorders();
}

/// Behaves as if a collector had attached.
#[pyfunction]
pub(crate) fn raise_() {
    testing::raise();
}

/// Behaves as if it had gone.
#[pyfunction]
pub(crate) fn lower() {
    testing::lower();
}

/// The items of one thread: its number, and each item's words.
type Taken = Vec<(u32, Vec<Vec<u64>>)>;

/// What all threads have written since the last call, and the log of definitions.
#[pyfunction]
pub(crate) fn take() -> PyResult<(Taken, Vec<u8>)> {
    let Some(mut drain) = Drain::open() else { return Ok((Vec::new(), Vec::new())) };
    let taken = (0..drain.rings())
        .map(|ring| {
            let thread = drain.ring(ring).tid.load(Ordering::Relaxed);
            (thread, drain.take(ring))
        })
        .collect();
    Ok((taken, drain.log().to_vec()))
}

/// Empties the rings from a thread of its own, as a collector does.
#[pyfunction]
pub(crate) fn read_beside() -> PyResult<()> {
    let mut drain = Drain::open().ok_or_else(|| PyRuntimeError::new_err("nothing is recorded"))?;
    READS.store(true, Ordering::Relaxed);
    std::thread::spawn(move || {
        while READS.load(Ordering::Relaxed) {
            drain.discard();
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    Ok(())
}

/// Ends that thread, and says how many events found no room.
#[pyfunction]
pub(crate) fn stop_reading() -> u64 {
    READS.store(false, Ordering::Relaxed);
    Drain::open().map_or(0, |drain| drain.lost())
}
