//! Finds a type in the kernel's BTF by name, and where a structure's members lie.
//!
//! The format is that of Documentation/bpf/btf.rst; loading the programs whose
//! types the compiler knows is aya's.

use std::io;
use std::path::Path;

use syscollect_untrusted_files::FixedPath;

/// Kind of a type definition.
pub(crate) const TYPEDEF: u32 = 8;
/// Kind of a function.
pub(crate) const FUNCTION: u32 = 12;
/// Kind of a variable; only those of CPUs are there.
pub(crate) const VARIABLE: u32 = 14;

const MAGIC: u16 = 0xeb9f;

/// Kind of a structure.
pub(crate) const STRUCTURE: u32 = 4;

/// The id of a type of the running kernel.
///
/// # Errors
///
/// `NotFound` when there is no BTF or no such type, else what reading said.
pub(crate) fn id_in_kernel(name: &str, kind: u32) -> io::Result<u32> {
    let bytes = FixedPath::new("/sys/kernel/btf/vmlinux").read()?;
    find(&bytes, name, kind).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The id of the first type of that name and kind.
fn find(btf: &[u8], name: &str, kind: u32) -> Option<u32> {
    let btf = Btf::new(btf, &[])?;
    let place = btf
        .types()
        .position(|found| found.kind == kind && btf.text(found.name) == Some(name.as_bytes()))?;
    // Type 0 is void, which nobody describes.
    Some(place as u32 + 1)
}

/// Bytes from a structure's start to members of it, in the kernel or in a module of it (5.11), on
/// the machine whose /sys lies below `root`.
///
/// # Errors
///
/// `NotFound` when there is no BTF, no such structure, or a member is missing, else what reading
/// said.
pub(crate) fn offsets<const N: usize>(
    root: &Path,
    module: Option<&'static str>,
    structure: &str,
    members: [&str; N],
) -> io::Result<[u32; N]> {
    let kernel = read(root, "vmlinux")?;
    let found = match module {
        None => members_of(&kernel, None, structure, members),
        Some(module) => members_of(&kernel, Some(&read(root, module)?), structure, members),
    };
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn read(root: &Path, name: &'static str) -> io::Result<Vec<u8>> {
    FixedPath::below(&root.join("sys/kernel/btf"), name).read()
}

/// Bytes from the starts of structures of the kernel to members of them, each a structure and a
/// member, on the machine whose /sys lies below `root`.
///
/// # Errors
///
/// `NotFound` when there is no BTF, or a structure or member is missing, else what reading said.
pub(crate) fn offsets_of_each<const N: usize>(
    root: &Path,
    wanted: [(&str, &str); N],
) -> io::Result<[u32; N]> {
    let bytes = read(root, "vmlinux")?;
    members_of_each(&bytes, wanted).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn members_of_each<const N: usize>(bytes: &[u8], wanted: [(&str, &str); N]) -> Option<[u32; N]> {
    let btf = Btf::new(bytes, &[])?;
    let mut offsets = [None; N];
    for found in btf.types().filter(|found| found.kind == STRUCTURE) {
        let name = btf.text(found.name)?;
        if wanted.iter().any(|(structure, _)| structure.as_bytes() == name) {
            for (offset, (structure, member)) in offsets.iter_mut().zip(wanted) {
                // The first of that name, as above.
                if structure.as_bytes() == name && offset.is_none() {
                    *offset = offset_in(&btf, &found, member);
                }
            }
            if offsets.iter().all(Option::is_some) {
                break;
            }
        }
    }
    offsets.iter().all(Option::is_some).then(|| offsets.map(Option::unwrap_or_default))
}

fn offset_in(btf: &Btf<'_>, found: &Type<'_>, wanted: &str) -> Option<u32> {
    let mut members = found.behind.chunks_exact(12);
    let member = members.find(|member| {
        word(member, 0).and_then(|name| btf.text(name)) == Some(wanted.as_bytes())
    })?;
    Some(found.offset(word(member, 8)?))
}

fn members_of<const N: usize>(
    kernel: &[u8],
    module: Option<&[u8]>,
    structure: &str,
    members: [&str; N],
) -> Option<[u32; N]> {
    let kernel = Btf::new(kernel, &[])?;
    // A module's texts go on where the kernel's end, and many of its names are the kernel's.
    let btf = module.map_or(Some(kernel), |module| Btf::new(module, kernel.strings))?;
    let found = btf.types().find(|found| {
        found.kind == STRUCTURE && btf.text(found.name) == Some(structure.as_bytes())
    })?;
    let mut offsets = [None; N];
    for member in found.behind.chunks_exact(12) {
        let (name, bits) = (btf.text(word(member, 0)?)?, word(member, 8)?);
        if let Some(index) = members.iter().position(|wanted| wanted.as_bytes() == name) {
            offsets[index] = Some(found.offset(bits));
        }
    }
    // All or none.
    offsets.iter().all(Option::is_some).then(|| offsets.map(Option::unwrap_or_default))
}

/// The types of the kernel, or those that a module adds.
#[derive(Clone, Copy)]
struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// What comes before `strings`.
    strings_before: &'a [u8],
}

/// A type as it lies there.
struct Type<'a> {
    kind: u32,
    name: u32,
    has_bit_fields: bool,
    behind: &'a [u8],
}

impl Type<'_> {
    /// Bytes to a member, of what is said of it. Where the structure has bit fields, the upper byte
    /// is their size.
    fn offset(&self, bits: u32) -> u32 {
        (if self.has_bit_fields { bits & 0xff_ffff } else { bits }) / 8
    }
}

