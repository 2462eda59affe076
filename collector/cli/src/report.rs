//! `syscollect report`: a capture summed up, for people and for machines.

use crate::confine;
use crate::convert;
use crate::debug_packages;
use crate::escape::{print, print_json};
use crate::signals::Abandon;
use crate::source::{self, Source};
use crate::symbols::SymbolOptions;
use crate::terminal::Terminal;
use crate::time_range::TimeRange;
use crate::units::{Percent, parse_duration, parse_percent};
use anyhow::{Context, Result, bail};
use std::convert::Infallible;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use syscollect_exporters::LoopLimit;
use syscollect_exporters::report::{
    MAX_TREE_DEPTH, ProcessFilter, Report, ReportExporter, ReportOptions, ReportRange, TreeOptions,
    TreeOrder,
};
use syscollect_model::{
    Event, Exporter, Loss, MachineId, OperatingSystem, RecorderSummary, StackOrigin, Tables, Time,
};
use syscollect_playback::Recording;

const EXAMPLES: &str = "\
Examples:
  syscollect report x.syscap                     what the machine did
  syscollect report x.syscap --process cargo     ... one program's processes
  syscollect report x.syscap --process 4711      ... one process
  syscollect report x.syscap --worst             the longest waits: who, when, what ran meanwhile
  syscollect report x.syscap --tree              call trees of CPU samples and of off-CPU time
  syscollect report x.syscap --tree callers      ... from the hottest functions to their callers
  syscollect report x.syscap --from 2s --to 2.5s a part of the time
  syscollect report x.syscap --json | jq '.functions.by_self.rows[:10]'

Threads are on CPU, waiting for a CPU (runnable), or asleep until they are woken.
Run-queue latency is the length of such a wait. Time asleep is of threads that
something held up (blocked: locks, I/O, child processes), of idle ones (event
loops, sleeps, idle workers), or undecided: work or an answer was waited for.
JSON has the same tables, where all time asleep is `blocked_ns`, nanoseconds.";

/// Rows of each table for people, who scroll, and for machines, which do not.
const ROWS: usize = 15;
const JSON_ROWS: usize = 1000;
/// Nodes of each call tree.
const TREE_ROWS: usize = 2000;
const TREE_JSON_ROWS: usize = 10_000;
/// Of the longest waits of each kind, where none says how many.
const WORST: &str = "10";
/// Columns where standard output is no terminal.
const WIDTH: usize = 120;
/// More are none that anybody reads.
const MOST_COLUMNS: usize = 10_000;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture (.syscap, or a .syscap.partial of a recording that was cut off), captures of
    /// several machines, or all .etl files of one Windows recording
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Only this process (by its id), or those of this name; not their children
    #[arg(short = 'p', long, value_name = "NAME|PID")]
    process: Option<ProcessFilter>,

    /// Of a recording of some processes (-p), show the others too: they have only what concerns
    /// these
    #[arg(long, conflicts_with = "process")]
    all: bool,

    #[command(flatten)]
    range: TimeRange,

    /// The longest waits one by one, so many of each kind (10): for a CPU, blocked, for locks, for
    /// fences of GPUs
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = WORST,
          group = "detail", value_parser = clap::value_parser!(u32).range(1..=1000))]
    worst: Option<u32>,

    /// Call trees of CPU samples and of off-CPU time: from each thread's start to what it calls
    /// (callees), or from what was hit to who called it (callers)
    #[arg(long, value_name = "ORDER", num_args = 0..=1, default_missing_value = "callees",
          group = "detail")]
    tree: Option<TreeDirection>,

    /// Of call trees, leave out what has a smaller share of all
    #[arg(long, value_name = "PERCENT", default_value = "1%", requires = "tree",
          value_parser = parse_percent)]
    tree_min: Percent,

    /// Of call trees, so many functions from a root on
    #[arg(long, value_name = "NUMBER", requires = "tree",
          value_parser = clap::value_parser!(u32).range(1..=MAX_TREE_DEPTH as i64))]
    tree_depth: Option<u32>,

    /// Call trees of off-CPU time, and the longest times blocked, with the threads that had nothing
    /// to do
    #[arg(long, requires = "detail")]
    idle: bool,

    /// Rows of each table (15; with --json 1000), functions of each call tree (2000; 10000); of
    /// threads that slept from beginning to end idle ones have rows, too
    #[arg(long, value_name = "NUMBER")]
    rows: Option<usize>,

    /// Tell of event loops that did not come back to their wait for longer than this
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration)]
    loop_limit: Duration,

    #[command(flatten)]
    symbols: SymbolOptions,
}

/// From where call trees grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TreeDirection {
    /// From each thread's start to what it calls
    Callees,
    /// From what was hit to who called it
    Callers,
}

impl Args {
    fn tree_options(&self) -> Option<TreeOptions> {
        let order = match self.tree? {
            TreeDirection::Callees => TreeOrder::Callees,
            TreeDirection::Callers => TreeOrder::Callers,
        };
        let usual = if self.json { TREE_JSON_ROWS } else { TREE_ROWS };
        Some(TreeOptions {
            order,
            least_ppm: self.tree_min.millionths,
            depth: self.tree_depth.map_or(MAX_TREE_DEPTH, |depth| depth as usize),
            nodes: self.rows.unwrap_or(usual),
            idle: self.idle,
        })
    }
}

