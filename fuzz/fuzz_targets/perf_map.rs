//! Whatever a program writes as the list of its code is read, and what is found in it lies where it
//! was looked for.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The first word is an address that is asked for, beside those of the lines themselves.
fuzz_target!(|data: &[u8]| {
    let Some((word, map)) = data.split_first_chunk::<8>() else { return };
    let starts = map.split(|byte| *byte == b'\n').filter_map(|line| {
        let digits = line.split(|byte| *byte == b' ').next()?;
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    });
    let addresses: Vec<u64> = starts.chain([u64::from_le_bytes(*word)]).collect();
    let symbols = syscollect_symbolize::read_perf_map(map, &addresses);
    assert!(symbols.windows(2).all(|pair| pair[0].offset < pair[1].offset));
    for symbol in symbols {
        assert!(addresses.contains(&symbol.offset));
        assert!(symbol.start <= symbol.offset && symbol.offset - symbol.start < symbol.size);
        assert!(symbol.frames.len() == 1 && !symbol.frames[0].function.is_empty());
    }
});
