//! Moments of the wall clock by the calendar.

use std::fmt;

/// Seconds from the beginning of 1601, where Windows' time of day begins, to that of 1970.
const FROM_1601_TO_1970: u64 = 11_644_473_600;
const DAY: u64 = 24 * 60 * 60;

/// A second of the Gregorian calendar, UTC.
///
/// ```
/// use syscollect_model::CalendarTime;
/// assert_eq!(CalendarTime::of_unix(1_709_208_000).to_string(), "2024-02-29 12:00:00");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarTime {
    /// The year, from 1601 on.
    pub year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl CalendarTime {
    /// So many seconds after the beginning of 1970.
    pub fn of_unix(seconds: u64) -> Self {
        Self::since_1601(seconds.saturating_add(FROM_1601_TO_1970))
    }

    /// So many seconds after the beginning of 1601.
    pub fn since_1601(seconds: u64) -> Self {
        let (year, month, day) = date(seconds / DAY);
        Self { year, month, day, second_of_day: seconds % DAY }
    }
}

impl fmt::Display for CalendarTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, second_of_day: seconds } = self;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Year, month and day of a number of days since the beginning of 1601, by the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    /// From March of the year 0, so that a leap day is a year's last, to 1601; and days of 400
    /// years.
    const SINCE_MARCH_0: u64 = 584_694;
    const ERA: u64 = 146_097;
    let days = days + SINCE_MARCH_0;
    let (era, of_era) = (days / ERA, days % ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / (ERA - 1)) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, again and again.
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let mut expected = (1601, 1, 1);
        for days in 0..300_000 {
            assert_eq!(date(days), expected);
            let (year, month, day) = expected;
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                4 | 6 | 9 | 11 => 30,
                2 => 28 + u64::from(is_leap),
                _ => 31,
            };
            expected = match (day == length, month) {
                (false, _) => (year, month, day + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
        }
    }
}
