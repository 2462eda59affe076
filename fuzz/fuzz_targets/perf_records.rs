//! Whatever lies in a perf ring is read to its end, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    syscollect_capture::read_perf_records(bytes);
});
