//! What marked programs wrote, as events.
//!
//! **Duties.** [`programs`]: which programs there are and what their ticks mean. [`lives`]: when
//! their threads lived. [`log`]: what items refer to. [`cursor`]: a thread's lane as groups of
//! items. [`parts`]: what is said behind a stamped item. [`survey`]: the pass before playing that
//! finds what must be known earlier than its place in the lane. [`open`]: the zones that are open.
//! [`state`]: what is remembered while playing; [`threads`], [`processes`], [`async_zones`] and
//! [`markers`] turn items into events.
//!
//! Nothing here is trusted: programs write what they like. What cannot be is
//! counted as undecodable, of its own lane; every slice that begins ends.

pub(crate) mod async_zones;
pub(crate) mod closing;
pub(crate) mod cursor;
pub(crate) mod lives;
pub(crate) mod log;
pub(crate) mod markers;
pub(crate) mod open;
pub(crate) mod parts;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod said;
pub(crate) mod stacks;
pub(crate) mod state;
pub(crate) mod survey;
pub(crate) mod threads;

use crate::gpu::record::TracepointTable;
use crate::probes::table::ProbeTable;
use lives::Lives;
use log::Logs;
use programs::Programs;
use survey::Survey;

/// What is known of marked programs and of probes before they are played.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    pub(crate) programs: Programs,
    pub(crate) logs: Logs,
    pub(crate) lives: Lives,
    pub(crate) survey: Survey,
    pub(crate) probes: ProbeTable,
    pub(crate) tracepoints: TracepointTable,
}
