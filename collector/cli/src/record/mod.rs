//! `syscollect record`: from the checks before it to the summary after it.

mod bundle;
mod checks;
mod command;
mod finish;
mod options;
mod place;
mod series;
mod unwinding;
mod watch;

use crate::backend::{Backend, KernelBackend, Recorder};
use crate::output::Draft;
use crate::owner::Owner;
use crate::signals::{self, Abandon, Stop, StopEvent};
use crate::summary::{self, Outcome};
use crate::terminal::Terminal;
use crate::timings::Timings;
use anyhow::Result;
use command::{Gated, Launched};
use finish::{Finish, Read};
use options::Options;
use place::OutputFiles;
use series::{EachFile, Series};
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use syscollect_capture::{Machine, Recorded, RecordingFiles};
use syscollect_model::{RecorderSummary, RecorderWork, WorkCost};
use syscollect_store::BufferMode;
use watch::{Ended, Watch};

pub(crate) use options::Args;

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
    let session = Surroundings {
        backend: &KernelBackend,
        terminal: Terminal::stderr(),
        owner: Owner::behind_sudo(),
    };
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
    let place = OutputFiles::choose(options, owner)?;
    let (sender, stop_events) = mpsc::channel();
    // Before signals are watched, so that Ctrl-C ends a command that waits.
    let gated =
        command::prepare(&options.command, owner, place.is_standard_output(), sender.clone())?;
    let abandon = signals::watch(sender)?;
    let (mut drafted, files) = Drafted::begin(&place, options, &abandon)?;
    let first = files.first.try_clone()?;

    let mut settings =
        options.settings(gated.as_ref().filter(|_| options.only).map(Gated::pid), program_start);
    settings.stop_asked = abandon.stop_asked();
    let recorder = match backend.start(settings, files) {
        Ok(recorder) => recorder,
        Err(error) => {
            drafted.discard();
            return Err(error);
        }
    };
    drafted.show(&place)?;
    let missing = recorder.missing().to_vec();
    missing.iter().for_each(|note| say!("syscollect: {note}"));
    let is_endless = options.duration.is_none() && gated.is_none() && options.pids.is_empty();
    if is_endless && !terminal.is_live() {
        // A terminal shows a line that moves and says so.
        say!("syscollect: recording until Ctrl-C (SIGINT)");
    }
    let watched = Watched {
        recorder: recorder.as_ref(),
        stop_events: &stop_events,
        terminal: &terminal,
        file: &first,
    };
    let (ended, command) = run_until_the_end(options, &watched, gated);
    abandon.writing();
    let mut timings = Timings::start();

    let recorded = match (recorder.stop(ended.reason()), ended.is_failure()) {
        // A command that could not be run made nothing worth keeping.
        (_, true) => {
            drafted.discard();
            return Err(ended.into_error());
        }
        (Ok(recorded), false) => recorded,
        (Err(error), false) => {
            let path = drafted.keep();
            return Err(error.context(format!(
                "the recording broke off; what it has is in {}",
                path.display()
            )));
        }
    };
    timings.end("stopping");
    learned(&missing, &recorded.summary.missing).iter().for_each(|note| say!("syscollect: {note}"));
    let ending = Ending { ended, command, abandon, terminal };
    conclude(options, &place, drafted, recorded, &ending, timings)
}

/// The files of a recording under their draft names.
enum Drafted {
    One(Draft),
    Several(Series),
}

impl Drafted {
    /// Makes the first file, with what the recorder writes into.
    fn begin(
        place: &OutputFiles,
        options: &Options,
        abandon: &Abandon,
    ) -> Result<(Self, RecordingFiles)> {
        let Some(rotate) = options.rotate else {
            let draft = place.capture_draft()?;
            let file = draft.file().try_clone()?;
            return Ok((Self::One(draft), file.into()));
        };
        // Reading costs time that a machine in production has for other things.
        let read = if options.fail_on_loss { Read::All } else { Read::Nothing };
        let each = EachFile { read, bundling: options.bundling };
        let (series, files) = Series::begin(place, rotate, each, abandon.clone())?;
        Ok((Self::Several(series), files))
    }

    /// The recording has begun: its file takes its name. Each of several does so by itself.
    fn show(&mut self, place: &OutputFiles) -> Result<()> {
        match self {
            Self::One(draft) => place.show_capture(draft),
            Self::Several(_) => Ok(()),
        }
    }

    /// Removes what there is.
    fn discard(self) {
        match self {
            Self::One(draft) => drop(draft),
            Self::Several(series) => series.discard(),
        }
    }

