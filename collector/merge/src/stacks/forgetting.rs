//! Stacks of a recording that goes on: those of programs that have ended go, and of the others
//! those of who has most.

use super::{LaneStacks, StackRange, Stacks};
use crate::stack_shares::{STACK, StackShares};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use syscollect_model::Ticks;
use syscollect_playback::CodeAddressId;
use syscollect_store::{Producer, ProducerShares, UserOf};

/// Stacks that were sent and that are kept while recording: 32 bytes each.
const MOST_SENT: usize = 1 << 20;
/// Frames of them: 4 bytes each as they were sent, 8 and more as they are shown.
const MOST_FRAMES: usize = 8 << 20;
/// Where fewer frames than this are of no use, they stay.
const FEW_FRAMES: usize = 1 << 16;
/// Stacks of before the programs were made to send all anew are referred to so many seconds longer
/// at most.
pub(crate) const ANEW_SECONDS: f64 = 30.0;

/// What is left of stacks at a time.
pub(crate) struct StacksLeft<'a> {
    /// Since when the program of a process runs that has the id; `None` where there is none.
    pub(crate) runs_since: &'a dyn Fn(u32) -> Option<Ticks>,
    /// Stacks that were sent before then are referred to by nothing: they were sent again.
    pub(crate) sent_since: Ticks,
    pub(crate) user_of: UserOf,
}

/// What became of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForgottenStacks {
    /// Those that are there have other frames: all that was made of them is to be made anew.
    pub(crate) moved: bool,
    /// Stacks of processes with more than their share.
    pub(crate) beyond_share: u64,
    /// So much is there that the programs should send what is needed anew.
    pub(crate) wants_anew: bool,
}

