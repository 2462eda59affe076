//! Events that wait until their stacks are known.

use super::code::{Code, StackParts};
use syscollect_model::{Event, Sample, StackId, Switch, Tables, ThreadId, Wakeup};
use syscollect_playback::EventType;

/// An event that waits for its stack.
#[derive(Debug)]
pub(super) struct WaitingEvent {
    pub(super) event: Deferred,
    /// What it is counted as; `None` for what is no occurrence of its own.
    pub(super) event_type: Option<EventType>,
    /// What was told of its stack so far.
    pub(super) stack: StackParts,
    /// The process in which its addresses mean something.
    pub(super) pid: u32,
    /// Where it happened, if nothing tells the stack; 0 where that is not known.
    pub(super) address: u64,
    /// Raw time.
    pub(super) at: u64,
}

/// What is told of it once it has waited.
#[derive(Debug)]
pub(super) enum Deferred {
    Switch(Switch),
    Wakeup(Wakeup),
    Sample(Sample),
    /// The rarer ones, which are larger.
    Event(Box<Event>),
    /// A thread runs again after a wait so long that the switch at its beginning
    /// has left: its stack, if there is one, is an event of its own.
    Resumed(ThreadId),
}

/// Where an event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessAddress {
    pub(super) pid: u32,
    /// 0 where it is not known.
    pub(super) address: u64,
}

/// Where a stack goes that names an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackTarget {
    /// To the event that waits under this number.
    Waiting(u64),
    /// Nowhere: the event is only counted.
    Nothing,
}

/// How stacks that come behind an event name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackSubject {
    /// The thread that they name.
    pub(super) tid: u32,
    pub(super) target: StackTarget,
}

impl StackSubject {
    /// An event of the thread that shows no stack.
    #[inline]
    pub(super) fn nothing(tid: u32) -> Self {
        Self { tid, target: StackTarget::Nothing }
    }

    /// The event of the thread that waits under this number.
    #[inline]
    pub(super) fn waiting(tid: u32, number: u64) -> Self {
        Self { tid, target: StackTarget::Waiting(number) }
    }
}

impl WaitingEvent {
    /// The stack that was told of it, or at least the address.
    #[inline]
    pub(super) fn stack(&self, code: &mut Code, tables: &mut Tables) -> Option<StackId> {
        if !self.stack.is_empty() {
            return code.stack(self.stack, self.pid, self.at, tables);
        }
        if self.address == 0 {
            return None;
        }
        let parts = StackParts { kernel: Some(code.lists.intern(&[self.address])), user: None };
        code.stack(parts, self.pid, self.at, tables)
    }
}

/// Gives an event its stack, if it can have one.
#[inline]
pub(super) fn set_stack(event: &mut Event, stack: Option<StackId>) {
    match event {
        Event::Instant(_, slice) | Event::SliceBegin(_, slice) => {
            slice.stack = slice.stack.or(stack);
        }
        _ => {}
    }
}
