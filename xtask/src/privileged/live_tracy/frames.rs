//! Frames that a viewer was told, beside those of the same recorder's snapshot.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use syscollect_model::{Tables, Time, TrackId, TrackKind};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{KnownSpan, same};

/// A frame; without an end where it lasts until the next of its set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MarkedFrame {
    start: i64,
    end: Option<i64>,
    /// Empty for the viewer's own set, which has no name: the first that its program gave none.
    set: String,
}

/// All of a file.
#[derive(Debug, Default)]
pub(super) struct Frames {
    frames: Vec<MarkedFrame>,
    /// Of sets to which their programs gave no names.
    nameless: Vec<MarkedFrame>,
    /// Of sets with gaps.
    open: BTreeMap<TrackId, MarkedFrame>,
}

impl Frames {
    /// A slice begins, which may be a frame.
    pub(super) fn begin(&mut self, time: Time, track: TrackId, tables: &Tables) {
        let row = tables.track(track);
        let TrackKind::Frames { continuous, main } = row.kind else { return };
        let set = tables.strings.get(row.name).to_owned();
        let frame = MarkedFrame { start: time.0 as i64, end: None, set };
        match continuous {
            true if main => self.nameless.push(frame),
            true => self.frames.push(frame),
            false => drop(self.open.insert(track, frame)),
        }
    }

    /// A slice ends.
    pub(super) fn end(&mut self, time: Time, track: TrackId) {
        if let Some(frame) = self.open.remove(&track) {
            self.frames.push(MarkedFrame { end: Some(time.0 as i64), ..frame });
        }
    }

    /// What a viewer was told is what is here; how many.
    pub(super) fn compare(&self, seen: &ReceivedTimeline, span: KnownSpan) -> Result<usize> {
        let is_known = |frame: &MarkedFrame| {
            span.has(frame.start) && frame.end.is_none_or(|end| span.has(end))
        };
        let mut told = Vec::new();
        let mut with_gaps = BTreeMap::<u64, bool>::new();
        for (set, _, end) in &seen.frame_times {
            *with_gaps.entry(*set).or_default() |= end.is_some();
        }
        for (set, start, end) in &seen.frame_times {
            // "program (pid) set", and a number where there are several.
            let name = seen.frame_names.get(set).map_or("", String::as_str);
            let name = name.split_once(") ").map_or(name, |(_, name)| name);
            let name = name.split(" #").next().unwrap_or_default().to_owned();
            let is_open = with_gaps[set] && end.is_none();
            told.extend((!is_open).then_some(MarkedFrame { start: *start, end: *end, set: name }));
        }
        let of_own_set: BTreeSet<i64> =
            told.iter().filter(|frame| frame.set.is_empty()).map(|frame| frame.start).collect();
        let nameless = self.nameless.iter().cloned().map(|frame| {
            let is_told_so = of_own_set.contains(&frame.start);
            MarkedFrame { set: if is_told_so { String::new() } else { frame.set }, ..frame }
        });
        let told = told.into_iter().filter(is_known);
        let in_file = self.frames.iter().cloned().chain(nameless).filter(is_known);
        same("frame", told.collect(), in_file.collect())
    }
}
