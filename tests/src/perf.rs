//! Records of `perf_event`, as mapping lanes hold them (include/uapi/linux/perf_event.h).

use crate::FIRST_RAW;

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_COMM: u32 = 3;
const PERF_RECORD_MMAP2: u32 = 10;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
/// User code.
const MISC_USER: u16 = 2;

/// A record: header, body, and the sample id of `sample_id_all`.
fn record(kind: u32, misc: u16, body: &[u8], us: u64) -> Vec<u8> {
    let size = (8 + body.len() + 24) as u16;
    let mut bytes =
        [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body, &[0; 8]].concat();
    bytes.extend((FIRST_RAW + us * 1_000).to_le_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// At microsecond `us`, process `pid` maps one executable page at `start`.
pub fn mmap2(pid: u32, start: u64, path: &str, us: u64) -> Vec<u8> {
    let ids = u64::from(pid) << 32 | u64::from(pid);
    let numbers = [ids, start, 0x1000, 0].map(u64::to_le_bytes).concat();
    let build_id = [&[4, 0, 0, 0, 0xc0, 0xff, 0xee, us as u8][..], &[0; 16]].concat();
    let path = padded(path);
    record(
        PERF_RECORD_MMAP2,
        MISC_MMAP_BUILD_ID | MISC_USER,
        &[&numbers[..], &build_id, &[0; 8], &path].concat(),
        us,
    )
}

/// At microsecond `us`, process `pid` begins to run a program of this name.
pub fn exec(pid: u32, name: &str, us: u64) -> Vec<u8> {
    let body = [&pid.to_le_bytes()[..], &pid.to_le_bytes(), &padded(name)].concat();
    record(PERF_RECORD_COMM, MISC_COMM_EXEC, &body, us)
}

/// At microsecond `us`, the kernel had no room for so many records.
pub fn lost(records: u64, us: u64) -> Vec<u8> {
    record(PERF_RECORD_LOST, 0, &[1, records].map(u64::to_le_bytes).concat(), us)
}

/// With a zero at least, to a multiple of 8 bytes.
fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() / 8 + 1) * 8, 0);
    bytes
}
