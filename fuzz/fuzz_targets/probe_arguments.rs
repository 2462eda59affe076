//! Whatever a probe's note says of its arguments is understood or named as not understood, and what
//! is understood reads the same again and is evaluated, whatever registers and memory hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_probes::{Argument, evaluate};

fuzz_target!(|text: &str| {
    for word in text.split_ascii_whitespace() {
        let Ok(argument) = word.parse::<Argument>();
        assert!([1, 2, 4, 8].contains(&argument.size));
        let Ok(again) = argument.to_string().parse::<Argument>();
        assert_eq!(argument, again);
        let _ = argument.describe();
        for register in [0, 1, u64::MAX, 1 << 63] {
            let _ = evaluate(
                &argument,
                |_| register,
                |address, bytes| {
                    bytes.fill(address as u8);
                    address.is_multiple_of(2)
                },
            );
        }
    }
});
