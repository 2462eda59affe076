//! What the format has no room for, in words.

use std::collections::BTreeMap;

/// What a file has too little room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// Switches on CPUs from number 256 on.
    Cpus,
    /// Events of threads that found no room: those with the fewest.
    Threads,
    /// Events later than 2^47 ns.
    Late,
    /// Zones that share the last source location.
    Locations,
    /// Slices too deep.
    Deep,
    /// Strings.
    Strings,
    /// Samples whose stack found no room.
    Stacks,
    /// Stacks longer than 65,535 frames.
    Frames,
    /// Events of threads beyond the 64th of a lock.
    LockThreads,
    /// Memory that was freed and whose allocation is not known.
    UnknownMemory,
    /// Allocations beyond the 2^32nd of a pool, or above address 2^55.
    Memory,
    /// GPU jobs on queues beyond the 255th.
    Gpus,
    /// GPU jobs without their notes.
    GpuNotes,
    /// Images of frames.
    FrameImages,
}

impl Limit {
    /// What was cut, behind its count, and how to record less.
    fn sentence(self) -> &'static str {
        match self {
            Self::Cpus => {
                "switches on CPUs above number 255: a .tracy file has room for 256 CPUs (a .pftrace for all)"
            }
            Self::Threads => {
                "events of the threads with the fewest, where a .tracy file has room for 65,535 \
                 threads: export one program (export --process), record fewer processes (-p) or a \
                 shorter time (-d)"
            }
            Self::Late => {
                "events later than 39 hours after the first, the longest time in a .tracy file: record a shorter \
                 time (-d)"
            }
            Self::Locations => {
                "zones have no statistics under their own names: a .tracy file has room for 32,767 source locations, \
                 and these share the last one"
            }
            Self::Deep => "slices deeper than 255 levels, the most that a viewer counts",
            Self::Strings => {
                "names, each shown as [too many strings]: a .tracy file has room for 16,777,213 strings; record a \
                 shorter time (-d) or fewer processes (-p)"
            }
            Self::Stacks => {
                "samples have no call stack: a .tracy file has room for 16,777,214 call stacks; record a shorter time \
                 (-d), fewer processes (-p) or --stacks samples"
            }
            Self::Frames => "call stacks were cut to 65,535 frames",
            Self::LockThreads => {
                "events of locks by threads beyond the first 64 of a lock, all that a .tracy file has room for"
            }
            Self::UnknownMemory => {
                "times memory was freed that was allocated before the recording, or whose allocation is lost: a .tracy \
                 file has room for both together only"
            }
            Self::Memory => {
                "allocations beyond 4,294,967,295 of a pool, or above address 2^55, all that a .tracy file has room \
                 for: record a shorter time (-d)"
            }
            Self::Gpus => {
                "GPU jobs on queues that have the fewest of their process: a .tracy file has room \
                 for 255 queues"
            }
            Self::GpuNotes => {
                "GPU jobs have no notes: a .tracy file has room for those of 65,535 jobs of a queue; record a shorter \
                 time (-d)"
            }
            Self::FrameImages => {
                "frame images are left out: a .tracy file has one of each frame of the first \
                 program's main set, and 1 GiB of them"
            }
        }
    }
}

/// What was left out, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitCounts(BTreeMap<Limit, u64>);

impl LimitCounts {
    /// So many more met this limit.
    pub(crate) fn add(&mut self, limit: Limit, count: u64) {
        if count > 0 {
            *self.0.entry(limit).or_default() += count;
        }
    }

    /// One sentence for each limit that was met.
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.0.iter().map(|(limit, count)| format!("{count} {}", limit.sentence())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_were_met_are_told() {
        assert!(LimitCounts::default().sentences().is_empty());
        let mut cuts = LimitCounts::default();
        cuts.add(Limit::Threads, 0);
        cuts.add(Limit::Cpus, 7);
        let sentences = cuts.sentences();
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].starts_with("7 switches on CPUs above number 255"), "{sentences:?}");
    }
}
