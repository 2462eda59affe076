//! Whatever the graphics kernel says, jobs of one track follow each other, what
//! begins ends, and nothing panics.
//!
//! An input is a list of events: which one, by which thread, how much later, how
//! long, and its payload, of which each byte is a word as a rule, so that handles
//! meet again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_etl::Guid;
use syscollect_etl::payload::{dxgkrnl, present};
use syscollect_etl::session::Session;
use syscollect_fuzz::etl::{buffer, logfile_header};
use syscollect_fuzz::gpu::GpuChecker;
use syscollect_playback::Recording;

const EVENT_HEADER: usize = 80;
const EVENTS: [(Guid, u16); 29] = [
    (dxgkrnl::PROVIDER, 17),
    (dxgkrnl::PROVIDER, 23),
    (dxgkrnl::PROVIDER, 25),
    (dxgkrnl::PROVIDER, 27),
    (dxgkrnl::PROVIDER, 28),
    (dxgkrnl::PROVIDER, 30),
    (dxgkrnl::PROVIDER, 31),
    (dxgkrnl::PROVIDER, 116),
    (dxgkrnl::PROVIDER, 166),
    (dxgkrnl::PROVIDER, 168),
    (dxgkrnl::PROVIDER, 175),
    (dxgkrnl::PROVIDER, 176),
    (dxgkrnl::PROVIDER, 177),
    (dxgkrnl::PROVIDER, 178),
    (dxgkrnl::PROVIDER, 179),
    (dxgkrnl::PROVIDER, 180),
    (dxgkrnl::PROVIDER, 184),
    (dxgkrnl::PROVIDER, 244),
    (dxgkrnl::PROVIDER, 245),
    (dxgkrnl::PROVIDER, 250),
    (dxgkrnl::PROVIDER, 252),
    (dxgkrnl::PROVIDER, 259),
    (dxgkrnl::PROVIDER, 273),
    (dxgkrnl::PROVIDER, 422),
    (dxgkrnl::PROVIDER, 423),
    (present::DXGI, 42),
    (present::DXGI, 43),
    (present::D3D9, 1),
    (present::D3D9, 2),
];

fuzz_target!(|bytes: &[u8]| {
    let mut records = logfile_header(10_000_000);
    let mut now = 1;
    let mut rest = bytes;
    while let Some(([which, thread, later, length], payload)) = rest.split_first_chunk::<4>() {
        let (payload, behind) = payload.split_at(usize::from(length % 32).min(payload.len()));
        now += u64::from(*later);
        record(&mut records, usize::from(*which), *thread, now, payload);
        rest = behind;
    }
    let mut session = Session::from_bytes(vec![buffer(&records, 0)]).expect("a file with a header");
    session.play(&mut GpuChecker::default()).unwrap_or_else(|never| match never {});
});

/// An event. The highest bit of `which` gives it short pointers, that of `thread` its bytes as they
/// are.
fn record(records: &mut Vec<u8>, which: usize, thread: u8, now: u64, payload: &[u8]) {
    let (provider, id) = EVENTS[(which & 0x7f) % EVENTS.len()];
    let words = payload.iter().flat_map(|byte| u32::from(*byte).to_le_bytes());
    let payload: Vec<u8> = if thread & 0x80 == 0 { words.collect() } else { payload.to_vec() };
    let start = records.len();
    let size = (EVENT_HEADER + payload.len()) as u16;
    records.resize(start + EVENT_HEADER, 0);
    let header = &mut records[start..];
    header[..2].copy_from_slice(&size.to_le_bytes());
    header[2..4].copy_from_slice(&[if which & 0x80 == 0 { 19 } else { 18 }, 0xc0]);
    header[8] = thread & 3;
    header[12] = thread & 3;
    header[16..24].copy_from_slice(&now.to_le_bytes());
    header[24..40].copy_from_slice(&provider.0);
    header[40..42].copy_from_slice(&id.to_le_bytes());
    header[42] = 1;
    records.extend(payload);
    records.resize(records.len().next_multiple_of(8), 0xff);
}
