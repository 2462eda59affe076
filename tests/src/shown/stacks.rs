//! What folded stacks and pprof profiles show.

use super::{add, damage};
use crate::reference_capture::Figures;
use crate::tracy_reader::Damage;
use std::collections::BTreeMap;
use std::io::Read;

/// The figures of folded stacks.
///
/// # Errors
///
/// When a line has no number.
pub fn folded(text: &str) -> Result<Figures, Damage> {
    let mut figures = Figures::new();
    for line in text.lines() {
        let (stack, count) =
            line.rsplit_once(' ').ok_or_else(|| damage(format!("{line:?} has no number")))?;
        let count = count.parse().map_err(|_| damage(format!("{count:?} is no number")))?;
        let innermost = stack.rsplit(';').next().unwrap_or_default();
        // What tools colour by.
        let name = innermost.trim_end_matches("_[k]").trim_end_matches("_[i]");
        add(&mut figures, "samples", count);
        add(&mut figures, format!("self {name}"), count);
    }
    Ok(figures)
}

/// Fields of pprof's `profile.proto`.
mod field {
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const SAMPLE_LOCATIONS: u64 = 1;
    pub(super) const SAMPLE_VALUES: u64 = 2;
    pub(super) const ID: u64 = 1;
    pub(super) const LOCATION_LINE: u64 = 4;
    pub(super) const LINE_FUNCTION: u64 = 1;
    pub(super) const FUNCTION_NAME: u64 = 2;
}

/// The figures of a pprof profile, compressed.
///
/// # Errors
///
/// When it is no such profile, or an id leads nowhere.
pub fn pprof(file: &[u8]) -> Result<Figures, Damage> {
    let mut bytes = Vec::new();
    let read = flate2::read::GzDecoder::new(file).read_to_end(&mut bytes);
    read.map_err(|error| damage(format!("no gzip: {error}")))?;
    let profile = Message::parse(&bytes)?;
    let strings: Vec<_> = profile.all(field::STRING).map(String::from_utf8_lossy).collect();
    let mut functions = BTreeMap::new();
    for message in profile.messages(field::FUNCTION)? {
        functions.insert(message.number(field::ID), message.number(field::FUNCTION_NAME) as usize);
    }
    // The first line of a location is the innermost function that was inlined there.
    let mut innermost = BTreeMap::new();
    for message in profile.messages(field::LOCATION)? {
        // One without a line has an address only.
        let lines = message.messages(field::LOCATION_LINE)?;
        innermost.insert(
            message.number(field::ID),
            lines.first().map(|line| line.number(field::LINE_FUNCTION)),
        );
    }
    let mut figures = Figures::new();
    for sample in profile.messages(field::SAMPLE)? {
        let values = sample.packed(field::SAMPLE_VALUES)?;
        let count = *values.first().ok_or_else(|| damage("a sample without values"))?;
        add(&mut figures, "samples", count);
        let Some(location) = sample.packed(field::SAMPLE_LOCATIONS)?.first().copied() else {
            continue;
        };
        let Some(function) = innermost.get(&location).ok_or_else(|| no_such_code(location))? else {
            continue;
        };
        let name = functions.get(function).and_then(|name| strings.get(*name));
        let name = name.ok_or_else(|| no_such_code(location))?;
        add(&mut figures, format!("self {name}"), count);
    }
    Ok(figures)
}

/// A protobuf message: numbers and bytes by field.
struct Message<'a> {
    numbers: Vec<(u64, u64)>,
    bytes: Vec<(u64, &'a [u8])>,
}

impl<'a> Message<'a> {
    fn parse(mut rest: &'a [u8]) -> Result<Self, Damage> {
        let mut message = Self { numbers: Vec::new(), bytes: Vec::new() };
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            match tag & 7 {
                0 => message.numbers.push((tag >> 3, varint(&mut rest)?)),
                2 => {
                    let length = varint(&mut rest)? as usize;
                    let (field, behind) = rest
                        .split_at_checked(length)
                        .ok_or_else(|| damage("a field is cut off"))?;
                    message.bytes.push((tag >> 3, field));
                    rest = behind;
                }
                other => return Err(damage(format!("wire type {other}"))),
            }
        }
        Ok(message)
    }

    fn all(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.iter().filter(move |(number, _)| *number == field).map(|(_, bytes)| *bytes)
    }

    fn messages(&self, field: u64) -> Result<Vec<Message<'a>>, Damage> {
        self.all(field).map(Message::parse).collect()
    }

    fn number(&self, field: u64) -> u64 {
        self.numbers.iter().find(|(number, _)| *number == field).map_or(0, |(_, value)| *value)
    }

    fn packed(&self, field: u64) -> Result<Vec<u64>, Damage> {
        let mut values = Vec::new();
        for mut rest in self.all(field) {
            while !rest.is_empty() {
                values.push(varint(&mut rest)?);
            }
        }
        Ok(values)
    }
}

fn no_such_code(location: u64) -> Damage {
    damage(format!("location {location} leads nowhere"))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Damage> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first().ok_or_else(|| damage("a number is cut off"))?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(damage("a number of more than ten bytes"))
}
