//! Whatever a file says of the Java virtual machine in it, what comes of it is read within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(Some(found)) = syscollect_hotspot::machine(data) else { return };
    assert!(found.block_header <= 64);
    assert!(matches!(found.frame_complete_bytes, 2 | 4));
    assert!(matches!(found.code_offset_bytes, 0 | 2 | 4));
});
