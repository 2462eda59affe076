//! Prints the scheduling records of a capture, lane by lane, as they are stored:
//! `cargo run --release -p syscollect-store --example records -- FILE.syscap`.

use std::io::Write;
use std::path::Path;

use syscollect_model::LaneKind;
use syscollect_records::{RecordKind, SchedRecord};
use syscollect_store::CaptureReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which capture? give a path that ends in .syscap")?;
    let capture = CaptureReader::open(Path::new(&path))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for lane in capture.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Sched) {
        for entry in capture.chunks(lane) {
            let chunk = capture.read(entry)?;
            let header = &chunk.header;
            writeln!(
                out,
                "cpu {} chunk {} current {}",
                lane.index, header.sequence, header.current_tid
            )?;
            for bytes in chunk.data.chunks_exact(header.stride.max(1) as usize) {
                let Some(record) = SchedRecord::from_bytes(bytes) else { continue };
                let (_, kind) = record.stamp.split();
                let kind = RecordKind::from_number(kind).map_or("unknown", RecordKind::name);
                let ticks = record.stamp.ticks_near(header.first.0);
                writeln!(
                    out,
                    "{ticks} {kind} {} state {} flags {} prio {} {}",
                    record.tid, record.state, record.flags, record.prio, record.next_prio
                )?;
            }
        }
    }
    Ok(())
}
