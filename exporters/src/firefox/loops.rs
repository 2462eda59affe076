//! Stretches in which an event loop did not come back to its wait, as markers.

use super::markers::{Data, LoopAwayData, Marker, Timing};
use super::meta::milliseconds;
use super::tables::{Category, Shared};
use crate::event_loops::Stretch;
use crate::report::loop_watch::{StretchSleep, functions, sleeps, wait_name};
use syscollect_model::{Tables, duration};

/// Of the thread, for a stretch.
pub(super) fn marker(
    stretch: &Stretch<StretchSleep>,
    shared: &mut Shared,
    tables: &Tables,
) -> Marker {
    let activity = &stretch.activity;
    let mut what = Vec::new();
    if activity.on_cpu > 0 {
        let function = functions(stretch, tables).into_iter().next();
        let place = function.map_or_else(String::new, |hit| format!(" in {}", hit.name));
        what.push(format!("{} on CPU{place}", duration(activity.on_cpu)));
    }
    if let Some(sleep) = sleeps(stretch, tables).first() {
        what.push(format!("{} asleep: {}", duration(sleep.nanoseconds), sleep.text()));
    }
    let data = LoopAwayData {
        what: what.join(", "),
        waits: wait_name(stretch.wait),
        running: milliseconds(activity.on_cpu),
        waiting: milliseconds(activity.waiting),
        asleep: milliseconds(activity.asleep()),
        unseen: stretch.may_have_returned.then_some("yes"),
        least: stretch.is_least().then_some("yes"),
    };
    Marker {
        name: shared.string("Event loop away"),
        category: Category::Scheduling.index(),
        timing: Timing::Interval(stretch.since, stretch.until),
        data: Data::LoopAway(data).into(),
    }
}
