//! The arguments of `record` that only Linux has, and the finished options that they become.

use super::bundle::Bundling;
use super::command::find_program;
use crate::format::{self, Format};
use crate::owner::Owner;
use crate::record::files::KeepCapture;
use crate::record::options::{Options, Output};
use crate::units::{BufferSize, parse_duration, parse_size};
use anyhow::{Context, Result};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syscollect_capture::{RecordOptions, Stacks, Tracepoints, UnwindMethod};
use syscollect_probes::{FUNCTIONS_MAX_DEFAULT, Spec, parse_file};
use syscollect_store::BufferMode;

pub(in crate::record) const EXAMPLES: &str = "\
Examples:
  sudo syscollect record                            until Ctrl-C, into ./syscollect-DATE-TIME.pftrace
  sudo syscollect record -d 10 -o boot.pftrace      ten seconds
  sudo syscollect record -o build.pftrace -- make   while make runs (as you, not as root)
  sudo syscollect record --only -- ./server         only the server and its children
  sudo syscollect record -p 1234 -p 5678            two processes, their threads and children
  sudo syscollect record --stacks none --freq 0     scheduling only, the cheapest
  sudo syscollect record --overwrite --buffer 30s   keep the last 30 seconds until Ctrl-C
  sudo syscollect record -d 5 -o x.syscap           the raw capture, to export on another machine
  sudo syscollect record --rotate 10m --keep 6 -o x.syscap   the last hour, in files of ten minutes
  sudo syscollect record --zone python:function__entry..function__return -- python3.11 x.py
  sudo syscollect record --zone 'postgresql:transaction__start..transaction__commit|transaction__abort'
  sudo syscollect record --usdt 'libstdcxx:*' -p 1234   every exception of a program
  sudo syscollect record --function 'libc.so.6:fopen*'  as zones, in all programs
  sudo syscollect record --function 'libc.so.6:malloc' --stacks samples,probes   and who calls it
  sudo syscollect record --tracepoint block:block_rq_issue --tracepoint irq   the kernel's own

`syscollect probes list` tells what there is to probe. --usdt, --zone, --function
and --probes may be given several times; a file of probes has lines such as
`zone python:function__entry..function__return` and comments after a #. Programs
that run already and those that start later are probed alike. Functions are probed
where they begin and where their code returns. One that an exception or a longer
jump leaves ends where the next one above it begins or returns. A file with symbols
(not stripped) lets more functions be told; those that are left out are named.

