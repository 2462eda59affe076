//! Fields of providers' events, decoded.

use crate::Guid;
use std::fmt;

/// A field of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name; fields of a structure are named `structure.field`.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// A value, as its writer meant it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number without a sign.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// A number to be read in base 16: an address, a handle, flags.
    Hex(u64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Text(String),
    /// A GUID.
    Guid(Guid),
    /// A moment, in 100 ns since 1601 (UTC unless the writer meant otherwise).
    FileTime(u64),
    /// A moment by the calendar: year, month, weekday, day, hour, minute, second, millisecond.
    SystemTime([u16; 8]),
    /// A security identifier, as its bytes.
    Sid(Vec<u8>),
    /// Bytes.
    Binary(Vec<u8>),
    /// Several of one type.
    Array(Vec<Value>),
}

impl fmt::Display for Value {
    /// For people: numbers by their base, moments by the calendar, bytes as hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::FileTime(value) => file_time(*value, f),
            Self::Signed(value) => write!(f, "{value}"),
            Self::Hex(value) => write!(f, "{value:#x}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::SystemTime([year, month, _, day, hour, minute, second, millisecond]) => {
                write!(
                    f,
                    "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millisecond:03}"
                )
            }
            Self::Sid(bytes) | Self::Binary(bytes) => {
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Units of a [`Value::FileTime`].
const SECOND: u64 = 10_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;

/// A moment by the calendar, to its 100 ns. What means none or for ever, and years of more than
/// four digits, stay numbers.
fn file_time(time: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (year, month, day) = date(time / DAY);
    if time == 0 || year > 9999 {
        return write!(f, "{time}");
    }
    let of_day = time % DAY;
    let (seconds, fraction) = (of_day / SECOND, of_day % SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction:07} UTC")
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
    fn a_moment_is_a_date_and_a_time() {
        let text = |time: u64| Value::FileTime(time).to_string();
        assert_eq!(text(1), "1601-01-01 00:00:00.0000001 UTC");
        assert_eq!(text(116_444_736_000_000_000), "1970-01-01 00:00:00.0000000 UTC");
        // date -u -d @1709208000, which is noon of a leap day, and the last second of the year
        // before a century.
        assert_eq!(
            text(116_444_736_000_000_000 + 1_709_208_000 * SECOND + 1_234_567),
            "2024-02-29 12:00:00.1234567 UTC"
        );
        assert_eq!(
            text(116_444_736_000_000_000 + 4_102_444_799 * SECOND),
            "2099-12-31 23:59:59.0000000 UTC"
        );
        assert_eq!(
            [0, u64::MAX, i64::MAX as u64].map(text),
            ["0", "18446744073709551615", "9223372036854775807"]
        );
    }

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
