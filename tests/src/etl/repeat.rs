//! A long recording made of a short one.

const BUFFER_HEADER: usize = 0x48;

/// The uncompressed trace `trace` over and over, at least `bytes` long: each
/// round comes after the one before, on every CPU. Its header stays as it is, but for
/// the count of buffers.
///
/// ```no_run
/// use syscollect_tests::etl;
/// let trace = etl::fixture(etl::SYNTHETIC);
/// assert!(etl::repeated(&trace, 1 << 28).len() >= 1 << 28);
/// ```
pub fn repeated(trace: &[u8], bytes: usize) -> Vec<u8> {
    let buffers: Vec<&[u8]> = buffers(trace).collect();
    let times = buffers[1..].iter().flat_map(|buffer| records(buffer).map(|at| time(buffer, at)));
    let (first, last) =
        times.fold((u64::MAX, 0), |(first, last), time| (first.min(time), last.max(time)));
    let mut long = buffers[0].to_vec();
    let mut shift = 0;
    while long.len() < bytes {
        for buffer in &buffers[1..] {
            long.extend(shifted(buffer, shift));
        }
        shift += last - first + 1;
    }
    let written = (long.len() / buffers[0].len()) as u32;
    let header = BUFFER_HEADER + 32;
    long[header + 0x24..header + 0x28].copy_from_slice(&written.to_le_bytes());
    long
}

fn buffers(mut trace: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let stride = u32::from_le_bytes(*trace.first_chunk()?) as usize;
        let (buffer, rest) = trace.split_at_checked(stride)?;
        trace = rest;
        Some(buffer)
    })
}

/// The uncompressed trace `trace` as a 32-bit program leaves it that merges traces of a 64-bit
/// system: every record behind the logfile header has a header of 32 bits, and its payload as it
/// was.
pub fn with_narrow_headers(trace: &[u8]) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = buffers(trace).map(<[u8]>::to_vec).collect();
    for buffer in &mut all[1..] {
        for record in records(buffer).collect::<Vec<_>>() {
            let header = &mut buffer[record + 2];
            *header = match *header {
                wide @ (2 | 4 | 17 | 19) => wide - 1,
                20 => 10,
                other => other,
            };
        }
    }
    all.concat()
}

/// Where the records of a buffer begin.
fn records(buffer: &[u8]) -> impl Iterator<Item = usize> {
    let end = u32::from_le_bytes(*buffer[0x30..].first_chunk().expect("a header")) as usize;
    let mut at = BUFFER_HEADER;
    std::iter::from_fn(move || {
        let record = at;
        let size_at = if matches!(buffer.get(at + 2)?, 1..=4 | 16 | 17) { 4 } else { 0 };
        let size = u16::from_le_bytes(*buffer.get(at + size_at..)?.first_chunk()?);
        at += usize::from(size).next_multiple_of(8);
        (record < end && size > 0).then_some(record)
    })
}

fn time_at(buffer: &[u8], record: usize) -> usize {
    record + if matches!(buffer[record + 2], 16 | 17) { 8 } else { 16 }
}

fn time(buffer: &[u8], record: usize) -> u64 {
    u64::from_le_bytes(*buffer[time_at(buffer, record)..].first_chunk().expect("a time stamp"))
}

/// The buffer with all time stamps later: those of the records, and those that
/// stacks, DPCs and interrupts have in front of their payloads.
fn shifted(buffer: &[u8], shift: u64) -> Vec<u8> {
    let mut later = buffer.to_vec();
    for record in records(buffer) {
        let times = [Some(time_at(buffer, record)), payload_time_at(buffer, record)];
        for at in times.into_iter().flatten().filter(|at| at + 8 <= buffer.len()) {
            let time: &mut [u8; 8] = later[at..].first_chunk_mut().expect("eight bytes");
            *time = (u64::from_le_bytes(*time) + shift).to_le_bytes();
        }
    }
    later
}

fn payload_time_at(buffer: &[u8], record: usize) -> Option<usize> {
    let header = match buffer[record + 2] {
        16 | 17 => 16,
        1 | 2 => 32,
        _ => return None,
    };
    matches!((buffer[record + 7], buffer[record + 6]), (0x18, 32 | 37 | 38) | (0x0f, 66..=69))
        .then_some(record + header)
}
