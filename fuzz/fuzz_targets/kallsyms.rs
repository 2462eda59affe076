//! Whatever the kernel's list of symbols holds, whose names modules and BPF programs choose, is
//! read, and what is found in it lies where it was looked for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    assert!(syscollect_symbolize::read_kallsyms(text) <= text.lines().count());
});
