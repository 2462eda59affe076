//! Stacks, and the events they belong to.

use super::address_lists::ListId;
use super::clr_stacks::{self, LastEvents};
use super::engine::Engine;
use super::recent::Recent;
use super::stack_keys::StackKeys;
use super::waiting::{StackSubject, StackTarget};
use crate::Record;
use crate::payload::{Frames, ItemStack, Stack, StackKeyReference, item_stacks};

/// Records among which a stack looks for its event.
const MOST_RECENT: usize = 1 << 17;

/// A part of a stack, and whose it is.
#[derive(Clone, Copy, Debug)]
struct StackPart {
    list: ListId,
    is_kernel: bool,
    pid: u32,
}

/// Decodes stacks, and gives them to the events that wait for them.
#[derive(Debug)]
pub(super) struct Stacks<'a> {
    keys: &'a StackKeys,
    recent: Recent<StackTarget>,
    /// What the .NET runtime wrote.
    runtime: LastEvents,
    /// The trace has stacks.
    is_any: bool,
    /// Room for the addresses of one stack.
    addresses: Vec<u64>,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(keys: &'a StackKeys, is_any: bool) -> Self {
        Self {
            keys,
            recent: Recent::new(MOST_RECENT),
            runtime: LastEvents::default(),
            is_any,
            addresses: Vec::new(),
        }
    }

    /// A record that stacks may name, and may carry.
    #[inline]
    pub(super) fn on_record(
        &mut self,
        engine: &mut Engine<'_>,
        record: &Record<'_>,
        subject: StackSubject,
    ) {
        if self.is_any {
            self.recent.push(record.timestamp, subject.tid, subject.target);
            if !record.extended.0.is_empty() {
                self.own_stacks(engine, record, subject.target);
            }
        }
    }

    /// A stack, or a part of one, of an event that came before.
    #[inline]
    pub(super) fn on_stack(&mut self, engine: &mut Engine<'_>, stack: &Stack<'_>) {
        engine.source.stacks.records += 1;
        let part = self.part(engine, stack.frames, stack.task.pid);
        self.attach(engine, stack.event_timestamp, stack.task.tid, part);
    }

    /// The same by its key.
    #[inline]
    pub(super) fn on_key(&mut self, engine: &mut Engine<'_>, reference: &StackKeyReference) {
        engine.source.stacks.records += 1;
        let part = self.keys.get(reference.key, engine.present.ticks()).map(|list| StackPart {
            list,
            is_kernel: reference.is_kernel,
            pid: reference.task.pid,
        });
        self.attach(engine, reference.event_timestamp, reference.task.tid, part);
    }

    /// A stack that the .NET runtime wrote: it belongs to the event before it of the thread, which
    /// has one.
    pub(super) fn on_runtime_stack(&mut self, engine: &mut Engine<'_>, record: &Record<'_>) {
        engine.source.stacks.records += 1;
        let Some(task) = record.task else { return };
        let Some(number) = self.runtime.take(task.tid) else { return };
        engine.source.stacks.matched += 1;
        if let Some(part) = self.part(engine, clr_stacks::frames(record), task.pid) {
            give(engine, number, part);
        }
    }

    /// The .NET runtime wrote an event that waits under this number, or is only counted.
    pub(super) fn runtime_wrote(&mut self, tid: u32, number: Option<u64>) {
        self.runtime.wrote(tid, number);
    }

    /// Which part it is shows the innermost address.
    fn part(
        &mut self,
        engine: &mut Engine<'_>,
        addresses: Frames<'_>,
        pid: u32,
    ) -> Option<StackPart> {
        self.addresses.clear();
        self.addresses.extend(addresses);
        let first = *self.addresses.first()?;
        let is_kernel = engine.source.code.images.is_kernel(engine.present.ticks(), first);
        Some(StackPart { list: engine.source.code.lists.intern(&self.addresses), is_kernel, pid })
    }

    /// Gives a part to the event at exactly that time of that thread.
    #[inline]
    fn attach(&self, engine: &mut Engine<'_>, at: u64, tid: u32, part: Option<StackPart>) {
        let mut is_known = false;
        for target in self.recent.find(at, tid) {
            is_known = true;
            let StackTarget::Waiting(number) = target else { continue };
            let Some((event, part)) = engine.source.waiting.get_mut(number).zip(part) else {
                continue;
            };
            let stack = &mut event.stack;
            let place = if part.is_kernel { &mut stack.kernel } else { &mut stack.user };
            if place.is_none() {
                (*place, event.pid) = (Some(part.list), part.pid);
                break;
            }
        }
        engine.source.stacks.matched += u64::from(is_known);
    }

    /// Stacks that a record carries itself.
    #[cold]
    fn own_stacks(&mut self, engine: &mut Engine<'_>, record: &Record<'_>, target: StackTarget) {
        let pid = record.task.map_or(0, |task| task.pid);
        for stack in item_stacks(record.extended) {
            let part = match stack {
                ItemStack::Frames { frames, .. } => self.part(engine, frames, pid),
                ItemStack::Key { key, .. } => self.keyed(engine, key, pid),
            };
            engine.source.stacks.records += 1;
            engine.source.stacks.matched += u64::from(part.is_some());
            let StackTarget::Waiting(number) = target else { continue };
            if let Some(part) = part {
                give(engine, number, part);
            }
        }
    }

    fn keyed(&self, engine: &Engine<'_>, key: u64, pid: u32) -> Option<StackPart> {
        let (code, at) = (&engine.source.code, engine.present.ticks());
        let list = self.keys.get(key, at)?;
        let first = code.lists.get(list).first().copied()?;
        Some(StackPart { list, is_kernel: code.images.is_kernel(at, first), pid })
    }
}

