//! When to look for the perf maps of programs that make code while they run.
//!
//! Such a program writes its list of code at any time: when it begins, when somebody asks it to, or
//! never. Once it has ended, nothing leads to its `/tmp` any more, unless that is the recorder's,
//! too. So whoever makes code is looked at soon, then ever more rarely until its map is there, and
//! when the recording ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustc_hash::FxHashMap;
use syscollect_model::{ClockPair, Ticks};
use syscollect_symbolize::{PerfMapOutcome, PerfMapOwner};
use syscollect_untrusted_files::{Owner, in_process};

use crate::fair_queue::ProcessUser;

/// Programs that are looked at. A user has as many as are still free for others.
const WATCHED_MAX: usize = 4096;
/// How long after each look comes the next; after the last of these as long each time.
const LATER: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Nanoseconds of the unit of a process's start in /proc (USER_HZ), which user programs know as a
/// constant.
const START_UNIT_NS: u64 = 10_000_000;
/// Times of files are read from a clock that ticks with the scheduler, at least 100 times a second.
const FILE_CLOCK_NS: u64 = 10_000_000;

/// Programs that make code while they run, by process.
#[derive(Debug)]
pub(crate) struct PerfMapWatch {
    watched: FxHashMap<u32, WatchedProcess>,
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    free: usize,
    by_user: FxHashMap<ProcessUser, usize>,
    /// Programs for which there was no room.
    left_out: u64,
}

#[derive(Debug)]
struct WatchedProcess {
    whose: ProcessUser,
    looks: usize,
    /// What it was when it was looked at last, and when that was.
    last: Option<(PerfMapOwner, Ticks)>,
    /// When it is looked at next; `None` while that is under way, and once its map is held.
    next: Option<Instant>,
}

impl Default for PerfMapWatch {
    fn default() -> Self {
        Self::of(WATCHED_MAX)
    }
}

impl PerfMapWatch {
    fn of(free: usize) -> Self {
        Self {
            watched: FxHashMap::default(),
            due: BinaryHeap::new(),
            free,
            by_user: FxHashMap::default(),
            left_out: 0,
        }
    }

    /// Whether the process is known to make code.
    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.watched.contains_key(&pid)
    }

    /// A process has memory for code of its own.
    pub(crate) fn add(&mut self, pid: u32, whose: ProcessUser, now: Instant) {
        if self.contains(pid) {
            return;
        }
        let own = self.by_user.entry(whose).or_default();
        if self.free == 0 || (*own >= self.free && whose != ProcessUser::Of(0)) {
            self.left_out += 1;
            return;
        }
        (self.free, *own) = (self.free - 1, *own + 1);
        self.watched.insert(pid, WatchedProcess { whose, looks: 0, last: None, next: Some(now) });
        self.due.push(Reverse((now, pid)));
    }

    /// The process has ended, or runs another program.
    pub(crate) fn remove(&mut self, pid: u32) {
        let Some(WatchedProcess { whose, .. }) = self.watched.remove(&pid) else { return };
        self.free += 1;
        if let Some(own) = self.by_user.get_mut(&whose) {
            *own -= 1;
        }
        self.by_user.retain(|_, own| *own > 0);
    }

    /// How long it is until the next look.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| at.saturating_duration_since(now))
    }

    /// A process to look at now.
    pub(crate) fn due(&mut self, now: Instant) -> Option<u32> {
        while let Some(Reverse((at, pid))) = self.due.peek().copied().filter(|next| next.0.0 <= now)
        {
            self.due.pop();
            // It may be of a process that was removed, and added again since.
            let watched = self.watched.get_mut(&pid);
            if watched.is_some_and(|watched| watched.next.take_if(|next| *next == at).is_some()) {
                return Some(pid);
            }
        }
        None
    }

    /// The process was looked at.
    pub(crate) fn record_outcome(&mut self, pid: u32, outcome: PerfMapOutcome, now: Instant) {
        match (outcome, self.watched.get_mut(&pid)) {
            (PerfMapOutcome::Gone, _) => self.remove(pid),
            (PerfMapOutcome::Missing, Some(watched)) => {
                let next = now + LATER[watched.looks.min(LATER.len() - 1)];
                (watched.looks, watched.next) = (watched.looks + 1, Some(next));
                self.due.push(Reverse((next, pid)));
            }
            (PerfMapOutcome::Held, _) | (PerfMapOutcome::Missing, None) => {}
        }
    }

    /// What the process was, and that it lived then.
    pub(crate) fn note(&mut self, owner: &PerfMapOwner, now: Ticks) {
        if let Some(watched) = self.watched.get_mut(&owner.pid) {
            watched.last = Some((owner.clone(), now));
        }
    }

    /// What the process was when it was looked at last, and when that was.
    pub(crate) fn last(&self, pid: u32) -> Option<&(PerfMapOwner, Ticks)> {
        self.watched.get(&pid)?.last.as_ref()
    }

    /// All processes that are watched, for the last look.
    pub(crate) fn all(&self) -> Vec<(u32, ProcessUser)> {
        self.watched.iter().map(|(pid, watched)| (*pid, watched.whose)).collect()
    }

    /// What to say of programs for which there was no room.
    pub(crate) fn left_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| {
            format!(
                "{} programs that make code while they run were not looked at for its names: too \
                 many at one time",
                self.left_out
            )
        })
    }
}

