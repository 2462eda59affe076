//! Texts of the kernel, for the fuzz target: any is read or refused.

use crate::gpu_clients::ClientUsage;
use crate::tracepoints::Format;

/// Reads a text as each of those that kernels and drivers write; how much was understood.
pub fn read_kernel_text(text: &str) -> usize {
    let usage = ClientUsage::parse(text).map_or(0, |usage| usage.memory.len() + usage.engines.len());
    let format = Format::parse(text).map_or(0, |format| {
        // Offsets and sizes have 16 bits each.
        assert!(format.fixed_bytes() <= 2 * usize::from(u16::MAX));
        format.fields.len()
    });
    usage + format
}
