//! What instrumented programs wrote, as events.
//!
//! **Duties.** [`programs`]: which programs there are and what their ticks mean. [`lifetimes`]:
//! when their threads lived. [`log`]: what items refer to. [`cursor`]: a thread's lane as groups of
//! items. [`parts`]: what is said behind a stamped item, and [`attributes`]: of what. [`prescan`]:
//! the pass before playing that finds what must be known earlier than its place in the lane;
//! [`held_shares`]: how much of that one program may have.
//!
//! [`decoder`] says whose an item is, and applies what is said behind it. What is open is of
//! [`threads`], [`async_zones`] and [`frames`], each with its own; of [`markers`], which a thread
//! keeps, the first halves; of [`images`], what has not come yet. [`plots`], [`messages`],
//! [`locks`], [`heap`] and [`crashes`] are over when they are told; what [`gpu`] has is told in the
//! pass before. All of them look up in [`references`]. Programs without shared memory come as hits
//! (`crate::probes`), each a [`client_event`].
//!
//! Nothing here is trusted: programs write what they like. What cannot be is
//! counted as undecodable, of its own lane; every slice that begins ends.

pub(crate) mod async_zones;
pub(crate) mod attributes;
pub(crate) mod client_event;
pub(crate) mod crashes;
pub(crate) mod cursor;
pub(crate) mod decoder;
pub(crate) mod frames;
pub(crate) mod gpu;
pub(crate) mod heap;
pub(crate) mod held_shares;
pub(crate) mod images;
pub(crate) mod lifetimes;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod markers;
pub(crate) mod messages;
pub(crate) mod parts;
pub(crate) mod plots;
pub(crate) mod prescan;
pub(crate) mod programs;
pub(crate) mod references;
pub(crate) mod stacks;
#[cfg(test)]
mod tests;
pub(crate) mod threads;

use cursor::Programmed;
use lifetimes::Lifetimes;
use log::Logs;
use prescan::Prescan;
use programs::Programs;
use std::sync::Arc;
use syscollect_model::ClockMap;

/// What is known of instrumented programs before they are played.
#[derive(Debug, Default)]
pub(crate) struct InstrumentedPrograms {
    pub(crate) programs: Programs,
    pub(crate) logs: Logs,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) prescan: Prescan,
}

impl InstrumentedPrograms {
    /// What must be known to decode their lanes.
    pub(crate) fn of_lanes<'a>(&'a self, map: &'a Arc<ClockMap>) -> Programmed<'a> {
        let Self { programs, lifetimes, prescan, .. } = self;
        Programmed { programs, lifetimes, map, owners: Some(&prescan.owners) }
    }
}
