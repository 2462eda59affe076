//! Whatever a file holds, reading it ends, in bounded memory and without a panic.
//!
//! Every input is read twice: as it is, and with all checksums made to fit, so
//! that the search gets past them to lengths, decompression and JSON. The
//! offsets are those of `docs/capture-format.md`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_store::{CaptureReader, MAX_CHUNK, ReadBuffer};

const FILE_HEADER: usize = 32;
const CHUNK_HEADER: usize = 72;
const CHUNK_MAGIC: [u8; 4] = [0xFD, b'C', b'k', 0xFE];

fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    read(sealed(bytes));
});

/// Reads all that a file offers, of whatever lane.
fn read(file: Vec<u8>) {
    let length = file.len();
    let Ok(reader) = CaptureReader::from_bytes(file) else { return };
    let (mut data, mut buffer) = (Vec::new(), ReadBuffer::default());
    let mut entries = 0;
    for lane in reader.lanes() {
        let mut next = 0;
        for entry in reader.chunks(lane) {
            assert!(entry.sequence >= next && entry.lane == lane, "chunks come in order");
            next = entry.sequence.saturating_add(1);
            entries += 1;
            if let Ok(header) = reader.read_into(entry, &mut data, &mut buffer) {
                assert_eq!(header.length as usize, data.len());
                assert_eq!((header.lane, header.sequence), (lane, entry.sequence));
            }
        }
    }
    assert!(data.capacity() <= 2 * MAX_CHUNK);
    assert!(entries <= length / CHUNK_HEADER && reader.valid_length() <= length as u64);
    let _ = (reader.definitions().count(), reader.is_complete(), reader.next_definition_sequence());
}

/// The same bytes as a file of chunks, one after the other, whose checksums
/// fit: the input only says what headers and payloads hold. Each payload is as
/// long as byte 60 of its header says, so that short inputs hold several.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x89SCAP\r\n\x1a\x01\0".to_vec();
    file.resize(28, 0);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    debug_assert_eq!(file.len(), FILE_HEADER);
    let mut rest = bytes;
    while let Some((header, after)) = rest.split_first_chunk::<CHUNK_HEADER>() {
        let mut header = *header;
        let (payload, next) = after.split_at(usize::from(header[60]).min(after.len()));
        header[..4].copy_from_slice(&CHUNK_MAGIC);
        // Kinds of lanes and encodings are few; lengths are at most 4 MiB.
        (header[8], header[9], header[59], header[68]) = (header[8] % 11, 0, 0, header[68] % 4);
        header[58] &= 0x3F;
        header[60..64].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[64..68].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        let crc = crc32fast::hash(&header[8..]);
        header[4..8].copy_from_slice(&crc.to_le_bytes());
        file.extend(header);
        file.extend(payload);
        rest = next;
    }
    file
}