A zone of probes that begins while another of the same pair is open on its thread
lies within it, if such zones nest: if you say ,nests=yes, if that is known of the
probes (Python's functions), or if in the recording two ends follow each other
whose begins were both seen. Otherwise the one before is over, though its end was
not seen, and is shown as unfinished.

Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 stop. A second signal abandons the
export, keeps the capture and ends within seconds; a third ends at once.

Exit codes: 0; 1 error; 2 usage; 3 loss with --fail-on-loss; after a launched
command that failed, its own status.";

/// Whether programs can be probed.
pub(in crate::record) const HAS_PROBES: bool = true;

/// Help on options that other systems have in another way.
pub(in crate::record) const OUTPUT_HELP: &str = "\
Write to this file (.pftrace, .tracy, .json.gz, .syscap and others; `-` is standard output) \
[default: ./syscollect-DATE-TIME.pftrace]";
pub(in crate::record) const BUFFER_VALUE: &str = "SIZE|TIME";
pub(in crate::record) const BUFFER_HELP: &str = "\
Memory between the kernel's lanes and the disk; with --overwrite also the time that is kept (30s), \
for which up to 512M are taken unless a size is given, too (30s,2G)";
pub(in crate::record) const KEEP_CAPTURE_HELP: &str = "\
Keep the raw capture (.syscap) beside the exported file however large it is; up to 100 MB it is \
kept anyway";
pub(in crate::record) const GPU_HELP: &str = "\
Record what GPU drivers do (jobs, fences, and who waits for them), what processes have of GPUs \
(memory, use of engines), and calls of GPU libraries: CUDA, Vulkan, OpenGL's swaps and others";
pub(in crate::record) const COMMAND_HELP: &str =
    "Record while this command runs, as the user who called sudo";

/// The most samples per second. A sample with its stack takes some 5 to 20 microseconds: with twice
/// as many a CPU may come to nothing else, and the recording to no end.
pub(in crate::record) const FREQUENCY_MAX: u32 = 50_000;
/// What a recording is written in.
pub(in crate::record) const FORMATS: &[Format] = format::ALL;
/// The buffer of those who ask for a time and give no size, bytes.
pub(in crate::record) const BUFFER_OF_A_SPAN: usize = 512 << 20;
/// Each file begins with what is known of all processes.
const SHORTEST_FILE: Duration = Duration::from_secs(1);
/// Less than this has no room for what is known of all processes.
const SMALLEST_MOST: u64 = 1 << 20;
/// Less than this has no room for the symbols of one library.
const SMALLEST_BUNDLE: u64 = 64 << 10;
/// Less than this has no room for the tables of 64 KiB of any code; more than that nobody's code
/// needs.
const UNWIND_MEMORY: RangeInclusive<u64> = 128 << 10..=4 << 30;

/// How user stacks are walked, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Unwind {
    /// By unwind tables where the kernel allows it, else by frame pointers
    Auto,
    /// By unwind tables, which compilers write for exceptions; an error where the kernel does not
    /// allow it
    Tables,
    /// By frame pointers: whole where everything is compiled with them
    FramePointer,
    /// Not at all: stacks have their kernel frames only
    None,
}

impl From<Unwind> for UnwindMethod {
    fn from(unwind: Unwind) -> Self {
        match unwind {
            Unwind::Auto => Self::Auto,
            Unwind::Tables => Self::Tables,
            Unwind::FramePointer => Self::FramePointer,
            Unwind::None => Self::None,
        }
    }
}

/// The arguments as they are written.
#[derive(Debug, clap::Args)]
pub(crate) struct SystemArgs {
    #[command(flatten)]
    subject: SubjectArgs,

    /// Stream to the file; when the disk lags, drop the newest and count it (the default)
    #[arg(long, conflicts_with = "overwrite")]
    discard: bool,

    /// Keep only the last --buffer of events, and write them when the recording stops
    #[arg(long)]
    overwrite: bool,

    /// Go on in a new file each time that this has passed, without losing an event between them:
    /// 10m, 1h. The files are raw captures, each readable alone: with -o x.syscap x-0001.syscap,
    /// x-0002.syscap and so on, behind the numbers that are there
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "overwrite")]
    rotate: Option<Duration>,

    /// With --rotate, keep so many files, the newest, and delete older ones of this recording
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u32).range(2..))]
    keep: Option<u32>,

    /// Record at most about so much: 10G. There the recording stops, or, with --rotate, its oldest
    /// files are deleted. What lies in buffers then, and names of functions, come on top
    #[arg(long, value_name = "SIZE", value_parser = parse_most, conflicts_with = "overwrite")]
    max_size: Option<u64>,

    /// Keep no raw capture beside the exported file, however small it is
    #[arg(long, conflicts_with = "keep_capture")]
    no_capture: bool,

    /// Keep in the capture what other machines need to name the code that stacks lead through
    /// (symbols, and where functions begin), so that `syscollect symbolize` names it anywhere
    #[arg(long, conflicts_with = "no_capture")]
    bundle: bool,

    /// How much of the capture --bundle may take; what most stacks lead through comes first
    #[arg(long, value_name = "SIZE", default_value = "64M", requires = "bundle", value_parser = parse_bundle_size)]
    bundle_size: u64,

    /// With --bundle, leave the names of files to `syscollect symbolize`: here only the kernel's
    /// functions and those that programs make while they run are named
    #[arg(long, requires = "bundle")]
    name_later: bool,

    /// Record only the launched command and its children
    #[arg(long, requires = "command")]
    only: bool,
}

