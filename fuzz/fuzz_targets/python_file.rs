//! Whatever a file says of the interpreter in it, what comes of it is read within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_records::python::{CODE_BYTES, FRAME_BYTES};

fuzz_target!(|data: &[u8]| {
    let Ok(Some(found)) = syscollect_cpython::interpreter(data, "/usr/bin/python3.11") else { return };
    assert!(usize::from(found.frame_bytes) <= FRAME_BYTES);
    assert!(usize::from(found.code_bytes) <= CODE_BYTES);
    for [first, end] in found.loops.as_chunks::<2>().0 {
        assert!(first <= end);
    }
});
