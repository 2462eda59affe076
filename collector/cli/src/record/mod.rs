//! `syscollect record`: from the checks before it to the summary after it.
//!
//! What a recording is asked for, where it goes, what ends it and which exit code it has is the
//! same everywhere. How a system records, and what becomes of its files, lies in `backend`.

#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod backend;
mod files;
mod options;
mod watch;

use crate::owner::Owner;
use crate::signals::{self, Abandon, Stop};
use crate::terminal::Terminal;
use crate::timings::Timings;
use anyhow::Result;
use backend::System;
use backend::command::{self, Gated};
use files::OutputFiles;
use options::Options;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Instant;
use watch::{RecordingEnd, Watch};

#[cfg(target_os = "linux")]
pub(crate) use backend::flight;
pub(crate) use options::Args;

/// Exit code of an error.
const ERROR: u8 = 1;
/// Exit code when records were lost and `--fail-on-loss` is given.
const LOSS: u8 = 3;

/// Runs the sub-command. `program_start` is when this program began, from
/// which the start-up time is measured.
pub(crate) fn run(args: Args, program_start: Instant) -> Result<ExitCode> {
    let options = args.finish()?;
    let system = System::this();
    system.may_record(&options)?;
    let around = Surroundings { system, terminal: Terminal::stderr(), owner: Owner::behind_sudo() };
    record(&options, &around, program_start).map(ExitCode::from)
}

/// What a recording meets outside, which tests replace.
struct Surroundings {
    system: System,
    terminal: Terminal,
    owner: Option<Owner>,
}

/// What a recording begins with.
#[cfg_attr(windows, allow(dead_code, reason = "the recorder of Windows needs less"))]
struct RecordingStart<'a> {
    options: &'a Options,
    files: &'a OutputFiles,
    /// The command that is launched once events are recorded.
    command: Option<&'a Gated>,
    abandon: &'a Abandon,
    program_start: Instant,
}

/// What a recording is finished with.
#[cfg_attr(windows, allow(dead_code, reason = "the recorder of Windows needs less"))]
struct RecordingFinish<'a> {
    options: &'a Options,
    files: &'a OutputFiles,
    abandon: &'a Abandon,
    terminal: &'a Terminal,
    timings: &'a mut Timings,
}

/// What came of a recording, for its exit code and for `--timings`.
#[derive(Clone, Copy, Debug, Default)]
struct RecordingResult {
    /// Events in the output.
    events: u64,
    /// Something was lost against the user's will.
    is_lossy: bool,
    /// Its end is not in the file.
    is_incomplete: bool,
}

/// A recording from its output's checks to its summary, on any system.
fn record(options: &Options, around: &Surroundings, program_start: Instant) -> Result<u8> {
    let Surroundings { system, terminal, owner } = around;
    let files = OutputFiles::choose(options, *owner)?;
    let (sender, stop_events) = mpsc::channel();
    // Before signals are watched, so that Ctrl-C ends a command that waits.
    let gated =
        command::prepare(&options.command, *owner, files.is_standard_output(), sender.clone())?;
    let abandon = signals::watch(sender)?;
    let running = system.begin(&RecordingStart {
        options,
        files: &files,
        command: gated.as_ref(),
        abandon: &abandon,
        program_start,
    })?;
    if options.is_endless() && !terminal.is_live() {
        // A terminal shows a line that moves and says so.
        eprint_line!("syscollect: recording until Ctrl-C (SIGINT)");
    }
    let mut launched = gated.map(Gated::start);
    let watch = Watch { stop_events: &stop_events, terminal, duration: options.duration };
    let ended = watch.until_the_end(&running, launched.as_ref());
    if let RecordingEnd::Signal(Stop::Terminate | Stop::HangUp) = ended {
        // The terminal sends Ctrl-C to the command too; these come to us alone.
        if let Some(command) = &mut launched {
            command.terminate();
        }
    }
    abandon.writing();
    let mut timings = Timings::start();
    if let RecordingEnd::Failed(error) = ended {
        // A command that could not be run made nothing worth keeping.
        running.discard();
        return Err(error);
    }
    let finishing = RecordingFinish {
        options,
        files: &files,
        abandon: &abandon,
        terminal,
        timings: &mut timings,
    };
    let result = running.finish(&ended, finishing)?;
    if options.timings {
        eprint_line!("{}", timings.text(result.events));
    }
    if let Some(command) = launched.filter(command::Launched::is_running) {
        eprint_line!("syscollect: {} (PID {}) goes on running", command.name(), command.pid());
    }
    Ok(exit_code(options, &ended, result))
}

/// The command's own failure goes first: a script that wraps a command asks for that.
fn exit_code(options: &Options, ended: &RecordingEnd, result: RecordingResult) -> u8 {
    match ended {
        RecordingEnd::Command(status) if command::exit_code(*status) != 0 => {
            command::exit_code(*status)
        }
        _ if result.is_incomplete => ERROR,
        _ if options.fail_on_loss && result.is_lossy => LOSS,
        _ => 0,
    }
}
