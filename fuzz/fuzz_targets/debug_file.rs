//! Whatever a debug file says of its code, and a capture of what was mapped, code is placed without
//! a panic, and each place has one address at most.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::ops::Range;
use syscollect_untrusted_files::MemoryFile;

// First a count of parts that were mapped, with two numbers each, then the file.
fuzz_target!(|data: &[u8]| {
    let Some((count, mut rest)) = data.split_first() else { return };
    let mut mapped: Vec<Range<u64>> = Vec::new();
    for _ in 0..count % 8 {
        let Some((numbers, behind)) = rest.split_first_chunk::<16>() else { return };
        let [start, end] =
            [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|n| numbers[at + n])));
        mapped.push(start..end);
        rest = behind;
    }
    let Ok(file) = in_memory(rest) else { return };
    let ends = mapped.iter().flat_map(|part| [part.start, part.end, part.end.wrapping_sub(1)]);
    let offsets: Vec<u64> = ends.chain((0..0x4000).step_by(0x200)).collect();
    if let Some(addresses) = syscollect_symbolize::place_debug_file(&file, &mapped, &offsets) {
        assert_eq!(addresses.len(), offsets.len());
    }
});

fn in_memory(bytes: &[u8]) -> std::io::Result<std::fs::File> {
    let file = MemoryFile::new("fuzz", bytes.len() as u64)?;
    file.write_at(bytes, 0)?;
    file.seal()
}
