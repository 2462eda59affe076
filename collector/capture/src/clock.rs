//! Reading all clocks at one moment.

use syscollect_model::{ClockPair, ClockSource, Ticks};
use syscollect_records::{ClockRecord, RecordKind, Stamp};

use crate::arch;

/// How often a reading is tried; the one with the narrowest bracket is kept,
/// for an interrupt or a busy hypervisor may fall into any of them.
const TRIES: usize = 16;

/// The tick counter now.
pub(crate) fn ticks_now(source: ClockSource) -> Ticks {
    match source {
        ClockSource::Tsc => Ticks(arch::counter()),
        _ => Ticks(read(libc::CLOCK_MONOTONIC)),
    }
}

/// CLOCK_MONOTONIC_RAW now, nanoseconds: the clock of mapping events.
pub(crate) fn raw_now() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; these clocks exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// All clocks at one moment, and how many ticks it took. The session's own clock lies between two
/// looks at the ticks; each of the others is read before and after, and its mean is that of the
/// same moment.
fn bracketed(source: ClockSource) -> (ClockPair, u64) {
    let start = ticks_now(source).0;
    let others = [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_REALTIME];
    let early = others.map(read);
    let before = ticks_now(source).0;
    let boottime = read(libc::CLOCK_BOOTTIME);
    let after = ticks_now(source).0;
    let [realtime, monotonic_raw, monotonic] = [others[2], others[1], others[0]].map(read);
    let end = ticks_now(source).0;
    let uncertainty = after.saturating_sub(before) / 2;
    let pair = ClockPair {
        ticks: Ticks(before + uncertainty),
        monotonic: mean(early[0], monotonic),
        monotonic_raw: mean(early[1], monotonic_raw),
        boottime,
        realtime: mean(early[2], realtime),
        uncertainty,
    };
    (pair, end.saturating_sub(start))
}

fn mean(early: u64, late: u64) -> u64 {
    early + late.saturating_sub(early) / 2
}

/// The best of several readings.
pub(crate) fn read_clocks(source: ClockSource) -> ClockPair {
    let mut best = bracketed(source);
    for _ in 1..TRIES {
        let reading = bracketed(source);
        if reading.1 < best.1 {
            best = reading;
        }
    }
    best.0
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
        let (first, second) =
            (read_clocks(ClockSource::Monotonic), read_clocks(ClockSource::Monotonic));
        assert!(second.ticks > first.ticks);
        assert!(second.boottime > first.boottime);
    }

    #[test]
    fn the_same_clock_read_in_two_ways_is_the_same() {
        // On a busy machine any one reading may be interrupted, for milliseconds.
        let readings: Vec<_> = (0..100).map(|_| read_clocks(ClockSource::Monotonic)).collect();
        let off = readings.iter().map(|reading| reading.ticks.0.abs_diff(reading.monotonic)).min();
        assert!(
            off.is_some_and(|off| off < 10_000),
            "the same clock, read by the same code, is {off:?} ns off"
        );
        let uncertainty = readings.iter().map(|reading| reading.uncertainty).min();
        assert!(
            uncertainty.is_some_and(|bracket| bracket < 1_000_000),
            "the shortest bracket is {uncertainty:?} ns"
        );
    }
}