impl Stacks {
    /// How many stacks are held, and frames of them.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.lanes.values().map(LaneStacks::len).sum(), self.pool.len())
    }

    /// Whether so much came that it should not be waited for.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let (sent, frames) = self.held();
        sent > MOST_SENT / 4 * 3 || frames > MOST_FRAMES / 4 * 3
    }

    /// Forgets stacks that nothing refers to any more, and those of who has too many.
    pub(crate) fn forget(&mut self, left: &StacksLeft<'_>) -> ForgottenStacks {
        let StacksLeft { runs_since, sent_since, .. } = left;
        let mut since = FxHashMap::default();
        let mut began = |pid: u32| *since.entry(pid).or_insert_with(|| runs_since(pid));
        for lane in self.lanes.values_mut() {
            lane.retain(|_, stack| {
                let is_needed = stack.kernel || began(stack.pid).is_some_and(|at| stack.sent >= at);
                is_needed && stack.sent >= *sent_since
            });
            lane.shrink_to(lane.len() * 2);
        }
        self.python.forget(|pid| began(pid).is_some());
        let beyond_share = self.cut_to_shares(left.user_of);
        let (sent, frames) = (self.held().0, self.distinct_frames());
        let moved = self.pool.len() > 2 * frames + FEW_FRAMES || beyond_share > 0;
        if moved {
            self.put_together();
        }
        let wants_anew = sent > MOST_SENT / 2 || frames > MOST_FRAMES / 2 || beyond_share > 0;
        ForgottenStacks { moved, beyond_share, wants_anew }
    }

    /// Frames of the stacks that are held: many have the same.
    fn distinct_frames(&self) -> usize {
        let stacks = self.lanes.values().flat_map(LaneStacks::values);
        let ranges: FxHashSet<(u32, u32)> =
            stacks.map(|stack| (stack.start, stack.count)).collect();
        ranges.into_iter().map(|(_, count)| count as usize).sum()
    }

    /// Where there are too many, those of the process with most go, of the user with most.
    fn cut_to_shares(&mut self, user_of: UserOf) -> u64 {
        if !self.is_nearly_full() {
            return 0;
        }
        let mut counts = FxHashMap::<u32, [usize; 2]>::default();
        for stack in self.lanes.values().flat_map(LaneStacks::values) {
            if !stack.kernel {
                let [sent, frames] = counts.entry(stack.pid).or_default();
                *sent += 1;
                *frames += stack.count as usize;
            }
        }
        let mut shares = ProducerShares::default();
        for (pid, [sent, frames]) in counts {
            let user = user_of(pid).unwrap_or(u32::MAX);
            // Both in parts of their bounds.
            let amount = sent * (MOST_FRAMES / MOST_SENT) + frames;
            shares.add(Producer { user, program: pid }, amount);
        }
        let mut cut = FxHashSet::default();
        while shares.of_all() > MOST_FRAMES / 2
            && let Some(most) = shares.largest()
        {
            cut.insert(most.program);
            shares.forget(most);
        }
        let before = self.held().0;
        for lane in self.lanes.values_mut() {
            lane.retain(|_, stack| stack.kernel || !cut.contains(&stack.pid));
        }
        (before - self.held().0) as u64
    }

    /// Puts what is left together anew, with nothing between.
    fn put_together(&mut self) {
        let pool = std::mem::take(&mut self.pool);
        let old = std::mem::take(&mut self.locator.code);
        self.locator.forget();
        self.same = FxHashMap::default();
        self.shares = StackShares::default();
        let mut rows = self.python.rows();
        rows.extend(pool.iter().filter_map(|id| old.python_row(*id)));
        let rows = self.locator.code.python.take_of(&old.python, &rows);
        self.python.renumber(&rows);
        let mut moved = FxHashMap::<CodeAddressId, CodeAddressId>::default();
        let Self { lanes, pool: new_pool, same, shares, locator, .. } = self;
        for stack in lanes.values_mut().flat_map(LaneStacks::values_mut) {
            let start = new_pool.len();
            for id in &pool[stack.start as usize..][..stack.count as usize] {
                let new =
                    moved.entry(*id).or_insert_with(|| locator.code.intern_as(&old, *id, &rows));
                new_pool.push(*new);
            }
            let mut hasher = FxHasher::default();
            (&new_pool[start..], stack.kernel, stack.truncated).hash(&mut hasher);
            let known =
                same.entry(hasher.finish()).or_insert(StackRange { start: start as u32, ..*stack });
            let is_same = (known.kernel, known.truncated) == (stack.kernel, stack.truncated)
                && new_pool[known.start as usize..][..known.count as usize] == new_pool[start..];
            shares.sent.take(stack.pid, 1);
            if is_same && known.start as usize != start {
                new_pool.truncate(start);
                stack.start = known.start;
            } else {
                stack.start = start as u32;
                shares.frames.take(stack.pid, u64::from(stack.count) + STACK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::RawFrame;
    use syscollect_model::{AddressSpaces, BuildId, Lane, LaneKind, Mapping};
    use syscollect_playback::{CodeAddress, Locator};

    const LANE: Lane = Lane::new(LaneKind::SampleStack, 0);

    /// Stacks of processes 1 to 3, which have a file of code each.
    fn stacks() -> Stacks {
        let mut spaces = AddressSpaces::default();
        for pid in 1..=3 {
            let (path, build_id) = (format!("/bin/{pid}"), BuildId::default());
            let (start, end, since) = (0x1000, 0x100_0000, Ticks(0));
            spaces.map(Mapping { pid, start, end, file_offset: 0x1000, path, build_id, since });
        }
        Stacks { locator: Locator::new(spaces), ..Stacks::default() }
    }

    fn send(stacks: &mut Stacks, id: u32, pid: u32, addresses: &[u64]) {
        let frames: Vec<RawFrame> = addresses.iter().map(|at| RawFrame::Address(*at)).collect();
        let sent = stacks.define((pid, Ticks(u64::from(id))), false, true, &frames);
        stacks.lanes.entry(LANE).or_default().extend(sent.map(|sent| (id, sent)));
    }

    /// The file and the offset of the innermost frame.
    fn innermost(stacks: &Stacks, id: u32) -> Option<(String, u64)> {
        let CodeAddress { module, offset } = stacks.code().get(*stacks.code_at(LANE, id)?.first()?);
        Some((stacks.code().module(module?).path.clone(), offset))
    }

    fn left(runs_since: &dyn Fn(u32) -> Option<Ticks>) -> StacksLeft<'_> {
        StacksLeft { runs_since, sent_since: Ticks(0), user_of: |pid| Some(1_000 + pid.min(2)) }
    }

    #[test]
    fn stacks_of_programs_that_ended_go_and_the_others_mean_what_they_meant() {
        let mut stacks = stacks();
        send(&mut stacks, 0, 2, &[0x1234, 0x2000]);
        (1..100_000).for_each(|id| send(&mut stacks, id, 1, &[0x3000 + u64::from(id), 0x2000]));
        send(&mut stacks, 100_000, 2, &[0x1234, 0x2000]);
        send(&mut stacks, 100_001, 3, &[0x4321]);
        let runs_since = |pid| (pid > 1).then_some(Ticks(if pid == 3 { 100_002 } else { 0 }));
        let forgotten = stacks.forget(&left(&runs_since));
        assert_eq!((forgotten.moved, forgotten.beyond_share), (true, 0));
        assert_eq!(stacks.held(), (2, 2), "the same frames are there once");
        let found = [0, 100_000, 1, 100_001].map(|id| innermost(&stacks, id));
        let of_second = Some(("/bin/2".to_owned(), 0x1234));
        assert_eq!(found, [of_second.clone(), of_second, None, None], "the third runs another");
        send(&mut stacks, 100_003, 2, &[0x1234, 0x2000]);
        assert_eq!(stacks.held(), (3, 2));
    }

    #[test]
    fn who_makes_stacks_without_end_loses_its_own_and_nobody_elses() {
        let mut stacks = stacks();
        send(&mut stacks, 0, 1, &[0x1234, 0x2000]);
        for id in 1..MOST_SENT as u32 {
            // Of two programs of one user.
            send(&mut stacks, id, 2 + id % 2, &[0x3000 + u64::from(id % 0x8000)]);
            if stacks.is_nearly_full() {
                break;
            }
        }
        let forgotten = stacks.forget(&left(&|_| Some(Ticks(0))));
        assert!(forgotten.beyond_share > 0 && forgotten.wants_anew, "{forgotten:?}");
        assert!(stacks.held().0 <= MOST_SENT / 2, "{:?}", stacks.held());
        assert_eq!(innermost(&stacks, 0), Some(("/bin/1".to_owned(), 0x1234)));
    }

    #[test]
    fn what_was_sent_again_since_is_not_kept_twice() {
        let mut stacks = stacks();
        send(&mut stacks, 5, 1, &[0x1234]);
        send(&mut stacks, 20, 1, &[0x1234]);
        let runs_since = |_| Some(Ticks(0));
        stacks.forget(&StacksLeft { sent_since: Ticks(10), ..left(&runs_since) });
        assert_eq!((innermost(&stacks, 5), stacks.held().0), (None, 1));
    }
}
