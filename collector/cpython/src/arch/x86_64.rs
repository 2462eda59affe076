//! x86-64: the cold part of a function. Compilers put what rarely runs elsewhere, without a name of
//! its own in a stripped file. Only the function's own jumps lead there.

use std::ops::Range;

/// Jumps that lead to it at least, and how far it reaches at most, bytes.
const JUMPS_LEAST: usize = 8;
const SIZE_MAX: u64 = 64 << 10;
/// Jumps lead to where a piece of it begins; of the last one so many bytes count.
const LAST_PIECE: u64 = 128;

/// Where the cold part of the function lies whose code these bytes are, at `begin`; `None` if it
/// has none that can be told.
///
/// Conditional jumps leave a function for nothing else. Instructions are not decoded: what looks
/// like one by chance leads anywhere, and not many times to the same place.
pub(crate) fn cold_part_of(code: &[u8], begin: u64) -> Option<Range<u64>> {
    let own = begin..begin + code.len() as u64;
    let mut targets: Vec<u64> = code
        .windows(6)
        .zip(begin..)
        .filter(|(bytes, _)| bytes[0] == 0x0f && bytes[1] & 0xf0 == 0x80)
        .map(|(bytes, at)| {
            let distance = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
            (at + 6).wrapping_add_signed(i64::from(distance))
        })
        .filter(|target| !own.contains(target))
        .collect();
    targets.sort_unstable();
    let densest = (0..targets.len())
        .map(|first| {
            let end = targets[first].saturating_add(SIZE_MAX);
            first..first + targets[first..].partition_point(|target| *target < end)
        })
        .max_by_key(ExactSizeIterator::len)?;
    if densest.len() < JUMPS_LEAST {
        return None;
    }
    Some(targets[densest.start]..targets[densest.end - 1].saturating_add(LAST_PIECE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jump(code: &mut Vec<u8>, begin: u64, target: u64) {
        let next = begin + code.len() as u64 + 6;
        code.extend([0x0f, 0x84]);
        code.extend((target.wrapping_sub(next) as i32).to_le_bytes());
    }

    #[test]
    fn where_a_functions_own_jumps_lead_is_its_cold_part() {
        let (begin, cold) = (0x10_0000, 0x4_0000);
        let mut code = vec![0x90; 16];
        (0..20).for_each(|piece| jump(&mut code, begin, cold + piece * 0x40));
        // Within the function, and to another one.
        jump(&mut code, begin, begin + 8);
        jump(&mut code, begin, 0x20_0000);
        assert_eq!(cold_part_of(&code, begin), Some(cold..cold + 19 * 0x40 + LAST_PIECE));
    }

    #[test]
    fn a_few_jumps_to_other_functions_are_no_cold_part() {
        let mut code = Vec::new();
        (0..5).for_each(|number| jump(&mut code, 0x10_0000, 0x20_0000 + number * 0x100));
        assert_eq!(cold_part_of(&code, 0x10_0000), None);
        assert_eq!(cold_part_of(&[], 0), None);
    }
}
