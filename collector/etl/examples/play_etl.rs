//! Plays a trace into nothing, and says how long that took: for profilers and for memory.
//!
//! `cargo run --release -p syscollect-etl --example play_etl -- x.etl`

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Instant;
use syscollect_etl::session::{EtlError, Session};
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, SessionInfo, Tables, Time};
use syscollect_playback::Recording;

/// Counts events and keeps none.
struct Count(u64);

impl Exporter for Count {
    type Error = Infallible;

    fn begin(&mut self, _: &SessionInfo, _: &Tables) -> Result<(), Infallible> {
        Ok(())
    }

    fn event(&mut self, _: Time, _: &Event, _: &Tables) -> Result<(), Infallible> {
        self.0 += 1;
        Ok(())
    }

    fn end(&mut self, _: &[Loss], _: Option<&RecorderSummary>, _: &Tables) -> Result<(), Infallible> {
        Ok(())
    }
}

fn main() -> Result<(), EtlError> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let bytes: u64 = paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    let begin = Instant::now();
    let mut session = Session::open(&paths)?;
    let opened = begin.elapsed();
    let mut count = Count(0);
    let Ok(played) = session.play(&mut count);
    let whole = begin.elapsed();
    println!("{} records, {} events told", played.records, count.0);
    println!("{:?}", session.facts().stacks);
    let rate = bytes as f64 / 1e6 / whole.as_secs_f64();
    println!("{rate:.0} MB/s: opened in {opened:?}, all in {whole:?}");
    Ok(())
}
