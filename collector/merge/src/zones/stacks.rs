//! Stacks that instrumented programs wrote: known before playing, so that their
//! code addresses can be named.

use crate::stacks::{StackRange, Stacks};
use rustc_hash::FxHashMap;
use syscollect_model::{StackCut, Ticks};
use syscollect_zone_protocol::StackEnding;

/// Frames of the longest stack; what is behind them is cut.
const MAX_FRAMES: usize = 512;

/// A stack as a program wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WrittenStack {
    /// Return addresses, innermost first.
    pub(crate) addresses: Vec<u64>,
    pub(crate) ending: StackEnding,
}

/// A stack that a program wrote, and the number it has here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownStack {
    pub(crate) number: u32,
    pub(crate) defined: StackRange,
}

impl Default for WrittenStack {
    fn default() -> Self {
        Self { addresses: Vec::new(), ending: StackEnding::Unsaid }
    }
}

impl WrittenStack {
    /// What another one says goes on where this ends.
    pub(crate) fn add(&mut self, mut outer: Self) {
        self.addresses.append(&mut outer.addresses);
        self.ending = outer.ending;
    }

    /// The stack of a crash: the instruction itself comes first, as if it were the call before it.
    pub(crate) fn of_crash(mut self, instruction: u64) -> Self {
        if instruction != 0 {
            if self.addresses.first() == Some(&instruction) {
                self.addresses.remove(0);
            }
            self.addresses.insert(0, instruction.saturating_add(1));
        }
        self
    }

    /// Why outer frames are missing, if they are and it is known.
    fn cut(&self) -> Option<StackCut> {
        match self.ending {
            StackEnding::Unsaid | StackEnding::Start => None,
            StackEnding::NoUnwindInformation => Some(StackCut::NoUnwindInformation),
            StackEnding::Unreadable => Some(StackCut::Unreadable),
            StackEnding::UnusableInformation => Some(StackCut::UnusableInformation),
            StackEnding::TooDeep => Some(StackCut::TooDeep),
            StackEnding::Other => Some(StackCut::Unknown),
        }
    }
}

/// The distinct stacks of all programs.
#[derive(Debug, Default)]
pub(crate) struct ProgramStacks {
    /// By process and epoch of its mappings.
    known: FxHashMap<(u32, usize), FxHashMap<WrittenStack, KnownStack>>,
    count: u32,
}

impl ProgramStacks {
    /// The stack of the process at that time; `None` if it is new and the process has had its share
    /// of stacks. What is too long is cut.
    pub(crate) fn known_or_new(
        &mut self,
        code: &mut Stacks,
        pid: u32,
        at: Ticks,
        stack: &WrittenStack,
    ) -> Option<KnownStack> {
        let stacks = self.known.entry((pid, code.locator.epoch(pid, at))).or_default();
        if let Some(known) = stacks.get(stack) {
            return Some(*known);
        }
        let (addresses, mut cut) = (&stack.addresses[..], stack.cut());
        if addresses.len() > MAX_FRAMES {
            cut = Some(StackCut::TooDeep);
        }
        let addresses = &addresses[..addresses.len().min(MAX_FRAMES)];
        let defined = code.return_addresses(pid, at, addresses, cut)?;
        let known = KnownStack { number: self.count, defined };
        stacks.insert(stack.clone(), known);
        self.count += 1;
        Some(known)
    }

    /// Forgets them all; numbers are not given again.
    pub(crate) fn forget(&mut self) {
        self.known = FxHashMap::default();
    }

    /// Whether programs wrote no stack.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
