//! Records the machine for a second:
//! `cargo run --release -p syscollect-capture --example record -- OUT.syscap`.

use std::fs::File;
use std::time::Duration;

use syscollect_capture::{RecordOptions, Recording, Stacks};
use syscollect_model::StopReason;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("where to? give a path that ends in .syscap")?;
    let options = RecordOptions {
        sample_rate_hz: 999,
        stacks: Stacks { samples: true, offcpu: true, wakers: true, probes: false },
        command_line: std::env::args().collect(),
        ..RecordOptions::default()
    };
    let recording = Recording::start(options, File::create(path)?)?;
    std::thread::sleep(Duration::from_secs(1));
    let recorded = recording.stop(StopReason::Duration)?;
    println!("{} events, {:#?}, losses {:?}", recorded.records, recorded.summary, recorded.losses);
    Ok(())
}
