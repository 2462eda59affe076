//! Whatever programs do with the memory that they share, nothing panics, what is recorded are whole
//! items, and an honest program's zones are all there.
//!
//! An input says what hostile programs do, step by step: announce rings, write what is none, claim
//! what was never written, take pages out of the file, while the recorder looks, drains and looks
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| syscollect_capture::hostile_programs(data));
