//! Captures that somebody made up: what comes of them takes little time and memory. Compared with
//! what the capture says that was whole.

use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syscollect_model::{Lane, LaneKind, MachineId, Ticks};
use syscollect_store::{CaptureReader, CaptureWriter, Chunk, ChunkHeader};

use super::attacked::{MIB, wait_for_peak};
use super::context::{Context, number, text};
use super::failures::Mounted;

/// Bytes that hold nothing, and take no room on the disk: once `info` read all of them, for more than
/// a minute.
const HOLES: u64 = 50 << 30;
/// What `info` may take for them. It searches 2 GiB.
const HOLES_LONGEST: Duration = Duration::from_secs(10);
/// Lanes that a capture says to have, 70 bytes each. Once each took a kilobyte; now the first
/// 131,072 do.
const LANES: usize = 600_000;
const LANES_MEMORY: u64 = 400 * MIB;

/// Behind a whole capture lie 50 GB of holes, or lanes without end.
pub(crate) fn captures(context: &Context) -> Result<String> {
    let whole = context.path("hostile-captures.syscap");
    context.record(&whole, &[], &["callers", "1"])?;
    let events = number(&context.info(&whole)?, "events")?;

    // In memory, where holes are read as fast as may be.
    let disk = Mounted::tmpfs(context.path("hostile-captures"), "size=64m")?;
    let holes = disk.folder().join("holes.syscap");
    fs::copy(&whole, &holes)?;
    File::options().write(true).open(&holes)?.set_len(HOLES)?;
    let begun = Instant::now();
    let shown = number(&context.info(&holes)?, "events")?;
    let took = begun.elapsed();
    ensure!(shown == events, "of {events} events before the holes {shown} are shown");
    ensure!(took < HOLES_LONGEST, "`info` took {took:?} for {HOLES} bytes of holes");

    let lanes = context.path("lanes.syscap");
    fs::copy(&whole, &lanes)?;
    add_lanes(&lanes)?;
    let info = context.command(&["info", text(&lanes)?]).stdout(Stdio::null()).spawn()?;
    let peak = wait_for_peak(info)?;
    ensure!(peak < LANES_MEMORY, "`info` took {} MiB for {LANES} lanes", peak / MIB);
    let shown = number(&context.info(&lanes)?, "events")?;
    ensure!(shown == events, "of {events} events before the lanes {shown} are shown");
    Ok(format!(
        "all {events} events before {} GiB of holes in {:.1} s, and before {LANES} lanes in {} MiB",
        HOLES >> 30,
        took.as_secs_f64(),
        peak / MIB
    ))
}

/// Adds chunks without records, each of a lane of its own.
fn add_lanes(capture: &Path) -> Result<()> {
    let reader = CaptureReader::open(capture)?;
    let (end, next) = (reader.valid_length(), reader.next_definition_sequence());
    drop(reader);
    let mut file = File::options().write(true).open(capture)?;
    file.seek(SeekFrom::Start(end))?;
    let mut writer = CaptureWriter::append(BufWriter::new(file), next);
    for number in 0..LANES {
        let (machine, index) = (MachineId(1 + (number >> 16) as u16), number as u16);
        let header = ChunkHeader {
            lane: Lane { machine, kind: LaneKind::Zone, index },
            sequence: 0,
            first: Ticks(0),
            last: Ticks(0),
            current_tid: 0,
            stride: 0,
            records_before: 0,
            records: 0,
            length: 0,
        };
        writer.write(&Chunk { header, data: Vec::new() })?;
    }
    // What tells of the lanes' ends is left out: the capture seems to be cut off.
    Ok(writer.output_mut().flush()?)
}
