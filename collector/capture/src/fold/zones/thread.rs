//! What a thread has open.

use syscollect_model::Lane;
use syscollect_zone_protocol::{Event, Item, MarkerPhase, ended_depth};

use super::Group;
use super::kept::{GroupPlace, KeptGroup};
use super::said::{SaidAttributes, Subject};

/// Words of what is said of a zone while it is open, and of a thread's name.
const MOST_SAID: usize = 512;
/// Zones inside each other, and first halves of markers, that are kept of a thread.
const MOST_OPEN: usize = 4096;
const MOST_HALVES: usize = 256;

/// Zones, markers and the name of one thread.
#[derive(Default)]
pub(super) struct ThreadItems {
    /// Outermost first.
    zones: Vec<OpenZone>,
    /// What was written of them, one after the other.
    words: Vec<u64>,
    /// First halves of markers, in their order.
    halves: Vec<MarkerHalf>,
    name: Option<KeptGroup>,
    /// Whether the next item goes on with the name.
    name_goes_on: bool,
    ended: bool,
}

struct OpenZone {
    depth: u32,
    place: GroupPlace,
    /// Where its words begin.
    start: usize,
}

struct MarkerHalf {
    schema: u32,
    group: KeptGroup,
}

impl ThreadItems {
    /// A zone begins at that depth: what was open there has ended.
    pub(super) fn begin(&mut self, depth: u32, group: Group<'_>) {
        self.leave(depth);
        if self.zones.len() < MOST_OPEN {
            self.zones.push(OpenZone { depth, place: group.place, start: self.words.len() });
            self.words.extend_from_slice(group.item);
            for (subject, attribute) in group.said.each() {
                match subject {
                    Subject::ThreadName { more } => self.rename(group.place, attribute, more),
                    Subject::Zone | Subject::Event => self.describe_zone(attribute),
                }
            }
        }
    }

    /// A zone ends and leaves that many open, of which the low six bits are known.
    pub(super) fn end(&mut self, left: u8) {
        let Some(innermost) = self.zones.last().map(|zone| zone.depth) else { return };
        if let Some(depth) = ended_depth(innermost, left) {
            self.leave(depth);
        }
    }

    /// Zones at that depth or deeper have ended.
    pub(super) fn leave(&mut self, depth: u32) {
        while let Some(zone) = self.zones.pop_if(|zone| zone.depth >= depth) {
            self.words.truncate(zone.start);
        }
    }

    /// Half of a marker, or a whole one.
    pub(super) fn marker(&mut self, schema: u32, phase: MarkerPhase, group: Group<'_>) {
        match phase {
            MarkerPhase::Instant => {}
            MarkerPhase::Begin if self.halves.len() >= MOST_HALVES => {}
            MarkerPhase::Begin => self.halves.push(MarkerHalf { schema, group: group.kept() }),
            MarkerPhase::End => {
                let first = self.halves.iter().rposition(|half| half.schema == schema);
                first.map(|first| self.halves.remove(first));
            }
        }
    }

    /// What is said of the innermost zone, or of the thread.
    pub(super) fn describe(&mut self, place: GroupPlace, said: SaidAttributes<'_>) {
        for (subject, attribute) in said.each() {
            match subject {
                Subject::ThreadName { more } => self.rename(place, attribute, more),
                Subject::Zone => self.describe_zone(attribute),
                Subject::Event => {}
            }
        }
    }

    fn describe_zone(&mut self, attribute: &[u64]) {
        let start = self.zones.last().map(|zone| zone.start);
        if start.is_some_and(|start| self.words.len() - start < MOST_SAID) {
            self.words.extend_from_slice(attribute);
        }
    }

    fn rename(&mut self, place: GroupPlace, attribute: &[u64], more: bool) {
        let goes_on = std::mem::replace(&mut self.name_goes_on, more);
        let name = match &mut self.name {
            Some(name) if goes_on => name,
            name => name.insert(KeptGroup { place, words: Vec::new() }),
        };
        if name.words.len() < MOST_SAID {
            name.words.extend_from_slice(attribute);
        }
    }

    /// The thread ends.
    pub(super) fn finish(&mut self) {
        *self = Self { ended: true, ..Self::default() };
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// All of it.
    pub(super) fn take(&mut self, lane: Lane, writer: u32) -> Vec<KeptGroup> {
        let Self { zones, words, halves, name, .. } = std::mem::take(self);
        let mut kept: Vec<KeptGroup> = Vec::new();
        if let Some(mut name) = name {
            // As a client says it: behind how many zones are open, and so behind these.
            name.place.number = u64::MAX;
            let depth = zones.last().map_or(0, |zone| zone.depth.saturating_add(1));
            let event = Event::Attached { depth };
            let attached = Item::Stamped { ticks: name.place.ticks, event }.encode();
            name.words.splice(..0, attached.iter().copied());
            kept.push(name);
        }
        kept.extend(halves.into_iter().map(|half| half.group));
        let ends = zones.iter().skip(1).map(|zone| zone.start).chain([words.len()]);
        for (zone, end) in zones.iter().zip(ends) {
            kept.push(KeptGroup { place: zone.place, words: words[zone.start..end].to_vec() });
        }
        debug_assert!(
            kept.iter().all(|group| (group.place.lane, group.place.writer) == (lane, writer))
        );
        kept
    }
}
