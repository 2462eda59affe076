//! Memory that is allocated at the moment, by process and pool.

use rustc_hash::FxHashMap;
use syscollect_model::{MemoryEvent, ProcessId, StringId, Tables};

/// Allocations whose size is remembered until they are freed, 32 bytes each.
const MAX_LIVE: usize = 1 << 22;
/// Pools; the events of further ones are left out.
const MAX_POOLS: usize = 1 << 12;

/// Whose memory it is, and the pool; `None` is the heap.
pub(crate) type PoolKey = (ProcessId, Option<StringId>);

/// What became of a pool so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    /// Of the frees, those of memory whose allocation is not known.
    pub(crate) unknown_frees: u64,
    /// Bytes allocated in all.
    pub(crate) allocated_bytes: u64,
    /// Bytes allocated and not freed.
    pub(crate) live_bytes: u64,
    /// The most there were.
    pub(crate) peak_bytes: u64,
    /// Allocations that are not freed.
    pub(crate) live: u64,
}

/// The pools of all processes.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    indexes: FxHashMap<PoolKey, u32>,
    pools: Vec<(PoolKey, Pool)>,
    /// Sizes by pool and address.
    live: FxHashMap<(u32, u64), u64>,
}

impl Heap {
    /// What the event makes of its pool; `None` if there are too many pools.
    pub(crate) fn event(
        &mut self,
        event: &MemoryEvent,
        tables: &Tables,
    ) -> Option<(PoolKey, &Pool)> {
        let key = (tables.thread(event.thread).process, event.pool);
        let index = match self.indexes.get(&key) {
            Some(index) => *index,
            None if self.pools.len() >= MAX_POOLS => return None,
            None => {
                self.pools.push((key, Pool::default()));
                let index = self.pools.len() as u32 - 1;
                self.indexes.insert(key, index);
                index
            }
        };
        let place = (index, event.address);
        let (_, pool) = &mut self.pools[index as usize];
        match event.allocated {
            Some(bytes) => {
                // Where the free between two allocations of one address is missing.
                if let Some(before) = self.live.remove(&place) {
                    pool.lose(before);
                }
                pool.allocations += 1;
                pool.allocated_bytes = pool.allocated_bytes.saturating_add(bytes);
                if self.live.len() < MAX_LIVE {
                    self.live.insert(place, bytes);
                    pool.live += 1;
                    pool.live_bytes = pool.live_bytes.saturating_add(bytes);
                    pool.peak_bytes = pool.peak_bytes.max(pool.live_bytes);
                }
            }
            None => {
                pool.frees += 1;
                match self.live.remove(&place) {
                    Some(bytes) => pool.lose(bytes),
                    None => pool.unknown_frees += 1,
                }
            }
        }
        Some((key, pool))
    }

    /// The pools in the order of their first events.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &(PoolKey, Pool)> {
        self.pools.iter()
    }
}

impl Pool {
    fn lose(&mut self, bytes: u64) {
        self.live -= 1;
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn event(address: u64, allocated: Option<u64>) -> MemoryEvent {
        MemoryEvent { thread: Tables::IDLE_THREAD, pool: None, address, allocated, stack: None }
    }

    #[test]
    fn memory_freed_twice_or_never_allocated_is_not_live() {
        let (mut heap, tables) = (Heap::default(), Tables::default());
        for (address, allocated) in
            [(1, None), (2, Some(100)), (2, None), (2, None), (3, Some(50)), (3, Some(20))]
        {
            heap.event(&event(address, allocated), &tables);
        }
        let expected = Pool {
            allocations: 3,
            frees: 3,
            unknown_frees: 2,
            allocated_bytes: 170,
            live_bytes: 20,
            peak_bytes: 100,
            live: 1,
        };
        assert_eq!(heap.pools().map(|(_, pool)| *pool).collect::<Vec<_>>(), [expected]);
    }

    proptest! {
        #[test]
        fn what_is_live_is_what_was_allocated_and_not_freed(
            events in prop::collection::vec((0u64..8, prop::option::of(any::<u32>())), 0..200),
        ) {
            let (mut heap, tables) = (Heap::default(), Tables::default());
            let (mut model, mut peak) = (BTreeMap::new(), 0);
            for (address, allocated) in events {
                let allocated = allocated.map(u64::from);
                match allocated {
                    Some(bytes) => drop(model.insert(address, bytes)),
                    None => drop(model.remove(&address)),
                }
                let (_, pool) = heap.event(&event(address, allocated), &tables).unwrap();
                let bytes: u64 = model.values().sum();
                peak = bytes.max(peak);
                prop_assert_eq!(
                    (pool.live, pool.live_bytes, pool.peak_bytes),
                    (model.len() as u64, bytes, peak)
                );
            }
        }
    }
}