impl<'a> Btf<'a> {
    fn new(bytes: &'a [u8], strings_before: &'a [u8]) -> Option<Self> {
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        Some(Self { types: part(bytes, 8)?, strings: part(bytes, 16)?, strings_before })
    }

    fn text(&self, offset: u32) -> Option<&'a [u8]> {
        let offset = offset as usize;
        let strings = match offset.checked_sub(self.strings_before.len()) {
            Some(offset) => self.strings.get(offset..)?,
            None => self.strings_before.get(offset..)?,
        };
        strings.split(|byte| *byte == 0).next()
    }

    /// In order of their ids; ends at a kind that is not known.
    fn types(&self) -> impl Iterator<Item = Type<'a>> + use<'a> {
        let mut rest = self.types;
        std::iter::from_fn(move || {
            let (name, info) = (word(rest, 0)?, word(rest, 4)?);
            let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let behind = rest.get(12..12 + bytes_behind(kind, members)?)?;
            rest = &rest[12 + behind.len()..];
            Some(Type { kind, name, has_bit_fields: info >> 31 == 1, behind })
        })
    }
}

/// The part whose start behind the header, and whose size, are at that place.
fn part(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let start = word(bytes, 4)? as usize + word(bytes, at)? as usize;
    bytes.get(start..)?.get(..word(bytes, at + 4)? as usize)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes that follow a type of this kind; `None` for kinds that are not known.
fn bytes_behind(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, data sections, 64-bit enumerations.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations, function prototypes.
        6 | 13 => 8 * members,
        // Pointers, forwards, qualifiers, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// BTF with the given types: name, kind, members, bytes behind.
    fn btf(types: &[(&str, u32, u32, usize)]) -> Vec<u8> {
        let (mut body, mut strings) = (Vec::new(), vec![0]);
        for (name, kind, members, behind) in types {
            for word in [strings.len() as u32, kind << 24 | members, 0] {
                body.extend(word.to_ne_bytes());
            }
            body.extend(vec![0xff; *behind]);
            strings.extend(name.as_bytes());
            strings.push(0);
        }
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, body.len() as u32, body.len() as u32, strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, body, strings].concat()
    }

    #[test]
    fn a_type_is_found_behind_types_of_every_length() {
        let bytes = btf(&[
            ("int", 1, 0, 4),
            ("task_struct", 4, 2, 24),
            ("state", 6, 3, 24),
            ("bpf_iter_task", 8, 0, 0),
            ("bpf_iter_task_file", 12, 0, 0),
            ("bpf_iter_task", 12, 0, 0),
        ]);
        assert_eq!(
            find(&bytes, "bpf_iter_task", FUNCTION),
            Some(6),
            "neither a longer name nor another kind"
        );
        assert_eq!(find(&bytes, "bpf_iter_task", TYPEDEF), Some(4));
        assert_eq!(find(&bytes, "absent", FUNCTION), None);
    }

    #[test]
    fn cut_bytes_are_no_type() {
        let bytes = btf(&[("int", 1, 0, 4), ("last", 12, 0, 0)]);
        for length in 0..bytes.len() {
            assert_eq!(find(&bytes[..length], "last", FUNCTION), None, "{length}");
        }
    }

    /// BTF with one structure; members by the place of their names, and their bits.
    pub(crate) fn structure(
        strings: &str,
        name: u32,
        has_bit_fields: bool,
        members: &[(u32, u32)],
    ) -> Vec<u8> {
        let info = u32::from(has_bit_fields) << 31 | STRUCTURE << 24 | members.len() as u32;
        let mut words = vec![24, 0, 12 + 12 * members.len() as u32];
        words.extend([words[2], strings.len() as u32, name, info, 0]);
        members.iter().for_each(|(name, bits)| words.extend([*name, 0, *bits]));
        let words = words.into_iter().flat_map(u32::to_ne_bytes);
        MAGIC.to_ne_bytes().into_iter().chain([1, 0]).chain(words).chain(strings.bytes()).collect()
    }

    #[test]
    fn members_lie_where_the_kernel_says_also_beside_bit_fields() {
        let strings = "\0fence\0error\0seqno\0";
        let plain = structure(strings, 1, false, &[(13, 64), (7, 128)]);
        assert_eq!(members_of(&plain, None, "fence", ["error", "seqno"]), Some([16, 8]));
        assert_eq!(members_of(&plain, None, "fence", ["error", "parent"]), None, "all or none");
        assert_eq!(members_of(&plain, None, "error", ["seqno"]), None, "a member is no structure");
        let bits = structure(strings, 1, true, &[(13, 3 << 24 | 64), (7, 128)]);
        assert_eq!(members_of(&bits, None, "fence", ["error", "seqno"]), Some([16, 8]));
    }

    #[test]
    fn a_modules_structure_is_named_by_the_kernels_texts_and_its_own() {
        let kernel = structure("\0parent\0", 1, false, &[]);
        let module = structure("\0job\0finished\0", 8 + 1, false, &[(8 + 5, 512), (1, 1024)]);
        assert_eq!(
            members_of(&kernel, Some(&module), "job", ["finished", "parent"]),
            Some([64, 128])
        );
        assert_eq!(members_of(&kernel, None, "job", ["finished"]), None);
        for length in 0..module.len() {
            let cut = &module[..length];
            assert_eq!(
                members_of(&kernel, Some(cut), "job", ["finished", "parent"]),
                None,
                "{length}"
            );
        }
    }

    #[test]
    fn this_kernels_own_types_are_found_where_it_has_btf() {
        match id_in_kernel("task_struct", 4) {
            Ok(id) => assert!(id > 0),
            Err(error) => {
                assert!(!std::path::Path::new("/sys/kernel/btf/vmlinux").exists(), "{error}");
            }
        }
    }
}
