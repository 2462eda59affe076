//! What attaching to a file will cost, known before it is done.
//!
//! For each place the kernel visits every mapping of the file, of any process, while no process of
//! the machine can fork (`register_for_each_vma` in kernel/events/uprobes.c), and nobody can break
//! it off. Where a semaphore is to be raised, it looks for that from the first mapping of the
//! process on, for each of them: who maps a file 20,000 times keeps it busy for half a minute. So
//! mappings are counted first. Where there are too many, the file is attached to in single
//! processes: the others are then passed by at a fraction of the cost.

use std::os::fd::AsRawFd as _;
use std::time::Duration;
use std::{fs, ptr};

use syscollect_untrusted_files::{FixedPath, payer};

use super::files::MapKey;

/// What the kernel takes to put a breakpoint into one mapping, and to pass one by while it looks
/// for a semaphore. Measured: a place took 26 s in a process with 20,000 mappings of its file.
const BREAKPOINT: Duration = Duration::from_micros(10);
const STEP: Duration = Duration::from_nanos(70);
/// As long may one place take: 10,000 usual processes that map a file.
const PLACE_MAX: Duration = Duration::from_millis(250);
/// No program maps its code as often. One that does may keep the kernel waiting at each mapping, by
/// changing others all the time: for 0.1 s, as was measured.
const MAPPINGS_OF_PROCESS: u64 = 4;
/// A process that has a file mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapper {
    /// 0 if it ends just now.
    pub(super) pid: u32,
    /// The user who pays for it.
    pub(super) user: u32,
    /// Whether the file is the program that it runs.
    pub(super) runs_it: bool,
    /// How often, there where places are.
    pub(super) mappings: u64,
    /// All that it has mapped.
    pub(super) all: u64,
}

impl Mapper {
    fn cost(&self, with_semaphore: bool) -> Duration {
        let steps = if with_semaphore { self.all } else { 0 };
        let each = BREAKPOINT.as_nanos() as u64 + STEP.as_nanos() as u64 * steps;
        Duration::from_nanos(self.mappings.saturating_mul(each))
    }

    /// Whether it has the file mapped no more often than usual programs do.
    pub(super) fn is_modest(&self) -> bool {
        self.mappings <= MAPPINGS_OF_PROCESS
    }
}

/// Who has a file mapped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) mappers: Vec<Mapper>,
    /// Whether these are all.
    pub(super) is_whole: bool,
    /// Lists of mappings were read.
    pub(super) by_lists: bool,
    /// What counting took, without the lists of those who are no concern of the file's owner.
    pub(super) took: Duration,
}

/// Where to attach.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttachScope {
    Everybody,
    /// In these processes, each by itself.
    Only(Vec<Mapper>),
    /// The file's owner has this process map it so often.
    Nobody(Mapper),
}

impl Census {
    /// Of nothing that was counted yet.
    pub(super) fn new(is_whole: bool) -> Self {
        Self { mappers: Vec::new(), is_whole, by_lists: false, took: Duration::ZERO }
    }

    /// Where to attach in a file of this owner.
    pub(super) fn whom(&self, owner: u32, with_semaphore: bool) -> AttachScope {
        // Who owns a file and maps it as often harms nobody else, if it is left out.
        if let Some(mapper) = self
            .mappers
            .iter()
            .find(|mapper| owner != 0 && !mapper.is_modest() && mapper.user == payer(owner))
        {
            return AttachScope::Nobody(*mapper);
        }
        let cost: Duration = self.mappers.iter().map(|mapper| mapper.cost(with_semaphore)).sum();
        if self.is_whole && cost <= PLACE_MAX {
            return AttachScope::Everybody;
        }
        AttachScope::Only(self.modest())
    }

    /// Those that can be attached to one by one.
    pub(super) fn modest(&self) -> Vec<Mapper> {
        self.mappers
            .iter()
            .copied()
            .filter(|mapper| mapper.is_modest() && mapper.pid != 0)
            .collect()
    }
}

/// How lists of mappings name this file, which is not always what it says itself.
pub(super) fn map_key(file: &fs::File) -> Option<MapKey> {
    const PAGE: usize = 4096;
    // SAFETY: a new mapping, which nobody reads or writes.
    let address = unsafe {
        libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    let maps = FixedPath::new("/proc/self/maps").read();
    // SAFETY: it was mapped above, and nothing points into it.
    unsafe { libc::munmap(address, PAGE) };
    // Neighbours of the same file would be one line with it, but begin elsewhere in the file.
    let start = format!("{:x}-", address as usize);
    let maps = maps.ok()?;
    let line = maps.split(|byte| *byte == b'\n').find(|line| line.starts_with(start.as_bytes()))?;
    let line = String::from_utf8_lossy(line);
    let mut fields = line.split(' ').skip(3);
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users have the numbers of their processes, in thousands.
    fn mapper(&(pid, mappings, all): &(u32, u64, u64)) -> Mapper {
        Mapper { pid, user: pid / 1000, runs_it: true, mappings, all }
    }

    fn census(mappers: &[(u32, u64, u64)]) -> Census {
        Census { mappers: mappers.iter().map(mapper).collect(), ..Census::new(true) }
    }

    fn only(mappers: &[(u32, u64, u64)]) -> AttachScope {
        AttachScope::Only(mappers.iter().map(mapper).collect())
    }

    #[test]
    fn a_file_that_many_processes_map_as_usual_is_attached_to_in_all_of_them() {
        let many: Vec<_> = (0..8_000).map(|pid| (pid, 1, 200)).collect();
        assert_eq!(census(&many).whom(1, true), AttachScope::Everybody);
        assert_eq!(census(&[(2_000, 1, 65_530)]).whom(2, true), AttachScope::Everybody);
        assert_eq!(census(&[]).whom(2, true), AttachScope::Everybody);
    }

    #[test]
    fn who_maps_its_own_file_again_and_again_is_left_out() {
        let found = census(&[(3_000, 1, 100), (2_000, 17, 100)]);
        assert_eq!(found.whom(2, false), AttachScope::Nobody(mapper(&(2_000, 17, 100))));
    }

    #[test]
    fn who_maps_the_file_of_another_costs_that_one_nothing() {
        let modest = [(3_000, 1, 100), (3_001, 1, 100)];
        let found = census(&[&[(2_000, 20_000, 20_100)], &modest[..]].concat());
        assert_eq!(found.whom(3, true), only(&modest));
        assert_eq!(found.whom(0, true), only(&modest));
        assert_eq!(found.whom(0, false), AttachScope::Everybody, "without a semaphore it is cheap");
        assert_eq!(census(&[(2_000, 1_000, 1_100)]).whom(3, true), AttachScope::Everybody);
    }

    #[test]
    fn where_not_all_was_counted_only_those_are_attached_to_that_were() {
        let mut found = census(&[(3_000, 1, 100)]);
        found.is_whole = false;
        assert_eq!(found.whom(3, true), only(&[(3_000, 1, 100)]));
    }
}
