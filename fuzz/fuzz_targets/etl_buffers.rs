//! Whatever an event trace log holds, reading it ends, in bounded memory and
//! without a panic, and both ways to read it count the same.
//!
//! Every input is read as a file, as what follows a sound first buffer, as the
//! records of a sound buffer, and as changes to the smallest real file, where
//! that is there (tests/fixtures/README.md).
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use syscollect_etl::file::Trace;
use syscollect_fuzz::etl::{BUFFER_HEADER, buffer, logfile_header};

const REAL: &str = "etl/perfview-win11-xpress-single-tracelogging.etl";

fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    static FIRST: LazyLock<Vec<u8>> = LazyLock::new(|| buffer(&logfile_header(0), 0));
    read([&FIRST, bytes].concat());
    let (cpu, records) = bytes.split_first().unwrap_or((&0, &[]));
    read([&FIRST, &buffer(records, (*cpu).into())[..]].concat());
    static REAL_FILE: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
        std::fs::read(syscollect_fixtures::folder()?.join(REAL)).ok()
    });
    if let Some(real) = &*REAL_FILE {
        read(changed(real.clone(), bytes));
        cut(real, bytes);
    }
});

/// Wherever the real file ends, and wherever it has zeros instead, what lacks a record is not
/// complete.
fn cut(real: &[u8], bytes: &[u8]) {
    const RECORDS: u64 = 23;
    let Some(&[low, high, more, is_zeroed]) = bytes.first_chunk::<4>() else { return };
    let at = usize::from(u16::from_le_bytes([low, high])) % real.len();
    let mut file = real.to_vec();
    match is_zeroed & 1 {
        0 => file.truncate(at),
        // The header itself cannot say that it is another.
        _ => {
            let first = at.next_multiple_of(512).max(1024).min(file.len());
            let last = (first + 512 * (usize::from(more % 8) + 1)).min(file.len());
            file[first..last].fill(0);
        }
    }
    let Ok(trace) = Trace::from_bytes(vec![file]) else { return };
    let statistics = trace.scan(|_, _| ());
    assert!(
        statistics.records == RECORDS || !statistics.is_complete(),
        "{at} {is_zeroed}: {statistics:?}"
    );
}

/// Reads all of it, in both orders.
fn read(file: Vec<u8>) {
    let length = file.len() as u64;
    let Ok(trace) = Trace::from_bytes(vec![file]) else { return };
    for header in trace.headers() {
        let _ = (header.wall_time(0), header.wall_time(u64::MAX), header.qpc_is_tsc());
    }
    let mut items = 0;
    let scanned = trace.scan(|file, record| {
        assert_eq!(file, 0);
        items += record.extended.map(|item| item.data.len()).sum::<usize>();
    });
    let (mut merged, mut count) = (trace.merged(), 0);
    while let Some((_, record)) = merged.next() {
        items += record.payload.len();
        count += 1;
    }
    std::hint::black_box(items);
    let extent = &trace.extents()[0];
    assert!(extent.buffers * BUFFER_HEADER as u64 <= length);
    assert!(
        extent.unwritten <= 4096 + 2 * extent.buffers
            && extent.missing <= u64::from(u32::MAX) + length
    );
    assert_eq!((merged.statistics(), count), (scanned.clone(), scanned.records));
    assert!(
        scanned.stray_bytes + scanned.unused_bytes + scanned.buffers * BUFFER_HEADER as u64
            <= length
    );
}

/// The file with bytes written over: each three say where and what.
fn changed(mut file: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = change[2];
    }
    file
}