    /// Keeps what there is under its draft name, and says where.
    fn keep(self) -> PathBuf {
        match self {
            Self::One(draft) => draft.keep(),
            Self::Several(series) => series.keep(),
        }
    }
}

/// What turned out to be missing while the recording went on: a program whose
/// zones another recorder has, say. Each program may have its own.
fn learned(told: &[String], missing: &[String]) -> Vec<String> {
    let new: Vec<_> = missing.iter().filter(|note| !told.contains(note)).collect();
    let mut lines: Vec<_> = new.iter().take(MOST_LEARNED).map(|note| (*note).clone()).collect();
    if let Some(more) = new.len().checked_sub(MOST_LEARNED).filter(|more| *more > 0) {
        lines.push(format!(
            "and {more} more: `syscollect info` tells them of the raw capture (--keep-capture)"
        ));
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

/// What is watched while a recording goes on.
struct Watched<'a> {
    recorder: &'a dyn Recorder,
    stop_events: &'a Receiver<StopEvent>,
    terminal: &'a Terminal,
    /// The first file.
    file: &'a File,
}

/// Starts the command, if there is one, and waits for whatever ends the recording.
fn run_until_the_end(
    options: &Options,
    watched: &Watched<'_>,
    gated: Option<Gated>,
) -> (Ended, Option<Launched>) {
    let mut launched = gated.map(Gated::start);
    let Watched { recorder, stop_events, terminal, file } = *watched;
    let watch = Watch {
        recorder,
        stop_events,
        terminal,
        duration: options.duration,
        watch_processes: !options.pids.is_empty() && launched.is_none(),
        stop_at: options.stop_at,
        overwrites: options.mode == BufferMode::Overwrite,
        file,
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
fn conclude(
    options: &Options,
    place: &OutputFiles,
    drafted: Drafted,
    recorded: Recorded,
    ending: &Ending,
    mut timings: Timings,
) -> Result<u8> {
    let error = recorded.error.clone();
    if let Some(error) = &error {
        say!("syscollect: the recording is incomplete: {error}");
    }
    let (place, draft, before) = match drafted {
        Drafted::One(draft) => (place.clone(), draft, None),
        Drafted::Several(series) => {
            let (place, draft, before) = series.end()?;
            (place, draft, Some(before))
        }
    };
    let (summary, duration) = (recorded.summary.clone(), recorded.duration);
    let counted = [recorded.losses.clone(), recorded.losses_before.clone()].concat();
    let (abandon, terminal) = (&ending.abandon, &ending.terminal);
    let read = if options.fail_on_loss { Read::All } else { Read::Quick };
    let bundling = options.bundling;
    let mut finished =
        Finish { place: &place, abandon, terminal, read, bundling, is_accounted: true }.finish(
            draft,
            recorded,
            &mut timings,
        )?;
    let series = before.map(|before| before.and(place, &mut finished));
    let outcome = Outcome {
        output: finished.output,
        bytes: finished.bytes,
        capture: finished.capture,
        events: finished.events,
        recorder: whole(summary, finished.costs, duration),
        lost: finished.lost,
        counted,
        buffer_bytes: options.buffer_bytes,
        max_size: options.stop_at,
        series,
    };
    let style = ending.terminal.style();
    say_styled!(style, "{}", summary::text(&outcome, style));
    if options.timings {
        say!("{}", timings.text(outcome.events));
    }
    if let Some(command) = ending.command.as_ref().filter(|command| command.is_running()) {
        say!("syscollect: {} (PID {}) goes on running", command.name(), command.pid());
    }
    Ok(exit_code(options, &ending.ended, outcome.lost.is_lossy(), error.is_some()))
}

/// What the recorder says of itself, of all files.
fn whole(last: RecorderSummary, costs: Vec<WorkCost>, duration: Duration) -> RecorderSummary {
    let recording = costs.iter().find(|cost| cost.work == RecorderWork::Recording);
    RecorderSummary {
        recorder_cpu_ns: recording.map_or(last.recorder_cpu_ns, |cost| cost.cpu_ns),
        duration_ns: duration.as_nanos() as u64,
        costs,
        ..last
    }
}

/// The command's own failure goes first: a script that wraps a command asks for that.
fn exit_code(options: &Options, ended: &Ended, is_lossy: bool, incomplete: bool) -> u8 {
    match ended {
        Ended::Command(status) if command::exit_code(*status) != 0 => command::exit_code(*status),
        _ if incomplete => ERROR,
        _ if options.fail_on_loss && is_lossy => LOSS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
