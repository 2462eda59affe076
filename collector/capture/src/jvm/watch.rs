//! Which processes may be Java virtual machines that can be asked.

use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::fair_queue::ProcessUser;
use crate::shares::Pool;

/// Machines that are known at one time, and asked side by side. A user has as many as are still
/// free for others.
const KNOWN_MAX: u64 = 256;
/// Where there is no room, how often to see who has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Processes that have mapped what is called as HotSpot's library is.
#[derive(Debug)]
pub(crate) struct JvmWatch {
    known: FxHashMap<u32, KnownJvm>,
    slots: Pool,
    looked: Option<Instant>,
    /// Machines that ended, and that were not noted for want of room.
    ended: u64,
    left_out: u64,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
struct KnownJvm {
    user: u32,
    /// When its library was mapped; 0 where that was before the recording.
    since: u64,
}

impl Default for JvmWatch {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            slots: Pool::new(KNOWN_MAX),
            looked: None,
            ended: 0,
            left_out: 0,
        }
    }
}

impl JvmWatch {
    /// A process has HotSpot's library mapped, since then: CLOCK_MONOTONIC_RAW in nanoseconds, 0
    /// where that was before the recording or is known.
    pub(crate) fn add(&mut self, pid: u32, since: u64, whose: ProcessUser) {
        if let Some(known) = self.known.get_mut(&pid) {
            known.since = known.since.max(since);
            return;
        }
        let user = whose.uid().unwrap_or(u32::MAX);
        if !self.slots.take(user, 1) {
            self.forget_ended();
            if !self.slots.take(user, 1) {
                self.left_out += 1;
                return;
            }
        }
        self.known.insert(pid, KnownJvm { user, since });
    }

    /// It runs another program since then. What it became by that may be heard first.
    pub(crate) fn exec(&mut self, pid: u32, at: u64) {
        if self.known.get(&pid).is_some_and(|known| known.since < at) {
            self.ended(pid);
        }
    }

    fn ended(&mut self, pid: u32) {
        if let Some(KnownJvm { user, .. }) = self.known.remove(&pid) {
            self.slots.give_back(user, 1);
            self.ended += 1;
        }
    }

    /// Those that are to be asked.
    pub(crate) fn living(&mut self) -> Vec<u32> {
        self.looked = None;
        self.forget_ended();
        let mut pids: Vec<u32> = self.known.keys().copied().collect();
        pids.sort_unstable();
        pids
    }

    fn forget_ended(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return;
        }
        self.looked = Some(Instant::now());
        let ended: Vec<u32> = self.known.keys().copied().filter(|pid| !is_alive(*pid)).collect();
        ended.into_iter().for_each(|pid| self.ended(pid));
    }

    /// These had ended when they were to be asked.
    pub(crate) fn found_ended(&mut self, more: u64) {
        self.ended += more;
    }

    /// What to say of those that could not be asked.
    pub(crate) fn notes(&self) -> Vec<String> {
        let ended = (self.ended > 0).then(|| {
            format!(
                "--jvm: {} Java virtual machines ended before the recording did, and could not be \
                 asked: compiled methods have names only where they were started with \
                 -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit",
                self.ended
            )
        });
        let left_out = (self.left_out > 0).then(|| {
            format!(
                "--jvm: {} Java virtual machines were not asked, too many at one time; compiled \
                 methods have no names",
                self.left_out
            )
        });
        ended.into_iter().chain(left_out).collect()
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether a file is called as HotSpot's library, whether it is still there or not.
pub(super) fn is_hotspot(path: &str) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next() == Some("libjvm.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "/usr/lib/jvm/java-17/lib/server/libjvm.so";
    /// Beyond what any process has.
    const NOBODY: u32 = u32::MAX - 1000;

    #[test]
    fn machines_are_known_until_they_end() {
        let mut watch = JvmWatch::default();
        let own = std::process::id();
        for pid in [own, own, NOBODY, NOBODY + 1] {
            watch.add(pid, 7, ProcessUser::Of(1000));
        }
        watch.exec(own, 6);
        watch.exec(NOBODY, 8);
        assert_eq!(watch.living(), [own]);
        let notes = watch.notes();
        assert!(
            notes.len() == 1 && notes[0].contains("2 Java virtual machines ended"),
            "{notes:?}"
        );
    }

    #[test]
    fn machines_are_known_by_their_library() {
        for library in [LIBRARY, &format!("{LIBRARY} (deleted)"), "libjvm.so"] {
            assert!(is_hotspot(library), "{library}");
        }
        for other in ["/usr/lib/libc.so.6", "/tmp/libjvm.so/x", "/tmp/xlibjvm.so", ""] {
            assert!(!is_hotspot(other), "{other}");
        }
    }

    #[test]
    fn a_user_with_many_leaves_room_for_others() {
        let mut watch = JvmWatch { looked: Some(Instant::now()), ..JvmWatch::default() };
        (0..1000).for_each(|pid| watch.add(NOBODY + pid, 7, ProcessUser::Of(54_321)));
        assert_eq!(watch.known.len(), 128);
        let own = std::process::id();
        watch.add(own, 7, ProcessUser::Of(54_322));
        assert!(watch.known.contains_key(&own));
        assert!(watch.notes()[0].contains("872 Java virtual machines were not asked"));
    }
}
