//! Files of event traces of Windows, as large as what they hold.

/// Bytes of a buffer's header.
pub const BUFFER_HEADER: usize = 0x48;

/// A buffer of records, which that CPU wrote.
pub fn buffer(records: &[u8], cpu: u16) -> Vec<u8> {
    let size = ((BUFFER_HEADER + records.len()) as u32).to_le_bytes();
    let mut bytes = vec![0; BUFFER_HEADER];
    bytes[..4].copy_from_slice(&size);
    bytes[0x28..0x2a].copy_from_slice(&cpu.to_le_bytes());
    bytes[0x2c] = 3;
    bytes[0x30..0x34].copy_from_slice(&size);
    bytes[0x34] = 0x20;
    bytes.extend(records);
    bytes
}

/// A logfile header that leaves the sizes of buffers to each of them. Its clock is the performance
/// counter.
pub fn logfile_header(ticks_per_second: u32) -> Vec<u8> {
    const PAYLOAD: usize = 0x120;
    let mut record = vec![0; 32 + PAYLOAD];
    record[..4].copy_from_slice(&[2, 0, 2, 0xc0]);
    record[4..6].copy_from_slice(&((32 + PAYLOAD) as u16).to_le_bytes());
    record[32 + 0x2c] = 8;
    record[32 + 0x100..32 + 0x104].copy_from_slice(&ticks_per_second.to_le_bytes());
    record[32 + 0x110] = 1;
    record
}
