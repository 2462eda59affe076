//! Raw time stamps as times of the session: nanoseconds since the machine was started.

use crate::file::{Clock, LogfileHeader};
use syscollect_model::{ClockError, ClockMap, ClockPair, Ticks};

/// 100 ns between 1601, where Windows counts from, and 1970.
const UNIX_EPOCH: u64 = 116_444_736_000_000_000;
/// Pieces of the map at most; a longer recording has longer ones.
const MOST_PIECES: u64 = 1000;
const NANOSECONDS: u64 = 1_000_000_000;

/// The map of a recording whose last record was written at raw time `last`.
///
/// The counter has one rate throughout. It is stated in pieces all the same:
/// within one short enough, a time is one multiplication and one division.
///
/// # Errors
///
/// [`ClockError`] where the header's clock leads nowhere.
pub(super) fn clock_map(header: &LogfileHeader, last: u64) -> Result<ClockMap, ClockError> {
    let rate = header.ticks_per_second().unwrap_or(NANOSECONDS);
    let first = header.timestamp;
    let seconds = last.saturating_sub(first) / rate + 1;
    // The product of ticks and nanoseconds of a piece has to fit into 64 bits.
    let longest = (u64::MAX / NANOSECONDS / rate).isqrt().max(1);
    let piece = longest.min(seconds).max(seconds.div_ceil(MOST_PIECES));
    let began = since_boot(header, rate);
    let pairs = (0..=seconds.div_ceil(piece).max(1)).map(|number| {
        let seconds = number.saturating_mul(piece);
        let passed = seconds.saturating_mul(NANOSECONDS);
        let boottime = began.saturating_add(passed);
        ClockPair {
            ticks: Ticks(first.saturating_add(seconds.saturating_mul(rate))),
            monotonic: boottime,
            monotonic_raw: boottime,
            boottime,
            realtime: unix_time(header.start_time).saturating_add(passed),
            uncertainty: 0,
        }
    });
    ClockMap::new(pairs.collect())
}

/// Nanoseconds from the start of the machine to the first record.
fn since_boot(header: &LogfileHeader, rate: u64) -> u64 {
    let by_date = header.start_time.checked_sub(header.boot_time).filter(|_| header.boot_time > 0);
    match (by_date, header.clock) {
        (Some(since), _) => since.saturating_mul(100),
        // The counter of a machine that does not say when it was started counts from there.
        (None, Clock::Qpc | Clock::CpuCycle | Clock::Unknown(_)) => {
            let nanoseconds =
                u128::from(header.timestamp) * u128::from(NANOSECONDS) / u128::from(rate);
            u64::try_from(nanoseconds).unwrap_or(u64::MAX / 2)
        }
        (None, Clock::SystemTime) => 0,
    }
}

fn unix_time(since_1601: u64) -> u64 {
    since_1601.saturating_sub(UNIX_EPOCH).saturating_mul(100)
}