/// What is recorded of which processes, however it is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// Record only these processes, their threads, and their children, present and future
    #[arg(short = 'p', long, value_name = "PID", num_args = 1.., value_delimiter = ',',
          value_parser = parse_pid)]
    pid: Vec<u32>,

    /// How user stacks are walked
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = Unwind::Auto)]
    unwind: Unwind,

    /// Memory for unwind tables, set aside at once: tables of code that was not run lately give way
    /// to others [default: by what memory there is, at most 16M]
    #[arg(long, value_name = "SIZE", value_parser = parse_unwind_memory)]
    unwind_memory: Option<u64>,

    /// Show every hit of these USDT probes: python:line, 'libstdcxx:*',
    /// ./server:db:query(text:str,rows)
    #[arg(long, value_name = "[PATH:]PROVIDER:NAME", value_parser = Spec::usdt)]
    usdt: Vec<Spec>,

    /// Make zones of what lies between two USDT probes: 'python:function__entry..function__return';
    /// or between one and whichever of several comes first:
    /// 'postgresql:transaction__start..transaction__commit|transaction__abort'; with ,name=ARG they
    /// are named by that argument of the first; ,nests=yes or no says whether one may begin within
    /// another, which otherwise the recording tells
    #[arg(long, value_name = "BEGIN..END[|END]", value_parser = Spec::zone)]
    zone: Vec<Spec>,

    /// Make zones of functions, from entry to return: 'libc.so.6:fopen*',
    /// './server:Database::query'; their times include the probe, some microseconds for each call
    #[arg(long, value_name = "LIBRARY:GLOB", value_parser = Spec::function)]
    function: Vec<Spec>,

    /// Show this tracepoint of the kernel, or all of a subsystem, with its fields, as the kernel
    /// describes them: block:block_rq_issue, irq. Of all processes, whatever -p says
    #[arg(long, value_name = "SYSTEM[:NAME]")]
    tracepoint: Vec<Tracepoints>,

    /// Probe also what this file lists: on each line usdt, zone or function, and what that option
    /// takes
    #[arg(long, value_name = "FILE", value_parser = read_probes)]
    probes: Vec<Probes>,

    /// Have running Java virtual machines (HotSpot, JDK 17 and newer) write down the names of their
    /// compiled methods when the recording stops, as `jcmd PID Compiler.perfmap` does
    #[arg(long)]
    jvm: bool,

    /// How many functions one --function may match
    #[arg(long, value_name = "N", default_value_t = FUNCTIONS_MAX_DEFAULT, value_parser = parse_count)]
    max_functions: usize,

    /// Check stacks: walk every Nth kernel stack in full as well, and every Nth user stack again
    /// over its memory when the recording has stopped, and count differences
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    cross_check: u32,
}

/// How a recording is divided among files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotate {
    /// A file is as long as this, or shorter, so that all fit into `max_bytes`.
    pub(crate) every: Duration,
    /// The most files.
    pub(crate) keep: Option<usize>,
    /// The most bytes of all files.
    pub(crate) max_bytes: Option<u64>,
}

/// The arguments checked and completed.
#[derive(Clone, Debug)]
pub(crate) struct SystemOptions {
    pub(crate) rotate: Option<Rotate>,
    /// What is kept of files for other machines.
    pub(crate) bundling: Option<Bundling>,
    /// Where a recording into one file stops, bytes.
    pub(crate) stop_at: Option<u64>,
    pub(crate) only: bool,
    pub(crate) mode: BufferMode,
    pub(crate) buffer_span: Option<Duration>,
    pub(crate) subject: Subject,
}

/// What is recorded of which processes.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) pids: Vec<u32>,
    unwind: Unwind,
    unwind_memory: Option<u64>,
    cross_check_every: u32,
    jvm: bool,
    pub(crate) probes: Vec<Spec>,
    pub(crate) tracepoints: Vec<Tracepoints>,
}

