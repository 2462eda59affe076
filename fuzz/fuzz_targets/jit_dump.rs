//! Whatever a program writes as the jitdump of its code is read, and what is found in it lies where
//! it was looked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_model::{ClockMap, ClockPair, Ticks};

/// Where a record of loaded code has its address, counted from the record's start.
const ADDRESS: usize = 32;

/// A clock that shows the counter.
fn clock() -> ClockMap {
    let readings = [0, 1].map(|at| ClockPair {
        ticks: Ticks(at),
        monotonic: at,
        monotonic_raw: at,
        boottime: at,
        realtime: 0,
        uncertainty: 0,
    });
    ClockMap::new(readings.into()).expect("two readings")
}

// The first word is an address that is asked for, beside what may be those of the records.
fuzz_target!(|data: &[u8]| {
    let Some((word, dump)) = data.split_first_chunk::<8>() else { return };
    let words = dump.iter().enumerate().step_by(8);
    let starts = words.filter_map(|(at, _)| dump.get(at + ADDRESS..)?.first_chunk().copied());
    let addresses: Vec<u64> = starts.chain([*word]).map(u64::from_le_bytes).collect();
    let clock = clock();
    let symbols = syscollect_symbolize::read_jit_dump(dump, &addresses, Some(&clock));
    let names = symbols.iter().map(|symbol| (symbol.offset, symbol.since));
    assert!(names.is_sorted_by(|before, after| before < after));
    for symbol in symbols {
        assert!(addresses.contains(&symbol.offset));
        assert!(symbol.start <= symbol.offset && symbol.offset - symbol.start < symbol.size);
        assert!(symbol.frames.len() == 1 && !symbol.frames[0].function.is_empty());
    }
});
