//! One value: its type on disk (`_TDH_IN_TYPE` of the Windows SDK, whose lower
//! numbers are TraceLogging's, too) and how its writer wants it shown.

use super::Value;
use crate::payload::reader::Reader;
use crate::payload::{Ascii, Utf16};
use std::net::{Ipv4Addr, Ipv6Addr};

/// How a value lies in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InType(pub(super) u16);

/// How a value is meant, as far as that is more than its type says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Plain,
    Bool,
    Hex,
    /// Numbers are characters, bytes are text.
    Text,
    /// A port of TCP or UDP: the higher byte first.
    Port,
    Ipv4,
    Ipv6,
}

impl InType {
    pub(super) const UTF16: Self = Self(1);
    pub(super) const ANSI: Self = Self(2);
    const INT8: Self = Self(3);
    pub(super) const UINT8: Self = Self(4);
    const INT16: Self = Self(5);
    pub(super) const UINT16: Self = Self(6);
    const INT32: Self = Self(7);
    const UINT32: Self = Self(8);
    const INT64: Self = Self(9);
    const UINT64: Self = Self(10);
    const FLOAT: Self = Self(11);
    const DOUBLE: Self = Self(12);
    const BOOL32: Self = Self(13);
    pub(super) const BINARY: Self = Self(14);
    const GUID: Self = Self(15);
    const POINTER: Self = Self(16);
    const FILETIME: Self = Self(17);
    const SYSTEMTIME: Self = Self(18);
    const SID: Self = Self(19);
    const HEX32: Self = Self(20);
    const HEX64: Self = Self(21);
    const COUNTED_UTF16: Self = Self(22);
    const COUNTED_ANSI: Self = Self(23);
    pub(super) const COUNTED_BINARY: Self = Self(25);
    const CLASSIC_COUNTED_UTF16: Self = Self(300);
    const CLASSIC_COUNTED_ANSI: Self = Self(301);
    const CLASSIC_REVERSED_UTF16: Self = Self(302);
    const CLASSIC_REVERSED_ANSI: Self = Self(303);
    const CLASSIC_REST_UTF16: Self = Self(304);
    const CLASSIC_REST_ANSI: Self = Self(305);
    const CLASSIC_CHAR16: Self = Self(306);
    const CLASSIC_CHAR8: Self = Self(307);
    const CLASSIC_SIZE: Self = Self(308);
    const CLASSIC_HEX_DUMP: Self = Self(309);
    const CLASSIC_SID: Self = Self(310);

    /// Whether a row of such values is text rather than an array.
    pub(super) fn is_character(self, format: Format) -> bool {
        matches!(self, Self::CLASSIC_CHAR8 | Self::CLASSIC_CHAR16)
            || (format == Format::Text && matches!(self, Self::INT8 | Self::UINT8 | Self::UINT16))
    }

