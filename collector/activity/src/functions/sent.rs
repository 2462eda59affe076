//! The stacks that were sent, and those that events refer to.

use super::code::{Code, UNKNOWN};
use super::memory::LiveMemory;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use syscollect_merge::{SentStack, each_stack};
use syscollect_model::{Lane, Ticks};
use syscollect_records::stack_id;
use syscollect_store::{Producer, ProducerShares};

/// Stacks that are kept, and those of events, which have a part of the kernel and one of a program.
pub(super) const MOST_STACKS: usize = 1 << 17;
/// What they take in all: their frames, and of each so much at least that there are no more stacks.
pub(super) const MOST_FRAMES: usize = 1 << 22;
const LEAST_FRAMES: usize = MOST_FRAMES / MOST_STACKS;

/// A stack that is not known, or of which there is none.
const NONE: u32 = 0;

/// A stack of one part.
#[derive(Debug)]
struct StackPart {
    pid: u32,
    /// Places, outermost first; `None` until it is known what lay where.
    places: Option<Arc<[u32]>>,
}

/// A stack as events have it.
#[derive(Clone, Copy, Debug)]
struct WholeStack {
    pid: u32,
    user: u32,
    kernel: u32,
}

/// Each process has a share, as much as it leaves to others.
fn payer(pid: u32) -> Producer {
    Producer { user: pid, program: pid }
}

/// What an event says of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventStack {
    pub(super) lane: Lane,
    pub(super) user: u32,
    pub(super) kernel: u32,
}

/// A stack whose places are to be found: of a time.
struct UnresolvedStack {
    at: u64,
    part: u32,
    is_kernel: bool,
    addresses: Vec<u64>,
}

/// Stacks, by their numbers.
#[derive(Default)]
pub(super) struct SentStacks {
    ids: FxHashMap<(Lane, u32), u32>,
    parts: Vec<StackPart>,
    /// Places of those that are known, by their hash.
    same: FxHashMap<u64, Arc<[u32]>>,
    wholes: Vec<WholeStack>,
    whole_ids: FxHashMap<(Lane, u32, u32, u32), u32>,
    raw: Vec<UnresolvedStack>,
    /// Of frames, and of stacks of events.
    shares: ProducerShares,
    whole_shares: ProducerShares,
    /// Stacks for which there was no room.
    beyond: u64,
}

impl SentStacks {
    /// Whether it is time to begin anew.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.shares.of_all() > MOST_FRAMES / 4 * 3 || self.wholes.len() > MOST_STACKS / 4 * 3
    }

    /// Stacks for which there was no room since it was last asked.
    pub(super) fn take_beyond(&mut self) -> u64 {
        std::mem::take(&mut self.beyond)
    }

    /// The next chunk of a lane of stacks.
    pub(super) fn feed(&mut self, lane: Lane, first: Ticks, data: &[u8]) {
        each_stack(data, first, |stack| self.add(lane, &stack));
    }

    fn add(&mut self, lane: Lane, stack: &SentStack<'_>) {
        let SentStack { id, pid, at, is_kernel, .. } = *stack;
        let free = MOST_FRAMES.saturating_sub(self.shares.of_all());
        let room = self.shares.room_for(payer(pid), free);
        // Of endless stacks most end here.
        if room < LEAST_FRAMES {
            self.beyond += 1;
            return;
        }
        let addresses: Vec<u64> = stack.addresses().collect();
        let frames = addresses.len().max(LEAST_FRAMES);
        if room < frames {
            self.beyond += 1;
            return;
        }
        self.shares.add(payer(pid), frames);
        self.parts.push(StackPart { pid, places: None });
        // 0 is none.
        let part = self.parts.len() as u32;
        self.ids.insert((lane, id), part);
        self.raw.push(UnresolvedStack { at: at.0, part, is_kernel, addresses });
    }

    /// When stacks were sent whose places are not known.
    pub(super) fn sort_raw(&mut self) {
        self.raw.sort_by_key(|raw| raw.at);
    }

    /// Finds the places of those that were sent before then.
    pub(super) fn locate_before(&mut self, until: u64, memory: &LiveMemory, code: &mut Code) {
        let count = self.raw.partition_point(|raw| raw.at < until);
        for raw in self.raw.drain(..count) {
            let part = &mut self.parts[raw.part as usize - 1];
            let pid = part.pid;
            let place = |address: &u64| match raw.is_kernel {
                true => code.kernel_place(*address),
                false => {
                    let (module, offset) = memory.find(pid, *address).unwrap_or((UNKNOWN, 0));
                    code.place(pid, module, offset)
                }
            };
            let mut places: Vec<u32> = raw.addresses.iter().map(place).collect();
            places.reverse();
            let mut hasher = FxHasher::default();
            places.hash(&mut hasher);
            let same = self.same.get(&hasher.finish()).filter(|same| ***same == *places);
            part.places = Some(match same {
                Some(same) => {
                    // Other CPUs' are the same.
                    let frames = places.len().saturating_sub(LEAST_FRAMES);
                    self.shares.remove(payer(pid), frames);
                    Arc::clone(same)
                }
                None => {
                    let places: Arc<[u32]> = places.into();
                    self.same.insert(hasher.finish(), Arc::clone(&places));
                    places
                }
            });
        }
    }

    /// The number of an event's stack, from 1; 0 where that is not known. Whose a stack of the
    /// kernel alone is, `pid_of` says.
    #[inline]
    pub(super) fn number(&mut self, of: EventStack, pid_of: impl FnOnce() -> u32) -> u32 {
        let EventStack { lane, user, kernel } = of;
        if user == stack_id::NONE && kernel == stack_id::NONE {
            return NONE;
        }
        let pid = if user == stack_id::NONE { pid_of() } else { 0 };
        if let Some(known) = self.whole_ids.get(&(lane, user, kernel, pid)) {
            return *known;
        }
        self.add_whole(of, pid)
    }

    #[cold]
    fn add_whole(&mut self, EventStack { lane, user, kernel }: EventStack, pid: u32) -> u32 {
        let Some(stacks) = lane.stacks() else { return NONE };
        let part = |id| match id {
            stack_id::NONE => Some(NONE),
            id => self.ids.get(&(stacks, id)).copied(),
        };
        // A part that is missing is none of another stack.
        let (Some(user_part), Some(kernel_part)) = (part(user), part(kernel)) else { return NONE };
        let owner = user_part.checked_sub(1).map(|index| self.parts[index as usize].pid);
        let owner = owner.unwrap_or(pid);
        let free = MOST_STACKS.saturating_sub(self.wholes.len());
        if self.whole_shares.room_for(payer(owner), free) == 0 {
            self.beyond += 1;
            return NONE;
        }
        self.whole_shares.add(payer(owner), 1);
        self.wholes.push(WholeStack { pid: owner, user: user_part, kernel: kernel_part });
        let number = self.wholes.len() as u32;
        self.whole_ids.insert((lane, user, kernel, pid), number);
        number
    }

    /// How many numbers there are, 0 among them.
    pub(super) fn numbers(&self) -> usize {
        self.wholes.len() + 1
    }

    /// The process and the places of a stack, outermost first; `None` where those are not known.
    pub(super) fn get(&self, number: u32) -> Option<(u32, [&[u32]; 2])> {
        let WholeStack { pid, user, kernel } = *self.wholes.get(number.checked_sub(1)? as usize)?;
        let places = |part: u32| match part.checked_sub(1) {
            None => Some(&[][..]),
            Some(index) => self.parts[index as usize].places.as_deref(),
        };
        Some((pid, [places(user)?, places(kernel)?]))
    }
}
