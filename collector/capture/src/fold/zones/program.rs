//! What a program has open on no thread of its own.

use rustc_hash::FxHashMap;
use syscollect_zone_protocol::{Event, FramePhase, Item, LockAction};

use super::Group;
use super::kept::{GroupPlace, KeptGroup};
use crate::fold::MARGIN_TICKS;

/// Threads that are kept of those that have or want one lock.
const MOST_OF_LOCK: usize = 256;

/// Plots, clocks of GPUs, frames, locks and async zones of one program.
#[derive(Default)]
pub(super) struct ProgramItems {
    /// When it wrote something last.
    pub(super) newest: u64,
    /// The last values.
    pub(super) plots: Latest<u32>,
    /// When clocks of GPUs were read last.
    pub(super) calibrations: Latest<u32>,
    /// What was said last of frames.
    frames: Latest<FrameSet>,
    /// Who has each lock, or waits for it.
    locks: FxHashMap<u32, Vec<LockUser>>,
    async_zones: FxHashMap<u64, KeptGroup>,
    /// Ends of async zones that were read before their beginnings: lanes are emptied one after the
    /// other.
    early_ends: FxHashMap<u64, KeptGroup>,
}

/// Of each what was written last.
pub(super) struct Latest<K>(FxHashMap<K, KeptGroup>);

impl<K> Default for Latest<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: std::hash::Hash + Eq> Latest<K> {
    /// Keeps the group, unless a later one is kept.
    pub(super) fn insert(&mut self, key: K, group: Group<'_>) {
        let known = self.0.get(&key);
        if known.is_none_or(|known| known.place.ticks <= group.place.ticks) {
            // Attributes behind it are of something else.
            self.0.insert(key, KeptGroup { place: group.place, words: group.item.to_vec() });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FrameSet {
    set: u32,
    is_continuous: bool,
}

struct LockUser {
    action: LockAction,
    group: KeptGroup,
}

impl ProgramItems {
    /// A frame begins, ends, or both.
    pub(super) fn frame(&mut self, set: u32, phase: FramePhase, group: Group<'_>) {
        let set = FrameSet { set, is_continuous: phase == FramePhase::Mark };
        self.frames.insert(set, group);
    }

    /// A thread waits for a lock, has it, or has no more to do with it.
    pub(super) fn lock(&mut self, lock: u32, action: LockAction, group: Group<'_>) {
        use LockAction::{GiveUp, Obtain, ObtainShared, Release, ReleaseShared, Wait, WaitShared};
        let users = self.locks.entry(lock).or_default();
        let thread = |place: GroupPlace| (place.lane, place.writer);
        let own = users.iter().position(|user| thread(user.group.place) == thread(group.place));
        match action {
            Wait | Obtain | WaitShared | ObtainShared => {
                own.map(|own| users.swap_remove(own));
                if users.len() < MOST_OF_LOCK {
                    let words = group.item.to_vec();
                    let group = KeptGroup { place: group.place, words };
                    users.push(LockUser { action, group });
                }
            }
            Release | ReleaseShared | GiveUp => {
                // A guard may be dropped by another thread than had obtained it.
                let holds = |user: &LockUser| matches!(user.action, Obtain | ObtainShared);
                let holder = || users.iter().position(holds).filter(|_| action != GiveUp);
                if let Some(user) = own.or_else(holder) {
                    users.swap_remove(user);
                }
                if users.is_empty() {
                    self.locks.remove(&lock);
                }
            }
        }
    }

    /// An async zone begins, or is stated again.
    pub(super) fn begin_async(&mut self, zone: u64, group: Group<'_>) {
        if self.early_ends.remove(&zone).is_none() {
            self.async_zones.entry(zone).or_insert_with(|| group.kept());
        }
    }

    /// An async zone ends.
    pub(super) fn end_async(&mut self, zone: u64, group: Group<'_>) {
        if self.async_zones.remove(&zone).is_none() {
            self.early_ends.insert(zone, group.kept());
        }
    }

    /// All of it; of locks what threads have that are there.
    pub(super) fn take(&mut self, is_there: impl Fn(GroupPlace) -> bool) -> Vec<KeptGroup> {
        let Self { newest, plots, calibrations, frames, locks, async_zones, early_ends } =
            std::mem::take(self);
        let locks = locks.into_values().flatten().map(|user| user.group);
        let late = newest.saturating_sub(MARGIN_TICKS);
        let early = early_ends.into_values().filter(|end| end.place.ticks >= late);
        // Of frames, too, an end may be read before what it ends.
        let frames = frames.0.into_values();
        let frames = frames.filter(|frame| !is_frame_end(frame) || frame.place.ticks >= late);
        let kept = plots.0.into_values().chain(calibrations.0.into_values()).chain(frames);
        let kept = kept.chain(locks.filter(|group| is_there(group.place)));
        kept.chain(async_zones.into_values()).chain(early).collect()
    }
}

fn is_frame_end(group: &KeptGroup) -> bool {
    let Some(Item::Stamped { event, .. }) = Item::decode(&group.words) else { return false };
    matches!(event, Event::Frame { phase: FramePhase::End, .. })
}
