//! GUIDs: names of providers and of event classes.

use std::fmt;

/// A GUID, as its sixteen bytes lie in files: the first three parts little-endian.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// From its text's four first groups and the last, `0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c`.
    pub const fn from_u128(value: u128) -> Self {
        let b = value.to_be_bytes();
        Self([
            b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13],
            b[14], b[15],
        ])
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &self.0;
        let first = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let (second, third) = (u16::from_le_bytes([b[4], b[5]]), u16::from_le_bytes([b[6], b[7]]));
        write!(f, "{first:08x}-{second:04x}-{third:04x}-{:02x}{:02x}-", b[8], b[9])?;
        b[10..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_reads_as_it_is_written() {
        let guid = Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d);
        assert_eq!(guid.0[..4], [0x5a, 0xc4, 0x2e, 0x80]);
        assert_eq!(guid.to_string(), "802ec45a-1e99-4b83-9920-87c98277ba9d");
    }
}