/// Runs the sub-command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    confine::to_reading(args.symbols.asks_servers());
    let report = report(&args)?;
    let style = Terminal::stdout().style();
    match args.json {
        true => print_json(&serde_json::to_string_pretty(&report)?)?,
        false if args.tree.is_some() => print(&report.tree_text(width()), style)?,
        false if args.worst.is_some() => print(&report.worst_text(width()), style)?,
        false => print(&report.text(width()), style)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(args: &Args) -> Result<Report> {
    let Args { captures, json, process, all, range, worst, rows, symbols, .. } = args;
    let range = range.checked()?;
    let mut session =
        Source::open_named(captures, symbols, &Abandon::default(), &Terminal::stderr())?;
    let rows = rows.unwrap_or(if *json { JSON_ROWS } else { ROWS });
    let process = convert::focus(process.clone(), *all, &session);
    let worst = worst.map_or(0, |worst| worst as usize);
    let (from, to) = range.of(&session)?;
    let part = range.is_part().then_some(ReportRange { from, to });
    let options = ReportOptions {
        process: process.clone(),
        part,
        rows,
        worst,
        worst_idle: args.idle,
        tree: args.tree_options(),
        idle_sleepers: args.rows.is_some() || args.process.is_some(),
        loop_limit: LoopLimit::new(args.loop_limit),
    };
    let mut exporter = ReportExporter::new(options);
    let played = session.play_range(&mut exporter, from, to);
    let played = played.with_context(|| format!("cannot read {}", source::names(captures)))?;
    let mut report = exporter.finish();
    if report.is_overwritten {
        bail!(
            "this part of {} was not kept, as --overwrite and --last ask{}",
            source::names(captures),
            kept_from(&mut session)?
        );
    }
    if played.first.is_none() && part.is_some() {
        bail!(
            "nothing is in this part of {}: `syscollect info` of each says how long it lasts",
            source::names(captures)
        );
    }
    report.missing_stacks = played.missing_stacks;
    if report.recording.os != OperatingSystem::Windows {
        debug_packages::fill_in(&mut report.unresolved.rows);
    }
    // Windows' own recorders end well without a summary of ours.
    report.recording.complete = session.is_complete();
    if let Some(process) = process
        && report.processes.total == 0
    {
        if let ProcessFilter::Pid(pid) = process
            && let Some(of) = process_of_thread(pid, &mut session)?
        {
            bail!("{pid} is a thread of process {of}: use --process {of}");
        }
        bail!(
            "no process {process} did anything in {}: `syscollect report {}` lists the busiest",
            source::names(captures),
            source::arguments(captures)
        );
    }
    if args.tree.is_some() {
        check_trees(&report, part.is_some())?;
    }
    Ok(report)
}

/// Where that begins which newer records did not overwrite, as a part of a sentence.
fn kept_from(session: &mut Source) -> Result<String> {
    let mut search = KeptSearch::default();
    session.play(&mut search)?;
    Ok(search.first.map_or_else(String::new, |first| {
        let after = first.saturating_sub(search.began);
        format!(": what was kept begins at {:.3}s", after as f64 / 1e9)
    }))
}

/// Looks for the first event that tells what ran.
#[derive(Default)]
struct KeptSearch {
    began: u64,
    first: Option<u64>,
}

impl Exporter for KeptSearch {
    type Error = Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Infallible> {
        let pairs = &tables.machine(MachineId::FIRST).clock_pairs;
        self.began = pairs.first().map_or(0, |pair| pair.boottime);
        Ok(())
    }

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Infallible> {
        if let (None, Event::Switch(_) | Event::Wakeup(_)) = (self.first, event) {
            self.first = Some(time.0);
        }
        Ok(())
    }
}

/// The process that a thread with this id is of.
fn process_of_thread(tid: u32, session: &mut Source) -> Result<Option<u32>> {
    let mut search = ThreadSearch { tid, process: None };
    session.play(&mut search)?;
    Ok(search.process)
}

/// Looks for a thread among all that a recording tells of, which are known at its end.
struct ThreadSearch {
    tid: u32,
    process: Option<u32>,
}

impl Exporter for ThreadSearch {
    type Error = Infallible;

    fn event(&mut self, _: Time, _: &Event, _: &Tables) -> Result<(), Infallible> {
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Infallible> {
        let thread = tables.threads.iter().rev().find(|thread| thread.tid == self.tid);
        let process = thread.map(|thread| tables.process(thread.process).pid);
        self.process = process.filter(|pid| *pid != self.tid);
        Ok(())
    }
}

/// Trees of nothing are no result: says why they would be empty, and what to do. Windows' traces
/// have reasons to wait without any stack.
fn check_trees(report: &Report, is_part: bool) -> Result<()> {
    let Report { functions, off_cpu, recording, .. } = report;
    let has_stacks = functions.samples > functions.without_stack
        || off_cpu.blocked_ns > off_cpu.without_stack_ns;
    if has_stacks || recording.os == OperatingSystem::Windows {
        return Ok(());
    }
    let of_trees = [StackOrigin::Samples, StackOrigin::OffCpu];
    let has_any = of_trees.iter().any(|origin| recording.stacks.contains(origin));
    if off_cpu.blocked_ns == 0
        && let Some(asleep) = off_cpu.asleep_throughout.pointer()
    {
        let way = if has_any { "" } else { "; call trees want --stacks samples,off-cpu" };
        bail!(
            "no CPU sample has a stack, and no thread blocked and woke in this time; {asleep}{way}"
        );
    }
    let way = match has_any {
        false => "record with --stacks samples,off-cpu",
        true if is_part => "choose another part, or all of it",
        true => "record for longer, while programs run",
    };
    bail!(
        "there is no CPU sample and no blocked thread with a stack, so call trees would be empty: \
         {way}"
    )
}

/// Columns that `COLUMNS` asks for, or those of the terminal.
fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    if let Some(columns) = asked.filter(|columns| (1..=MOST_COLUMNS).contains(columns)) {
        return columns;
    }
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0))
}
