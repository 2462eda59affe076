//! Adds records to the end of a recorded file, in buffers like its own.
//!
//! The file is as Windows closed it: buffers of one size, not compressed. What is
//! added lies behind the last of them, at the last time stamp, on the CPU of the
//! last buffer, so that each CPU's records stay in order. The header's count of
//! buffers is raised last: until then the file is what it was.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use syscollect_etl::file::LogfileHeader;

use crate::images::ALIGNMENT;

const HEADER: usize = 0x48;
/// Offsets in a buffer's header: where its data ends, by three counts.
const ENDS: [usize; 3] = [0x4, 0x8, 0x30];
const SEQUENCE: usize = 0x18;
const FLAGS: usize = 0x34;
const FLAG_COMPRESSED: u16 = 0x40;
/// Flags that say something was lost before this buffer.
const FLAGS_LOST: u16 = 0x2 | 0x4;
/// Where the first record, after its header of 32 bytes, says how many buffers there are.
const BUFFERS_WRITTEN: u64 = HEADER as u64 + 32 + 0x24;
/// What lies behind the last record of a buffer.
const FILLER: u8 = 0xff;

/// Adds the records; the file stays as it was where that fails.
#[expect(clippy::disallowed_methods, reason = "the trace that was recorded")]
pub(crate) fn append(path: &Path, header: &LogfileHeader, records: &[Vec<u8>]) -> io::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let size = header.buffer_size as usize;
    let end = file.metadata()?.len();
    let template = last_header(&mut file, end, size as u64)?;
    let added = buffers(&template, size, records);
    file.seek(SeekFrom::Start(end))?;
    if let Err(error) = file.write_all(&added).and_then(|()| file.sync_data()) {
        file.set_len(end)?;
        return Err(error);
    }
    if header.buffers_written == 0 {
        // Readers go on to the end of the file then.
        return Ok(());
    }
    let count = header.buffers_written.saturating_add((added.len() / size) as u32);
    file.seek(SeekFrom::Start(BUFFERS_WRITTEN))?;
    file.write_all(&count.to_le_bytes())
}

/// The header of the file's last buffer, where its buffers are of one size.
fn last_header(file: &mut File, end: u64, size: u64) -> io::Result<[u8; HEADER]> {
    if size <= HEADER as u64 || end < size || !end.is_multiple_of(size) {
        return Err(invalid("its last buffer is incomplete"));
    }
    let mut header = [0; HEADER];
    file.seek(SeekFrom::Start(end - size))?;
    file.read_exact(&mut header)?;
    if u64::from(u32_at(&header, 0)) != size || flags(&header) & FLAG_COMPRESSED != 0 {
        return Err(invalid("its buffers are compressed or not of one size"));
    }
    Ok(header)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The records in as few buffers as they need.
fn buffers(template: &[u8; HEADER], size: usize, records: &[Vec<u8>]) -> Vec<u8> {
    let mut all: Vec<u8> = Vec::new();
    let mut open: Vec<u8> = template.to_vec();
    for record in
        records.iter().filter(|record| HEADER + record.len().next_multiple_of(ALIGNMENT) <= size)
    {
        if open.len() + record.len().next_multiple_of(ALIGNMENT) > size {
            let number = all.len() / size;
            close(&mut open, size, number);
            all.append(&mut open);
            open.extend(template);
        }
        open.extend(record);
        open.resize(open.len().next_multiple_of(ALIGNMENT), 0);
    }
    let number = all.len() / size;
    close(&mut open, size, number);
    all.append(&mut open);
    all
}

/// Makes a buffer of a header and records.
fn close(buffer: &mut Vec<u8>, size: usize, number: usize) {
    let end = (buffer.len() as u32).to_le_bytes();
    ENDS.iter().for_each(|at| buffer[*at..][..4].copy_from_slice(&end));
    let sequence =
        u64::from_le_bytes(buffer[SEQUENCE..].first_chunk().copied().unwrap_or_default());
    let sequence = sequence.wrapping_add(number as u64 + 1);
    buffer[SEQUENCE..][..8].copy_from_slice(&sequence.to_le_bytes());
    let flags = flags(buffer) & !FLAGS_LOST;
    buffer[FLAGS..][..2].copy_from_slice(&flags.to_le_bytes());
    buffer.resize(size, FILLER);
}

fn flags(header: &[u8]) -> u16 {
    header[FLAGS..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
#[path = "append_tests.rs"]
mod tests;
