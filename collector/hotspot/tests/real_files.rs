//! The virtual machines of this computer, as far as there are any.

use std::path::PathBuf;
use syscollect_hotspot::{machine, may_hold_machine};

fn machines() -> Vec<PathBuf> {
    let Ok(folders) = std::fs::read_dir("/usr/lib/jvm") else { return Vec::new() };
    let files = folders.flatten().map(|folder| folder.path().join("lib/server/libjvm.so"));
    files.filter(|path| path.exists()).collect()
}

#[test]
fn every_machine_of_a_distribution_is_known() {
    for path in machines() {
        let shown = path.to_str().unwrap();
        assert!(may_hold_machine(shown));
        let data = std::fs::read(&path).unwrap();
        let found = machine(&*data).unwrap().unwrap();
        assert!(matches!(found.block_header, 8 | 16), "{shown}: {found:?}");
        assert!(matches!(found.frame_complete_bytes, 2 | 4), "{shown}: {found:?}");
        let mut words = [found.heaps, found.interpreter, found.call_stub].to_vec();
        words.extend(found.members);
        // All lie in the file's data, each word once.
        assert!(words.iter().all(|word| word % 4 == 0 && *word > 1 << 20), "{shown}: {found:x?}");
        let continuation = found.continuation.iter().filter(|place| **place != 0);
        words.extend(continuation);
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all, "{shown}: {found:x?}");
        assert!(matches!(all - 3 - found.members.len(), 0 | 10), "{shown}: {found:x?}");
    }
}

#[test]
fn a_file_that_was_cut_off_or_changed_is_refused_or_read() {
    let Some(path) = machines().pop() else { return };
    let mut data = std::fs::read(&path).unwrap();
    let whole = data.len();
    for length in [0, 16, 64, 1000, whole / 100, whole / 2, whole - 1] {
        let _ = machine(&data[..length]);
    }
    for at in (0..1024).step_by(7) {
        let before = std::mem::replace(&mut data[at], 0xff);
        let _ = machine(&*data);
        data[at] = before;
    }
}
