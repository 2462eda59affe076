//! Stacks that instrumented programs wrote: known before playing, so that their
//! code addresses can be named.

use crate::stacks::{StackRange, Stacks};
use rustc_hash::FxHashMap;
use syscollect_model::Ticks;

/// Frames of the longest stack; what is behind them is cut.
const MAX_FRAMES: usize = 512;

/// A stack that a program wrote, and the number it has here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownStack {
    pub(crate) number: u32,
    pub(crate) defined: StackRange,
}

/// Stacks by their return addresses.
type ByAddresses = FxHashMap<Box<[u64]>, KnownStack>;

/// The distinct stacks of all programs.
#[derive(Debug, Default)]
pub(crate) struct ProgramStacks {
    /// By process and epoch of its mappings.
    known: FxHashMap<(u32, usize), ByAddresses>,
    count: u32,
}

/// The return addresses of a crash's stack: the instruction itself comes first, as if it were the
/// call before it.
pub(crate) fn crash_addresses(instruction: u64, mut callers: Vec<u64>) -> Vec<u64> {
    if instruction != 0 {
        if callers.first() == Some(&instruction) {
            callers.remove(0);
        }
        callers.insert(0, instruction.saturating_add(1));
    }
    callers
}

impl ProgramStacks {
    /// The stack of the process at that time with these addresses; `None` if it is new and the
    /// process has had its share of stacks. What is too long is cut.
    pub(crate) fn known_or_new(
        &mut self,
        code: &mut Stacks,
        pid: u32,
        at: Ticks,
        addresses: &[u64],
    ) -> Option<KnownStack> {
        let addresses = &addresses[..addresses.len().min(MAX_FRAMES)];
        let stacks = self.known.entry((pid, code.locator.epoch(pid, at))).or_default();
        if let Some(known) = stacks.get(addresses) {
            return Some(*known);
        }
        let defined = code.return_addresses(pid, at, addresses)?;
        let known = KnownStack { number: self.count, defined };
        stacks.insert(addresses.into(), known);
        self.count += 1;
        Some(known)
    }

    /// Whether programs wrote no stack.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
