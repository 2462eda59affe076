//! Fields of providers' events, decoded.

use crate::Guid;
use std::fmt;
use syscollect_model::CalendarTime;

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
                    "{year:04}-{month:02}-{day:02} \
                     {hour:02}:{minute:02}:{second:02}.{millisecond:03}"
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

/// A moment by the calendar, to its 100 ns. What means none or for ever, and years of more than
/// four digits, stay numbers.
fn file_time(time: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let moment = CalendarTime::since_1601(time / SECOND);
    if time == 0 || moment.year > 9999 {
        return write!(f, "{time}");
    }
    write!(f, "{moment}.{:07} UTC", time % SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_and_a_time() {
        assert_eq!(shown_time(1), "1601-01-01 00:00:00.0000001 UTC");
        assert_eq!(shown_time(116_444_736_000_000_000), "1970-01-01 00:00:00.0000000 UTC");
        // date -u -d @1709208000, which is noon of a leap day, and the last second of the year
        // before a century.
        assert_eq!(
            shown_time(116_444_736_000_000_000 + 1_709_208_000 * SECOND + 1_234_567),
            "2024-02-29 12:00:00.1234567 UTC"
        );
        assert_eq!(
            shown_time(116_444_736_000_000_000 + 4_102_444_799 * SECOND),
            "2099-12-31 23:59:59.0000000 UTC"
        );
        assert_eq!(
            [0, u64::MAX, i64::MAX as u64].map(shown_time),
            ["0", "18446744073709551615", "9223372036854775807"]
        );
    }

    fn shown_time(time: u64) -> String {
        Value::FileTime(time).to_string()
    }
}
