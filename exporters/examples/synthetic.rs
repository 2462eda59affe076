//! Writes a synthetic session as a Perfetto trace, or for Tracy if FILE ends in `.tracy`:
//! `cargo run --release -p syscollect-exporters --example synthetic -- FILE [EVENTS] [none] [zstd]`
//! (`none`: without stacks at switches and wakeups; `zstd`, with the feature of that name: how a
//! file for Tracy is compressed), and says how long it took.

#[path = "../benches/synthetic/mod.rs"]
mod synthetic;

use std::fs::File;
use std::time::Instant;
use synthetic::Shape;
use syscollect_exporters::{PerfettoExporter, TracyExporter, TracyOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).ok_or("the output file is missing")?;
    let events = arguments.get(2).map_or(Ok(100_000), |text| text.parse())?;
    let event_stacks = !arguments.iter().any(|text| text == "none");
    let compression = if arguments.iter().any(|text| text == "zstd") { "zstd" } else { "lz4" };
    let shape = Shape { cpus: 4, threads: 64, stacks: 2_000, event_stacks };
    let mut tables = synthetic::tables(shape);
    let began = Instant::now();
    let file = File::create(path)?;
    if path.ends_with(".tracy") {
        let options = TracyOptions { compression: compression.parse()?, ..TracyOptions::default() };
        let mut exporter = TracyExporter::new(file).with(options);
        synthetic::play(&mut exporter, &mut tables, shape, events)?;
        exporter.finish()?;
    } else {
        let mut exporter = PerfettoExporter::new(file);
        synthetic::play(&mut exporter, &mut tables, shape, events)?;
        exporter.finish()?;
    }
    let (spent, size) = (began.elapsed(), std::fs::metadata(path)?.len());
    println!(
        "{events} events, {size} bytes, {spent:?}, {} ns/event",
        spent.as_nanos() as u64 / events.max(1)
    );
    Ok(())
}
