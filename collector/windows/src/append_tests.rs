//! Files with records behind them, read by the reader of files.

use super::*;
use crate::identify::identify;
use crate::identity::Identity;
use crate::images::{Image, Images, tests::identity};
use syscollect_etl::Guid;
use syscollect_etl::file::{Statistics, Trace};
use syscollect_etl::payload::{Payload, decode};

const SIZE: usize = 1024;

/// A buffer of 1 KiB that CPU 3 filled with `records`.
fn buffer(records: &[Vec<u8>]) -> Vec<u8> {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&(SIZE as u32).to_le_bytes());
    header[0x28] = 3;
    header[FLAGS] = 0x20 | 0x2;
    let mut bytes = header.to_vec();
    records.iter().for_each(|record| {
        bytes.extend(record);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    });
    close(&mut bytes, SIZE, 0);
    bytes
}

/// A record of the kernel logger's.
fn kernel(group: u8, opcode: u8, timestamp: u64, payload: &[u8]) -> Vec<u8> {
    let size = (32 + payload.len()) as u16;
    let mut bytes = vec![3, 0, 2, 0xc0];
    bytes.extend(size.to_le_bytes());
    bytes.extend([opcode, group]);
    bytes.extend([0; 8]);
    bytes.extend(timestamp.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(payload);
    bytes
}

/// A file with a header, and one image for each of `paths` in process 9.
fn recorded(paths: &[&str]) -> Vec<u8> {
    let mut header = vec![0; 0x118];
    header[..4].copy_from_slice(&(SIZE as u32).to_le_bytes());
    header[0x24] = 2;
    header[0x2c] = 8;
    header[0x110] = 1;
    header[0x100..0x108].copy_from_slice(&10_000_000_u64.to_le_bytes());
    header.extend([0; 4]);
    let images = paths.iter().enumerate().map(|(i, path)| {
        let mut payload = vec![0; 56];
        payload[2] = i as u8 + 1;
        payload[16] = 9;
        payload[24] = 5;
        payload.extend(path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        kernel(0x14, 10, 100 + i as u64, &payload)
    });
    [buffer(&[kernel(0, 0, 50, &header)]), buffer(&images.collect::<Vec<_>>())].concat()
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// The records that tell identities: base, and time stamp.
fn identities(path: &Path) -> (Vec<(u64, u64)>, Statistics, u32) {
    let trace = Trace::open(&[path.into()]).unwrap();
    let mut found = Vec::new();
    let statistics = trace.scan(|_, record| {
        if let Payload::ImageDebugId(id) = decode(record) {
            assert_eq!((record.cpu, id.pid, id.guid, id.age), (3, 9, Guid([7; 16]), 3));
            assert_eq!(id.pdb.to_string_lossy(), "a.pdb");
            found.push((id.base, record.timestamp));
        }
    });
    (found, statistics, trace.headers()[0].buffers_written)
}

fn always(_: &Image) -> Option<Identity> {
    Some(identity())
}

#[test]
fn identities_are_read_by_the_reader_as_if_a_merging_tool_had_written_them() {
    let file = file(&recorded(&["a.dll", "b.dll"]));
    assert_eq!(identify(file.path(), always).unwrap(), 2);
    let (found, statistics, written) = identities(file.path());
    assert_eq!(found, [(0x10000, 101), (0x20000, 101)]);
    assert_eq!((statistics.records, written), (5, 3));
    assert_eq!((statistics.stray_bytes, statistics.unused_bytes), (0, 0));
}

#[test]
fn more_records_than_a_buffer_holds_make_more_buffers() {
    let paths: Vec<String> = (0..8).map(|i| format!("{i}.dll")).collect();
    let file = file(&recorded(&paths.iter().map(String::as_str).collect::<Vec<_>>()));
    let images = Images::of(&Trace::open(&[file.path().into()]).unwrap());
    let records: Vec<_> = (0..4).flat_map(|_| images.records(always)).collect();
    let header = Trace::open(&[file.path().into()]).unwrap().headers()[0].clone();
    append(file.path(), &header, &records).unwrap();
    let (found, _, written) = identities(file.path());
    assert_eq!(found.len(), records.len());
    assert_eq!(written as usize * SIZE, std::fs::metadata(file.path()).unwrap().len() as usize);
    assert!(written > 3);
}

#[test]
fn what_was_lost_before_the_last_buffer_is_not_counted_again() {
    let file = file(&recorded(&["a.dll"]));
    let before = identities(file.path()).1.buffers_after_lost_events;
    identify(file.path(), always).unwrap();
    assert_eq!(identities(file.path()).1.buffers_after_lost_events, before);
}

#[test]
fn a_file_that_was_cut_off_stays_as_it_is() {
    let whole = recorded(&["a.dll"]);
    let cut = &whole[..whole.len() - 8];
    let file = file(cut);
    let error = identify(file.path(), always).unwrap_err().to_string();
    assert!(error.contains("incomplete"), "{error}");
    assert_eq!(std::fs::read(file.path()).unwrap(), cut);
}

#[test]
fn nothing_to_add_changes_nothing() {
    let bytes = recorded(&["a.dll"]);
    let file = file(&bytes);
    assert_eq!(identify(file.path(), |_| None).unwrap(), 0);
    assert_eq!(std::fs::read(file.path()).unwrap(), bytes);
}

#[syscollect_fixtures::test]
fn a_real_file_of_a_kernel_session_keeps_its_records_and_gains_identities() {
    let packed =
        syscollect_fixtures::read("etl/airbus-win10-18362-2cpu-process-thread-image.etl.gz");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
    let file = file(&bytes);
    let before = Trace::open(&[file.path().into()]).unwrap().scan(|_, _| ());
    let added = identify(file.path(), always).unwrap();
    let after = Trace::open(&[file.path().into()]).unwrap();
    assert!(added > 100, "{added}");
    assert_eq!(after.scan(|_, _| ()).records, before.records + added as u64);
    let mut last = 0;
    let mut merged = after.merged();
    while let Some((_, record)) = merged.next() {
        assert!(record.timestamp >= last, "the order of time holds");
        last = record.timestamp;
    }
}
