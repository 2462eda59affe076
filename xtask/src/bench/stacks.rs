//! `cargo xtask bench --stacks`: how many user stacks reach their thread's first function, of
//! programs as people build and install them, next to perf.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, StackId, Tables, ThreadId, Time};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;

use super::table::median;
use super::tracer::{PERF_DWARF, PERF_SAMPLES, SAMPLES, Tracer};
use crate::privileged::context::{Context, finish, text};
use crate::privileged::files::wait_for_usage;

/// Functions of which one is among the outermost of every thread, as symbol tables and perf call
/// them; a stripped program's `_start` has no name, but below it is the C library's.
const OUTERMOST: [&str; 6] =
    ["_start", "__libc_start_", "clone", "__clone", "start_thread", "_dl_start"];

/// A program that computes for some seconds.
pub(super) struct Program {
    pub(super) title: &'static str,
    /// Its name as a thread.
    pub(super) comm: &'static str,
    /// For `sh`; `$DIR` is where compiled programs lie.
    script: &'static str,
    /// What must be installed to build it, or to run it.
    pub(super) needs: &'static str,
    /// How it is built, if it is.
    pub(super) build: Option<&'static str>,
}

pub(super) const PROGRAMS: [Program; 7] = [
    Program {
        title: "C++, `-O2`",
        comm: "deep-cpp",
        needs: "c++",
        script: "$DIR/deep-cpp 12000",
        build: Some("c++ -O2 -o $DIR/deep-cpp $SOURCES/deep.cpp"),
    },
    Program {
        title: "Rust, `-O`",
        comm: "deep-rust",
        needs: "rustc",
        script: "$DIR/deep-rust 200000",
        build: Some("rustc -O -o $DIR/deep-rust $SOURCES/deep.rs"),
    },
    Program {
        title: "Python",
        comm: "python3",
        needs: "python3",
        script: "python3 -c 'import re, json\nfor n in range(250): re.sub(\"a+b\", str, \
                 json.dumps({\"a\" * (n % 40): list(range(3000))}, indent=1)); sorted(map(str, \
                 range(4000)))'",
        build: None,
    },
    Program {
        title: "Perl",
        comm: "perl",
        needs: "perl",
        script: "perl -e 'for (1..500) { my %h = map { $_ => \"x\" x ($_ % 50) } 1..4000; my $t = \
                 join(\",\", sort keys %h); $t =~ s/1+/a/g }'",
        build: None,
    },
    Program {
        title: "xz (stripped)",
        comm: "xz",
        needs: "xz",
        script: "seq 900000 | xz -5 -c > /dev/null",
        build: None,
    },
    Program {
        title: "rustc",
        comm: "rustc",
        needs: "rustc",
        script: "rustc -O --crate-name deep -o $DIR/again $SOURCES/deep.rs",
        build: None,
    },
    Program {
        title: "Node",
        comm: "node",
        needs: "node",
        script: "node -e 'let s = 0; for (let i = 0; i < 900; i++) \
                 { s += JSON.stringify(Array.from({length: 3000}, (_, n) => ({n}))).length }'",
        build: None,
    },
];

const TRACERS: [&Tracer; 3] = [&SAMPLES, &PERF_SAMPLES, &PERF_DWARF];

/// What the samples of one program are worth.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    samples: u64,
    whole: u64,
    frames: u64,
    bytes: f64,
    /// CPU time of the program under the tracer, of that without.
    ratio: f64,
}

