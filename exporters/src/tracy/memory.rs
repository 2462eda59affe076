//! Memory: what was allocated, when it was freed.

use super::code::Code;
use super::rows::RowId;
use super::strings::{FileStrings, pointer};
use super::threads::Threads;
use super::wire::Payload;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::{self, Write};
use syscollect_model::{MemoryEvent, ProcessId, StackId, StringId, Tables};

/// Sizes have 47 bits, addresses 55 and a sign.
const MAX_SIZE: u64 = (1 << 47) - 1;
const MAX_ADDRESS: u64 = (1 << 55) - 1;
/// Indices have 32 bits.
const MAX_EVENTS: usize = u32::MAX as usize;

/// A piece of memory. Times are nanoseconds since the file's zero.
#[derive(Debug)]
struct Allocation {
    address: u64,
    size: u64,
    allocated: MemoryOperation,
    freed: Option<MemoryOperation>,
}

#[derive(Clone, Copy, Debug)]
struct MemoryOperation {
    time: i64,
    row: RowId,
    stack: Option<StackId>,
}

/// What is allocated and freed together: the addresses of one process.
#[derive(Debug, Default)]
struct Pool {
    pieces: Vec<Allocation>,
    active: FxHashMap<u64, u32>,
}

/// All memory.
#[derive(Default)]
pub(crate) struct Memory {
    pools: BTreeMap<(ProcessId, Option<StringId>), Pool>,
    /// Of nobody.
    empty: Pool,
    /// Memory that was freed and whose allocation is not known.
    pub(crate) unknown: u64,
    /// Pieces that found no room.
    pub(crate) refused: u64,
}

impl Memory {
    /// Memory of a process is allocated or freed.
    pub(crate) fn add(&mut self, time: i64, event: &MemoryEvent, row: RowId, process: ProcessId) {
        let pool = self.pools.entry((process, event.pool)).or_default();
        let operation = MemoryOperation { time, row, stack: event.stack };
        let known = pool.active.remove(&event.address);
        if let Some(piece) = known.map(|index| &mut pool.pieces[index as usize]) {
            // The viewer frees before it allocates in the same nanosecond. What
            // is allocated again was freed meanwhile, and that is lost.
            piece.freed =
                Some(MemoryOperation { time: time.max(piece.allocated.time + 1), ..operation });
        } else if event.allocated.is_none() {
            self.unknown += 1;
        }
        let Some(size) = event.allocated else { return };
        if pool.pieces.len() >= MAX_EVENTS || event.address > MAX_ADDRESS {
            self.refused += 1;
            return;
        }
        pool.active.insert(event.address, pool.pieces.len() as u32);
        let size = size.min(MAX_SIZE);
        pool.pieces.push(Allocation {
            address: event.address,
            size,
            allocated: operation,
            freed: None,
        });
    }

    /// The pools with their names. The heap of the only process that has one is the viewer's own;
    /// else that is empty, for a viewer that is asked for memory takes for granted that it is there
    /// (0.14, `Worker::GetMemoryNamed`).
    pub(crate) fn named(
        &self,
        code: &mut Code,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> Vec<NamedPool<'_>> {
        let heaps = self.pools.keys().filter(|(_, pool)| pool.is_none()).count();
        let pools = self.pools.iter().filter(|(_, pool)| !pool.pieces.is_empty());
        let mut named = FxHashMap::<String, u32>::default();
        let pools = pools.map(|((process, name), pool)| {
            let row = tables.process(*process);
            let whose = format!("{} ({})", tables.process_name(*process), row.pid);
            let name = match name {
                None if heaps == 1 => None,
                None => Some(whose),
                Some(name) => Some(format!("{whose} {}", tables.strings.get(*name))),
            };
            // A process that has the id of a former one may have its name, too.
            let name = name.map(|name| {
                let before = named.entry(name.clone()).or_default();
                *before += 1;
                match *before {
                    1 => strings.intern_short(&name),
                    number => strings.intern_short(&format!("{name} #{number}")),
                }
            });
            let stacks = pool.pieces.iter().map(|piece| {
                [piece.allocated.stack, piece.freed.as_ref().and_then(|freed| freed.stack)]
            });
            let callstacks = stacks
                .map(|stacks| stacks.map(|stack| code.callstack_or_none(stack, strings, tables)));
            NamedPool { name, pool, callstacks: callstacks.collect() }
        });
        let mut pools: Vec<_> = pools.collect();
        if pools.iter().all(|pool| pool.name.is_some()) {
            pools.push(NamedPool { name: None, pool: &self.empty, callstacks: Vec::new() });
        }
        pools
    }
}

/// A pool with what the file says of it.
pub(crate) struct NamedPool<'a> {
    /// `None` is the viewer's own pool.
    pub(crate) name: Option<u32>,
    pool: &'a Pool,
    /// Of the allocation and of the end of each piece; 0 is none.
    callstacks: Vec<[u32; 2]>,
}

/// Writes all pools.
pub(crate) fn write<W: Write>(
    out: &mut Payload<W>,
    pools: &[NamedPool<'_>],
    threads: &Threads,
) -> io::Result<()> {
    out.count(pools.len())?;
    out.count(pools.iter().map(|pool| pool.pool.pieces.len()).sum())?;
    for pool in pools {
        let name = pool.name.map_or(0, pointer);
        let pieces = &pool.pool.pieces;
        let active = pieces.iter().filter(|piece| piece.freed.is_none());
        out.u64(name)?;
        out.count(pieces.len())?;
        out.count(active.clone().count())?;
        out.count(pieces.len() - active.clone().count())?;
        let mut reference = 0;
        for (piece, callstacks) in pieces.iter().zip(&pool.callstacks) {
            write_piece(out, piece, callstacks, &mut reference)?;
            out.u16(threads.of(piece.allocated.row).index)?;
            out.u16(piece.freed.map_or(0, |freed| threads.of(freed.row).index))?;
        }
        out.u64(
            pieces.iter().map(|piece| piece.address.saturating_add(piece.size)).max().unwrap_or(0),
        )?;
        out.u64(pieces.iter().map(|piece| piece.address).min().unwrap_or(u64::MAX))?;
        out.u64(active.map(|piece| piece.size).fold(0, u64::saturating_add))?;
        out.u64(name)?;
    }
    Ok(())
}

/// Writes a piece up to the threads that allocated and freed it.
fn write_piece<W: Write>(
    out: &mut Payload<W>,
    piece: &Allocation,
    callstacks: &[u32; 2],
    reference: &mut i64,
) -> io::Result<()> {
    out.u64(piece.address)?;
    out.u64(piece.size)?;
    callstacks.iter().try_for_each(|callstack| out.int24(*callstack))?;
    let allocated = piece.allocated;
    out.i64(allocated.time - *reference)?;
    *reference = allocated.time;
    out.i64(piece.freed.map_or(-1, |freed| freed.time - allocated.time))
}
