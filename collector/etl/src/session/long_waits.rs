//! Stacks of waits that last longer than events are held.
//!
//! A thread's stack at its switch is told when it comes back. For most waits that
//! is soon; the few long ones, which make most of the time that threads wait,
//! are looked for beforehand. There is at most one in half a second for each thread.

use super::address_lists::AddressLists;
use super::code::StackParts;
use super::images::Images;
use super::stack_keys::StackKeys;
use crate::file::Trace;
use crate::payload::{self, Frames, Payload};
use crate::{Class, Task};
use rustc_hash::FxHashMap;

/// Long waits that are remembered; of more, the stacks are shown where they end.
const MOST_WAITS: usize = 1 << 20;

/// Stacks of long waits, by thread and raw time of its leaving.
#[derive(Debug, Default)]
pub(super) struct LongWaits {
    stacks: FxHashMap<(u32, u64), (StackParts, u32)>,
}

impl LongWaits {
    /// The stack with which a thread left at raw time `at`, and its process's id.
    #[inline]
    pub(super) fn get(&self, tid: u32, at: u64) -> Option<(StackParts, u32)> {
        if self.stacks.is_empty() { None } else { self.stacks.get(&(tid, at)).copied() }
    }
}

/// Looks for long waits.
pub(super) struct Search<'a> {
    pub(super) lists: &'a mut AddressLists,
    pub(super) keys: &'a StackKeys,
    pub(super) images: &'a Images,
    /// Ticks that make a wait a long one.
    pub(super) longest: u64,
    threads: FxHashMap<u32, Waiting>,
    found: LongWaits,
    addresses: Vec<u64>,
}

/// A thread as far as it waits.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    left: Option<u64>,
    /// When it came back from its last long wait, and when that began.
    back: Option<(u64, u64)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(lists: &'a mut AddressLists, keys: &'a StackKeys, images: &'a Images, longest: u64) -> Self {
        let (threads, found, addresses) = Default::default();
        Self { lists, keys, images, longest, threads, found, addresses }
    }

    /// Goes over the trace in order of time.
    pub(super) fn run(mut self, trace: &Trace) -> LongWaits {
        let mut merged = trace.merged();
        while let Some((_, record)) = merged.next() {
            let Class::Kernel { group, opcode } = record.class else { continue };
            if !matches!((group, opcode), (0x05, 36) | (0x18, 32 | 37 | 38)) {
                continue;
            }
            match payload::decode(&record) {
                Payload::ContextSwitch(switch) => self.switch(record.timestamp, switch.old_tid, switch.new_tid),
                Payload::Stack(stack) => {
                    if let Some(left) = self.left(stack.task, stack.event_timestamp) {
                        self.stack(stack.task, left, record.timestamp, stack.frames);
                    }
                }
                Payload::StackKeyReference(reference) => {
                    let left = self.left(reference.task, reference.event_timestamp);
                    if let Some((left, list)) = left.zip(self.keys.get(reference.key, record.timestamp)) {
                        self.add(reference.task, left, reference.is_kernel, list);
                    }
                }
                _ => {}
            }
        }
        self.found
    }

    #[inline]
    fn switch(&mut self, at: u64, old: u32, new: u32) {
        if old != 0 {
            self.threads.entry(old).or_default().left = Some(at);
        }
        if let Some(waiting) = self.threads.get_mut(&new).filter(|_| new != 0) {
            let left = waiting.left.take();
            waiting.back = left.filter(|left| at.saturating_sub(*left) > self.longest).map(|left| (at, left));
        }
    }

    /// When the thread had left that came back at this time from a long wait.
    #[inline]
    fn left(&self, task: Task, back: u64) -> Option<u64> {
        let (at, left) = self.threads.get(&task.tid)?.back?;
        (at == back).then_some(left)
    }

    fn stack(&mut self, task: Task, left: u64, at: u64, frames: Frames<'_>) {
        self.addresses.clear();
        self.addresses.extend(frames);
        let Some(first) = self.addresses.first() else { return };
        let is_kernel = self.images.is_kernel(at, *first);
        let list = self.lists.intern(&self.addresses);
        self.add(task, left, is_kernel, list);
    }

    fn add(&mut self, task: Task, left: u64, is_kernel: bool, list: super::address_lists::ListId) {
        let key = (task.tid, left);
        if self.found.stacks.len() >= MOST_WAITS && !self.found.stacks.contains_key(&key) {
            return;
        }
        let (parts, pid) = self.found.stacks.entry(key).or_default();
        *pid = task.pid;
        *(if is_kernel { &mut parts.kernel } else { &mut parts.user }) = Some(list);
    }
}
