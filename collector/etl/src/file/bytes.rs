//! Little-endian numbers at places that have to be within the bytes.

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// UTF-16 up to a zero or the end, and where the text behind it begins.
pub(super) fn utf16_at(bytes: &[u8], at: usize) -> (String, usize) {
    let (units, _) = bytes.get(at..).unwrap_or_default().as_chunks::<2>();
    let units: Vec<u16> =
        units.iter().map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0).collect();
    (String::from_utf16_lossy(&units), at + (units.len() + 1) * 2)
}
