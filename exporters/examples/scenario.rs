//! Writes a short session in which everything happens once:
//! `cargo run -p syscollect-exporters --example scenario -- FILE.pftrace [game|gpu|waits|marked]`
//! (or another format's extension); with `game`, what a program says of itself; with `gpu`, jobs of
//! GPUs; with `waits`, who waits for them; with `marked`, jobs with the zones that a program marked
//! in them.

#[path = "../tests/exporters/scenario.rs"]
mod scenario;

use std::fs::File;
use std::path::Path;
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FlamegraphExporter, FoldedExporter, Format, PerfettoExporter,
    PprofExporter, StackOptions, TextExporter, TracyExporter,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("the output file is missing")?;
    let format = Format::from_path(Path::new(&path))?;
    let scenario = match std::env::args().nth(2).as_deref() {
        Some("game") => scenario::game(),
        Some("gpu") => scenario::gpu(),
        Some("waits") => scenario::fence_waits(),
        Some("marked") => scenario::marked_jobs(),
        _ => scenario::scenario(),
    };
    let (session, losses, summary) = (scenario::session(), scenario::losses(), scenario::summary());
    let file = File::create(&path)?;
    match format {
        Format::Perfetto => {
            let mut exporter = PerfettoExporter::new(file);
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
        Format::Firefox | Format::FirefoxGzip => {
            let gzip = format == Format::FirefoxGzip;
            let mut exporter = FirefoxExporter::new(
                file,
                FirefoxOptions { gzip, sched_markers: true, ..FirefoxOptions::default() },
            );
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
        Format::Pprof => {
            let mut exporter = PprofExporter::new(file, None);
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
        Format::Flamegraph => {
            let mut exporter = FlamegraphExporter::new(file, StackOptions::default());
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
        Format::Folded => {
            let mut exporter = FoldedExporter::new(file, StackOptions::default());
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
        Format::Tracy => {
            let mut exporter = TracyExporter::new(file);
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
        Format::Text => {
            let mut exporter = TextExporter::new(file);
            scenario.play(&mut exporter, &session, &losses, Some(&summary))?;
            exporter.finish()?;
        }
    }
    Ok(())
}
