//! Event loops.

use crate::event_loop;
use syscollect_zone_protocol::LoopPhase;

/// The calling thread's loop waits, or goes on; another number says nothing.
#[unsafe(no_mangle)]
pub extern "C" fn syscollect_loop_recorded(phase: u8) {
    if let Some(phase) = LoopPhase::from_number(phase) {
        event_loop::record(phase);
    }
}
