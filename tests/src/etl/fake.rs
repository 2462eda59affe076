//! Traces of a machine whose every record is told by the test.

use std::collections::BTreeMap;

/// Bytes of a buffer's header.
const HEADER: usize = 0x48;
/// Bytes of a buffer.
const BUFFER: usize = 4096;
/// A buffer's flag.
const COMPRESSED: u16 = 0x40;

/// Writes a trace as a logger of 64-bit Windows 10 does: clock QPC of ten million
/// ticks a second, from tick [`FakeTrace::START`] on.
///
/// ```
/// use syscollect_tests::etl::{FakeTrace, perf_info};
///
/// let mut trace = FakeTrace::new(2);
/// trace.record(1, &perf_info(FakeTrace::START + 5, 0x0f, 46, 2, &[0; 16]));
/// assert_eq!(trace.finish().len(), 2 * 4096);
/// ```
#[derive(Clone, Debug)]
pub struct FakeTrace {
    /// The logfile header's payload, to be changed before [`Self::finish`].
    pub header: Vec<u8>,
    /// Whether buffers are compressed from now on.
    pub is_compressed: bool,
    /// Flags of the next buffers: 2 events lost, 4 a buffer lost.
    pub flags: u16,
    /// How many buffers the header says were written; `None` for as many as there are.
    pub buffers_written: Option<u32>,
    buffers: Vec<Vec<u8>>,
    /// What a CPU did not yet write out.
    open: BTreeMap<u16, Vec<u8>>,
}

impl FakeTrace {
    /// The tick at which it begins.
    pub const START: u64 = 1_000_000;
    /// The time of day at which it begins: 100 ns since 1601.
    pub const START_TIME: u64 = 133_500_000_000_000_000;

    /// A machine of that many CPUs.
    pub fn new(cpus: u32) -> Self {
        let mut header = vec![0; 0x118];
        put(&mut header, 0, &(BUFFER as u32).to_le_bytes());
        put(&mut header, 4, &[10, 0, 0, 5]);
        put(&mut header, 8, &19_041_u32.to_le_bytes());
        put(&mut header, 0x0c, &cpus.to_le_bytes());
        put(&mut header, 0x2c, &8_u32.to_le_bytes());
        put(&mut header, 0x34, &3_000_u32.to_le_bytes());
        put(&mut header, 0x100, &10_000_000_u64.to_le_bytes());
        put(&mut header, 0x108, &Self::START_TIME.to_le_bytes());
        put(&mut header, 0x110, &1_u32.to_le_bytes());
        header.extend("fake\0fake.etl\0".encode_utf16().flat_map(u16::to_le_bytes));
        let (buffers, open) = Default::default();
        Self { header, is_compressed: false, flags: 0, buffers_written: None, buffers, open }
    }

    /// A CPU writes a record, header and all.
    pub fn record(&mut self, cpu: u16, record: &[u8]) {
        if self.open.get(&cpu).is_some_and(|open| HEADER + open.len() + record.len() > BUFFER) {
            self.flush(cpu);
        }
        let open = self.open.entry(cpu).or_default();
        open.extend(record);
        open.resize(open.len().next_multiple_of(8), 0);
    }

    /// A CPU's buffer is written out.
    pub fn flush(&mut self, cpu: u16) {
        if let Some(open) = self.open.remove(&cpu) {
            let flags = self.flags | if self.is_compressed { COMPRESSED } else { 0 };
            let sequence = self.buffers.len() as u64 + 1;
            self.buffers.push(buffer(sequence, cpu, flags, &open));
        }
    }

    /// The buffers that were written so far, to be put into another order.
    pub fn buffers(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.buffers
    }

    /// The file.
    pub fn finish(mut self) -> Vec<u8> {
        for cpu in self.open.keys().copied().collect::<Vec<_>>() {
            self.flush(cpu);
        }
        if self.buffers.iter().any(|buffer| buffer[0x34] & COMPRESSED as u8 != 0) {
            self.header[0x23] |= 4;
        }
        let written = self.buffers_written.unwrap_or(self.buffers.len() as u32 + 1);
        self.header[0x24..0x28].copy_from_slice(&written.to_le_bytes());
        let header = system(Self::START, (4, 8), (0, 0), 2, &self.header);
        let mut file = buffer(0, 0, 1, &header);
        file.extend(self.buffers.concat());
        file
    }
}

