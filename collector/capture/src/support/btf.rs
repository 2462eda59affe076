//! Finds a type in the kernel's BTF by name.
//!
//! The format is that of Documentation/bpf/btf.rst. Only ids are looked for
//! here; loading the real programs is aya's.

use std::io;

/// Kind of a type definition.
pub(super) const TYPEDEF: u32 = 8;
/// Kind of a function.
pub(super) const FUNCTION: u32 = 12;
/// Kind of a variable; only those of CPUs are there.
pub(crate) const VARIABLE: u32 = 14;

const MAGIC: u16 = 0xeb9f;

/// The id of a type of the running kernel.
///
/// # Errors
///
/// `NotFound` when there is no BTF or no such type, else what reading said.
pub(crate) fn id_in_kernel(name: &str, kind: u32) -> io::Result<u32> {
    let bytes = std::fs::read("/sys/kernel/btf/vmlinux")?;
    find(&bytes, name, kind).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The id of the first type of that name and kind.
fn find(btf: &[u8], name: &str, kind: u32) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(btf.get(at..at + 4)?.try_into().ok()?));
    if u16::from_ne_bytes(btf.get(..2)?.try_into().ok()?) != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    let types_at = header + word(8)? as usize;
    let types_end = types_at + word(12)? as usize;
    let strings = btf.get(header + word(16)? as usize..)?;
    let has_name = |offset: u32| {
        let text = strings.get(offset as usize..);
        text.and_then(|text| text.strip_prefix(name.as_bytes())).is_some_and(|rest| rest.first() == Some(&0))
    };
    let (mut at, mut id) = (types_at, 1);
    while at < types_end {
        let (name_offset, info) = (word(at)?, word(at + 4)?);
        let (found, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if found == kind && has_name(name_offset) {
            return Some(id);
        }
        at += 12 + bytes_behind(found, members)?;
        id += 1;
    }
    None
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
mod tests {
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
        assert_eq!(find(&bytes, "bpf_iter_task", FUNCTION), Some(6), "neither a longer name nor another kind");
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

    #[test]
    fn this_kernels_own_types_are_found_where_it_has_btf() {
        match id_in_kernel("task_struct", 4) {
            Ok(id) => assert!(id > 0),
            Err(error) => assert!(!std::path::Path::new("/sys/kernel/btf/vmlinux").exists(), "{error}"),
        }
    }
}
