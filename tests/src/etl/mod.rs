//! Windows traces: a writer of them, and real ones, unpacked for tests.
//!
//! The real ones are no part of the repository. A test that needs one is a
//! [`syscollect_fixtures::test`], which is ignored where they are not there.

mod fake;
mod logger;
mod payload;
mod repeat;

pub use fake::{FakeTrace, classic, event, event_with, perf_info, system};
pub use logger::{Logger, group, ticks};
pub use payload::Payload;
pub use repeat::{repeated, with_narrow_headers};

use flate2::read::{DeflateDecoder, GzDecoder};
use std::io::Read;
use std::path::Path;

/// Every trace, with the count of its records as an independent decoder has it: definitions and
/// the logfile header included.
pub const FIXTURES: [(&str, u64); 6] = [
    (PERFVIEW, 179_474),
    (GPUVIS, 211_035),
    (AIRBUS, 17_078),
    (TRACELOGGING, 7),
    (COMPRESSED_TRACELOGGING, 23),
    (SYNTHETIC, 13_231),
];

/// Compressed buffers of eight CPUs: samples, stacks and their keys.
pub const PERFVIEW: &str = "perfview-8cpu-xpress-compressed-profile-stackkeys.etl.zip";
/// Eight CPUs, nearly all of it the graphics kernel's; written by a 32-bit logger.
pub const GPUVIS: &str = "gpuvis-win10-17134-8cpu-dxgkrnl.etl.zip";
/// What a live kernel logger wrote on two CPUs, never merged.
pub const AIRBUS: &str = "airbus-win10-18362-2cpu-process-thread-image.etl.gz";
/// Self-describing events of every primitive type.
pub const TRACELOGGING: &str = "perfview-win10-tracelogging-primitive-types.etl.gz";
/// The smallest compressed file.
pub const COMPRESSED_TRACELOGGING: &str = "perfview-win11-xpress-single-tracelogging.etl";
/// Context switches, ready threads, samples and stacks that a generator made.
pub const SYNTHETIC: &str = "synthetic_sched.etl.gz";

/// A real trace, unpacked.
///
/// # Panics
///
/// If it is not there, or cannot be unpacked.
pub fn fixture(name: &str) -> Vec<u8> {
    let packed = syscollect_fixtures::read(&format!("etl/{name}"));
    let unpacked = match Path::new(name).extension().and_then(|extension| extension.to_str()) {
        Some("gz") => inflate(GzDecoder::new(packed.as_slice())),
        Some("zip") => unzip(&packed),
        _ => Some(packed),
    };
    match unpacked {
        Some(bytes) => bytes,
        None => panic!("{name} cannot be unpacked"),
    }
}

fn inflate(mut from: impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).ok().map(|_| bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

/// The first trace (`.etl`) in a zip archive, found by the archive's directory.
fn unzip(zip: &[u8]) -> Option<Vec<u8>> {
    const ENTRY: &[u8] = b"PK\x01\x02";
    let end = zip.windows(4).rposition(|window| window == b"PK\x05\x06")?;
    let mut at = u32_at(zip, end + 16)?;
    while zip.get(at..)?.starts_with(ENTRY) {
        let (packed, name) = (u32_at(zip, at + 20)?, u16_at(zip, at + 28)?);
        if zip.get(at + 46..at + 46 + name)?.ends_with(b".etl") {
            let local = u32_at(zip, at + 42)?;
            let data = local + 30 + u16_at(zip, local + 26)? + u16_at(zip, local + 28)?;
            return inflate(DeflateDecoder::new(zip.get(data..data + packed)?));
        }
        at += 46 + name + u16_at(zip, at + 30)? + u16_at(zip, at + 32)?;
    }
    None
}