/// Where programs that are built for this lie.
pub(super) fn folder(context: &Context) -> Result<PathBuf> {
    let folder = context.path("bench-stacks");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The table of single programs, as Markdown.
pub(super) fn run(context: &Context, folder: &Path, pairs: usize) -> Result<String> {
    let mut out = String::from(
        "| program | tracer | samples | reach the thread's start, median of runs (lowest to \
         highest) | frames, mean | CPU time of the program, ratio | bytes a sample |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for program in &PROGRAMS {
        if !program.is_there(folder)? {
            continue;
        }
        for tracer in TRACERS.iter().filter(|tracer| tracer.is_installed()) {
            let mut runs = Vec::new();
            for pair in 0..pairs {
                eprint!("\r{:<20} {}/{pairs} {:<40}", program.title, pair + 1, tracer.title);
                runs.push(program.under(context, tracer, folder)?);
            }
            out += &row(program, tracer, &runs);
        }
    }
    eprintln!();
    Ok(out)
}

fn row(program: &Program, tracer: &Tracer, runs: &[Counted]) -> String {
    let samples: u64 = runs.iter().map(|run| run.samples).sum();
    // Of some peers it is all stacks of a run or none.
    let whole: Vec<f64> = runs.iter().map(|run| run.of_samples(run.whole as f64) * 100.0).collect();
    let [lowest, highest] =
        [f64::min, f64::max].map(|which| whole.iter().copied().reduce(which).unwrap_or_default());
    format!(
        "| {} | {} | {samples} | {:.1} % ({lowest:.1} to {highest:.1}) | {:.1} | {:.3} | {:.0} |\n",
        program.title,
        tracer.title,
        median(whole),
        median(runs.iter().map(|run| run.of_samples(run.frames as f64)).collect()),
        median(runs.iter().map(|run| run.ratio).collect()),
        median(runs.iter().map(|run| run.of_samples(run.bytes)).collect()),
    )
}

impl Program {
    /// Whether it can be run here, once it is built.
    pub(super) fn is_there(&self, folder: &Path) -> Result<bool> {
        let found = finish(Command::new("which").arg(self.needs))?;
        if !found.status.success() {
            return Ok(false);
        }
        let built = self.build.map(|build| finish(&mut shell(build, folder))).transpose()?;
        if let Some(built) = built {
            ensure!(built.status.success(), "{} cannot be built:\n{}", self.title, built.stderr);
        }
        Ok(true)
    }

    /// Runs it; its CPU time, its children's included, in nanoseconds.
    pub(super) fn cpu_ns(&self, folder: &Path) -> Result<u64> {
        let mut command = shell(self.script, folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(wait_for_usage(child.id()).with_context(|| self.title)?.0)
    }

    fn under(&self, context: &Context, tracer: &Tracer, folder: &Path) -> Result<Counted> {
        let alone = self.cpu_ns(folder)?;
        let output = context.path("bench.out");
        let running = tracer.start(context, &output)?;
        let traced = self.cpu_ns(folder);
        let figures = running.stop(context, &output)?;
        let counted = match tracer.is_syscollect() {
            true => self.counted_of_capture(&output.with_extension("syscap"))?,
            false => self.counted_of_perf(&output)?,
        };
        // What was recorded of others takes its part of the file.
        let share = counted.samples as f64 / figures.events.filter(|all| *all > 0.0).unwrap_or(1.0);
        let bytes = figures.bytes.unwrap_or(0.0) * share.min(1.0);
        Ok(Counted { bytes, ratio: traced? as f64 / alone as f64, ..counted })
    }

    fn counted_of_capture(&self, capture: &Path) -> Result<Counted> {
        let mut samples = Samples { comm: self.comm, counted: Counted::default() };
        Session::open(CaptureReader::open(capture)?)?.play(&mut samples)?;
        Ok(samples.counted)
    }

    fn counted_of_perf(&self, output: &Path) -> Result<Counted> {
        let mut counted = Counted::default();
        for stack in perf_stacks(output, self.comm)? {
            counted.add(stack.frames.iter().map(|(_, name)| name.as_str()));
        }
        Ok(counted)
    }
}

impl Counted {
    fn of_samples(&self, what: f64) -> f64 {
        what / self.samples.max(1) as f64
    }

    fn add<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut is_whole = false;
        for name in names {
            self.frames += 1;
            is_whole |= OUTERMOST.iter().any(|outermost| name.starts_with(outermost));
        }
        self.samples += 1;
        self.whole += u64::from(is_whole);
    }
}

/// A sample of perf's.
pub(super) struct PerfStack {
    pub(super) pid: u32,
    /// Addresses and functions, innermost first.
    frames: Vec<(u64, String)>,
}

impl PerfStack {
    /// Without the kernel's.
    pub(super) fn user_functions(&self) -> Vec<String> {
        let frames = self.frames.iter().filter(|(address, _)| address >> 63 == 0);
        frames.map(|(_, name)| name.clone()).collect()
    }
}

/// The samples of threads of this name.
pub(super) fn perf_stacks(output: &Path, comm: &str) -> Result<Vec<PerfStack>> {
    let mut script = Command::new("perf");
    script.args(["script", "-i", text(output)?, "--comm", comm, "-F", "pid,ip,sym"]);
    script.args(["--max-stack", "127", "--no-inline"]);
    let script = finish(&mut script)?;
    ensure!(script.status.success(), "perf script failed:\n{}", script.stderr);
    let blocks = script.stdout.split("\n\n").filter(|block| !block.trim().is_empty());
    let stacks = blocks.filter_map(|block| {
        let mut lines = block.lines().map(str::trim).filter(|line| !line.is_empty());
        let pid = lines.next()?.parse().ok()?;
        let frames = lines.filter_map(|line| {
            let (address, name) = line.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
        });
        Some(PerfStack { pid, frames: frames.collect() })
    });
    Ok(stacks.collect())
}

fn shell(script: &str, folder: &Path) -> Command {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/bench/programs");
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("DIR", folder).env("SOURCES", sources);
    command
}

/// Counts the samples of the threads of one name.
struct Samples {
    comm: &'static str,
    counted: Counted,
}

impl Samples {
    fn add(&mut self, thread: ThreadId, stack: StackId, tables: &Tables) {
        // As perf counts them.
        if tables.strings.get(tables.thread(thread).name) != self.comm {
            return;
        }
        let names = tables.stack(stack).iter().map(|frame| tables.frame(*frame).function);
        self.counted.add(names.map(|name| name.map_or("", |name| tables.strings.get(name))));
    }
}

impl Exporter for Samples {
    type Error = Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Event::Sample(sample) = event
            && let Some(stack) = sample.stack
        {
            self.add(sample.thread, stack, tables);
        }
        Ok(())
    }
}