/// What its perf map is found by; `None` if the process has ended.
#[expect(clippy::disallowed_methods, reason = "/proc/PID/status and stat")]
pub(crate) fn owner(pid: u32, clocks: &ClockPair) -> Option<PerfMapOwner> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let since_boot = start(&stat)?.checked_mul(START_UNIT_NS)?;
    let boot = clocks.realtime.checked_sub(clocks.boottime)?;
    let began = boot.checked_add(since_boot)?.saturating_sub(FILE_CLOCK_NS);
    let began = Duration::from_nanos(began);
    Some(PerfMapOwner {
        pid,
        own_pid: own_pid(&status)?,
        began: (i64::try_from(began.as_secs()).ok()?, began.subsec_nanos()),
        user: Owner::of_process(pid)?,
        shares_files: shares_files(pid),
    })
}

/// Whether the process sees the same files as this program. The links only say where they lead:
/// nothing is asked of a file system.
fn shares_files(pid: u32) -> bool {
    let own = paths_seen_by("self");
    own.is_some() && paths_seen_by(&pid.to_string()) == own
}

fn paths_seen_by(process: &str) -> Option<[std::path::PathBuf; 3]> {
    in_process(&Path::new("/proc").join(process), namespaces_and_root).ok()
}

fn namespaces_and_root(folder: &Path) -> io::Result<[std::path::PathBuf; 3]> {
    let [mounts, pids, root] = ["ns/mnt", "ns/pid", "root"].map(|name| folder.join(name));
    Ok([fs::read_link(mounts)?, fs::read_link(pids)?, fs::read_link(root)?])
}

/// The last number of `NSpid` in /proc/PID/status: the id in the process's own namespace.
fn own_pid(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let ids = lines.find_map(|line| line.strip_prefix(b"NSpid:"))?;
    std::str::from_utf8(ids).ok()?.split_ascii_whitespace().next_back()?.parse().ok()
}

/// When the process of /proc/PID/stat began, in units since the machine was started.
fn start(stat: &[u8]) -> Option<u64> {
    // The name stands in brackets, and may hold brackets and blanks itself.
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::read_clocks;
    use std::time::{SystemTime, UNIX_EPOCH};
    use syscollect_model::ClockSource;

    const USER: ProcessUser = ProcessUser::Of(1000);

    #[test]
    fn a_program_without_a_map_is_looked_at_ever_more_rarely() {
        let (mut watch, begin) = (PerfMapWatch::default(), Instant::now());
        watch.add(7, USER, begin);
        watch.add(7, USER, begin);
        let mut looks = Vec::new();
        for ms in 0..30_000 {
            let now = begin + Duration::from_millis(ms);
            while let Some(pid) = watch.due(now) {
                looks.push(ms);
                watch.record_outcome(pid, PerfMapOutcome::Missing, now);
            }
        }
        assert_eq!(looks, [0, 20, 120, 620, 2620, 7620, 12_620, 17_620, 22_620, 27_620]);
    }

    #[test]
    fn a_map_that_is_held_is_looked_for_again_at_the_end_only() {
        let (mut watch, now) = (PerfMapWatch::default(), Instant::now());
        watch.add(7, USER, now);
        assert_eq!(watch.due(now), Some(7));
        watch.record_outcome(7, PerfMapOutcome::Held, now);
        assert_eq!(watch.due(now + Duration::from_secs(100)), None);
        assert_eq!(watch.all(), [(7, USER)]);
        watch.record_outcome(7, PerfMapOutcome::Gone, now);
        assert_eq!(watch.all(), []);
    }

    #[test]
    fn another_program_of_the_process_is_looked_at_anew() {
        let (mut watch, now) = (PerfMapWatch::default(), Instant::now());
        watch.add(7, USER, now);
        watch.remove(7);
        let later = now + Duration::from_secs(1);
        watch.add(7, USER, later);
        assert_eq!(watch.next_due(now), Some(Duration::ZERO));
        assert_eq!(watch.due(now), None, "that was the first one's turn");
        assert_eq!(watch.next_due(now), Some(Duration::from_secs(1)));
        assert_eq!((watch.due(later), watch.due(later)), (Some(7), None));
    }

    #[test]
    fn a_user_with_many_programs_leaves_room_for_others() {
        let (mut watch, now) = (PerfMapWatch::of(100), Instant::now());
        (0..1000).for_each(|pid| watch.add(pid, USER, now));
        assert_eq!((watch.all().len(), watch.left_out), (50, 950));
        watch.add(5000, ProcessUser::Of(1001), now);
        assert!(watch.contains(5000));
        (0..1000).for_each(|pid| watch.remove(pid));
        assert_eq!((watch.free, watch.by_user.len()), (99, 1));
        assert!(watch.left_out().unwrap().starts_with("950 programs"));
    }

    #[test]
    fn this_process_began_a_while_ago_under_the_number_that_it_knows() {
        let own = owner(std::process::id(), &read_clocks(ClockSource::Monotonic)).unwrap();
        assert_eq!((own.own_pid, own.shares_files), (std::process::id(), true));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!((now - 3600..=now).contains(&own.began.0), "{own:?}");
        assert!(owner(u32::MAX, &read_clocks(ClockSource::Monotonic)).is_none());
    }

    #[test]
    fn the_number_in_the_innermost_namespace_is_the_one_that_a_process_knows() {
        assert_eq!(own_pid(b"Name:\tx\nNSpid:\t4711\t23\t1\nNSpgid:\t5\n"), Some(1));
        assert_eq!(own_pid(b"Name:\tx\n"), None);
        let fields: Vec<String> = (3..53).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b) {}", fields.join(" "));
        assert_eq!(start(stat.as_bytes()), Some(22));
    }
}
