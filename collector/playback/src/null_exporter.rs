//! An exporter that writes nothing.

use std::convert::Infallible;
use std::marker::PhantomData;
use syscollect_model::{Event, Exporter, Tables, Time};

/// Takes events and keeps none: playing into it counts what a recording holds. `E` is the error
/// that it never gives.
#[derive(Debug)]
pub struct NullExporter<E = Infallible>(PhantomData<E>);

impl NullExporter {
    /// Which cannot fail.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<E> Default for NullExporter<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E> Exporter for NullExporter<E> {
    type Error = E;

    #[inline]
    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), E> {
        // So that a benchmark cannot leave the event out, either.
        std::hint::black_box((time, event));
        Ok(())
    }
}
