//! Stacks that the .NET runtime writes itself, as an event behind the event they belong to.
//!
//! They show the program's part alone, innermost address first. Nothing in them
//! names the event: it is the one that the same thread wrote before.

use crate::payload::Frames;
use crate::{Guid, Record};
use rustc_hash::FxHashMap;

/// `Microsoft-Windows-DotNETRuntime`.
pub(super) const RUNTIME: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
/// Its event that is a stack (`CLRStackWalk`).
const STACK_WALK: u16 = 82;
/// Threads whose last event is remembered; more write such events in a damaged file only.
const MOST_THREADS: usize = 1 << 16;
/// Bytes before the addresses: the runtime's number, two bytes unused, how many addresses come.
const HEAD: usize = 8;

/// The last event of the runtime by thread, as the number under which it waits.
#[derive(Debug, Default)]
pub(super) struct LastEvents(FxHashMap<u32, u64>);

impl LastEvents {
    /// The last event of the thread; one stack belongs to one event.
    pub(super) fn take(&mut self, tid: u32) -> Option<u64> {
        self.0.remove(&tid)
    }

    /// The runtime wrote an event, or one that is only counted.
    pub(super) fn wrote(&mut self, tid: u32, number: Option<u64>) {
        match number {
            Some(number) if self.0.len() < MOST_THREADS || self.0.contains_key(&tid) => {
                self.0.insert(tid, number);
            }
            _ => {
                self.0.remove(&tid);
            }
        }
    }
}

/// Whether an event of a provider is such a stack.
#[inline]
pub(super) fn is_stack(provider: &Guid, id: u16) -> bool {
    id == STACK_WALK && *provider == RUNTIME
}

/// Its addresses; none where the payload is too short for as many as it says.
pub(super) fn frames<'a>(record: &Record<'a>) -> Frames<'a> {
    let (addresses, is_64_bit) = addresses(record).unwrap_or((&[], record.is_64_bit));
    Frames::new(addresses, is_64_bit)
}

/// The addresses, and whether they are wide.
fn addresses<'a>(record: &Record<'a>) -> Option<(&'a [u8], bool)> {
    let count = u32::from_le_bytes(*record.payload.get(4..)?.first_chunk()?);
    let (count, behind) = (usize::try_from(count).ok()?, record.payload.get(HEAD..)?);
    // As many addresses as it says are behind it: their width, whatever a program that merged
    // it took them for.
    let is_64_bit = record.is_64_bit || (count > 0 && Some(behind.len()) == count.checked_mul(8));
    Some((behind.get(..count.checked_mul(if is_64_bit { 8 } else { 4 })?)?, is_64_bit))
}
