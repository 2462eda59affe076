//! Time in which a task is on a CPU that the kernel does not charge to it.

use std::fs;

use anyhow::{Context, Result};

/// The steps in which /proc/stat tells times, nanoseconds: USER_HZ is 100.
pub(crate) const STEP_NS: u64 = 10_000_000;

/// Time that interrupts and the hypervisor took from all CPUs so far, nanoseconds: of each of the
/// three amounts a step may not be told yet.
pub(crate) fn uncharged_ns() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let reported = stat
        .lines()
        .next()
        .map(|line| line.split_whitespace().skip(6).take(3).map(str::parse::<u64>));
    let [interrupts, soft_interrupts, stolen] = reported
        .and_then(|steps| steps.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok())
        .context("/proc/stat does not tell what interrupts and the hypervisor took")?;
    Ok(((interrupts + soft_interrupts + stolen) * STEP_NS) as f64)
}
