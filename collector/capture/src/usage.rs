//! What the recorder itself uses.

use std::collections::BTreeMap;
use std::time::Duration;

fn usage() -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which zero is valid; the call fills it in.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}

/// CPU time of this process so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    let usage = usage();
    let duration = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// Peak resident memory of this process, bytes.
pub(crate) fn peak_memory() -> u64 {
    // Linux counts it in KiB.
    usage().ru_maxrss as u64 * 1024
}

/// Run time of all kernel programs, where the kernel counted it.
pub(crate) fn program_time(statistics: &BTreeMap<String, u64>) -> Option<u64> {
    let times: Vec<u64> =
        statistics.iter().filter(|(name, _)| name.ends_with("_run_ns")).map(|(_, nanoseconds)| *nanoseconds).collect();
    (!times.is_empty()).then(|| times.iter().sum())
}
