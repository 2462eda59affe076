//! Programs that map files of code without end.
//!
//! Who looks into files hears of each mapping, in a queue that all programs share. A program that
//! maps one file again and again, or thousands of them, would fill it, and what others map would go
//! unheard: no names, no unwind tables, no probes. So each process may have a number of mappings
//! looked at as they come. Beyond that, what repeats is left out, for it says nothing new, and the
//! rest comes out of what all such processes have together.

use std::hash::{BuildHasher as _, BuildHasherDefault};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHasher};
use syscollect_model::Mapping;

/// Mappings of a process at once, and how many more it may have each second: more than programs
/// with hundreds of libraries have when they begin.
const AT_ONCE: f64 = 512.0;
const PER_SECOND: f64 = 64.0;
/// What processes beyond that may have together in each window.
const WINDOW: Duration = Duration::from_millis(100);
const BEYOND_IN_WINDOW: usize = 256;
/// Mappings that are known to have been passed on in this window.
const RECENT: usize = 4096;
/// Processes that are known; those that have used nothing are forgotten first.
const MOST_PROCESSES: usize = 8192;

/// What becomes of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappingVerdict {
    /// It is looked at.
    Heard,
    /// The process has mapped the same file a moment ago.
    Repeated,
    /// There were too many: it is not looked at, which is a loss.
    TooMany,
}

/// What a process may still have, as of then.
struct Allowance {
    left: f64,
    since: Instant,
}

impl Allowance {
    fn at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        (self.left + passed * PER_SECOND).min(AT_ONCE)
    }
}

/// Which mappings are passed on to those who look into files.
pub(crate) struct MappingPace {
    processes: FxHashMap<u32, Allowance>,
    /// When processes were last forgotten, for want of room.
    forgot: Option<Instant>,
    window: Option<Instant>,
    beyond: usize,
    /// Hashes of what was passed on in this window; 0 where nothing was.
    recent: Vec<u64>,
}

impl MappingPace {
    /// Nothing was mapped yet.
    pub(crate) fn new() -> Self {
        Self {
            processes: FxHashMap::default(),
            forgot: None,
            window: None,
            beyond: 0,
            recent: vec![0; RECENT],
        }
    }

    /// A file was mapped.
    pub(crate) fn mapped(&mut self, mapping: &Mapping, now: Instant) -> MappingVerdict {
        if self.spend(mapping.pid, now) {
            return MappingVerdict::Heard;
        }
        if is_over(self.window, now) {
            self.window = Some(now);
            self.beyond = 0;
            self.recent.fill(0);
        }
        // Offset and identity, too: parts of a file are mapped apart, and another may have its
        // name.
        let key = (mapping.pid, &mapping.path, mapping.file_offset, mapping.build_id.as_bytes());
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(key) | 1;
        let slot = &mut self.recent[(hash >> 32) as usize % RECENT];
        if *slot == hash {
            return MappingVerdict::Repeated;
        }
        if self.beyond == BEYOND_IN_WINDOW {
            return MappingVerdict::TooMany;
        }
        self.beyond += 1;
        *slot = hash;
        MappingVerdict::Heard
    }

    /// Whether the process may have one more as it comes.
    fn spend(&mut self, pid: u32, now: Instant) -> bool {
        if self.processes.len() == MOST_PROCESSES && !self.processes.contains_key(&pid) {
            // All are looked at, so not for each mapping of those without end.
            if is_over(self.forgot, now) {
                self.forgot = Some(now);
                self.processes.retain(|_, allowance| allowance.at(now) < AT_ONCE);
            }
            if self.processes.len() == MOST_PROCESSES {
                return false;
            }
        }
        let allowance =
            self.processes.entry(pid).or_insert_with(|| Allowance { left: AT_ONCE, since: now });
        let left = allowance.at(now);
        *allowance = Allowance { left: if left < 1.0 { left } else { left - 1.0 }, since: now };
        left >= 1.0
    }
}

/// Whether a window that began then, if one did, is over.
fn is_over(began: Option<Instant>, now: Instant) -> bool {
    began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{BuildId, Ticks};

    fn mapping(pid: u32, path: &str) -> Mapping {
        Mapping {
            pid,
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            path: path.to_owned(),
            build_id: BuildId::default(),
            since: Ticks(0),
        }
    }

    /// How many mappings of one file the process may have heard now.
    fn admitted(pace: &mut MappingPace, pid: u32, now: Instant) -> usize {
        (0..10_000)
            .filter(|_| pace.mapped(&mapping(pid, "/lib/a"), now) == MappingVerdict::Heard)
            .count()
    }

    #[test]
    fn what_a_program_maps_again_and_again_is_heard_of_now_and_then() {
        let (mut pace, start) = (MappingPace::new(), Instant::now());
        assert_eq!(admitted(&mut pace, 1, start), AT_ONCE as usize + 1, "then it repeats");
        assert_eq!(pace.mapped(&mapping(1, "/lib/a"), start), MappingVerdict::Repeated);
        assert_eq!(pace.mapped(&mapping(1, "/lib/b"), start), MappingVerdict::Heard);
        let later = start + Duration::from_secs(1);
        assert_eq!(admitted(&mut pace, 1, later), PER_SECOND as usize + 1);
    }

    #[test]
    fn programs_that_map_ever_new_files_leave_others_their_own() {
        let (mut pace, now) = (MappingPace::new(), Instant::now());
        let mut lost = 0;
        for number in 0..20_000 {
            let verdict = pace.mapped(&mapping(number % 10, &format!("/tmp/{number}")), now);
            lost += usize::from(verdict == MappingVerdict::TooMany);
        }
        assert_eq!(lost, 20_000 - 10 * AT_ONCE as usize - BEYOND_IN_WINDOW);
        for number in 0..AT_ONCE as usize {
            let verdict = pace.mapped(&mapping(99, &format!("/lib/{number}")), now);
            assert_eq!(verdict, MappingVerdict::Heard, "{number}");
        }
    }

    #[test]
    fn processes_without_end_are_forgotten_once_they_map_nothing() {
        let (mut pace, start) = (MappingPace::new(), Instant::now());
        for pid in 0..2 * MOST_PROCESSES as u32 {
            pace.mapped(&mapping(pid, "/lib/a"), start);
        }
        assert_eq!(pace.processes.len(), MOST_PROCESSES);
        let later = start + Duration::from_secs(1);
        assert_eq!(pace.mapped(&mapping(u32::MAX, "/lib/a"), later), MappingVerdict::Heard);
        assert_eq!(pace.processes.len(), 1);
    }
}
