//! The numbers that a viewer has for contexts of GPUs.

use crate::catalogue::ContextId;
use rustc_hash::FxHashMap;

/// Contexts of a viewer, which numbers them in 8 bits; the last means none.
const MOST_CONTEXTS: usize = 255;

/// The contexts that a viewer knows. It takes no number twice, so those of programs that have ended
/// are gone for as long as it stays.
#[derive(Debug, Default)]
pub(crate) struct GpuContexts {
    /// `None` of those that found no room.
    numbers: FxHashMap<ContextId, Option<u8>>,
    /// How many numbers each owner had.
    of_owners: FxHashMap<u32, usize>,
    used: usize,
    refused: u64,
}

impl GpuContexts {
    /// What is known of a context: its number, if it found room.
    pub(crate) fn get(&self, context: ContextId) -> Option<Option<u8>> {
        self.numbers.get(&context).copied()
    }

    /// How many found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// The number of a context that has none so far. Nobody has more than is left for all others.
    pub(crate) fn add(&mut self, context: ContextId, owner: u32) -> Option<u8> {
        let left = MOST_CONTEXTS - self.used;
        let of_owner = self.of_owners.entry(owner).or_default();
        let number = u8::try_from(self.used).ok().filter(|_| *of_owner < left);
        match number {
            Some(_) => (*of_owner, self.used) = (*of_owner + 1, self.used + 1),
            None => self.refused += 1,
        }
        self.numbers.insert(context, number);
        number
    }

    /// Nothing is told of a context any more.
    pub(crate) fn forget(&mut self, context: ContextId) {
        self.numbers.remove(&context);
    }
}
