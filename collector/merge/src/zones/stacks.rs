//! Stacks that instrumented programs wrote: known before playing, so that their
//! places can be named.

use crate::stacks::{Defined, StackReader};
use rustc_hash::FxHashMap;
use syscollect_model::{AddressSpaces, Ticks};

/// Frames of the longest stack; what is behind them is cut.
const MAX_FRAMES: usize = 512;

/// A stack that a program wrote, and the number it has here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownStack {
    pub(crate) number: u32,
    pub(crate) defined: Defined,
}

/// Stacks by their return addresses.
type ByAddresses = FxHashMap<Box<[u64]>, KnownStack>;

/// The distinct stacks of all programs.
#[derive(Debug, Default)]
pub(crate) struct ProgramStacks {
    /// What lay where; empty where there are no stacks.
    spaces: AddressSpaces,
    /// By process and epoch of its mappings.
    known: FxHashMap<(u32, usize), ByAddresses>,
    count: u32,
}

/// The return addresses of a stack. Of a crash the instruction itself comes
/// first, as if it were the call before it.
pub(crate) fn return_addresses(crash: Option<u64>, mut stack: Vec<u64>) -> Vec<u64> {
    if let Some(instruction) = crash.filter(|instruction| *instruction != 0) {
        if stack.first() == Some(&instruction) {
            stack.remove(0);
        }
        stack.insert(0, instruction.saturating_add(1));
    }
    stack.truncate(MAX_FRAMES);
    stack
}

impl ProgramStacks {
    /// Notes a stack of the process at that time, unless the process has had its share of stacks.
    pub(crate) fn add(
        &mut self,
        spaces: &AddressSpaces,
        reader: &mut StackReader<'_>,
        (pid, at): (u32, Ticks),
        addresses: &[u64],
    ) {
        let stacks = self.known.entry((pid, spaces.epoch(pid, at))).or_default();
        if !stacks.contains_key(addresses)
            && let Some(defined) = reader.return_addresses(pid, at, addresses)
        {
            stacks.insert(addresses.into(), KnownStack { number: self.count, defined });
            self.count += 1;
        }
    }

    /// Keeps what lay where, if that will be asked for.
    pub(crate) fn seal(&mut self, spaces: AddressSpaces) {
        if self.count > 0 {
            self.spaces = spaces;
        }
    }

    /// The stack with these addresses.
    pub(crate) fn get(&self, (pid, at): (u32, Ticks), addresses: &[u64]) -> Option<KnownStack> {
        self.known.get(&(pid, self.spaces.epoch(pid, at)))?.get(addresses).copied()
    }
}
