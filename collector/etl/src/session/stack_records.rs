//! Stacks, and the events they belong to.

use super::address_lists::ListId;
use super::play::{Player, Target};
use crate::Record;
use crate::payload::{Frames, ItemStack, Stack, StackKeyReference, item_stacks};

/// A part of a stack, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackPart {
    list: ListId,
    is_kernel: bool,
    pid: u32,
}

impl Player<'_> {
    /// A stack, or a part of one, of an event that came before.
    #[inline]
    pub(super) fn stack(&mut self, stack: &Stack<'_>) {
        self.stacks.records += 1;
        let part = self.part(stack.frames, stack.task.pid);
        self.attach(stack.event_timestamp, stack.task.tid, part);
    }

    /// The same by its key.
    #[inline]
    pub(super) fn stack_key(&mut self, reference: &StackKeyReference) {
        self.stacks.records += 1;
        let part = self.keys.get(reference.key, self.at).map(|list| StackPart {
            list,
            is_kernel: reference.is_kernel,
            pid: reference.task.pid,
        });
        self.attach(reference.event_timestamp, reference.task.tid, part);
    }

    /// Which part it is shows the innermost address.
    pub(super) fn part(&mut self, addresses: Frames<'_>, pid: u32) -> Option<StackPart> {
        self.addresses.clear();
        self.addresses.extend(addresses);
        let is_kernel = self.code.images.is_kernel(self.at, *self.addresses.first()?);
        Some(StackPart { list: self.code.lists.intern(&self.addresses), is_kernel, pid })
    }

    /// Gives a part to the event at exactly that time of that thread.
    #[inline]
    fn attach(&mut self, at: u64, tid: u32, part: Option<StackPart>) {
        let mut is_known = false;
        for target in self.recent.find(at, tid) {
            is_known = true;
            let Target::Slot(number) = target else { continue };
            let Some((slot, part)) = self.delay.get_mut(number).zip(part) else { continue };
            let place = if part.is_kernel { &mut slot.stack.kernel } else { &mut slot.stack.user };
            if place.is_none() {
                (*place, slot.pid) = (Some(part.list), part.pid);
                break;
            }
        }
        self.stacks.matched += u64::from(is_known);
    }

    /// Stacks that a record carries itself.
    #[cold]
    pub(super) fn own_stacks(&mut self, record: &Record<'_>, target: Target) {
        let pid = record.task.map_or(0, |task| task.pid);
        for stack in item_stacks(record.extended) {
            let part = match stack {
                ItemStack::Frames { frames, .. } => self.part(frames, pid),
                ItemStack::Key { key, .. } => self.keyed(key, pid),
            };
            self.stacks.records += 1;
            self.stacks.matched += u64::from(part.is_some());
            let Target::Slot(number) = target else { continue };
            if let Some(part) = part {
                self.give(number, part);
            }
        }
    }

    /// Gives a part to the event of a slot, if that still waits.
    pub(super) fn give(&mut self, number: u64, part: StackPart) {
        if let Some(slot) = self.delay.get_mut(number) {
            let place = if part.is_kernel { &mut slot.stack.kernel } else { &mut slot.stack.user };
            (*place, slot.pid) = (Some(part.list), part.pid);
        }
    }

    fn keyed(&mut self, key: u64, pid: u32) -> Option<StackPart> {
        let list = self.keys.get(key, self.at)?;
        let first = self.code.lists.get(list).first().copied()?;
        Some(StackPart { list, is_kernel: self.code.images.is_kernel(self.at, first), pid })
    }
}
