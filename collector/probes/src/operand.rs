//! Reads the arguments of a note, in the assembler's syntax: `8@%rdi -4@112(%rsp) 4@$5`.
//!
//! No text is an error: what is not understood becomes [`ArgumentPlace::Unsupported`], so that
//! the other arguments keep their numbers.

use crate::argument::{Argument, ArgumentPlace};
use crate::register::{Named, Register};
use std::str::FromStr;

/// The size where a note gives none.
const DEFAULT_SIZE: u8 = 8;

/// What is known of a probe's surroundings: needed where an operand names a variable.
pub(crate) struct Surroundings<'s> {
    /// The address of the probe's site, as the file's symbols count addresses.
    pub(crate) site: u64,
    /// The file is always loaded where its addresses say.
    pub(crate) fixed: bool,
    /// The address of a symbol.
    pub(crate) symbol: &'s dyn Fn(&str) -> Option<u64>,
}

/// Reads all arguments, which spaces outside of parentheses part.
pub(crate) fn parse_arguments(
    text: &str,
    surroundings: &Surroundings<'_>,
) -> impl Iterator<Item = Argument> {
    let mut depth = 0u32;
    let words = text.split(move |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && character.is_ascii_whitespace()
    });
    let parse = |word| parse_argument(word, surroundings);
    words.filter(|word| !word.is_empty()).map(parse)
}

/// Reads one argument.
pub(crate) fn parse_argument(text: &str, surroundings: &Surroundings<'_>) -> Argument {
    let sized =
        text.split_once('@').and_then(|(size, operand)| Some((Size::parse(size)?, operand)));
    let default = Size { bytes: DEFAULT_SIZE, signed: false, float: false };
    let (size, operand) = sized.unwrap_or((default, text));
    // Of an integer the low bytes are worth having; a part of a float is no number.
    let holds = |width: u8| !size.float || width >= size.bytes;
    let (place, width) = match parse_place(operand, surroundings).filter(|(_, width)| holds(*width))
    {
        Some(found) => found,
        None => (ArgumentPlace::Unsupported(operand.to_owned()), DEFAULT_SIZE),
    };
    Argument { size: size.bytes.min(width), signed: size.signed, float: size.float, place }
}

/// The form that notes have; a variable's name cannot be resolved here and is unsupported.
impl FromStr for Argument {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(parse_argument(text, &Surroundings { site: 0, fixed: false, symbol: &|_| None }))
    }
}

/// What stands before the `@`.
struct Size {
    bytes: u8,
    signed: bool,
    float: bool,
}

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let (signed, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (float, digits) = rest.strip_suffix('f').map_or((false, rest), |digits| (true, digits));
        let bytes = match digits {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return None,
        };
        // There are no floats of 1 and 2 bytes, and their sign needs no extension.
        (!float || bytes >= 4).then_some(Self { bytes, signed: signed && !float, float })
    }
}

/// The place, and how many bytes it has at most.
fn parse_place(operand: &str, surroundings: &Surroundings<'_>) -> Option<(ArgumentPlace, u8)> {
    if let Some(constant) = operand.strip_prefix('$') {
        return Some((ArgumentPlace::Constant(parse_integer(constant.trim())?), DEFAULT_SIZE));
    }
    if let Some(name) = operand.strip_prefix('%') {
        let Named { register, width, shift } = Named::find(name)?;
        return Some((ArgumentPlace::Register { register, shift }, width));
    }
    Some((parse_memory(operand, surroundings)?, DEFAULT_SIZE))
}

/// `displacement(base,index,scale)`, of which either half may be missing.
fn parse_memory(operand: &str, surroundings: &Surroundings<'_>) -> Option<ArgumentPlace> {
    let (displacement, registers) = match operand.split_once('(') {
        Some((displacement, rest)) => (displacement, rest.strip_suffix(')')?),
        None if operand.is_empty() => return None,
        None => (operand, ""),
    };
    let mut parts = registers.split(',').map(str::trim);
    let base = parse_address_register(parts.next().unwrap_or(""))?;
    let index = parse_address_register(parts.next().unwrap_or(""))?;
    let scale = match parts.next().unwrap_or("") {
        "" | "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => return None,
    };
    // No instruction has these as an index, so who wrote them meant something else.
    let wrong_index = matches!(index, Some(Register::Rip | Register::Rsp));
    if parts.next().is_some() || wrong_index || (base == Some(Register::Rip) && index.is_some()) {
        return None;
    }
    let index = index.map(|register| (register, scale));
    let Displacement { offset, symbol } = Displacement::parse(displacement)?;
    let Some(symbol) = symbol else { return Some(ArgumentPlace::Memory { base, index, offset }) };
    let address = (surroundings.symbol)(symbol)?.wrapping_add_signed(offset);
    match (base, index) {
        (None | Some(Register::Rip), None) => {
            let offset = address.wrapping_sub(surroundings.site) as i64;
            Some(ArgumentPlace::Memory { base: Some(Register::Rip), index: None, offset })
        }
        _ if surroundings.fixed => {
            Some(ArgumentPlace::Memory { base, index, offset: address as i64 })
        }
        _ => None,
    }
}

/// A register of an address, all of its 8 bytes; empty for none.
fn parse_address_register(text: &str) -> Option<Option<Register>> {
    if text.is_empty() {
        return Some(None);
    }
    let named = Named::find(text.strip_prefix('%')?)?;
    (named.width == 8).then_some(Some(named.register))
}

/// A sum of numbers and at most one symbol: `-4`, `buffer+16`, `8+buffer`.
struct Displacement<'t> {
    offset: i64,
    symbol: Option<&'t str>,
}

impl<'t> Displacement<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let mut sum = Self { offset: 0, symbol: None };
        let mut rest = text.trim();
        let mut first = true;
        while !rest.is_empty() {
            let (negative, term) = match rest.as_bytes()[0] {
                b'-' => (true, &rest[1..]),
                b'+' => (false, &rest[1..]),
                _ if first => (false, rest),
                _ => return None,
            };
            let end = term.find(['+', '-']).unwrap_or(term.len());
            sum.add(term[..end].trim(), negative)?;
            rest = &term[end..];
            first = false;
        }
        Some(sum)
    }

    fn add(&mut self, term: &'t str, negative: bool) -> Option<()> {
        if term.starts_with(|c: char| c.is_ascii_digit()) {
            let signed =
                if negative { parse_integer(&format!("-{term}")) } else { parse_integer(term) };
            self.offset = self.offset.checked_add(signed?)?;
            return Some(());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
        if term.is_empty() || negative || self.symbol.is_some() || !term.chars().all(is_name) {
            return None;
        }
        self.symbol = Some(term);
        Some(())
    }
}

/// A number as assemblers take it: decimal, `0x` and octal, with a sign; up to 64 bits.
fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => (16, hexadecimal),
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    // The standard library would take one more sign.
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match negative {
        false => Some(magnitude as i64),
        true => 0i64.checked_sub_unsigned(magnitude),
    }
}

#[cfg(test)]
#[path = "operand_tests.rs"]
mod tests;
