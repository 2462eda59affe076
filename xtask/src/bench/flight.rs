//! `cargo xtask bench --flight`: what a flight recorder costs the traced, and itself, next to a
//! recording that streams into a file; with triggers, and while snapshots are written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::table::{median, spread};
use super::workload::{PACE, PACED, SWITCHING, Workload};
use crate::privileged::context::{Context, finish, json_lines, number, signal, text, until, wait};

/// What all of them record.
const RECORDED: [&str; 4] = ["--stacks", "offcpu,wakers", "--freq", "0"];
/// The same for a view.
const SHOWN: [&str; 4] = ["--stacks", "samples,off-cpu", "--freq", "99"];
const BUFFER: [&str; 2] = ["--buffer", "256M"];

/// A trigger of each kind that looks at what the load does, and none that fires.
const TRIGGERS: [&str; 8] = [
    "waiting > 10s",
    "blocked syscollect-load > 20s",
    "uninterruptible > 1m",
    "exit code 77",
    "crash nobody",
    "zone nothing > 1ms",
    "message \"nothing\"",
    "counter \"CPU pressure\" > 1000",
];

/// What records meanwhile.
struct Setup {
    title: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `record`, with these options.
    Record(&'static [&'static str]),
    /// `flight`.
    Flight { triggers: bool, snapshots: bool },
    /// `top`, with these options.
    Top(&'static [&'static str]),
}

const SETUPS: [Setup; 7] = [
    Setup { title: "`record` into a file", kind: Kind::Record(&[]) },
    Setup { title: "`record --overwrite`", kind: Kind::Record(&["--overwrite"]) },
    Setup { title: "`flight`", kind: Kind::Flight { triggers: false, snapshots: false } },
    Setup {
        title: "`flight`, 8 triggers",
        kind: Kind::Flight { triggers: true, snapshots: false },
    },
    Setup {
        title: "`flight`, one snapshot after the other",
        kind: Kind::Flight { triggers: false, snapshots: true },
    },
    Setup { title: "`top`", kind: Kind::Top(&["--by", "threads"]) },
    Setup { title: "`top` of functions", kind: Kind::Top(&["--by", "functions"]) },
];

/// What records beside a load that has a pace.
struct PacedSetup {
    setup: Setup,
    /// How much the thread for triggers or of the view may take, per cent of one CPU.
    most: Option<f64>,
}

const PACED_SETUPS: [PacedSetup; 4] = [
    PacedSetup {
        setup: Setup {
            title: "`flight`",
            kind: Kind::Flight { triggers: false, snapshots: false },
        },
        most: None,
    },
    PacedSetup {
        setup: Setup {
            title: "`flight`, 8 triggers",
            kind: Kind::Flight { triggers: true, snapshots: false },
        },
        most: Some(2.0),
    },
    PacedSetup {
        setup: Setup { title: "`top`", kind: Kind::Top(&["--by", "threads"]) },
        most: Some(3.0),
    },
    PacedSetup {
        setup: Setup { title: "`top` of functions", kind: Kind::Top(&["--by", "functions"]) },
        most: Some(3.0),
    },
];

/// One run beside a recorder.
struct Run {
    /// CPU time of the load, over that without a recorder right before.
    ratio: f64,
    /// Context switches of the load each second,
    pace: f64,
    /// and events of the whole machine.
    rate: f64,
    lost: u64,
    /// CPU time of the recorder while the load ran, and of its thread that watches for triggers, in
    /// per cent of one CPU.
    recorder: f64,
    watching: f64,
    snapshots: u64,
}

/// Runs all setups by turns, and gives tables as Markdown.
pub(super) fn run(context: &Context, pairs: usize) -> Result<String> {
    let fastest = fastest(context, pairs)?;
    let paced = paced(context, pairs)?;
    Ok(format!("As fast as it can:\n\n{fastest}\nAt {PACE} switches a second:\n\n{paced}"))
}

/// The runs of each setup.
fn runs_of(
    context: &Context,
    load: &Workload,
    setups: &[&Setup],
    pairs: usize,
) -> Result<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = setups.iter().map(|_| Vec::new()).collect();
    for pair in 0..pairs {
        for (setup, runs) in setups.iter().zip(&mut runs) {
            eprint!("\r{}/{pairs} {:<40}", pair + 1, setup.title);
            let alone = load.cpu_seconds(context)?;
            runs.push(setup.run(context, load, alone)?);
        }
    }
    eprintln!();
    Ok(runs)
}

