//! What the recorder itself uses.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use syscollect_model::{RecorderWork, WorkCost};
use syscollect_untrusted_files::FixedPath;

fn usage() -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which zero is valid; the call fills it in.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}

/// What other processes of the recorder used so far, as they told it, nanoseconds.
static OTHER_PROCESSES_NS: AtomicU64 = AtomicU64::new(0);

/// Another process of the recorder has used that much more CPU time.
pub(crate) fn add_other_process(cpu_ns: u64) {
    OTHER_PROCESSES_NS.fetch_add(cpu_ns, Ordering::Relaxed);
}

/// CPU time of this process so far, user and system, and of those that work for it.
pub fn cpu_time() -> Duration {
    time_of(&usage()) + Duration::from_nanos(OTHER_PROCESSES_NS.load(Ordering::Relaxed))
}

/// User and system time together.
pub(crate) fn time_of(usage: &libc::rusage) -> Duration {
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// CPU time of the calling thread so far.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Peak resident memory of this process, bytes, since it began or the peak was last forgotten.
pub fn peak_memory() -> u64 {
    let status = FixedPath::new("/proc/self/status").read_to_string().unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    // Linux counts both in KiB.
    kibibytes.unwrap_or(usage().ru_maxrss as u64) * 1024
}

/// Lets the peak begin anew (proc(5), clear_refs).
fn forget_peak() {
    let file = FixedPath::new("/proc/self/clear_refs");
    let forgotten = file.open_with(std::fs::File::options().write(true));
    // Where that is refused, the peak stays that of all the time before, which is more and never
    // less.
    let _ = forgotten.and_then(|mut file| file.write_all(b"5"));
}

/// What the parts of the recorder's work cost. Each begins where the one before ends, so that
/// nothing is left out.
#[derive(Clone, Debug, Default)]
pub struct CostAccount {
    costs: Vec<WorkCost>,
    counted: Duration,
}

impl CostAccount {
    /// The work since the last call, or since the program's start, was this.
    pub fn note(&mut self, work: RecorderWork) {
        let now = cpu_time();
        let cpu_ns = now.saturating_sub(self.counted).as_nanos() as u64;
        self.counted = now;
        self.costs.push(WorkCost { work, cpu_ns, peak_bytes: peak_memory() });
        forget_peak();
    }

    /// What was noted.
    pub fn costs(&self) -> &[WorkCost] {
        &self.costs
    }

    /// What that work cost; nothing where it was not noted.
    pub(crate) fn of(&self, work: &RecorderWork) -> WorkCost {
        self.costs.iter().find(|cost| cost.work == *work).cloned().unwrap_or_default()
    }
}

/// Run time of all kernel programs, where the kernel counted it.
pub(crate) fn program_time(statistics: &BTreeMap<String, u64>) -> Option<u64> {
    let times: Vec<u64> = statistics
        .iter()
        .filter(|(name, _)| name.ends_with("_run_ns"))
        .map(|(_, nanoseconds)| *nanoseconds)
        .collect();
    (!times.is_empty()).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works until the process has used that much more CPU time.
    fn work(time: Duration) {
        let end = cpu_time() + time;
        while cpu_time() < end {
            std::hint::black_box((0..1000).sum::<u64>());
        }
    }

    #[test]
    fn parts_of_the_work_add_up_to_all_of_it() {
        let mut account = CostAccount::default();
        work(Duration::from_millis(20));
        account.note(RecorderWork::Start);
        work(Duration::from_millis(10));
        account.note(RecorderWork::Recording);
        let after = cpu_time().as_nanos() as u64;
        let sum: u64 = account.costs().iter().map(|cost| cost.cpu_ns).sum();
        assert!(
            account.of(&RecorderWork::Start).cpu_ns >= 20_000_000
                && account.of(&RecorderWork::Recording).cpu_ns >= 10_000_000
        );
        assert!(sum <= after, "{sum} ns noted of {after} ns used");
        assert_eq!(account.of(&RecorderWork::Naming), WorkCost::default());
    }

    #[test]
    fn memory_that_was_given_back_does_not_weigh_on_what_comes_later() {
        let mut account = CostAccount::default();
        let mut large = vec![0u8; 96 << 20];
        large.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&large);
        account.note(RecorderWork::Recording);
        drop(large);
        account.note(RecorderWork::Naming);
        account.note(RecorderWork::Export);
        let large = account.of(&RecorderWork::Recording).peak_bytes;
        let small = account.of(&RecorderWork::Export).peak_bytes;
        assert!(large >= 96 << 20, "{:?}", account.costs());
        assert!(small + (64 << 20) <= large, "{:?}", account.costs());
    }
}
