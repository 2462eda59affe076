//! Prints the probe hits of a capture, as they are stored:
//! `cargo run --release -p syscollect-store --example probe_hits -- FILE.syscap`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use syscollect_model::LaneKind;
use syscollect_records::ProbeRecord;
use syscollect_store::CaptureReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which capture? give a path that ends in .syscap")?;
    let capture = CaptureReader::open(Path::new(&path))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut hits: BTreeMap<u32, u64> = BTreeMap::new();
    for lane in capture.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Probe) {
        for entry in capture.chunks(lane) {
            let chunk = capture.read(entry)?;
            let mut rest = &chunk.data[..];
            while let Some(record) = ProbeRecord::from_bytes(rest) {
                let Some((whole, next)) = rest.split_at_checked(usize::from(record.size)) else {
                    break;
                };
                rest = next;
                *hits.entry(record.probe).or_default() += 1;
                let ticks = record.stamp.ticks_near(chunk.header.first.0);
                let words = &whole[ProbeRecord::SIZE.min(whole.len())..];
                writeln!(
                    out,
                    "{ticks} cpu {} tid {} probe {} sp {:x} unreadable {:x} texts {:x} {}",
                    record.cpu,
                    record.tid,
                    record.probe,
                    record.stack_pointer,
                    record.unreadable,
                    record.texts,
                    String::from_utf8_lossy(words).escape_debug()
                )?;
            }
        }
    }
    for (probe, count) in hits {
        writeln!(out, "probe {probe}: {count} hits")?;
    }
    Ok(())
}