/// What the recorder takes at a pace, which says little of what the load does.
fn paced(context: &Context, pairs: usize) -> Result<String> {
    let setups = PACED_SETUPS.each_ref().map(|paced| &paced.setup);
    let runs = runs_of(context, &PACED, &setups, pairs)?;
    let mut out = String::from(
        "| | switches a second of the load | events a second of the machine | lost | recorder's \
         CPU, all threads | of it the thread for triggers or of the view | which is to be at most \
         |\n|---|---|---|---|---|---|---|\n",
    );
    for (PacedSetup { setup, most }, runs) in PACED_SETUPS.iter().zip(&runs) {
        let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        let lost: u64 = runs.iter().map(|run| run.lost).sum();
        out += &format!(
            "| {} | {:.0} | {:.0} | {lost} | {:.2} % | {:.2} % | {} |\n",
            setup.title,
            of(|run| run.pace),
            of(|run| run.rate),
            of(|run| run.recorder),
            of(|run| run.watching),
            most.map_or_else(String::new, |most| format!("{most} %")),
        );
    }
    Ok(out)
}

fn fastest(context: &Context, pairs: usize) -> Result<String> {
    let runs = runs_of(context, &SWITCHING, &SETUPS.each_ref(), pairs)?;
    let mut out = String::from(
        "| beside it | CPU time of the load, ratio (spread) | events a second | lost | recorder's \
         CPU | of it for triggers or the view | snapshots each run |\n|---|---|---|---|---|---|---|\n",
    );
    for (setup, runs) in SETUPS.iter().zip(&runs) {
        let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        let ratios: Vec<f64> = runs.iter().map(|run| run.ratio).collect();
        let (low, high) = spread(&ratios);
        let lost: u64 = runs.iter().map(|run| run.lost).sum();
        out += &format!(
            "| {} | {:.3} ({low:.3} to {high:.3}) | {:.0} | {lost} | {:.1} % | {:.2} % | {:.0} |\n",
            setup.title,
            of(|run| run.ratio),
            of(|run| run.rate),
            of(|run| run.recorder),
            of(|run| run.watching),
            of(|run| run.snapshots as f64),
        );
    }
    Ok(out)
}

impl Setup {
    fn run(&self, context: &Context, load: &Workload, alone: f64) -> Result<Run> {
        let recorder = Recorder::start(context, self.kind)?;
        let (before, began) = (recorder.used()?, Instant::now());
        let snapshots = AtomicU64::new(0);
        let load = match self.kind {
            Kind::Flight { snapshots: true, .. } => beside(
                || load.run(context),
                || {
                    recorder.snapshot()?;
                    snapshots.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                },
            )?,
            _ => load.run(context)?,
        };
        let (after, seconds) = (recorder.used()?, began.elapsed().as_secs_f64());
        let share = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
        let (events, lost) = recorder.stop()?;
        Ok(Run {
            ratio: load.cpu_seconds / alone,
            pace: load.rate,
            rate: events as f64 / seconds,
            lost,
            // USER_HZ is 100 on every Linux ABI that this runs on.
            recorder: share(after.all, before.all),
            watching: share(after.watching, before.watching),
            snapshots: snapshots.into_inner(),
        })
    }
}

/// Does the one, and meanwhile the other, over and over.
fn beside<T>(work: impl FnOnce() -> Result<T>, other: impl Fn() -> Result<()> + Sync) -> Result<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                other()?;
            }
            Ok(())
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        others.join().map_err(|_| anyhow::anyhow!("the other thread failed"))??;
        result
    })
}

/// CPU time, in ticks.
struct Used {
    all: u64,
    watching: u64,
}

/// A recorder that runs.
struct Recorder<'a> {
    context: &'a Context,
    child: Child,
    kind: Kind,
    output: PathBuf,
    socket: PathBuf,
}

