//! Stacks of waits that last longer than events are held.
//!
//! A thread's stack at its switch is told when it comes back. For most waits that
//! is soon; the few long ones, which make most of the time that threads wait,
//! are looked for beforehand. There is at most one in half a second for each thread.

use super::address_lists::{AddressLists, ListId};
use super::code::StackParts;
use super::images::Images;
use super::stack_keys::StackKeys;
use crate::Task;
use rustc_hash::FxHashMap;

/// Long waits that are remembered; of more, the stacks are shown where they end.
const MOST_WAITS: usize = 1 << 18;
/// Threads that are watched have ids below this.
const MOST_IDS: usize = 1 << 20;

/// The stack with which a thread left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LongWaitStack {
    pub(super) stack: StackParts,
    /// Its process's id.
    pub(super) pid: u32,
}

/// Stacks of long waits, by thread and raw time of its leaving.
#[derive(Debug, Default)]
pub(super) struct LongWaits {
    stacks: FxHashMap<(u32, u64), LongWaitStack>,
}

impl LongWaits {
    /// The stack with which a thread left at raw time `at`.
    #[inline]
    pub(super) fn get(&self, tid: u32, at: u64) -> Option<LongWaitStack> {
        if self.stacks.is_empty() { None } else { self.stacks.get(&(tid, at)).copied() }
    }
}

/// Looks for long waits: takes switches and stacks in order of time.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Ticks that make a wait a long one.
    longest: u64,
    /// By thread id.
    threads: Vec<WaitingThread>,
    found: Vec<FoundWaitPart>,
}

/// A thread as far as it waits; 0 stands for never.
#[derive(Clone, Copy, Debug, Default)]
struct WaitingThread {
    left: u64,
    /// When it came back from its last long wait, and when that began.
    back: (u64, u64),
}

/// A part of a stack of a long wait.
#[derive(Clone, Copy, Debug)]
struct FoundWaitPart {
    task: Task,
    left: u64,
    part: WaitPart,
}

/// A part of a stack, as it was told.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitPart {
    /// Its addresses.
    List(ListId),
    /// A key that was told at a raw time, and whether it is of the kernel's part.
    Key(u64, u64, bool),
}

impl Search {
    pub(super) fn new(longest: u64) -> Self {
        Self { longest, ..Self::default() }
    }

    #[inline]
    pub(super) fn switch(&mut self, at: u64, old: u32, new: u32) {
        if let Some(waiting) = self.thread(old) {
            waiting.left = at;
        }
        let longest = self.longest;
        if let Some(waiting) = self.thread(new) {
            let left = std::mem::take(&mut waiting.left);
            let is_long = left > 0 && at.saturating_sub(left) > longest;
            waiting.back = if is_long { (at, left) } else { (0, 0) };
        }
    }

    #[inline]
    fn thread(&mut self, tid: u32) -> Option<&mut WaitingThread> {
        let index = tid as usize;
        if index == 0 || index >= MOST_IDS {
            return None;
        }
        if index >= self.threads.len() {
            self.threads.resize((index + 1).next_power_of_two(), WaitingThread::default());
        }
        self.threads.get_mut(index)
    }

    /// A stack, or a part of one, of the thread's event at raw time `event`.
    #[inline]
    pub(super) fn stack(&mut self, task: Task, event: u64, part: WaitPart) {
        let Some(WaitingThread { back: (back, left), .. }) =
            self.threads.get(task.tid as usize).copied()
        else {
            return;
        };
        if event == back && left > 0 && self.found.len() < MOST_WAITS {
            self.found.push(FoundWaitPart { task, left, part });
        }
    }

    /// What was found, with keys as the stacks they mean.
    pub(super) fn finish(
        self,
        keys: &StackKeys,
        images: &Images,
        lists: &AddressLists,
    ) -> LongWaits {
        let mut waits = LongWaits::default();
        for FoundWaitPart { task, left, part } in self.found {
            let (list, is_kernel) = match part {
                WaitPart::List(list) => {
                    let first = lists.get(list).first().copied();
                    (Some(list), first.is_some_and(|first| images.is_kernel(left, first)))
                }
                WaitPart::Key(key, at, is_kernel) => (keys.get(key, at), is_kernel),
            };
            let wait = waits.stacks.entry((task.tid, left)).or_default();
            wait.pid = task.pid;
            let stack = &mut wait.stack;
            *(if is_kernel { &mut stack.kernel } else { &mut stack.user }) = list;
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_of_a_long_wait_belongs_to_the_switch_at_its_beginning() {
        let mut lists = AddressLists::default();
        let (long, short) = (lists.intern(&[1]), lists.intern(&[2]));
        let task = Task { pid: 1, tid: 8 };
        let mut search = Search::new(100);
        search.switch(10, 8, 0);
        search.switch(500, 0, 8);
        search.stack(task, 500, WaitPart::List(long));
        search.switch(510, 8, 0);
        search.switch(550, 0, 8);
        search.stack(task, 550, WaitPart::List(short));
        let waits = search.finish(&StackKeys::default(), &Images::default(), &lists);
        let stack = StackParts { kernel: None, user: Some(long) };
        assert_eq!(waits.get(8, 10), Some(LongWaitStack { stack, pid: 1 }));
        assert_eq!(waits.get(8, 510), None, "it is found when it comes back");
    }
}
