//! Operands in the assembler's syntax (AT&T's): `$5`, `%rdi`, `112(%rsp)`, `name(%rip)`.

use super::register::{Named, Register};
use crate::argument::ArgumentLocation;
use crate::operand::{DEFAULT_SIZE, Surroundings};

/// The place, and how many bytes it has at most.
pub(crate) fn parse_place(
    operand: &str,
    surroundings: &Surroundings<'_>,
) -> Option<(ArgumentLocation, u8)> {
    if let Some(constant) = operand.strip_prefix('$') {
        return Some((ArgumentLocation::Constant(parse_integer(constant.trim())?), DEFAULT_SIZE));
    }
    if let Some(name) = operand.strip_prefix('%') {
        let Named { register, width, shift } = Named::find(name)?;
        return Some((ArgumentLocation::Register { register, shift }, width));
    }
    Some((parse_memory(operand, surroundings)?, DEFAULT_SIZE))
}

/// `displacement(base,index,scale)`, of which either half may be missing.
fn parse_memory(operand: &str, surroundings: &Surroundings<'_>) -> Option<ArgumentLocation> {
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
    let Some(symbol) = symbol else {
        return Some(ArgumentLocation::Memory { base, index, offset });
    };
    let address = (surroundings.symbol)(symbol)?.wrapping_add_signed(offset);
    match (base, index) {
        (None | Some(Register::Rip), None) => {
            let offset = address.wrapping_sub(surroundings.site) as i64;
            Some(ArgumentLocation::Memory { base: Some(Register::Rip), index: None, offset })
        }
        _ if surroundings.fixed => {
            Some(ArgumentLocation::Memory { base, index, offset: address as i64 })
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
        if term.is_empty()
            || negative
            || self.symbol.is_some()
            || !term.chars().all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c))
        {
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
