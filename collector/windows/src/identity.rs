//! Which PDB belongs to a PE file: the RSDS record of its debug directory.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use object::read::ReadCache;
use syscollect_etl::Guid;

/// A PDB's identity: a symbol file belongs to an image if both match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Made when the image was linked.
    pub guid: Guid,
    /// How often the PDB was written since.
    pub age: u32,
    /// The PDB's name as the linker knew it, often with a path.
    pub pdb: String,
    /// When the image was linked, as its header says: tells whether this is the file that was
    /// loaded.
    pub stamp: u32,
}

/// Longest name of a PDB that is believed.
const NAME_MAX: usize = 4096;

/// The identity in an image's debug directory; `None` where it has none or is no PE file.
pub fn identity(file: impl Read + Seek) -> Option<Identity> {
    // Only the parts that are asked for are read: images may be large.
    let cache = ReadCache::new(file);
    let image = object::File::parse(&cache).ok()?;
    let codeview = object::Object::pdb_info(&image).ok()??;
    let name = codeview.path();
    let name = &name[..name.len().min(NAME_MAX)];
    let stamp = match &image {
        object::File::Pe32(image) => {
            image.nt_headers().file_header.time_date_stamp.get(object::LittleEndian)
        }
        object::File::Pe64(image) => {
            image.nt_headers().file_header.time_date_stamp.get(object::LittleEndian)
        }
        _ => 0,
    };
    let pdb = String::from_utf8_lossy(name).into_owned();
    Some(Identity { guid: Guid(codeview.guid()), age: codeview.age(), pdb, stamp })
}

/// The identity of the image that the kernel names so.
#[expect(
    clippy::disallowed_methods,
    reason = "Windows, where nothing else opens files of programs"
)]
pub fn identity_of(path: &str) -> Option<Identity> {
    File::open(Path::new(&openable(path))).ok().and_then(identity)
}

/// The name by which a program opens what the kernel calls so.
fn openable(path: &str) -> String {
    let upper = path.to_ascii_uppercase();
    if upper.starts_with(r"\DEVICE\") || upper.starts_with(r"\SYSTEMROOT\") {
        return format!(r"\\?\GLOBALROOT{path}");
    }
    match path.strip_prefix(r"\??\") {
        Some(rest) => format!(r"\\?\{rest}"),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use syscollect_fixtures::image::{Image, SymbolFileOf};

    #[test]
    fn names_of_the_kernel_become_names_that_programs_open() {
        let system = r"\SystemRoot\System32\drivers\tcpip.sys";
        assert_eq!(openable(system), r"\\?\GLOBALROOT\SystemRoot\System32\drivers\tcpip.sys");
        let device = r"\Device\HarddiskVolume3\Windows\System32\ntdll.dll";
        assert_eq!(
            openable(device),
            r"\\?\GLOBALROOT\Device\HarddiskVolume3\Windows\System32\ntdll.dll"
        );
        assert_eq!(openable(r"\??\C:\x.dll"), r"\\?\C:\x.dll");
        assert_eq!(openable(r"C:\x.dll"), r"C:\x.dll");
    }

    #[test]
    fn what_is_no_image_has_no_identity() {
        assert_eq!(identity(Cursor::new(b"MZ")), None);
        assert_eq!(identity(Cursor::new([])), None);
        assert_eq!(identity_of("no such file"), None);
    }

    proptest::proptest! {
        #[test]
        fn a_damaged_image_has_an_identity_or_none_and_harms_nobody(
            at in proptest::collection::vec((0_usize..1024, proptest::num::u8::ANY), 1..20),
            length in 0_usize..100_000,
        ) {
            let mut bytes = image(at.len() % 2 == 0).bytes();
            at.iter().for_each(|(at, byte)| bytes[*at] = *byte);
            bytes.truncate(length);
            if let Some(identity) = identity(Cursor::new(bytes)) {
                proptest::prop_assert!(identity.pdb.len() <= 3 * NAME_MAX);
            }
        }
    }

    /// An image whose symbol file is known.
    fn image(is_64_bit: bool) -> Image<'static> {
        let symbols = SymbolFileOf { guid: [0xab; 16], age: 7, path: r"d:\out\app.pdb" };
        Image { is_64_bit, symbols: Some(symbols), ..Image::default() }
    }

    #[test]
    fn an_image_of_64_and_of_32_bits_says_which_its_symbol_file_is() {
        for is_64_bit in [true, false] {
            let image = image(is_64_bit);
            let found = identity(Cursor::new(image.bytes())).unwrap();
            let pdb = r"d:\out\app.pdb".to_owned();
            let expected = Identity { guid: Guid([0xab; 16]), age: 7, pdb, stamp: image.timestamp };
            assert_eq!(found, expected);
            let without = Image { symbols: None, ..image };
            assert_eq!(identity(Cursor::new(without.bytes())), None);
        }
    }

    #[syscollect_fixtures::test]
    fn the_identity_of_a_real_image_is_that_of_its_pdb() {
        let file = File::open(syscollect_fixtures::path("etl/syzygy-test_types_x64.dll")).unwrap();
        let identity = identity(file).unwrap();
        assert_eq!(identity.guid.to_string(), "988a0d29-3b0e-42e4-8a13-9ddd7f0f2bc1");
        assert_eq!(identity.age, 1);
        assert_ne!(identity.stamp, 0);
        assert!(identity.pdb.ends_with("test_types.dll.pdb"), "{}", identity.pdb);
    }
}
