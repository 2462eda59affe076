//! `syscollect record`: from the checks before it to the summary after it.

mod checks;
mod command;
mod finish;
mod options;
mod place;
mod watch;

use crate::backend::{Backend, KernelBackend, Recorder};
use crate::output::Draft;
use crate::owner::Owner;
use crate::signals::{self, Abandon, Happening, Stop};
use crate::summary::{self, Outcome};
use crate::terminal::Terminal;
use anyhow::Result;
use command::{Gated, Launched};
use finish::Finish;
use options::Options;
use place::Place;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;
use syscollect_capture::{Machine, Recorded};
use syscollect_model::RecorderSummary;
use watch::{Ended, Watch};

pub(crate) use options::{Args, usage};

/// Exit code of an error.
const ERROR: u8 = 1;
/// Most lines about what turned out to be missing.
const MOST_LEARNED: usize = 8;
/// Exit code when records were lost and `--fail-on-loss` is given.
const LOSS: u8 = 3;

/// Runs the sub-command. `program_start` is when this program began, from
/// which the start-up time is measured.
pub(crate) fn run(args: Args, program_start: Instant) -> Result<ExitCode> {
    let options = args.finish()?;
    let machine = Machine::this();
    checks::may_record(&machine)?;
    checks::processes_exist(&machine, &options.pids)?;
    let session = Surroundings { backend: &KernelBackend, terminal: Terminal::stderr(), owner: Owner::behind_sudo() };
    record(&options, &session, program_start).map(ExitCode::from)
}

/// What a recording meets outside, which tests replace.
struct Surroundings<'a> {
    backend: &'a dyn Backend,
    terminal: Terminal,
    owner: Option<Owner>,
}

/// A recording from its output's checks to its summary, with any backend.
fn record(options: &Options, around: &Surroundings<'_>, program_start: Instant) -> Result<u8> {
    let Surroundings { backend, terminal, owner } = *around;
    let place = Place::choose(options, owner)?;
    let (sender, happenings) = mpsc::channel();
    // Before signals are watched, so that Ctrl-C ends a command that waits.
    let gated = command::prepare(&options.command, owner, place.is_standard_output(), sender.clone())?;
    let abandon = signals::watch(sender)?;
    let mut draft = place.capture_draft()?;

    let settings = options.settings(gated.as_ref().filter(|_| options.only).map(Gated::pid), program_start);
    let recorder = backend.start(settings, draft.file().try_clone()?)?;
    place.show_capture(&mut draft)?;
    let missing = recorder.missing().to_vec();
    missing.iter().for_each(|note| say!("syscollect: {note}"));
    let (ended, command) = run_until_the_end(options, recorder.as_ref(), gated, &happenings, &terminal);
    abandon.writing();

    let recorded = match (recorder.stop(ended.reason()), ended.is_failure()) {
        // A command that could not be run made nothing worth keeping.
        (_, true) => return Err(ended.into_error()),
        (Ok(recorded), false) => recorded,
        (Err(error), false) => {
            let path = draft.keep();
            return Err(error.context(format!("the recording broke off; what it has is in {}", path.display())));
        }
    };
    learned(&missing, &recorded.summary.missing).iter().for_each(|note| say!("syscollect: {note}"));
    conclude(options, &place, draft, recorded, &Ending { ended, command, abandon, terminal })
}

/// What turned out to be missing while the recording went on: a program whose
/// zones another recorder has, say. Each program may have its own.
fn learned(told: &[String], missing: &[String]) -> Vec<String> {
    let new: Vec<_> = missing.iter().filter(|note| !told.contains(note)).collect();
    let mut lines: Vec<_> = new.iter().take(MOST_LEARNED).map(|note| (*note).clone()).collect();
    if let Some(more) = new.len().checked_sub(MOST_LEARNED).filter(|more| *more > 0) {
        lines.push(format!("and {more} more: `syscollect info` tells them of the raw capture (--keep-capture)"));
    }
    lines
}

/// How a recording ended, for what comes after it.
struct Ending {
    ended: Ended,
    command: Option<Launched>,
    abandon: Abandon,
    terminal: Terminal,
}

/// Starts the command, if there is one, and waits for whatever ends the recording.
fn run_until_the_end(
    options: &Options,
    recorder: &dyn Recorder,
    gated: Option<Gated>,
    happenings: &Receiver<Happening>,
    terminal: &Terminal,
) -> (Ended, Option<Launched>) {
    let mut launched = gated.map(Gated::start);
    let watch = Watch {
        recorder,
        happenings,
        terminal,
        duration: options.duration,
        watch_processes: !options.pids.is_empty() && launched.is_none(),
    };
    let ended = watch.until_the_end(launched.as_ref());
    if let Ended::Signal(Stop::Terminate | Stop::HangUp) = ended {
        // The terminal sends Ctrl-C to the command too; these come to us alone.
        if let Some(command) = &mut launched {
            command.terminate();
        }
    }
    (ended, launched)
}

/// Names, exports, says what came of it, and chooses the exit code.
fn conclude(options: &Options, place: &Place, draft: Draft, recorded: Recorded, ending: &Ending) -> Result<u8> {
    let error = recorded.error.clone();
    if let Some(error) = &error {
        say!("syscollect: the recording is incomplete: {error}");
    }
    let (summary, counted) = (recorded.summary.clone(), recorded.losses.clone());
    let (abandon, terminal) = (&ending.abandon, &ending.terminal);
    let finished = Finish { place, abandon, terminal, read_all: options.fail_on_loss }.finish(draft, recorded)?;
    let outcome = Outcome {
        output: finished.output,
        bytes: finished.bytes,
        capture: finished.capture,
        events: finished.events,
        recorder: RecorderSummary { costs: finished.costs, ..summary },
        lost: finished.lost,
        counted,
        buffer_bytes: options.buffer_bytes,
    };
    say_as_is!("{}", summary::text(&outcome, ending.terminal.style()));
    if let Some(command) = ending.command.as_ref().filter(|command| command.is_running()) {
        say!("syscollect: {} (PID {}) goes on running", command.name(), command.pid());
    }
    Ok(exit_code(options, &ending.ended, outcome.lost.records(), error.is_some()))
}

/// The command's own failure goes first: a script that wraps a command asks for that.
fn exit_code(options: &Options, ended: &Ended, lost: u64, incomplete: bool) -> u8 {
    match ended {
        Ended::Command(status) if command::exit_code(*status) != 0 => command::exit_code(*status),
        _ if incomplete => ERROR,
        _ if options.fail_on_loss && lost > 0 => LOSS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
