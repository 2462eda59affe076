//! Build ids of sound and of damaged files.

use proptest::prelude::*;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use syscollect_model::BuildId;
use syscollect_symbolize::build_id_of;

/// A whole ELF library of a few kilobytes that every process has.
pub static VDSO: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let vdso = crate::common::mapped_path("[vdso]");
    let mut bytes = vec![0; (vdso.end - vdso.start) as usize];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, vdso.start).unwrap();
    bytes
});

fn read(bytes: &[u8]) -> Option<BuildId> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    build_id_of(&file)
}

#[test]
fn the_build_id_is_the_one_in_the_note() {
    let id = read(&VDSO).unwrap();
    let note = [
        &[4, 0, 0, 0, id.as_bytes().len() as u8, 0, 0, 0, 3, 0, 0, 0],
        b"GNU\0".as_slice(),
        id.as_bytes(),
    ]
    .concat();
    assert!(VDSO.windows(note.len()).any(|bytes| bytes == note), "{id}");
}

#[test]
fn reading_moves_no_position() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&VDSO).unwrap();
    let before = file.stream_position().unwrap();
    assert!(build_id_of(&file).is_some());
    assert_eq!(file.stream_position().unwrap(), before);
}

#[test]
fn what_is_no_elf_file_has_none() {
    assert_eq!(read(b""), None);
    assert_eq!(read(b"\x7fELF"), None);
    assert_eq!(read(&[0; 4096]), None);
    assert_eq!(build_id_of(&File::open("/proc/self/status").unwrap()), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damage_is_survived(
        flips in proptest::collection::vec((0usize..4096, any::<u8>()), 1..12),
        length in 0usize..8192,
    ) {
        let mut bytes = VDSO.clone();
        for (offset, value) in flips {
            let length = bytes.len();
            bytes[offset % length] = value;
        }
        bytes.truncate(length.max(64));
        if let Some(id) = read(&bytes) {
            prop_assert!((1..=20).contains(&id.as_bytes().len()));
            prop_assert!(
                bytes.windows(id.as_bytes().len()).any(|b| b == id.as_bytes()),
                "made of the file's bytes"
            );
        }
    }

    #[test]
    fn headers_full_of_nonsense_are_survived(header in proptest::collection::vec(any::<u8>(), 59)) {
        let mut bytes = VDSO.clone();
        bytes[5..64].copy_from_slice(&header);
        let _ = read(&bytes);
    }
}
