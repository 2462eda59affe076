//! What attaching to a file will cost, known before it is done.
//!
//! For each place the kernel visits every mapping of the file, of any process, while no process of
//! the machine can fork (`register_for_each_vma` in kernel/events/uprobes.c), and nobody can break
//! it off. Where a semaphore is to be raised, it looks for that from the first mapping of the
//! process on, for each of them: who maps a file 20,000 times keeps it busy for half a minute. So
//! mappings are counted first. Where there are too many, the file is attached to in single
//! processes: the others are then passed by at a fraction of the cost.

use std::io::Read as _;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, ptr};

use syscollect_untrusted_files::within;

use super::files::{MapKey, processes};

/// What the kernel takes to put a breakpoint into one mapping, and to pass one by while it looks
/// for a semaphore. Measured: a place took 26 s in a process with 20,000 mappings of its file.
const BREAKPOINT: Duration = Duration::from_micros(10);
const STEP: Duration = Duration::from_nanos(70);
/// As long may one place take: 10,000 usual processes that map a file.
const PLACE_MAX: Duration = Duration::from_millis(250);
/// No program maps its code as often. One that does may keep the kernel waiting at each mapping, by
/// changing others all the time: for 0.1 s, as was measured.
const MAPPINGS_OF_PROCESS: u64 = 4;
/// Processes that are attached to by themselves: each is asked at every hit of any of them.
pub(super) const SINGLE_MAX: usize = 64;
/// Counting ends there: all that is read, and how long that takes, of one process and of all. A line
/// has some 100 bytes. Who changes mappings all the time keeps the list of them from being read.
const TEXT_MAX: usize = 16 << 20;
const LONGEST_OF_ONE: Duration = Duration::from_millis(60);
const LONGEST: Duration = Duration::from_millis(300);

/// A process that has a file mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapper {
    pub(super) pid: u32,
    /// How often, there where places are.
    pub(super) mappings: u64,
    /// All that it has mapped.
    all: u64,
}

impl Mapper {
    fn cost(&self, with_semaphore: bool) -> Duration {
        let steps = if with_semaphore { self.all } else { 0 };
        let each = BREAKPOINT.as_nanos() as u64 + STEP.as_nanos() as u64 * steps;
        Duration::from_nanos(self.mappings.saturating_mul(each))
    }

    fn is_modest(&self) -> bool {
        self.mappings <= MAPPINGS_OF_PROCESS
    }
}

/// Who has a file mapped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    mappers: Vec<Mapper>,
    /// Whether these are all.
    is_whole: bool,
}

/// Where to attach.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Everybody,
    /// In these processes, each by itself.
    Only(Vec<u32>),
    /// The file's owner has this process map it so often.
    Nobody(Mapper),
}

impl Census {
    /// Counts in all processes, beginning with `first`, or in that one `only`; `pages` is where the
    /// places lie.
    pub(super) fn take(
        key: &MapKey,
        pages: &Range<u64>,
        first: Option<u32>,
        only: Option<u32>,
    ) -> Self {
        let (key, pages) = (key.clone(), pages.clone());
        let root = Path::new("/");
        let count = move || {
            let all = if only.is_some() { Vec::new() } else { processes(root) };
            let first = only.or(first);
            let others = all.into_iter().filter(|pid| Some(*pid) != first);
            let pids: Vec<u32> = first.into_iter().chain(others).collect();
            Self::of(root, &pids, &key, &pages)
        };
        // What the kernel waits for there may take longer than the times allow.
        within(None, count).unwrap_or_default()
    }

    fn of(root: &Path, pids: &[u32], key: &MapKey, pages: &Range<u64>) -> Self {
        let end = Instant::now() + LONGEST;
        let (mut census, mut room) = (Self { mappers: Vec::new(), is_whole: true }, TEXT_MAX);
        let mut block = vec![0; BLOCK];
        for pid in pids {
            let mut mapper = Mapper { pid: *pid, mappings: 0, all: 0 };
            let until = end.min(Instant::now() + LONGEST_OF_ONE);
            // It may have ended.
            let Ok(mut maps) = fs::File::open(root.join(format!("proc/{pid}/maps"))) else {
                continue;
            };
            // The begin of a line whose rest is still to come.
            let mut kept = 0;
            // The kernel gives a page at once.
            while let Ok(bytes @ 1..) = maps.read(&mut block[kept..]) {
                let text = &block[..kept + bytes];
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                for line in text[..whole].split_inclusive(|byte| *byte == b'\n') {
                    mapper.all += 1;
                    mapper.mappings += u64::from(holds(line, key, pages));
                }
                kept = text.len() - whole;
                block.copy_within(whole..whole + kept, 0);
                room = room.saturating_sub(bytes);
                if room == 0 || kept == BLOCK || Instant::now() >= until {
                    census.is_whole = false;
                    break;
                }
            }
            if mapper.mappings > 0 {
                census.mappers.push(mapper);
            }
        }
        census
    }

    /// Where to attach in a file of this owner.
    pub(super) fn whom(
        &self,
        owner: u32,
        with_semaphore: bool,
        uid: impl Fn(u32) -> Option<u32>,
    ) -> Whom {
        // Who owns a file and maps it as often harms nobody else, if it is left out.
        let excess = self
            .mappers
            .iter()
            .find(|mapper| owner != 0 && !mapper.is_modest() && uid(mapper.pid) == Some(owner));
        if let Some(mapper) = excess {
            return Whom::Nobody(*mapper);
        }
        let cost: Duration = self.mappers.iter().map(|mapper| mapper.cost(with_semaphore)).sum();
        if self.is_whole && cost <= PLACE_MAX {
            return Whom::Everybody;
        }
        let modest = self.mappers.iter().filter(|mapper| mapper.is_modest());
        Whom::Only(modest.take(SINGLE_MAX).map(|mapper| mapper.pid).collect())
    }
}

