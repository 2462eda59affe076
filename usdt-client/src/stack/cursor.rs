//! Reads the numbers of unwind tables, which lie in this process's own memory.

/// A part of a table. What is read beyond its end is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    at: *const u8,
    end: *const u8,
}

/// How a pointer of a table is written: DW_EH_PE_*.
pub(crate) mod encoding {
    /// As it is.
    pub(crate) const ABSOLUTE: u8 = 0x00;
    /// Four bytes.
    pub(crate) const UNSIGNED_4: u8 = 0x03;
    /// Eight bytes.
    pub(crate) const UNSIGNED_8: u8 = 0x04;
    /// Four bytes with a sign.
    pub(crate) const SIGNED_4: u8 = 0x0b;
    /// Eight bytes with a sign.
    pub(crate) const SIGNED_8: u8 = 0x0c;
    /// Added to where it lies.
    pub(crate) const RELATIVE: u8 = 0x10;
    /// Added to where the table lies.
    pub(crate) const DATA_RELATIVE: u8 = 0x30;
}

impl Cursor {
    /// So many bytes from there on.
    ///
    /// # Safety
    /// They may be read, as long as the cursor and what is made of it are used.
    pub(crate) unsafe fn new(at: *const u8, length: usize) -> Self {
        Self { at, end: at.wrapping_add(length) }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> u64 {
        self.at as u64
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        (self.end as usize).saturating_sub(self.at as usize)
    }

    /// The next bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.left() < N {
            return None;
        }
        // SAFETY: within the part, as whoever made it says.
        let bytes = unsafe { self.at.cast::<[u8; N]>().read_unaligned() };
        self.at = self.at.wrapping_add(N);
        Some(bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A number of variable length.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        self.variable().map(|(value, _, _)| value)
    }

    /// One with a sign.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let (value, bits, last) = self.variable()?;
        let is_negative = last & 0x40 != 0 && bits < 64;
        Some(if is_negative { value | u64::MAX << bits } else { value } as i64)
    }

    /// The value, its bits, and its last byte.
    fn variable(&mut self) -> Option<(u64, u32, u8)> {
        let (mut value, mut bits) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(bits).unwrap_or_default();
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((value, bits, byte));
            }
            if bits > 70 {
                return None;
            }
        }
    }

    /// The next bytes as a part of their own.
    pub(crate) fn part(&mut self, length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.left())?;
        let part = Self { at: self.at, end: self.at.wrapping_add(length) };
        self.at = part.end;
        Some(part)
    }

    /// A pointer, or the size of something where `encoding` has no more than that.
    pub(crate) fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let place = self.address();
        let value = match encoding & 0x0f {
            encoding::UNSIGNED_4 => self.u32()?.into(),
            encoding::SIGNED_4 => self.u32()? as i32 as u64,
            encoding::ABSOLUTE | encoding::UNSIGNED_8 | encoding::SIGNED_8 => self.u64()?,
            _ => return None,
        };
        match encoding & 0x70 {
            encoding::ABSOLUTE => Some(value),
            encoding::RELATIVE => Some(place.wrapping_add(value)),
            _ => None,
        }
    }

    /// Goes over a pointer, however it is relative.
    pub(crate) fn skip_pointer(&mut self, encoding: u8) -> Option<()> {
        self.pointer(encoding & 0x0f).map(|_| ())
    }
}