    /// Text of so many characters.
    pub(super) fn characters<'a>(self, reader: &mut Reader<'a>, count: usize) -> Option<Value> {
        match self {
            Self::UINT16 | Self::CLASSIC_CHAR16 => reader.fixed_utf16(count).map(utf16),
            _ => reader.bytes(count).map(|bytes| ansi(Reader::new(bytes, false).ascii())),
        }
    }

    /// The next value. `length`, where the schema has one, counts characters of texts and bytes of
    /// others.
    pub(super) fn read(
        self,
        reader: &mut Reader<'_>,
        format: Format,
        length: Option<usize>,
    ) -> Option<Value> {
        match self {
            Self::INT8 => signed(reader.array().map(i8::from_le_bytes)?.into(), format),
            Self::UINT8 | Self::CLASSIC_CHAR8 => unsigned(reader.u8()?.into(), format),
            Self::INT16 => signed(reader.array().map(i16::from_le_bytes)?.into(), format),
            Self::UINT16 | Self::CLASSIC_CHAR16 if format == Format::Port => {
                Some(Value::Unsigned(reader.u16()?.swap_bytes().into()))
            }
            Self::UINT16 | Self::CLASSIC_CHAR16 => unsigned(reader.u16()?.into(), format),
            Self::INT32 => signed(reader.i32()?.into(), format),
            Self::UINT32 if format == Format::Ipv4 => {
                Some(Value::Text(Ipv4Addr::from(reader.array()?).to_string()))
            }
            Self::UINT32 => unsigned(reader.u32()?.into(), format),
            Self::INT64 => signed(reader.u64()?.cast_signed(), format),
            Self::UINT64 => unsigned(reader.u64()?, format),
            Self::FLOAT => Some(Value::Float(reader.array().map(f32::from_le_bytes)?.into())),
            Self::DOUBLE => Some(Value::Float(reader.array().map(f64::from_le_bytes)?)),
            Self::BOOL32 => Some(Value::Bool(reader.u32()? != 0)),
            Self::HEX32 => Some(Value::Hex(reader.u32()?.into())),
            Self::HEX64 => Some(Value::Hex(reader.u64()?)),
            Self::POINTER | Self::CLASSIC_SIZE => Some(Value::Hex(reader.pointer()?)),
            Self::GUID => Some(Value::Guid(reader.guid()?)),
            Self::FILETIME => Some(Value::FileTime(reader.u64()?)),
            Self::SYSTEMTIME => system_time(reader),
            _ => self.read_long(reader, format, length),
        }
    }

    /// The next value, where its length is not its type's.
    fn read_long(
        self,
        reader: &mut Reader<'_>,
        format: Format,
        length: Option<usize>,
    ) -> Option<Value> {
        match self {
            Self::UTF16 => match length {
                Some(length) => reader.fixed_utf16(length).map(utf16),
                None => Some(utf16(reader.utf16())),
            },
            Self::ANSI => match length {
                Some(length) => {
                    reader.bytes(length).map(|bytes| ansi(Reader::new(bytes, false).ascii()))
                }
                None => Some(ansi(reader.ascii())),
            },
            Self::BINARY => reader.bytes(length?).map(|bytes| binary(bytes, format)),
            Self::COUNTED_BINARY => counted(reader).map(|bytes| binary(bytes, format)),
            Self::COUNTED_UTF16 | Self::CLASSIC_COUNTED_UTF16 => {
                counted(reader).map(|bytes| utf16(Utf16(bytes)))
            }
            Self::COUNTED_ANSI | Self::CLASSIC_COUNTED_ANSI => {
                counted(reader).map(|bytes| ansi(Ascii(bytes)))
            }
            Self::CLASSIC_REVERSED_UTF16 => {
                counted_reversed(reader).map(|bytes| utf16(Utf16(bytes)))
            }
            Self::CLASSIC_REVERSED_ANSI => counted_reversed(reader).map(|bytes| ansi(Ascii(bytes))),
            Self::CLASSIC_REST_UTF16 => {
                reader.bytes(reader.rest().len()).map(|bytes| utf16(Utf16(bytes)))
            }
            Self::CLASSIC_REST_ANSI => {
                reader.bytes(reader.rest().len()).map(|bytes| ansi(Ascii(bytes)))
            }
            Self::CLASSIC_HEX_DUMP => {
                let length = reader.u32()?;
                reader.bytes(length.try_into().ok()?).map(|bytes| binary(bytes, format))
            }
            Self::SID => sid(reader),
            Self::CLASSIC_SID => {
                reader.skip_pointers(2)?;
                sid(reader)
            }
            _ => None,
        }
    }
}

fn signed(value: i64, format: Format) -> Option<Value> {
    match format {
        Format::Bool => Some(Value::Bool(value != 0)),
        Format::Text => Some(Value::Text(char::from(value as u8).to_string())),
        Format::Hex => Some(Value::Hex(value.cast_unsigned())),
        _ => Some(Value::Signed(value)),
    }
}

fn unsigned(value: u64, format: Format) -> Option<Value> {
    match format {
        Format::Bool => Some(Value::Bool(value != 0)),
        Format::Text => {
            let character = u32::try_from(value).ok().and_then(char::from_u32);
            Some(Value::Text(character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()))
        }
        Format::Hex => Some(Value::Hex(value)),
        _ => Some(Value::Unsigned(value)),
    }
}

fn utf16(text: Utf16<'_>) -> Value {
    Value::Text(text.to_string_lossy())
}

fn ansi(text: Ascii<'_>) -> Value {
    Value::Text(text.to_string_lossy().into_owned())
}

fn binary(bytes: &[u8], format: Format) -> Value {
    match (format, <[u8; 16]>::try_from(bytes)) {
        (Format::Ipv6, Ok(address)) => Value::Text(Ipv6Addr::from(address).to_string()),
        (Format::Text, _) => ansi(Ascii(bytes)),
        _ => Value::Binary(bytes.to_vec()),
    }
}

/// Bytes behind their number.
fn counted<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u16()?;
    reader.bytes(length.into())
}

/// Bytes behind their number, which has its higher byte first.
fn counted_reversed<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u16()?.swap_bytes();
    reader.bytes(length.into())
}

/// A security identifier: revision, number of parts, authority, parts.
fn sid(reader: &mut Reader<'_>) -> Option<Value> {
    let parts = *reader.rest().get(1)?;
    reader.bytes(8 + 4 * usize::from(parts)).map(|bytes| Value::Sid(bytes.to_vec()))
}

fn system_time(reader: &mut Reader<'_>) -> Option<Value> {
    let mut parts = [0; 8];
    for part in &mut parts {
        *part = reader.u16()?;
    }
    Some(Value::SystemTime(parts))
}
