//! Depths of zones, of which an end carries the low bits.

use crate::ZONE_END_DEPTH;

/// The depth of the zone that ends, where an end leaves `left` zones open, of which the low six
/// bits are known, and the innermost that is known lies at depth `innermost`: the nearest to that
/// which fits. `None`: a zone inside of it, whose beginning is not known.
pub const fn ended_depth(innermost: u32, left: u8) -> Option<u32> {
    let above = left.wrapping_sub(innermost as u8) & ZONE_END_DEPTH;
    let below = (64 - above as u32) % 64;
    if above != 0 && (above < 32 || below > innermost) { None } else { Some(innermost - below) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_of_the_nearest_zone_that_fits() {
        assert_eq!(ended_depth(3, 3), Some(3), "the innermost");
        assert_eq!(ended_depth(3, 1), Some(1), "an outer one, whose inner ends are missing");
        assert_eq!(ended_depth(1, 2), None, "one whose beginning is missing");
        assert_eq!(ended_depth(70, 70 % 64), Some(70), "six bits are enough");
        assert_eq!(ended_depth(65, 63), Some(63));
        assert_eq!(ended_depth(1, 63), None, "nothing lies 2 below depth 1");
    }
}
