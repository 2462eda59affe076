//! Plays a trace into nothing, and says how long that took: for profilers and for memory.
//!
//! `cargo run --release -p syscollect-etl --example play_etl -- x.etl`

use std::path::PathBuf;
use std::time::Instant;
use syscollect_etl::session::{EtlError, Session};
use syscollect_playback::{NullExporter, Recording};

fn main() -> Result<(), EtlError> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let bytes: u64 =
        paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    let begin = Instant::now();
    let mut session = Session::open(&paths)?;
    let opened = begin.elapsed();
    let Ok(played) = session.play(&mut NullExporter::new());
    let whole = begin.elapsed();
    println!("{} records, {} events", played.records, played.events);
    println!("{:?}", session.facts().stacks);
    let rate = bytes as f64 / 1e6 / whole.as_secs_f64();
    println!("{rate:.0} MB/s: opened in {opened:?}, all in {whole:?}");
    Ok(())
}
