//! `cargo xtask soak`: one long recording of a busy machine at default settings, and what the
//! recorder used meanwhile.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::privileged::context::{Context, number, signal, text, until, wait};
use crate::process::output_of;
use crate::survival::Workload;

/// How long, and where to.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to record.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Minutes between two rows.
    #[arg(long, default_value_t = 5)]
    every: u64,
    /// A folder with room for the recording [default: one that is removed].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Options of the recording, behind `--`.
    #[arg(last = true)]
    options: Vec<String>,
}

/// What /proc says of the recorder at one moment.
struct Row {
    minute: u64,
    resident_kib: u64,
    peak_kib: u64,
    descriptors: usize,
    mappings: usize,
    threads: u64,
    cpu: Duration,
    file: u64,
}

impl Row {
    fn of(pid: u32, minute: u64, file: u64) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Self {
            minute,
            resident_kib: field(pid, &status, "VmRSS")?,
            peak_kib: field(pid, &status, "VmHWM")?,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            mappings: fs::read_to_string(format!("/proc/{pid}/maps"))?.lines().count(),
            threads: field(pid, &status, "Threads")?,
            cpu: cpu_time(pid)?,
            file,
        })
    }

    /// A line of the table; `before` is the row above.
    fn print(&self, before: &Self) {
        let minutes = (self.minute - before.minute).max(1);
        let cpu = (self.cpu - before.cpu).as_secs_f64() / (60.0 * minutes as f64) * 100.0;
        let written = (self.file - before.file) as f64 / 1e6 / minutes as f64;
        println!(
            "| {} | {:.1} | {:.1} | {} | {} | {} | {cpu:.1} | {written:.1} |",
            self.minute,
            self.resident_kib as f64 / 1024.0,
            self.peak_kib as f64 / 1024.0,
            self.descriptors,
            self.mappings,
            self.threads,
        );
    }
}

/// User and system time of a process, its threads that have ended included.
/// A number in `/proc/PID/status`.
fn field(pid: u32, status: &str, name: &str) -> Result<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok());
    value.with_context(|| format!("no {name} in /proc/{pid}/status"))
}

fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let mut ticks = 0;
    for at in [11, 12] {
        let field = fields.get(at).and_then(|field| field.parse::<u64>().ok());
        ticks += field.context("stat is too short")?;
    }
    // SAFETY: takes a number and returns one.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// Records, prints a row every few minutes, and what came of it in the end.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !crate::privileged::is_root() {
        bail!("this records the whole machine: run it as root");
    }
    let context = Context::new()?;
    let folder = arguments.folder.clone().unwrap_or_else(|| context.path("soak"));
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let (output, partial) = (folder.join("soak.syscap"), folder.join("soak.syscap.partial"));
    let _load = Workload::start(&context)?;
    let mut command = context.command(&[]);
    command.args(["record", "--force", "-o", text(&output)?]).args(&arguments.options);
    let recorder =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let size =
        || fs::metadata(&partial).or_else(|_| fs::metadata(&output)).ok().map(|file| file.len());
    until("the recording to begin", size)?;
    let begun = Instant::now();
    println!(
        "| minute | resident MiB | peak MiB | descriptors | mappings | threads | CPU % | MB a \
         minute |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut before = Row::of(recorder.id(), 0, 0)?;
    before.print(&before);
    while before.minute < arguments.minutes {
        let minute = (before.minute + arguments.every.max(1)).min(arguments.minutes);
        std::thread::sleep(
            (begun + Duration::from_secs(60 * minute)).saturating_duration_since(Instant::now()),
        );
        let row = Row::of(recorder.id(), minute, size().unwrap_or(0))?;
        row.print(&before);
        before = row;
    }
    signal(recorder.id(), libc::SIGINT);
    let stopping = Instant::now();
    let recorder = wait(recorder)?;
    ensure!(
        recorder.status.success(),
        "the recorder ended with {}:\n{}",
        recorder.status,
        recorder.stderr
    );
    println!(
        "\nstopped and named within {:.1} s; it printed:\n{}",
        stopping.elapsed().as_secs_f64(),
        recorder.stderr
    );
    // To read an hour's events takes minutes.
    let info = output_of(&mut context.command(&["info", "--json", text(&output)?]))?;
    let info: Value =
        serde_json::from_slice(&info.stdout).context("info --json printed no JSON")?;
    println!("{} events, {} lost", number(&info, "events")?, number(&info, "lost")?);
    if arguments.folder.is_none() {
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}
