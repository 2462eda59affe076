//! The flight recorder: it runs all the time and keeps the newest events in memory; what it holds
//! is written when somebody asks for it, while it goes on.

mod asked;
mod client;
mod closing;
mod control;
mod folder;
mod hearing_pace;
mod live_names;
mod message;
mod notify;
mod options;
mod places;
mod queue;
mod socket_entry;
mod taking;
mod trigger_args;
mod urgency;
mod viewed;
mod watching;

pub(crate) use super::recorder::Connections;
pub(crate) use client::{SnapshotArgs, StatusArgs, StopArgs, snapshot, status, stop};
pub(crate) use live_names::{LiveNames, NameDetail};
pub(crate) use options::FlightArgs;
pub(crate) use viewed::{ViewedArgs, ViewedFlight, ViewedStatus};

use super::recorder::{KernelRecorders, Recorder};
use super::{System, TICK};
use crate::confine;
use crate::convert::limit_naming;
use crate::owner::Owner;
use crate::signals::{self, Stop, StopEvent};
use crate::usage::usage;
use anyhow::{Context, Result};
use asked::Asked;
use control::ControlSocket;
use folder::SnapshotFolder;
use message::{Answer, Request, Status};
use notify::ServiceNotifier;
use options::FlightOptions;
use places::Requester;
use queue::{AskReceiver, AskSender, queue};
use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use syscollect_capture::{CaptureError, Recording, SnapshotOrder, cpu_time, peak_memory};
use syscollect_model::{SnapshotMark, StopReason, bytes};
use taking::Snapshots;
use watching::{TriggerThread, Triggers};

/// How long it waits between two turns of requests, of which more may wait.
const BUSY_TICK: Duration = Duration::from_millis(10);

/// Records until it is stopped.
pub(crate) fn run(args: FlightArgs, program_start: Instant) -> Result<ExitCode> {
    let options = args.finish()?;
    System::this().may_record(&options.recording)?;
    let folder = SnapshotFolder::open(&options.folder, options.most, Owner::behind_sudo())?;
    // Sockets cannot be made once the recorder has confined itself.
    let mut notifier = ServiceNotifier::from_environment();
    let (control, _socket_file) = ControlSocket::bind(&options.socket, options.group.as_deref())?;
    let (sender, events) = channel();
    let abandon = signals::watch(sender)?;
    abandon.takes_snapshots();
    let mut settings = options.recording.settings(None, program_start);
    settings.stop_asked = abandon.stop_asked();
    settings.snapshots = true;
    settings.memory = options.memory;
    options.memory.into_iter().for_each(limit_naming);
    let (tee, triggers) = Triggers::new(options.triggers.clone())
        .map_err(|error| usage(format!("{error:#}")))?
        .unzip();
    settings.tee = tee;
    // What a recording writes meanwhile, its definitions, is kept in memory for snapshots.
    let nowhere = nowhere().context("cannot open /dev/null")?;
    let begun = KernelRecorders::begin(settings, nowhere.into());
    // Nothing is lost where nothing is written: a service that is stopped early has not failed.
    let recorder = match begun.map_err(unless_stopped) {
        Ok(recorder) => recorder,
        Err(None) => return Ok(ExitCode::SUCCESS),
        Err(Some(error)) => return Err(error),
    };
    recorder.missing().iter().for_each(|note| eprint_line!("syscollect: {note}"));
    let snapshots = Snapshots::new(recorder.snapshots(), abandon.clone());
    let snapshots = Arc::new(match options.memory {
        Some(_) => snapshots.named_one_by_one(),
        None => snapshots,
    });
    let (asks, asked) = queue();
    let listener = std::thread::Builder::new().name("control".into());
    listener.spawn(move || listen(&control, &asks)).context("cannot start a thread")?;
    notifier.ready();
    eprint_line!(
        "syscollect: keeps the newest events in {}; `syscollect snapshot` writes them",
        bytes(recorder.progress().buffer_bytes)
    );
    let watch = |triggers: Triggers| triggers.watch(Arc::clone(&snapshots), folder.clone());
    let triggers = triggers.map(watch).transpose()?;
    let mut flight = Flight { options, recorder, snapshots, folder, triggers };
    flight.until_the_end(&events, &asked, &mut notifier);
    notifier.stopping();
    abandon.writing();
    flight.end()
}

/// The error, unless it is that somebody stopped the recorder before it had begun, which is said.
fn unless_stopped(error: anyhow::Error) -> Option<anyhow::Error> {
    if matches!(error.downcast_ref(), Some(CaptureError::Stopped)) {
        eprint_line!("syscollect: {error}");
        return None;
    }
    Some(error)
}

#[expect(clippy::disallowed_methods, reason = "a device of the kernel's own")]
fn nowhere() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}

