//! `cargo xtask bench --live`: what it costs that a Tracy viewer may connect, and that one does,
//! and how late that one is told what happens.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syscollect_tests::tracy_viewer::StrictViewer;

use super::flight::ticks;
use super::table::median;
use super::workload::{LoadFigures, PACE, PACED, SWITCHING, Workload};
use crate::privileged::context::Context;
use crate::privileged::live::now;
use crate::privileged::live_tracy::{Live, exchange, is_later};

/// How long a viewer looks before the load begins.
const SETTLED: Duration = Duration::from_millis(500);

/// The most that a recorder may take at that pace while a viewer looks, per cent of one CPU.
const MOST_PACED: f64 = 12.0;

/// One run of the load.
#[derive(Default)]
struct Run {
    /// CPU time of the recorder, per cent of one CPU.
    recorder: f64,
    /// CPU time of the load, seconds, and how often it switched each second.
    load: f64,
    rate: f64,
    /// Of a viewer: switches that it was told each second, how much later than they were
    /// (milliseconds, the median and the 99th percentile), and after how many milliseconds it knew
    /// threads and plots.
    told: f64,
    late: f64,
    latest: f64,
    welcome: f64,
}

/// Runs loads beside `live`, by turns without and with a viewer; tables as Markdown.
pub(super) fn run(context: &Context, pairs: usize) -> Result<String> {
    let fastest = table(context, &SWITCHING, pairs)?;
    let paced = table(context, &PACED, pairs)?;
    Ok(format!(
        "As fast as they can:\n\n{fastest}\nAt {PACE} switches a second; with a viewer it is to be \
         {MOST_PACED} % at most:\n\n{paced}\nThe recorder's CPU is all time of its process, of all \
         threads, in the kernel too; what kernel programs take is in the load's.\n"
    ))
}

fn table(context: &Context, load: &Workload, pairs: usize) -> Result<String> {
    let folder = context.path("bench-live");
    fs::create_dir_all(&folder)?;
    let live = Live::start(context, &folder, &["--freq", "0"])?;
    let process = format!("/proc/{}", live.child.id());
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        without.push(beside(&process, || Ok(Run::of(load.run(context)?)))?);
        with.push(beside(&process, || watched(context, load, &live.address))?);
    }
    live.end()?;
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    Ok(format!(
        "| | recorder's CPU | CPU time of the load | its switches, each second | switches told, \
         each second | later, median | later, 99 % | threads and plots after |\n\
         |---|---|---|---|---|---|---|---|\n\
         | nobody connected | {:.2} % | {:.2} s | {:.0} | | | | |\n\
         | a viewer | {:.2} % | {:.2} s | {:.0} | {:.0} | {:.1} ms | {:.1} ms | {:.0} ms |\n",
        of(&without, |run| run.recorder),
        of(&without, |run| run.load),
        of(&without, |run| run.rate),
        of(&with, |run| run.recorder),
        of(&with, |run| run.load),
        of(&with, |run| run.rate),
        of(&with, |run| run.told),
        of(&with, |run| run.late),
        of(&with, |run| run.latest),
        of(&with, |run| run.welcome),
    ))
}

impl Run {
    fn of(load: LoadFigures) -> Self {
        Self { load: load.cpu_seconds, rate: load.rate, ..Self::default() }
    }
}

/// Does it, and how much CPU time the recorder had meanwhile.
fn beside(process: &str, work: impl FnOnce() -> Result<Run>) -> Result<Run> {
    let process = Path::new(process);
    let (before, began) = (ticks(process)?, Instant::now());
    let run = work()?;
    let used = ticks(process)?.saturating_sub(before);
    // A tick is a hundredth of a second, and so a per cent of one.
    Ok(Run { recorder: used as f64 / began.elapsed().as_secs_f64(), ..run })
}

/// What came at once, and when.
struct ReceivedPiece {
    at: i64,
    bytes: Vec<u8>,
}

fn receive(stream: &mut TcpStream) -> Result<Option<ReceivedPiece>> {
    let mut bytes = [0; 64 << 10];
    match stream.read(&mut bytes) {
        Ok(0) => anyhow::bail!("it closed the connection"),
        Ok(read) => Ok(Some(ReceivedPiece { at: now() as i64, bytes: bytes[..read].to_vec() })),
        Err(error) if is_later(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The load while a viewer looks.
fn watched(context: &Context, load: &Workload, address: &str) -> Result<Run> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(5)))?;
    let mut viewer = StrictViewer::default();
    let (begun, mut welcome) = (Instant::now(), None);
    while begun.elapsed() < SETTLED {
        exchange(&mut stream, &mut viewer)?;
        let seen = viewer.seen();
        if welcome.is_none() && !seen.threads.is_empty() && !seen.plots.is_empty() {
            welcome = Some(begun.elapsed());
        }
    }
    let (over, mut received) = (AtomicBool::new(false), Vec::new());
    let (began, before) = (Instant::now(), viewer.seen().switches.len());
    let used = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let used = load.run(context);
            over.store(true, Ordering::Relaxed);
            used
        });
        while !over.load(Ordering::Relaxed) {
            received.extend(receive(&mut stream)?);
        }
        load.join().map_err(|_| anyhow::anyhow!("the load failed"))?
    })?;
    let seconds = began.elapsed().as_secs_f64();
    // The viewer takes longer than the recorder: what it does is no part of the delay.
    let mut late = Vec::new();
    for ReceivedPiece { at, bytes } in received {
        let known = viewer.seen().switches.len();
        viewer.receive(&bytes)?;
        // Those of a frame are told together; some of them stand for all.
        let new = viewer.seen().switches[known..].iter().step_by(16);
        late.extend(new.map(|switch| (at - switch.time) as f64 / 1e6));
    }
    let told = viewer.seen().switches.len() - before;
    late.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| late.get(late.len() * part / 100).copied().unwrap_or_default();
    Ok(Run {
        told: told as f64 / seconds,
        late: at(50),
        latest: at(99),
        welcome: welcome.context("the viewer was told of no thread or plot")?.as_secs_f64() * 1e3,
        ..Run::of(used)
    })
}
