//! What the format has no room for, in words.

/// What was left out, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// Switches on CPUs from number 256 on.
    pub(crate) cpus: u64,
    /// Events of threads beyond the 65,535th.
    pub(crate) threads: u64,
    /// Events later than 2^47 ns.
    pub(crate) late: u64,
    /// Zones that share the last source location.
    pub(crate) locations: u64,
    /// Slices too deep.
    pub(crate) deep: u64,
    /// Strings.
    pub(crate) strings: u64,
    /// Samples whose stack found no room.
    pub(crate) stacks: u64,
    /// Stacks longer than 65,535 frames.
    pub(crate) frames: u64,
    /// Events of threads beyond the 64th of a lock.
    pub(crate) lock_threads: u64,
    /// Memory that was freed and whose allocation is not known.
    pub(crate) unknown_memory: u64,
    /// Allocations beyond the 2^32nd of a pool, or above address 2^55.
    pub(crate) memory: u64,
    /// GPU jobs on queues beyond the 255th.
    pub(crate) gpus: u64,
    /// GPU jobs without their notes.
    pub(crate) gpu_notes: u64,
}

impl Cuts {
    /// One sentence for each limit that was met: what was cut and how to record less.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let said = [
            (
                self.cpus,
                "switches on CPUs above number 255: a .tracy file has room for 256 CPUs (a .pftrace for all)",
            ),
            (
                self.threads,
                "events of threads beyond the first 65,535, all that a .tracy file has room for: record fewer \
                 processes (-p) or a shorter time (-d)",
            ),
            (
                self.late,
                "events later than 39 hours after the first, the longest time in a .tracy file: record a shorter \
                 time (-d)",
            ),
            (
                self.locations,
                "zones have no statistics under their own names: a .tracy file has room for 32,767 source locations, \
                 and these share the last one",
            ),
            (self.deep, "slices deeper than 255 levels, the most that a viewer counts"),
            (
                self.strings,
                "names, each shown as [too many strings]: a .tracy file has room for 16,777,213 strings; record a \
                 shorter time (-d) or fewer processes (-p)",
            ),
            (
                self.stacks,
                "samples have no call stack: a .tracy file has room for 16,777,214 call stacks; record a shorter time \
                 (-d), fewer processes (-p) or --stacks samples",
            ),
            (self.frames, "call stacks were cut to 65,535 frames"),
            (
                self.lock_threads,
                "events of locks by threads beyond the first 64 of a lock, all that a .tracy file has room for",
            ),
            (
                self.unknown_memory,
                "times memory was freed that was allocated before the recording, or whose allocation is lost: a .tracy \
                 file has room for both together only",
            ),
            (
                self.memory,
                "allocations beyond 4,294,967,295 of a pool, or above address 2^55, all that a .tracy file has room \
                 for: record a shorter time (-d)",
            ),
            (
                self.gpus,
                "GPU jobs on queues beyond the first 255, all that a .tracy file has room for",
            ),
            (
                self.gpu_notes,
                "GPU jobs have no notes: a .tracy file has room for those of 65,535 jobs of a queue; record a shorter \
                 time (-d)",
            ),
        ];
        said.iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_were_met_are_told() {
        assert!(Cuts::default().sentences().is_empty());
        let said = Cuts { cpus: 7, ..Cuts::default() }.sentences();
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("7 switches on CPUs above number 255"), "{said:?}");
    }
}
