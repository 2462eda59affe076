//! Hits of probes, as events.
//!
//! **Duties.** [`table`]: what the probes mean. [`nesting`]: whether zones of a pair nest. [`hit`]:
//! a hit's arguments. [`calls`]: which functions have returned. [`decoder`] turns hits
//! into events; [`client_hits`]: what those tell of instrumented programs that could not share
//! memory.

pub(crate) mod calls;
pub(crate) mod client_hits;
pub(crate) mod decoder;
pub(crate) mod hit;
pub(crate) mod nesting;
pub(crate) mod table;
#[cfg(test)]
mod tests;