/// Gives a part to the event of that number, if it still waits.
fn give(engine: &mut Engine<'_>, number: u64, part: StackPart) {
    if let Some(event) = engine.source.waiting.get_mut(number) {
        let stack = &mut event.stack;
        let place = if part.is_kernel { &mut stack.kernel } else { &mut stack.user };
        (*place, event.pid) = (Some(part.list), part.pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;
    use crate::session::engine::TraceEngine;
    use crate::session::images::KERNEL_HALF;
    use crate::session::testing::{KeptEvents, addresses, record};
    use crate::session::waiting::Deferred;
    use syscollect_model::{CpuId, Event, Sample, ThreadId};

    const TASK: Task = Task { pid: 1, tid: 7 };

    /// Lets an event of the thread wait, and gives its number.
    fn happen(engine: &mut Engine<'_>, stacks: &mut Stacks<'_>, at: u64) -> u64 {
        engine.advance(at);
        let sample =
            Sample { cpu: CpuId::new(0), thread: ThreadId(0), stack: None, in_kernel: false };
        let number = engine.push(None, Deferred::Sample(sample));
        stacks.on_record(engine, &record(at), StackSubject::waiting(TASK.tid, number));
        number
    }

    /// The stacks of all events.
    fn stacks_of(reported: &KeptEvents) -> Vec<Vec<u64>> {
        let stacks = reported.events.iter().filter_map(|(_, event)| match event {
            Event::Sample(sample) => Some(reported.frames(sample.stack)),
            _ => None,
        });
        stacks.collect()
    }

    #[test]
    fn both_parts_of_a_stack_go_to_the_event_of_their_time_and_thread() {
        let (mut reported, keys) = (KeptEvents::default(), StackKeys::default());
        let mut stacks = Stacks::new(&keys, true);
        reported.by(|engine| {
            happen(engine, &mut stacks, 5);
            happen(engine, &mut stacks, 6);
            for (bytes, event_timestamp, tid) in [
                (addresses([0x20, 0x31]), 5, 7),
                (addresses([KERNEL_HALF | 0x10]), 5, 7),
                (addresses([0x40]), 6, 8),
            ] {
                let (frames, task) = (Frames::new(&bytes, true), Task { tid, ..TASK });
                stacks.on_stack(engine, &Stack { event_timestamp, task, frames });
            }
            assert_eq!((engine.source.stacks.records, engine.source.stacks.matched), (3, 2));
        });
        assert_eq!(stacks_of(&reported), [vec![KERNEL_HALF | 0x10, 0x20, 0x30], vec![]]);
    }

    #[test]
    fn a_key_stands_for_the_stack_that_it_means_later() {
        let (mut reported, mut keys) = (KeptEvents::default(), StackKeys::default());
        keys.define(99, 50, reported.code.lists.intern(&[0x20]));
        keys.seal();
        let mut stacks = Stacks::new(&keys, true);
        reported.by(|engine| {
            happen(engine, &mut stacks, 5);
            for key in [98, 99] {
                let (is_kernel, event_timestamp, task) = (false, 5, TASK);
                let reference = StackKeyReference { is_kernel, event_timestamp, task, key };
                stacks.on_key(engine, &reference);
            }
        });
        assert_eq!(stacks_of(&reported), [[0x20]]);
    }

    #[test]
    fn a_stack_of_the_runtime_belongs_to_the_event_before_it_and_to_one_only() {
        let (mut reported, keys) = (KeptEvents::default(), StackKeys::default());
        let mut stacks = Stacks::new(&keys, true);
        let payload = [vec![0, 0, 0, 0, 1, 0, 0, 0], addresses([0x20])].concat();
        reported.by(|engine| {
            let number = happen(engine, &mut stacks, 5);
            stacks.runtime_wrote(TASK.tid, Some(number));
            let stack = Record { task: Some(TASK), payload: &payload, ..record(6) };
            stacks.on_runtime_stack(engine, &stack);
            stacks.on_runtime_stack(engine, &stack);
            assert_eq!((engine.source.stacks.records, engine.source.stacks.matched), (2, 1));
        });
        assert_eq!(stacks_of(&reported), [[0x20]]);
    }
}
