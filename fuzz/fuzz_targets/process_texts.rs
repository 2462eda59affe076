//! Whatever /proc says of a process, whose name and arguments are its own choice, is read or
//! refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    syscollect_capture::read_process_texts(bytes);
});