impl SystemArgs {
    /// What the recording is exported to; `None` where it is left raw.
    ///
    /// # Errors
    ///
    /// What contradicts it.
    pub(crate) fn export(
        &self,
        output: &Output,
        asked: Option<Format>,
    ) -> Result<Option<Format>, String> {
        let format = match output {
            // Who wants many files wants them raw.
            Output::Default if self.rotate.is_some() => asked.unwrap_or(Format::Syscap),
            Output::Default => asked.unwrap_or(Format::Pftrace),
            Output::File(path) => Format::of_output(path, asked, FORMATS)?,
            Output::Standard => Format::of_output("-".as_ref(), asked, FORMATS)?,
        };
        let is_raw = format == Format::Syscap;
        if let Some(every) = self.rotate {
            if every < SHORTEST_FILE {
                return Err("--rotate is for files of a second and more, such as 10m".into());
            }
            if !is_raw || *output == Output::Standard {
                return Err(
                    "--rotate writes raw captures: name a .syscap file with -o, and export \
                            those that matter"
                        .into(),
                );
            }
        }
        if self.bundle && !is_raw && *output == Output::Standard {
            return Err(
                "--bundle is for raw captures: name a file with -o, or add --format syscap".into(),
            );
        }
        if self.name_later && !is_raw {
            return Err("--name-later is for raw captures, which `syscollect symbolize` names: \
                        name a .syscap file with -o"
                .into());
        }
        Ok((!is_raw).then_some(format))
    }

    /// Whether the buffer may be measured so.
    pub(crate) fn check_buffer(&self, buffer: BufferSize) -> Result<(), String> {
        match buffer.span.is_some() && !self.overwrite {
            true => {
                Err("--buffer takes a time with --overwrite only: without it, what was written to \
                         disk leaves it"
                    .into())
            }
            false => Ok(()),
        }
    }

    /// Whether the raw capture stays; `asked` is --keep-capture.
    pub(crate) fn keep(&self, asked: bool) -> KeepCapture {
        // What is bundled is in the capture alone.
        match (asked || self.bundle, self.no_capture) {
            (true, _) => KeepCapture::Always,
            (false, false) => KeepCapture::WhileSmall,
            (false, true) => KeepCapture::Never,
        }
    }

    /// Completes the rest.
    ///
    /// # Errors
    ///
    /// When the current folder cannot be told.
    pub(crate) fn finish(self, buffer_span: Option<Duration>) -> Result<SystemOptions> {
        let rotate = self.rotate.map(|every| Rotate {
            every,
            keep: self.keep.map(|keep| keep as usize),
            max_bytes: self.max_size,
        });
        let bundling = Bundling { most: self.bundle_size, name_later: self.name_later };
        let subject = self.subject.finish()?;
        Ok(SystemOptions {
            rotate,
            bundling: Some(bundling).filter(|_| self.bundle),
            stop_at: self.max_size.filter(|_| rotate.is_none()),
            only: self.only,
            buffer_span,
            mode: if self.overwrite { BufferMode::Overwrite } else { BufferMode::Discard },
            subject,
        })
    }
}

impl SubjectArgs {
    /// Completes them.
    ///
    /// # Errors
    ///
    /// When the current folder cannot be told.
    pub(super) fn finish(self) -> Result<Subject> {
        let mut pids = self.pid;
        pids.sort_unstable();
        pids.dedup();
        let from_files = self.probes.into_iter().flat_map(|Probes(specs)| specs);
        let probes = self.usdt.into_iter().chain(self.zone).chain(self.function).chain(from_files);
        Ok(Subject {
            pids,
            unwind: self.unwind,
            unwind_memory: self.unwind_memory,
            cross_check_every: self.cross_check,
            jvm: self.jvm,
            probes: complete(probes.collect(), self.max_functions)?,
            tracepoints: self.tracepoint,
        })
    }
}