/// What is read of a list at once.
const BLOCK: usize = 64 << 10;

/// Whether a line of /proc/PID/maps is a mapping of the file that holds some of these bytes of it,
/// and that the kernel would put a breakpoint into: a private one that cannot be written.
fn holds(line: &[u8], (device, inode): &MapKey, pages: &Range<u64>) -> bool {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut parse = || {
        let (start, end) = field()?.split_once('-')?;
        let rights = field()?.as_bytes();
        let offset = number(field()?)?;
        let is_file = field()? == device && field()?.trim().parse() == Ok(*inode);
        let bytes = number(end)?.checked_sub(number(start)?)?;
        let is_probed = rights.get(3) == Some(&b'p') && rights.get(1) != Some(&b'w');
        let is_there = offset < pages.end && offset.saturating_add(bytes) > pages.start;
        Some(is_file && is_probed && is_there)
    };
    parse().unwrap_or(false)
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
    let maps = fs::read("/proc/self/maps");
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

    fn census(mappers: &[(u32, u64, u64)]) -> Census {
        let mapper = |&(pid, mappings, all)| Mapper { pid, mappings, all };
        Census { mappers: mappers.iter().map(mapper).collect(), is_whole: true }
    }

    /// Users have the numbers of their processes, in thousands.
    fn uid(pid: u32) -> Option<u32> {
        Some(pid / 1000)
    }

    #[test]
    fn a_file_that_many_processes_map_as_usual_is_attached_to_in_all_of_them() {
        let many: Vec<_> = (0..8_000).map(|pid| (pid, 1, 200)).collect();
        assert_eq!(census(&many).whom(1, true, uid), Whom::Everybody);
        assert_eq!(census(&[(2_000, 1, 65_530)]).whom(2, true, uid), Whom::Everybody);
        assert_eq!(census(&[]).whom(2, true, uid), Whom::Everybody);
    }

    #[test]
    fn who_maps_its_own_file_again_and_again_is_left_out() {
        let found = census(&[(3_000, 1, 100), (2_000, 17, 100)]);
        let excess = Mapper { pid: 2_000, mappings: 17, all: 100 };
        assert_eq!(found.whom(2, false, uid), Whom::Nobody(excess));
    }

    #[test]
    fn who_maps_the_file_of_another_costs_that_one_nothing() {
        let found = census(&[(2_000, 20_000, 20_100), (3_000, 1, 100), (3_001, 1, 100)]);
        assert_eq!(found.whom(3, true, uid), Whom::Only(vec![3_000, 3_001]));
        assert_eq!(found.whom(0, true, uid), Whom::Only(vec![3_000, 3_001]));
        assert_eq!(found.whom(0, false, uid), Whom::Everybody, "without a semaphore it is cheap");
        assert_eq!(census(&[(2_000, 1_000, 1_100)]).whom(3, true, uid), Whom::Everybody);
    }

    #[test]
    fn where_not_all_was_counted_only_those_are_attached_to_that_were() {
        let mut found = census(&[(3_000, 1, 100)]);
        found.is_whole = false;
        assert_eq!(found.whom(3, true, uid), Whom::Only(vec![3_000]));
    }

    #[test]
    fn what_the_kernel_would_not_touch_does_not_count() {
        let (key, pages) = (("fe:00".to_owned(), 123), 0x1000..0x2000);
        let counts = |line: &str| holds(line.as_bytes(), &key, &pages);
        assert!(counts("7f00000-7f01000 r-xp 00001000 fe:00 123       /opt/a b (deleted)"));
        assert!(counts("7f00000-7f05000 r--p 00000000 fe:00 123 /opt/a"));
        for line in [
            "7f00000-7f01000 r--p 00000000 fe:00 123 /opt/a",
            "7f00000-7f01000 r--p 00002000 fe:00 123 /opt/a",
            "7f00000-7f05000 rw-p 00000000 fe:00 123 /opt/a",
            "7f00000-7f05000 r-xs 00000000 fe:00 123 /opt/a",
            "7f00000-7f05000 r-xp 00000000 fe:00 124 /opt/a",
            "7f00000-7f05000 r-xp 00000000 fe:01 123 /opt/a",
            "7f00000-7f05000 r-xp 00000000 00:00 0",
            "garbage",
        ] {
            assert!(!counts(line), "{line}");
        }
    }

    #[test]
    fn lists_are_counted_across_the_pieces_they_are_read_in_and_not_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let write = |pid: u32, lines: usize| {
            let of = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&of).unwrap();
            let line = "7f0000000-7f0001000 r-xp 00000000 fe:00 123    /opt/a\n";
            fs::write(of.join("maps"), line.repeat(lines)).unwrap();
        };
        let (key, pages) = (("fe:00".to_owned(), 123), 0..0x1000);
        write(1, 5_000);
        write(2, 1);
        let found = Census::of(folder.path(), &[1, 2, 9], &key, &pages);
        assert_eq!(found, census(&[(1, 5_000, 5_000), (2, 1, 1)]));
        write(1, 400_000);
        assert!(!Census::of(folder.path(), &[1, 2], &key, &pages).is_whole);
    }

    #[test]
    fn this_program_has_its_own_file_mapped() {
        let own = fs::File::open("/proc/self/exe").unwrap();
        let key = map_key(&own).unwrap();
        let found = Census::take(&key, &(0..u64::MAX), None, Some(std::process::id()));
        assert!(found.is_whole && found.mappers.len() == 1, "{found:?}");
        assert!(found.mappers[0].is_modest() && found.mappers[0].all > found.mappers[0].mappings);
    }
}
