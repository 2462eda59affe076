//! Texts of the kernel, for the fuzz target: any is read or refused.

use crate::gpu_clients::ClientUsage;
use crate::tracepoints::Format;

/// Reads a text as each of those that kernels and drivers write; how much was understood.
pub fn read_kernel_text(text: &str) -> usize {
    let usage =
        ClientUsage::parse(text).map_or(0, |usage| usage.memory.len() + usage.engines.len());
    let format = Format::parse(text).map_or(0, |format| {
        // Offsets and sizes have 16 bits each.
        assert!(format.fixed_bytes() <= 2 * usize::from(u16::MAX));
        format.fields.len()
    });
    usage + format
}

/// Reads bytes as records of a perf ring, which begin with `PERF_RECORD_*` headers; how many there
/// were.
pub fn read_perf_records(bytes: &[u8]) -> usize {
    let (records, noted) = crate::perf::mappings::read(bytes);
    assert!(noted <= records && records <= bytes.len() / 8);
    records
}

/// Reads bytes as what /proc says of a process in `stat`, `cmdline` and `maps`; how much was
/// understood.
pub fn read_process_texts(bytes: &[u8]) -> usize {
    let understood = crate::snapshot::read(bytes);
    // Every word, and every mapping, is at least a byte and what ends it.
    assert!(understood <= bytes.len() + 2);
    understood
}
