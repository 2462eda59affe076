//! The payload's primitives.

use super::Damage;

/// Where reading has come to.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What is being read, for messages.
    section: &'static str,
    /// The layout, once the header told it.
    version: [u8; 3],
}

/// A `StringRef`: by index, or by pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringRef {
    None,
    Index(u64),
    Pointer(u64),
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, section: "header", version: [0; 3] }
    }

    pub(super) fn set_version(&mut self, version: [u8; 3]) {
        self.version = version;
    }

    /// Whether the layout has what came with that version.
    pub(super) fn since(&self, version: [u8; 3]) -> bool {
        self.version >= version
    }

    /// Begins a section.
    pub(super) fn section(&mut self, name: &'static str) {
        self.section = name;
    }

    pub(super) fn damage(&self, what: impl std::fmt::Display) -> Damage {
        Damage(format!("{} (at byte {} of the payload): {what}", self.section, self.at))
    }

    pub(super) fn check(&self, holds: bool, what: impl Fn() -> String) -> Result<(), Damage> {
        if holds { Ok(()) } else { Err(self.damage(what())) }
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            self.damage(format!("{length} bytes are wanted, and the file ends before"))
        })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Damage> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn i8(&mut self) -> Result<i8, Damage> {
        self.array().map(i8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Damage> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Damage> {
        self.array().map(i16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Damage> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Damage> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn f64(&mut self) -> Result<f64, Damage> {
        self.array().map(f64::from_le_bytes)
    }

    pub(super) fn int24(&mut self) -> Result<u32, Damage> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// A `StringIdx`: the index, or none.
    pub(super) fn string_index(&mut self) -> Result<Option<u32>, Damage> {
        Ok(self.int24()?.checked_sub(1))
    }

    pub(super) fn string_ref(&mut self) -> Result<StringRef, Damage> {
        let value = self.u64()?;
        match self.u8()? {
            0 => Ok(StringRef::None),
            2 => Ok(StringRef::Pointer(value)),
            3 => Ok(StringRef::Index(value)),
            flags => Err(self.damage(format!("{flags:#x} are no flags of a string"))),
        }
    }

    /// The time at a delta from the last one.
    pub(super) fn time(&mut self, reference: &mut i64) -> Result<i64, Damage> {
        let delta = self.i64()?;
        let time = reference.checked_add(delta).filter(|time| (-1..1 << 47).contains(time));
        *reference =
            time.ok_or_else(|| self.damage(format!("{reference} + {delta} is no time")))?;
        Ok(*reference)
    }

    /// Text with its length before it.
    pub(super) fn text(&mut self, limit: u64) -> Result<String, Damage> {
        let length = self.u64()?;
        self.check(length < limit, || format!("a text of {length} bytes is too long"))?;
        let bytes = self.take(length as usize)?;
        String::from_utf8(bytes.to_vec()).map_err(|error| self.damage(error))
    }

    /// How many items come; each has at least `least` bytes.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Damage> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        self.check(count.saturating_mul(least as u64) <= left, || {
            format!("{count} items do not fit into {left} bytes")
        })?;
        Ok(count as usize)
    }

    /// `n{item}`.
    pub(super) fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Damage>,
    ) -> Result<Vec<T>, Damage> {
        (0..self.count(least)?).map(|_| item(self)).collect()
    }

    /// A section that nobody writes here.
    pub(super) fn nothing(&mut self) -> Result<(), Damage> {
        let count = self.u64()?;
        self.check(count == 0, || format!("{count} items, where this reader knows none"))
    }

    pub(super) fn end(&self) -> Result<(), Damage> {
        let left = self.bytes.len() - self.at;
        self.check(left == 0, || format!("{left} bytes follow"))
    }
}
