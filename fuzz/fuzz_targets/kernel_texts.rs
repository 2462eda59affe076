//! Whatever drivers and kernels write into fdinfo and format files is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // Nothing is made of nothing: what is understood was a line.
    assert!(syscollect_capture::read_kernel_text(text) <= 2 * text.lines().count());
});
