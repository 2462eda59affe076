//! Hits of probes, as events.
//!
//! **Duties.** [`table`]:
//! what the probes mean. [`hit`]: a hit's arguments. [`calls`]: which functions
//! have returned. [`play`] and [`client`] turn hits into events.

pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod hit;
pub(crate) mod play;
pub(crate) mod table;
