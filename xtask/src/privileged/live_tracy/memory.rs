//! Memory that a viewer was told of, beside that of the same recorder's snapshot.

use std::collections::BTreeMap;

use anyhow::Result;
use syscollect_model::{MemoryEvent, Tables, Time};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{KnownSpan, same};

/// Memory that was allocated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AllocatedBlock {
    allocated: i64,
    freed: Option<i64>,
    address: u64,
    bytes: u64,
    thread: u32,
    pool: String,
}

/// All of a file.
#[derive(Debug, Default)]
pub(super) struct Memory {
    blocks: Vec<AllocatedBlock>,
    /// Which of them are there, by pool and address.
    held: BTreeMap<(String, u64), usize>,
}

impl Memory {
    /// Memory is allocated or freed.
    pub(super) fn add(&mut self, time: Time, event: &MemoryEvent, tables: &Tables) {
        let (time, thread) = (time.0 as i64, tables.thread(event.thread));
        let pid = tables.process(thread.process).pid;
        let mut pool = format!("{} ({pid})", tables.process_name(thread.process));
        if let Some(name) = event.pool {
            pool += &format!(" {}", tables.strings.get(name));
        }
        let address = event.address;
        if let Some(held) = self.held.remove(&(pool.clone(), address)) {
            self.blocks[held].freed = Some(time);
        }
        if let Some(bytes) = event.allocated {
            self.held.insert((pool.clone(), address), self.blocks.len());
            let (allocated, freed, thread) = (time, None, thread.tid);
            self.blocks.push(AllocatedBlock { allocated, freed, address, bytes, thread, pool });
        }
    }

    /// What a viewer was told is what is here; how many blocks.
    pub(super) fn compare(&self, seen: &ReceivedTimeline, span: KnownSpan) -> Result<usize> {
        let told = seen.memory.iter().map(|memory| AllocatedBlock {
            allocated: memory.allocated,
            freed: memory.freed,
            address: memory.address,
            bytes: memory.size,
            thread: memory.thread,
            pool: seen.texts.get(&memory.pool).cloned().unwrap_or_default(),
        });
        let known = |block: AllocatedBlock| {
            let freed = block.freed.filter(|freed| span.has(*freed));
            span.has(block.allocated).then_some(AllocatedBlock { freed, ..block })
        };
        let in_file = self.blocks.iter().cloned().filter_map(known);
        same("block of memory", told.filter_map(known).collect(), in_file.collect())
    }
}
