//! Files that someone made to harm: every checksum fits, the content does not.

use crate::codec::ReadBuffer;
use crate::format::{CHUNK_HEADER, MAX_CHUNK, StoredHeader, file_header};
use crate::{CaptureReader, Definition, IndexEntry};
use proptest::prelude::*;
use std::time::{Duration, Instant};
use syscollect_model::{LaneKind, MachineId, Ticks};

/// Header and payload with checksums that fit.
fn sealed(mut header: StoredHeader, payload: &[u8]) -> Vec<u8> {
    header.stored = payload.len() as u32;
    header.payload_crc = crc32fast::hash(payload);
    [&header.to_bytes()[..], payload].concat()
}

fn header() -> StoredHeader {
    let chunk = Definition::chunk_header(0);
    StoredHeader { kind: 9, chunk, stored: 0, payload_crc: 0, encoding: 0, copy: 0 }
}

prop_compose! {
    fn any_header()(
        kind in 0u16..LaneKind::ALL.len() as u16 + 2, encoding in 0u8..5, copy in 0u8..3, stride in prop_oneof![0u32..64, any::<u32>()],
        length in prop_oneof![0u32..600, 0..=MAX_CHUNK as u32],
        sequence in prop_oneof![0u64..4, any::<u64>()], records_before in prop_oneof![0u64..50, any::<u64>()],
        records in any::<u32>(), ticks in any::<(u64, u64)>(), machine in 0u16..2, index in 0u16..2,
    ) -> StoredHeader {
        let mut header = StoredHeader { kind, encoding, copy, ..header() };
        if let Some(known) = LaneKind::from_number(kind) {
            header.chunk.lane.kind = known;
        }
        (header.chunk.lane.machine, header.chunk.lane.index) = (MachineId(machine), index);
        (header.chunk.stride, header.chunk.length, header.chunk.sequence) = (stride, length, sequence);
        (header.chunk.records_before, header.chunk.records) = (records_before, records);
        (header.chunk.first, header.chunk.last) = (Ticks(ticks.0), Ticks(ticks.1));
        header
    }
}

/// Reads all that a file offers; the most bytes that one chunk took.
fn read_all(file: Vec<u8>) -> usize {
    let Ok(reader) = CaptureReader::from_bytes(file) else { return 0 };
    let (mut data, mut buffer) = (Vec::new(), ReadBuffer::default());
    for lane in reader.lanes() {
        for entry in reader.chunks(lane) {
            let _ = reader.read_into(entry, &mut data, &mut buffer);
        }
    }
    let _ = (reader.definitions().count(), reader.is_complete(), reader.next_definition_sequence());
    data.capacity()
}

proptest! {
    #[test]
    fn chunks_that_verify_and_lie_are_read_without_harm(
        chunks in prop::collection::vec(
            (any_header(), prop::collection::vec(any::<u8>(), 0..600)),
            0..12,
        ),
    ) {
        let mut file = file_header().to_vec();
        for (header, payload) in chunks {
            let fits = payload.len().min(header.chunk.length as usize);
            file.extend(sealed(header, &payload[..fits]));
        }
        prop_assert!(read_all(file) <= 2 * MAX_CHUNK);
    }
}

#[test]
fn headers_within_each_others_payloads_take_no_quadratic_time() {
    let mut file = file_header().to_vec();
    for sequence in 0..100_000 {
        let mut header = header();
        (header.chunk.length, header.stored, header.chunk.sequence) =
            (MAX_CHUNK as u32, 4_000_001, sequence);
        file.extend(header.to_bytes());
        file.push(0);
    }
    let start = Instant::now();
    read_all(file);
    assert!(start.elapsed() < Duration::from_secs(30), "took {:?}", start.elapsed());
}

#[test]
fn lengths_beyond_the_limit_are_no_header() {
    let mut large = header();
    large.chunk.length = MAX_CHUNK as u32 + 1;
    assert_eq!(StoredHeader::parse(&large.to_bytes()), None);
    let mut longer_than_raw = header();
    (longer_than_raw.chunk.length, longer_than_raw.stored) = (10, 11);
    assert_eq!(StoredHeader::parse(&longer_than_raw.to_bytes()), None);
}

#[test]
fn two_chunks_of_one_number_are_reported_and_the_first_counts() {
    let mut file = file_header().to_vec();
    for text in [&br#"{"losses":[]}"#[..], br#"{"counters":[]}"#] {
        let mut header = header();
        header.chunk.length = text.len() as u32;
        file.extend(sealed(header, text));
    }
    let reader = CaptureReader::from_bytes(file).unwrap();
    assert_eq!(
        reader.definitions().map(Result::unwrap).collect::<Vec<_>>(),
        [Definition::Losses(Vec::new())]
    );
    assert!(matches!(reader.damage(), [crate::Damage::Conflict { sequence: 0, .. }]));
}

#[test]
fn definitions_and_lanes_of_a_later_version_are_passed_over() {
    let mut file = file_header().to_vec();
    let definitions = [&br#"{"holograms":{"a":1}}"#[..], br#"{"losses":7}"#, br#"{"losses":[]}"#];
    for (sequence, text) in definitions.into_iter().enumerate() {
        let mut header = header();
        (header.chunk.length, header.chunk.sequence) = (text.len() as u32, sequence as u64);
        file.extend(sealed(header, text));
    }
    file.extend(sealed(StoredHeader { kind: 77, ..header() }, b""));
    let reader = CaptureReader::from_bytes(file).unwrap();
    let read: Vec<_> = reader.definitions().collect();
    assert!(
        read[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("definition 1 of the capture cannot be read")
    );
    assert_eq!(*read[1].as_ref().unwrap(), Definition::Losses(Vec::new()));
    assert_eq!((read.len(), reader.damage().len()), (2, 0));
}

#[test]
fn an_index_entry_finds_its_header_again() {
    let bytes = sealed(header(), b"");
    let parsed = StoredHeader::parse(&bytes).unwrap();
    assert_eq!(parsed.to_bytes()[..], bytes[..CHUNK_HEADER]);
    assert_eq!(IndexEntry::new(5, &parsed).offsets().collect::<Vec<_>>(), [5]);
}
