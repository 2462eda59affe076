//! Reading all clocks at one moment.

use syscollect_model::{ClockPair, ClockSource, Ticks};
use syscollect_records::{ClockRecord, RecordKind, Stamp};

/// How often a reading is tried; the one with the narrowest bracket is kept,
/// for an interrupt or a busy hypervisor may fall into any of them.
const TRIES: usize = 16;

/// The tick counter now.
pub(crate) fn ticks_now(source: ClockSource) -> Ticks {
    match source {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: rdtsc has no preconditions on x86-64; whether user code may
        // execute it was found out when the source was chosen.
        ClockSource::Tsc => Ticks(unsafe { core::arch::x86_64::_rdtsc() }),
        _ => Ticks(read(libc::CLOCK_MONOTONIC)),
    }
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; these clocks exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Each clock between two looks at the ticks.
fn bracketed(source: ClockSource) -> ClockPair {
    let before = ticks_now(source).0;
    let monotonic = read(libc::CLOCK_MONOTONIC);
    let monotonic_raw = read(libc::CLOCK_MONOTONIC_RAW);
    let boottime = read(libc::CLOCK_BOOTTIME);
    let realtime = read(libc::CLOCK_REALTIME);
    let after = ticks_now(source).0;
    let uncertainty = after.saturating_sub(before) / 2;
    ClockPair { ticks: Ticks(before + uncertainty), monotonic, monotonic_raw, boottime, realtime, uncertainty }
}

/// The best of several readings.
pub(crate) fn read_clocks(source: ClockSource) -> ClockPair {
    let mut best = bracketed(source);
    for _ in 1..TRIES {
        let pair = bracketed(source);
        if pair.uncertainty < best.uncertainty {
            best = pair;
        }
    }
    best
}

/// A reading as a record of the clock lane.
pub(crate) fn clock_record(pair: &ClockPair) -> ClockRecord {
    ClockRecord {
        stamp: Stamp::new(pair.ticks.0, RecordKind::Clock),
        monotonic: pair.monotonic,
        monotonic_raw: pair.monotonic_raw,
        boottime: pair.boottime,
        realtime: pair.realtime,
        uncertainty: pair.uncertainty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_follow_one_another() {
        let (first, second) = (read_clocks(ClockSource::Monotonic), read_clocks(ClockSource::Monotonic));
        assert!(second.ticks > first.ticks);
        assert!(second.boottime > first.boottime);
        assert!(first.uncertainty < 1_000_000, "a bracket of over a millisecond: {} ns", first.uncertainty);
    }
}
