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
    /// For people: numbers by their base, moments raw, bytes as hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) | Self::FileTime(value) => write!(f, "{value}"),
            Self::Signed(value) => write!(f, "{value}"),
            Self::Hex(value) => write!(f, "{value:#x}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::SystemTime([year, month, _, day, hour, minute, second, millisecond]) => {
                write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millisecond:03}")
            }
            Self::Sid(bytes) | Self::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
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