impl<'a> Recorder<'a> {
    fn start(context: &'a Context, kind: Kind) -> Result<Self> {
        let output = context.path("bench-flight.syscap");
        let [socket, folder] = ["bench-flight.socket", "bench-flight"].map(|at| context.path(at));
        let mut command = match kind {
            Kind::Record(options) => {
                let mut command = context.command(&["record", "--force", "-o", text(&output)?]);
                command.args(options);
                command
            }
            Kind::Flight { triggers, .. } => {
                fs::create_dir_all(&folder)?;
                let [socket, folder] = [text(&socket)?, text(&folder)?];
                let mut command =
                    context.command(&["flight", "--socket", socket, "--folder", folder]);
                if triggers {
                    TRIGGERS.iter().for_each(|trigger| _ = command.args(["--trigger", trigger]));
                }
                command
            }
            Kind::Top(options) => {
                let mut command = context.command(&["top", "--json", "--seconds", "3600"]);
                command.args(options);
                command
            }
        };
        // Stacks of who wakes others are in no view.
        command.args(if matches!(kind, Kind::Top(_)) { SHOWN } else { RECORDED }).args(BUFFER);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if matches!(kind, Kind::Top(_)) {
            child.stdout(fs::File::create(&output)?);
        }
        let child = child.spawn().context("cannot start the recorder")?;
        let recorder = Self { context, child, kind, output, socket };
        match kind {
            Kind::Record(_) | Kind::Top(_) => std::thread::sleep(Duration::from_millis(1_500)),
            Kind::Flight { .. } => {
                until("the flight recorder to answer", || recorder.status().ok())?;
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        Ok(recorder)
    }

    fn ask(&self, request: &str) -> Command {
        let mut command = self.context.command(&[request, "--socket"]);
        command.arg(&self.socket);
        command
    }

    fn status(&self) -> Result<Value> {
        let output = finish(self.ask("status").arg("--json"))?;
        ensure!(output.status.success(), "{}", output.stderr);
        Ok(serde_json::from_str(&output.stdout)?)
    }

    fn snapshot(&self) -> Result<()> {
        let output = finish(self.ask("snapshot").arg("--force").arg("-o").arg(&self.output))?;
        ensure!(output.status.success(), "{}", output.stderr);
        Ok(())
    }

    fn used(&self) -> Result<Used> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let mut watching = 0;
        for thread in fs::read_dir(process.join("task"))? {
            let thread = thread?.path();
            // One that ended meanwhile watched for nothing.
            let is_view = matches!(self.kind, Kind::Top(_))
                && thread.file_name().is_some_and(|name| name == &*self.child.id().to_string());
            let name = fs::read_to_string(thread.join("comm"));
            if is_view || name.is_ok_and(|name| name == "triggers\n") {
                watching += ticks(&thread)?;
            }
        }
        Ok(Used { all: ticks(&process)?, watching })
    }

    /// Its events, and those it lost.
    fn stop(self) -> Result<(u64, u64)> {
        let counts = |told: &Value| Ok((number(told, "events")?, number(told, "lost")?));
        match self.kind {
            Kind::Record(_) => {
                signal(self.child.id(), libc::SIGINT);
                wait(self.child)?;
                counts(&self.context.info(&self.output)?)
            }
            Kind::Top(_) => {
                // Its seconds end a moment later.
                std::thread::sleep(Duration::from_millis(1_500));
                signal(self.child.id(), libc::SIGINT);
                wait(self.child)?;
                let (mut events, mut lost) = (0, 0);
                for second in json_lines(&fs::read_to_string(&self.output)?)? {
                    events += number(&second, "switches")? + number(&second, "wakeups")?;
                    lost = number(&second["recorder"], "lost")?;
                }
                Ok((events, lost))
            }
            Kind::Flight { .. } => {
                let status = self.status()?;
                finish(&mut self.ask("stop"))?;
                wait(self.child)?;
                counts(&status)
            }
        }
    }
}

/// CPU time of a process or thread, in ticks of a hundredth of a second.
pub(super) fn ticks(folder: &Path) -> Result<u64> {
    let stat = fs::read_to_string(folder.join("stat"))?;
    let fields = stat.rsplit_once(')').context("no name")?.1.split_whitespace();
    let times: Vec<u64> = fields.skip(11).take(2).filter_map(|time| time.parse().ok()).collect();
    Ok(times.iter().sum())
}
