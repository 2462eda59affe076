//! Reads the arguments of a note, in the assembler's syntax: `8@%rdi -4@112(%rsp) 4@$5`.
//!
//! No text is an error: what is not understood becomes [`ArgumentLocation::Unsupported`], so that
//! the other arguments keep their numbers.

use crate::arch::parse_place;
use crate::argument::{Argument, ArgumentLocation};
use std::str::FromStr;

/// The size where a note gives none.
pub(crate) const DEFAULT_SIZE: u8 = 8;

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
    words.filter(|word| !word.is_empty()).map(|word| parse_argument(word, surroundings))
}

/// Reads one argument.
pub(crate) fn parse_argument(text: &str, surroundings: &Surroundings<'_>) -> Argument {
    let sized =
        text.split_once('@').and_then(|(size, operand)| Some((Size::parse(size)?, operand)));
    let default = Size { bytes: DEFAULT_SIZE, signed: false, float: false };
    let (size, operand) = sized.unwrap_or((default, text));
    // Of an integer the low bytes are worth having; a part of a float is no number.
    let place =
        parse_place(operand, surroundings).filter(|(_, width)| !size.float || *width >= size.bytes);
    let (place, width) =
        place.unwrap_or_else(|| (ArgumentLocation::Unsupported(operand.to_owned()), DEFAULT_SIZE));
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

#[cfg(test)]
#[path = "operand_tests.rs"]
mod tests;
