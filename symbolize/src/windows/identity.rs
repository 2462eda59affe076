//! What a symbol file is known by.

use std::fmt::Write;

/// Longer names than this are no file's.
const NAME_MAX: usize = 255;
/// Order in which the bytes of a GUID are written: its first three fields are little-endian
/// numbers.
const DISPLAYED: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];

/// The symbol file of an image, as its debug directory names it (RSDS).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PdbIdentity {
    /// Its file name, perhaps with the path it was built at.
    pub name: String,
    /// Its GUID, as the bytes lie in files.
    pub guid: [u8; 16],
    /// How often it was written since it got that GUID.
    pub age: u32,
}

impl PdbIdentity {
    /// The name of its folder in symbol stores: the GUID's digits and the age, hexadecimal.
    ///
    /// ```
    /// use syscollect_symbolize::windows::PdbIdentity;
    /// let guid = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    /// let pdb = PdbIdentity { name: "a.pdb".into(), guid, age: 26 };
    /// assert_eq!(pdb.store_key(), "0403020106050807090A0B0C0D0E0F101a");
    /// ```
    pub fn store_key(&self) -> String {
        store_key(&self.guid, self.age)
    }

    /// Its name without folders; `None` if that cannot be a file's.
    pub(crate) fn file_name(&self) -> Option<&str> {
        file_name(&self.name)
    }
}

/// As [`PdbIdentity::store_key`].
pub(crate) fn store_key(guid: &[u8; 16], age: u32) -> String {
    let mut key = String::with_capacity(40);
    for byte in DISPLAYED {
        // Writing to a string cannot fail.
        let _ = write!(key, "{:02X}", guid[byte]);
    }
    let _ = write!(key, "{age:x}");
    key
}

/// The name of an image's folder in symbol stores: time stamp and size.
pub(crate) fn image_key(timestamp: u32, size: u32) -> String {
    format!("{timestamp:08X}{size:x}")
}

/// The last part of a path of Windows, or of any other system.
///
/// It comes from a trace, and becomes a part of paths and addresses: whatever
/// could lead elsewhere is no file name.
pub(crate) fn file_name(path: &str) -> Option<&str> {
    let name = path.rsplit(['\\', '/']).next()?;
    let plain = !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.chars().all(|c| c == '.')
        && !name.contains(|c: char| {
            c.is_control() || matches!(c, ':' | '*' | '?' | '"' | '<' | '>' | '|')
        });
    plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_part_of_a_traced_path_is_a_file_name() {
        assert_eq!(
            file_name(r"\Device\HarddiskVolume3\Windows\System32\ntdll.dll"),
            Some("ntdll.dll")
        );
        assert_eq!(file_name(r"..\..\a.pdb"), Some("a.pdb"));
        assert_eq!(file_name("/build/a.pdb"), Some("a.pdb"));
        for bad in ["", r"C:\dir\", "..", r"x\..", "C:", "a:stream", "a\nb", &"x".repeat(256)] {
            assert_eq!(file_name(bad), None, "{bad:?}");
        }
    }
}
