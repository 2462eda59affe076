//! What of files lies where in the memory of processes, now.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_model::Mapping;

/// Mappings that are followed, of a process and of all; where more lies is not known.
const MOST_OF_PROCESS: usize = 1 << 13;
const MOST: usize = 1 << 18;

/// A part of a module that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where in the file `start` is.
    pub(super) file_offset: u64,
    pub(super) module: u32,
}

#[derive(Clone, Debug, Default)]
struct ProcessMemory {
    /// Ascending; none lies over another.
    mapped: Arc<Vec<Mapped>>,
    /// When it was made, or began its program: what a list says of before is over.
    since: u64,
}

/// The memory of all processes. A process that forks shares its list with its child.
#[derive(Debug, Default)]
pub(super) struct LiveMemory {
    processes: FxHashMap<u32, ProcessMemory>,
    /// Mappings of all, those that are shared each time.
    count: usize,
}

impl LiveMemory {
    /// Something is mapped, over what lay there before. What a list says has no time, and is behind
    /// what was told.
    pub(super) fn map(&mut self, mapping: &Mapping, module: u32) {
        let Mapping { pid, start, end, file_offset, since, .. } = *mapping;
        if start >= end || self.count >= MOST {
            return;
        }
        let memory = self.processes.entry(pid).or_default();
        let is_listed = since.0 == 0;
        if since.0 < memory.since || memory.mapped.len() >= MOST_OF_PROCESS {
            return;
        }
        let mapped = Arc::make_mut(&mut memory.mapped);
        let from = mapped.partition_point(|one| one.end <= start);
        let to = from + mapped[from..].partition_point(|one| one.start < end);
        if is_listed && from < to {
            return;
        }
        let mut new = Vec::with_capacity(3);
        if let Some(first) = mapped[from..to].first().filter(|first| first.start < start) {
            new.push(Mapped { end: start, ..*first });
        }
        new.push(Mapped { start, end, file_offset, module });
        if let Some(last) = mapped[from..to].last().filter(|last| last.end > end) {
            let file_offset = last.file_offset.wrapping_add(end - last.start);
            new.push(Mapped { start: end, file_offset, ..*last });
        }
        self.count = self.count + new.len() - (to - from);
        mapped.splice(from..to, new);
    }

    /// A process begins with what its maker has.
    pub(super) fn fork(&mut self, parent: u32, child: u32, at: u64) {
        self.end(child);
        let mapped = self.processes.get(&parent).map(|memory| Arc::clone(&memory.mapped));
        let mapped = mapped.unwrap_or_default();
        self.count += mapped.len();
        self.processes.insert(child, ProcessMemory { mapped, since: at });
    }

    /// A process begins another program, with nothing.
    pub(super) fn exec(&mut self, pid: u32, at: u64) {
        self.end(pid);
        self.processes.insert(pid, ProcessMemory { mapped: Arc::default(), since: at });
    }

    /// It has none any more.
    pub(super) fn end(&mut self, pid: u32) {
        if let Some(memory) = self.processes.remove(&pid) {
            self.count -= memory.mapped.len();
        }
    }

    /// The module that lies there, and the offset in it.
    pub(super) fn find(&self, pid: u32, address: u64) -> Option<(u32, u64)> {
        let mapped = &self.processes.get(&pid)?.mapped;
        let one = mapped.get(mapped.partition_point(|one| one.end <= address))?;
        let offset = address.checked_sub(one.start)?;
        Some((one.module, one.file_offset.wrapping_add(offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use syscollect_model::{BuildId, Ticks};

    fn mapping(pid: u32, [start, end]: [u64; 2], since: u64) -> Mapping {
        Mapping {
            pid,
            start,
            end,
            file_offset: start * 10,
            path: "/bin/a".into(),
            build_id: BuildId::default(),
            since: Ticks(since),
        }
    }

    #[test]
    fn a_list_that_is_late_says_nothing_of_what_began_since() {
        let mut memory = LiveMemory::default();
        memory.map(&mapping(1, [10, 20], 5), 7);
        memory.map(&mapping(1, [15, 30], 0), 8);
        memory.map(&mapping(1, [40, 50], 0), 8);
        assert_eq!(
            [16, 22, 41].map(|at| memory.find(1, at).map(|it| it.0)),
            [Some(7), None, Some(8)]
        );
        memory.fork(1, 2, 6);
        memory.exec(1, 7);
        memory.map(&mapping(1, [40, 50], 0), 8);
        assert_eq!([memory.find(1, 41), memory.find(1, 16)], [None, None]);
        assert_eq!(memory.find(2, 16), Some((7, 106)));
        memory.end(2);
        assert_eq!((memory.find(2, 16), memory.count), (None, 0));
    }

    proptest! {
        #[test]
        fn what_was_mapped_last_lies_there(
            maps in prop::collection::vec((0..40_u64, 1..12_u64), 0..30)
        ) {
            let mut memory = LiveMemory::default();
            let mut bytes = BTreeMap::new();
            for (module, (start, length)) in maps.iter().enumerate() {
                memory.map(&mapping(1, [*start, start + length], 1), module as u32);
                (*start..start + length).for_each(|at| {
                    bytes.insert(at, (module as u32, start * 10 + (at - start)));
                });
            }
            for at in 0..60 {
                prop_assert_eq!(memory.find(1, at), bytes.get(&at).copied());
            }
        }
    }
}
