//! Whether the zones of a pair of probes nest.
//!
//! A pair is two probes or more, and nothing says what they mean: Python's functions call one
//! another, so a begin while a zone is open lies within that zone. A transaction of a database
//! does not; there such a begin shows that the end of the one before was not seen: a statement
//! failed and went another way, or hits were lost.
//!
//! Where neither the user nor a preset says it, the hits of the whole recording do. Zones that
//! nest end one after the other: two ends follow each other on a thread, and both of their begins
//! were seen. Zones that do not nest have a begin before each end, however many ends are
//! missing. The stack pointer is no help: an interpreter's functions may all be entered at one
//! place of the stack, and what begins a zone may be a helper that has long returned.

use crate::chunk_queue::FromFile;
use crate::probes::table::ProbeTable;
use crate::record_cursor::{RecordCursor, RecordItem, Shape, WINDOW};
use rustc_hash::FxHashMap;
use syscollect_model::LaneKind;
use syscollect_playback::order::Merge;
use syscollect_records::ProbeRecord;
use syscollect_store::{CaptureReader, ProbeRole};

/// Threads and pairs that are looked at; more are in a hostile capture only.
const MOST: usize = 1 << 18;

/// What is open of a pair on a thread.
#[derive(Clone, Copy, Debug, Default)]
struct OpenPair {
    begun: u32,
    /// The last hit ended one.
    ended_last: bool,
}

/// Sees whether the zones of pairs nest.
#[derive(Debug, Default)]
pub(crate) struct NestingObserver {
    /// By thread and pair.
    open: FxHashMap<(u32, u32), OpenPair>,
}

impl NestingObserver {
    /// A hit of the pair on a thread; whether the pair was seen to nest by it.
    pub(crate) fn on(&mut self, tid: u32, pair: u32, role: ProbeRole) -> bool {
        let key = (tid, pair);
        if self.open.len() >= MOST && !self.open.contains_key(&key) {
            return false;
        }
        let state = self.open.entry(key).or_default();
        match role {
            ProbeRole::ZoneBegin => {
                *state = OpenPair { begun: state.begun.saturating_add(1), ended_last: false };
            }
            ProbeRole::ZoneEnd if state.begun > 0 && state.ended_last => return true,
            ProbeRole::ZoneEnd => {
                *state =
                    OpenPair { begun: state.begun.saturating_sub(1), ended_last: state.begun > 0 };
            }
            _ => {}
        }
        false
    }

    /// Hits are missing.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }
}

/// Decides by the hits of a whole recording which of the pairs of `probes` nest of which nobody
/// says it.
pub(crate) fn decide_nesting(reader: &CaptureReader, probes: &mut ProbeTable) {
    if probes.has_undecided() {
        observe(reader, probes);
    }
    probes.decide();
}

fn observe(reader: &CaptureReader, probes: &mut ProbeTable) {
    let lanes = reader.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Probe);
    let mut merge = Merge::new(
        lanes
            .map(|lane| FromFile::new(reader, RecordCursor::new(lane, Shape::Probe), ()))
            .collect(),
    );
    let mut observer = NestingObserver::default();
    let mut unsure = vec![0; merge.lanes().len()];
    while let Some((lane, item)) = merge.next() {
        let RecordItem::Record = item else {
            // Begins may be among what is missing, before some of the records that come next.
            unsure[lane] = WINDOW + 1;
            continue;
        };
        if unsure[lane] > 0 {
            unsure[lane] -= 1;
            observer.forget();
        }
        let record = ProbeRecord::from_bytes(merge.lanes()[lane].cursor.record());
        let Some(record) = record else { continue };
        let probe = probes.get(record.probe).map(|probe| (probe.pair, probe.role));
        let Some((pair, role)) = probe.filter(|(pair, _)| probes.is_undecided(*pair)) else {
            continue;
        };
        if observer.on(record.tid, pair, role) {
            probes.set_nesting(pair);
            if !probes.has_undecided() {
                break;
            }
        }
    }
}
