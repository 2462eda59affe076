//! How much of the memory for stacks one process may take.
//!
//! A program can show endless different stacks at endless different code addresses, and what is
//! kept of them would grow with that. So there is a bound, of which half is for who comes first;
//! beyond that, every process has a share. Programs as they are never reach the half.

use rustc_hash::FxHashMap;

/// Frames of different stacks that are kept: 4 bytes each as they were sent, 8 as they are shown.
const FRAMES_MAX: u64 = 64 << 20;
/// Stacks that were sent, also the same ones again, as every process does that runs the same code:
/// 40 bytes each.
const SENT_MAX: u64 = 16 << 20;
/// Different code addresses that are told apart; each may want a name, of 100 bytes and more.
const PLACES_MAX: u64 = 1 << 20;
/// No share is asked for where there are fewer frames than this.
pub(crate) const PLENTY: u64 = PLACES_MAX / 2;
/// What a stack takes beside its frames, in frames.
pub(crate) const STACK: u64 = 8;

/// Who has how much of one thing.
#[derive(Debug)]
pub(crate) struct Share {
    max: u64,
    taken: u64,
    by_process: FxHashMap<u32, u64>,
    of_each: u64,
}

impl Share {
    fn new(max: u64, wanted: &FxHashMap<u32, u64>) -> Self {
        let of_each = fair_share(wanted.values().copied().collect(), max / 2);
        Self { max, taken: 0, by_process: FxHashMap::default(), of_each }
    }

    /// Whether `process` may have so much more.
    pub(crate) fn has_room(&self, process: u32, count: u64) -> bool {
        let all = self.taken + count;
        let own = self.by_process.get(&process).copied().unwrap_or(0) + count;
        all <= self.max / 2 || (own <= self.of_each && all <= self.max)
    }

    /// Takes so much for `process`, if it may have it.
    pub(crate) fn take(&mut self, process: u32, count: u64) -> bool {
        let fits = self.has_room(process, count);
        if fits {
            self.taken += count;
            *self.by_process.entry(process).or_default() += count;
        }
        fits
    }
}

/// The most that each may have so that all of them have room, where who wants less takes only that.
fn fair_share(mut wanted: Vec<u64>, mut room: u64) -> u64 {
    wanted.sort_unstable();
    let count = wanted.len() as u64;
    for (count, wanted) in (1..=count).rev().zip(wanted) {
        if wanted.saturating_mul(count) > room {
            return room / count;
        }
        room -= wanted;
    }
    u64::MAX
}

/// What stacks take.
#[derive(Debug)]
pub(crate) struct StackShares {
    /// Stacks that were sent.
    pub(crate) sent: Share,
    /// Frames of those that differ.
    pub(crate) frames: Share,
    /// Frames as they are shown: stacks of the kernel together with those of users.
    pub(crate) shown: Share,
    pub(crate) code: Share,
}

impl StackShares {
    /// For processes that have so many frames.
    pub(crate) fn new(frames: &FxHashMap<u32, u64>) -> Self {
        Self::bounded(FRAMES_MAX, PLACES_MAX, frames)
    }

    /// With other bounds.
    pub(crate) fn bounded(most: u64, code: u64, wanted: &FxHashMap<u32, u64>) -> Self {
        let [sent, frames, shown, code] =
            [SENT_MAX, most, most, code].map(|max| Share::new(max, wanted));
        Self { sent, frames, shown, code }
    }
}

impl Default for StackShares {
    fn default() -> Self {
        Self::new(&FxHashMap::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_little_gets_it_and_the_others_the_same() {
        assert_eq!(fair_share(vec![5, 100, 1, 100], 106), 50);
        assert_eq!(fair_share(vec![5, 100, 1, 100], 206), u64::MAX);
        assert_eq!(fair_share(vec![], 10), u64::MAX);
        assert_eq!(fair_share(vec![u64::MAX; 3], 9), 3);
    }

    #[test]
    fn a_flood_leaves_others_their_shares_and_never_exceeds_the_bound() {
        let wanted = [(1, 1_000_000), (2, 30), (3, 20)].into_iter().collect();
        let mut share = Share::new(400, &wanted);
        let taken = (0..1000).filter(|_| share.take(1, 1)).count();
        assert_eq!(taken, 200, "who comes first has the first half");
        assert!(share.take(2, 30) && share.take(3, 20), "the others what they want");
        assert!(!share.take(1, 1));
        let late = (4..1000).filter(|process| share.take(*process, 1)).count();
        assert_eq!(late, 150, "who was not counted what is left");
    }
}
