//! Whatever lies in a file as its compressed symbols is inflated within bounds, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_fixtures::xz;

/// More than an input could hold, less than one could claim.
const MOST: u64 = 4 << 20;

// An input is a stream, or the parts of one and the size of its dictionary: a search does not get
// to headers whose sums agree.
fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let length = match (kind, rest.split_first()) {
        (0, _) => syscollect_symbolize::read_mini_debug(rest, MOST),
        (_, Some((dictionary, parts))) => {
            let stream = xz::around(parts, u64::from(*kind), *dictionary, &[]);
            syscollect_symbolize::read_mini_debug(&stream, MOST)
        }
        _ => None,
    };
    assert!(length.is_none_or(|length| length <= MOST));
});
