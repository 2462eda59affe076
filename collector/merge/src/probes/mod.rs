//! Hits of probes, as events.
//!
//! **Duties.** [`table`]: what the probes mean. [`nesting`]: whether zones of a pair nest. [`hit`]:
//! a hit's arguments. [`calls`]: which functions have returned. [`play`] and [`client`] turn hits
//! into events.

pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod hit;
pub(crate) mod nesting;
pub(crate) mod play;
pub(crate) mod table;
