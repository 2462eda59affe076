//! Records the machine for a second: `cargo run --release --example record -- OUT.syscap`.

use std::fs::File;
use std::time::{Duration, Instant};

use syscollect_capture::{RecordOptions, Recording, Stacks};
use syscollect_store::BufferMode;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("where to? give a path that ends in .syscap")?;
    let options = RecordOptions {
        pids: Vec::new(),
        sample_rate_hz: 999,
        stacks: Stacks { samples: true, offcpu: true, wakers: true },
        buffer_bytes: 64 << 20,
        mode: BufferMode::Discard,
        cross_check_every: 0,
        probes: Vec::new(),
        gpu: false,
        tracepoints: Vec::new(),
        launch: None,
        program_start: Instant::now(),
        command_line: std::env::args().collect(),
    };
    let recording = Recording::start(options, File::create(path)?)?;
    std::thread::sleep(Duration::from_secs(1));
    let recorded = recording.stop("duration")?;
    println!("{} events, {:#?}, losses {:?}", recorded.records, recorded.summary, recorded.losses);
    Ok(())
}