/// A buffer of records, with its number.
fn buffer(sequence: u64, cpu: u16, flags: u16, records: &[u8]) -> Vec<u8> {
    let is_compressed = flags & COMPRESSED != 0;
    let data = if is_compressed { literals(records) } else { records.to_vec() };
    let size = if is_compressed { HEADER + data.len() } else { BUFFER };
    let mut bytes = vec![0xff; size];
    bytes[..HEADER].fill(0);
    bytes[HEADER..HEADER + data.len()].copy_from_slice(&data);
    let end = (HEADER + records.len()) as u32;
    put(&mut bytes, 0, &(size as u32).to_le_bytes());
    // Less than there is, as loggers do.
    put(&mut bytes, 4, &(HEADER as u32).to_le_bytes());
    put(&mut bytes, 8, &end.to_le_bytes());
    put(&mut bytes, 0x18, &sequence.to_le_bytes());
    put(&mut bytes, 0x28, &cpu.to_le_bytes());
    put(&mut bytes, 0x2c, &3_u16.to_le_bytes());
    put(&mut bytes, 0x30, &end.to_le_bytes());
    put(&mut bytes, 0x34, &(flags | 0x20).to_le_bytes());
    bytes
}

/// Compressed by plain XPRESS without a single match.
fn literals(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(32).flat_map(|chunk| [0; 4].into_iter().chain(chunk.iter().copied())).collect()
}

/// A record with a PERFINFO header: the kernel's group and opcode, no thread.
pub fn perf_info(time: u64, group: u8, opcode: u8, version: u16, payload: &[u8]) -> Vec<u8> {
    let mut record = kernel(17, group, opcode, version, 16 + payload.len());
    record.extend(time.to_le_bytes());
    record.extend(payload);
    record
}

/// A record with a SYSTEM header: thread as (pid, tid), kind as (group, opcode).
pub fn system(
    time: u64,
    task: (u32, u32),
    kind: (u8, u8),
    version: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut record = kernel(2, kind.0, kind.1, version, 32 + payload.len());
    record.extend([task.1, task.0].map(u32::to_le_bytes).concat());
    record.extend(time.to_le_bytes());
    record.extend([0; 8]);
    record.extend(payload);
    record
}

fn kernel(header: u8, group: u8, opcode: u8, version: u16, size: usize) -> Vec<u8> {
    let mut record = version.to_le_bytes().to_vec();
    record.extend([header, 0xc0]);
    record.extend((size as u16).to_le_bytes());
    record.extend([opcode, group]);
    record
}

/// A provider's event: header type 19 for 64 bits, its provider, id and opcode.
pub fn event(
    time: u64,
    task: (u32, u32),
    provider: [u8; 16],
    (id, opcode): (u16, u8),
    payload: &[u8],
) -> Vec<u8> {
    let mut record = ((80 + payload.len()) as u16).to_le_bytes().to_vec();
    record.extend([19, 0xc0, 0, 0, 0, 0]);
    record.extend([task.1, task.0].map(u32::to_le_bytes).concat());
    record.extend(time.to_le_bytes());
    record.extend(provider);
    record.extend(id.to_le_bytes());
    record.extend([0, 0, 4, opcode, 0, 0]);
    record.extend([0; 32]);
    record.extend(payload);
    record
}

/// A provider's event with extended items, each a kind and its bytes.
pub fn event_with(mut event: Vec<u8>, items: &[(u16, &[u8])]) -> Vec<u8> {
    let payload = event.split_off(80);
    for (i, (kind, data)) in items.iter().enumerate() {
        let more = u16::from(i + 1 < items.len());
        event.extend([0, *kind, more, data.len() as u16].map(u16::to_le_bytes).concat());
        event.extend(*data);
        event.resize(event.len().next_multiple_of(8), 0);
    }
    event.extend(payload);
    event[4] |= 1;
    let size = (event.len() as u16).to_le_bytes();
    event[..2].copy_from_slice(&size);
    event
}

/// A classic event: of a class, with an opcode and the version of its payload.
pub fn classic(
    time: u64,
    task: (u32, u32),
    class: [u8; 16],
    (opcode, version): (u8, u16),
    payload: &[u8],
) -> Vec<u8> {
    let mut record = ((48 + payload.len()) as u16).to_le_bytes().to_vec();
    record.extend([20, 0xc0, opcode, 0]);
    record.extend(version.to_le_bytes());
    record.extend([task.1, task.0].map(u32::to_le_bytes).concat());
    record.extend(time.to_le_bytes());
    record.extend(class);
    record.extend([0; 8]);
    record.extend(payload);
    record
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}
