//! Whatever is sent as a Python code object is read, and each instruction has a line or none.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The first bytes say which instruction is asked for.
fuzz_target!(|data: &[u8]| {
    let Some((word, sent)) = data.split_first_chunk::<4>() else { return };
    let Some(code) = syscollect_cpython::PythonCode::read(sent) else { return };
    assert!(code.line(u32::from_le_bytes(*word)) != Some(0));
    assert!(!code.name.chars().any(char::is_control) && !code.file.chars().any(char::is_control));
});
