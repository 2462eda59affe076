//! What every event needs to be written.

use super::stream::Stream;
use syscollect_model::{Tables, Time};

/// Where an event is written, when it happens, and what its ids stand for.
pub(crate) struct Context<'a, W> {
    pub(crate) stream: &'a mut Stream<W>,
    pub(crate) time: Time,
    pub(crate) tables: &'a Tables,
}