/// Hands on what is asked, until nobody hears it or the socket is of no use any more.
fn listen(control: &ControlSocket, asks: &AskSender) {
    confine::to_waiting();
    loop {
        match control.next() {
            Ok(Some(asked)) => {
                if !asks.send(asked) {
                    return;
                }
            }
            Ok(None) => {}
            Err(error) => return eprint_line!("syscollect: cannot be asked any more: {error}"),
        }
    }
}

/// A flight recorder that runs.
struct Flight {
    options: FlightOptions,
    recorder: Recording,
    snapshots: Arc<Snapshots>,
    folder: SnapshotFolder,
    triggers: Option<TriggerThread>,
}

impl Flight {
    /// Answers whoever asks, until the recorder is to end.
    fn until_the_end(
        &mut self,
        events: &Receiver<StopEvent>,
        asked: &AskReceiver,
        notifier: &mut ServiceNotifier,
    ) {
        let has_processes = !self.options.recording.system.subject.pids.is_empty();
        let mut wait = TICK;
        loop {
            match events.recv_timeout(wait) {
                Ok(StopEvent::Signal(Stop::User1)) if self.triggers_take_signal() => {}
                Ok(StopEvent::Signal(Stop::User1)) => {
                    let mark = SnapshotMark { reason: "SIGUSR1".into(), ..SnapshotMark::default() };
                    let order = SnapshotOrder { mark, ..SnapshotOrder::default() };
                    Arc::clone(&self.snapshots).take_into_folder(
                        &self.folder,
                        order,
                        Requester::Owner,
                    );
                }
                Ok(_) => return,
                Err(RecvTimeoutError::Timeout) => {}
                // The thread that watches for signals lives as long as the program.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
            wait = TICK;
            for asked in asked.turn() {
                wait = BUSY_TICK;
                if self.answer(asked) {
                    return;
                }
            }
            if has_processes && !self.recorder.pids_alive() {
                eprint_line!("syscollect: every process that was asked for has ended");
                return;
            }
            notifier.alive();
        }
    }

    /// Whether a trigger is for the signal that came, so that its snapshots are the trigger's.
    fn triggers_take_signal(&self) -> bool {
        self.triggers.as_ref().is_some_and(TriggerThread::take_signal)
    }

    /// Does what is asked; whether that is to end.
    fn answer(&self, Asked { asker, request, file, answer }: Asked) -> bool {
        match (request, file) {
            (Request::Status, _) => answer.send(&Answer::Status(Box::new(self.status()))),
            (Request::Stop, _) => {
                answer.send(&Answer::Stopping);
                return true;
            }
            (Request::Snapshot { .. }, None) => answer.refuse("there is no file with it"),
            (Request::Snapshot { last_ns, reason }, Some(file)) => {
                Arc::clone(&self.snapshots).take_for(asker, file, (last_ns, reason), answer);
            }
        }
        false
    }

    fn status(&self) -> Status {
        let progress = self.recorder.progress();
        let counts = self.snapshots.counts();
        let held = self.snapshots.held();
        Status {
            schema_version: 1,
            recorder: concat!("syscollect ", env!("CARGO_PKG_VERSION")).into(),
            pid: std::process::id(),
            running_ns: held.age.as_nanos() as u64,
            reach_ns: held.reach.as_nanos() as u64,
            held_bytes: progress.buffered,
            buffer_bytes: progress.buffer_bytes,
            events: progress.records,
            lost: progress.lost,
            cpu_ns: cpu_time().as_nanos() as u64,
            peak_bytes: peak_memory(),
            memory_bytes: self.options.memory,
            snapshots: counts.taken,
            writing: counts.writing,
            failed: counts.failed,
            missing: self.notes(),
            triggers: self.triggers.as_ref().map(TriggerThread::report).unwrap_or_default(),
        }
    }

    /// What the machine lacks, and whether more memory was taken than was allowed.
    fn notes(&self) -> Vec<String> {
        let mut notes = self.recorder.missing().to_vec();
        if self.options.memory.is_some_and(|most| peak_memory() > most) {
            notes.push("it had more memory than --memory allows".to_owned());
        }
        notes
    }

    /// Ends it, when snapshots are written that somebody waits for.
    fn end(mut self) -> Result<ExitCode> {
        self.snapshots.end_soon();
        // It asks for no more.
        self.triggers = None;
        self.snapshots.wait();
        Box::new(self.recorder).stop(StopReason::Interrupt)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_that_is_stopped_while_it_starts_has_not_failed() {
        assert!(unless_stopped(CaptureError::Stopped.into()).is_none());
        let other = CaptureError::NothingToProbe("no such probe".into());
        assert!(unless_stopped(anyhow::Error::from(other)).is_some());
    }
}