impl Subject {
    /// The whole machine, and nothing that is not always recorded.
    pub(super) fn machine() -> Self {
        Self {
            pids: Vec::new(),
            unwind: Unwind::Auto,
            unwind_memory: None,
            cross_check_every: 0,
            jvm: false,
            probes: Vec::new(),
            tracepoints: Vec::new(),
        }
    }
}

impl SystemOptions {
    /// Whether no process's end ends the recording.
    pub(crate) fn is_endless(&self) -> bool {
        self.subject.pids.is_empty()
    }
}

impl Options {
    /// What the recorder is told; `only` is the launched command to limit the recording to.
    pub(super) fn settings(&self, only: Option<u32>, program_start: Instant) -> RecordOptions {
        let SystemOptions { mode, buffer_span, subject, .. } = &self.system;
        RecordOptions {
            pids: subject.pids.iter().copied().chain(only).collect(),
            sample_rate_hz: self.frequency,
            stacks: Stacks {
                samples: self.stacks.samples,
                offcpu: self.stacks.off_cpu,
                wakers: self.stacks.wakers,
                probes: self.stacks.probes,
            },
            unwind: subject.unwind.into(),
            unwind_memory: subject.unwind_memory,
            memory: None,
            buffer_bytes: self.buffer_bytes,
            mode: *mode,
            buffer_span: *buffer_span,
            snapshots: false,
            cross_check_every: subject.cross_check_every,
            probes: subject.probes.clone(),
            gpu: self.gpu,
            jvm: subject.jvm,
            tracepoints: subject.tracepoints.clone(),
            launch: self.launched_file(),
            asked_by: Owner::behind_sudo().map(|owner| owner.uid),
            program_start,
            command_line: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            stop_asked: Arc::default(),
            tee: None,
        }
    }

    /// The file of the command, so that its probes are attached before it starts; what
    /// keeps it from being started is told when that is tried.
    fn launched_file(&self) -> Option<PathBuf> {
        let file = find_program(self.command.first()?, std::env::var_os("PATH").as_deref()).ok()?;
        std::path::absolute(file).ok()
    }
}

/// What a file of probes lists.
#[derive(Clone, Debug)]
struct Probes(Vec<Spec>);

#[expect(clippy::disallowed_methods, reason = "a list that the user names")]
fn read_probes(path: &str) -> Result<Probes, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    parse_file(&text).map(Probes).map_err(|error| error.to_string())
}

/// Tells the specs what they have in common.
fn complete(mut specs: Vec<Spec>, max_functions: usize) -> Result<Vec<Spec>> {
    if specs.is_empty() {
        return Ok(specs);
    }
    let folder = std::env::current_dir()
        .context("cannot tell the current folder, which paths are relative to")?;
    for spec in &mut specs {
        spec.set_folder(&folder);
        if let Spec::Function(function) = spec {
            function.limit = max_functions;
        }
    }
    Ok(specs)
}

/// The size that files may have.
fn parse_most(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)? as u64;
    if bytes < SMALLEST_MOST {
        Err(format!("{text} is less than 1 MiB; is a unit missing, as in 10G?"))
    } else {
        Ok(bytes)
    }
}

/// How much memory unwind tables have.
fn parse_unwind_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)? as u64;
    match UNWIND_MEMORY.contains(&bytes) {
        true => Ok(bytes),
        false if bytes < *UNWIND_MEMORY.start() => {
            Err(format!("{text} is less than 128 KiB; is a unit missing, as in 16M?"))
        }
        false => Err(format!("{text} is more than 4 GiB, which no code needs")),
    }
}

/// How much of the capture is kept for other machines.
fn parse_bundle_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)? as u64;
    match bytes < SMALLEST_BUNDLE {
        true => Err(format!("{text} is less than 64 KiB; is a unit missing, as in 64M?")),
        false => Ok(bytes),
    }
}

fn parse_count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("{text:?} is not a number above 0"))
}

fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        "it is no process id; `pgrep -x NAME` prints those of a program, and `report --process \
         NAME` cuts it out of a recording of all"
            .to_owned()
    })
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
