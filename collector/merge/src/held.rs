//! Where what a recording holds begins, of which older events gave way to newer ones.

use syscollect_model::{
    ClockMap, Lane, LaneClock, LaneKind, LossCause, LossOrigin, Retention, Ticks, Time,
};
use syscollect_store::{CaptureReader, LaneLoss};

/// When the oldest event was that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldestHeld {
    pub(crate) ticks: Ticks,
    pub(crate) time: Time,
}

/// The oldest event that is held of a recording that overwrote its beginning: of what was before,
/// the file has only what it led to. `None` where nothing gave way.
pub(crate) fn oldest_held(
    reader: &CaptureReader,
    declared: &[LaneLoss],
    clock: &ClockMap,
) -> Option<OldestHeld> {
    if !declared.iter().any(overwrote) {
        return None;
    }
    let lanes = reader.lanes().into_iter().filter(|lane: &Lane| gives_way(lane.kind));
    let firsts = lanes.filter_map(|lane| reader.chunks(lane).first()).map(|chunk| chunk.first);
    let ticks = firsts.min()?;
    Some(OldestHeld { ticks, time: clock.time(ticks) })
}

fn overwrote(loss: &LaneLoss) -> bool {
    let of_events = matches!(loss.origin, LossOrigin::Lane(kind) if gives_way(kind));
    of_events && loss.cause == LossCause::Overwritten && loss.count > 0
}

/// Whether records of such lanes give way one by one, and say by the recorder's clock when they
/// were.
fn gives_way(kind: LaneKind) -> bool {
    let traits = kind.traits();
    traits.retention == Retention::Droppable && traits.clock == LaneClock::Recorder
}
