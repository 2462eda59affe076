//! The arguments of `flight`.

use super::message::SOCKET;
use super::trigger_args::TriggerArgs;
use crate::record::backend::options::{Subject, SubjectArgs, SystemOptions};
use crate::record::files::KeepCapture;
use crate::record::options::{EventArgs, Options, Output};
use crate::units::{parse_duration, parse_size};
use crate::usage::usage;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;
use syscollect_capture::Tracepoints;
use syscollect_store::BufferMode;
use syscollect_triggers::{Cause, Trigger};

const EXAMPLES: &str = "\
Examples:
  sudo syscollect flight                        keeps what fits into 256 MiB, until it is stopped
  sudo syscollect flight --buffer 1G --keep 60s   the last minute, if it fits into 1 GiB
  sudo syscollect flight --memory 512M          what fits, with all that the recorder holds besides
  sudo syscollect flight --group perf           members of the group perf may take snapshots
  sudo syscollect flight --folder /var/lib/syscollect   where snapshots go that SIGUSR1 takes
  sudo syscollect flight --trigger 'stall: zone request > 200ms, after 1s'   by itself
  sudo syscollect snapshot --last 20s -o slow.pftrace   what happened just now, from elsewhere
  sudo syscollect status; sudo syscollect stop

Nothing is written until a snapshot is asked for: by `syscollect snapshot`, by
SIGUSR1, or by a trigger, whose snapshots go into --folder. Ctrl-C, SIGTERM and
`syscollect stop` end it without one. Run by a service manager (systemd's Type=notify) it says when it
records, and keeps its watchdog quiet.

A trigger is NAME: CAUSE, user www, after 2s, limit 5, pause 1m, last 20s, of which all
but the cause may be left out. What one user causes takes nothing of the limit and the
pause from what another does. Causes:
  zone NAME > 20ms, frame > 33ms       what instrumented programs mark took longer
  function NAME > 5ms, pair NAME > 5ms a probed call, or what lies between two probes
  zone NAME > 3x p99                   longer than three times what is usual (of any of these)
  zone NAME in PROGRAM > 20ms          of that program or thread (any of these, hits and plots)
  hit NAME if ARG > 5 and ARG == \"x\"  a probe or function, with such arguments
  tracepoint oom:mark_victim if FIELD > 5
  waiting NAME > 20ms                  a thread gets no CPU
  blocked NAME > 5s, uninterruptible NAME > 2s
  exit NAME code nonzero, exit NAME signal KILL, crash NAME
  message in NAME \"p99\"               an instrumented program says so
  counter \"CPU pressure\" > 50, plot NAME > 1000
  signal                               SIGUSR1, which takes one at once without such a trigger";

/// Bytes that keep events, unless others are asked for.
const BUFFER: usize = 256 << 20;

/// The arguments as they are written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlightArgs {
    /// How much memory keeps events; by default 256M, or what fits into --memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<usize>,

    /// How much memory the recorder may have in all: the buffer with what it holds for snapshots,
    /// names of their functions, and itself
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<usize>,

    /// Keep no events of longer ago, even if there is room
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    keep: Option<Duration>,

    #[command(flatten)]
    events: EventArgs,

    #[command(flatten)]
    subject: SubjectArgs,

    /// Where snapshots go that SIGUSR1 and triggers take, as raw captures
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

    /// How many of these are kept, those of earlier recorders too; the oldest are deleted of the
    /// trigger with most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    most: u32,

    #[command(flatten)]
    triggers: TriggerArgs,

    /// Members of this group may take snapshots, too, and stop it
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// Where it listens for `syscollect snapshot`, `status` and `stop`
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

/// The arguments checked and completed.
pub(super) struct FlightOptions {
    pub(super) recording: Options,
    /// Bytes that the recorder may have in all.
    pub(super) memory: Option<u64>,
    pub(super) folder: PathBuf,
    pub(super) most: usize,
    pub(super) triggers: Vec<Trigger>,
    pub(super) group: Option<String>,
    pub(super) socket: PathBuf,
}

impl FlightArgs {
    /// Completes them.
    ///
    /// # Errors
    ///
    /// When the current folder cannot be told, or a file of triggers cannot be read.
    pub(super) fn finish(self) -> Result<FlightOptions> {
        let subject = self.subject.finish()?;
        let triggers = self.triggers.all()?;
        check_recorded(&triggers, &subject, self.events.gpu)?;
        let buffer = self.buffer.or(self.memory).unwrap_or(BUFFER);
        let recording = recording(subject, self.events, buffer, self.keep);
        Ok(FlightOptions {
            recording,
            memory: self.memory.map(|bytes| bytes as u64),
            folder: self.folder,
            most: self.most as usize,
            triggers,
            group: self.group,
            socket: self.socket,
        })
    }
}

/// What is recorded where the newest events are kept: no longer than `keep`, if that is said.
pub(super) fn recording(
    subject: Subject,
    events: EventArgs,
    buffer_bytes: usize,
    keep: Option<Duration>,
) -> Options {
    Options {
        duration: None,
        output: Output::Default,
        export: None,
        keep: KeepCapture::Always,
        force: false,
        fail_on_loss: false,
        timings: false,
        command: Vec::new(),
        frequency: events.freq,
        stacks: events.stacks,
        buffer_bytes,
        gpu: events.gpu,
        system: SystemOptions {
            rotate: None,
            bundling: None,
            stop_at: None,
            only: false,
            mode: BufferMode::Overwrite,
            buffer_span: keep,
            subject,
        },
    }
}

/// A trigger of a probe or a tracepoint that is not recorded would wait for ever.
fn check_recorded(triggers: &[Trigger], subject: &Subject, gpu: bool) -> Result<()> {
    for Trigger { name, cause, .. } in triggers {
        let (is_recorded, option) = match cause {
            Cause::Function(..) => (!subject.probes.is_empty() || gpu, "--function"),
            Cause::Pair(..) => (!subject.probes.is_empty() || gpu, "--zone"),
            Cause::Hit(..) => (!subject.probes.is_empty() || gpu, "--usdt or --function"),
            Cause::Tracepoint(tracepoint, _) => {
                let is_of = |recorded: &Tracepoints| {
                    let named = recorded.name.as_deref();
                    tracepoint.split_once(':').is_some_and(|(system, name)| {
                        system == recorded.system && named.is_none_or(|named| named == name)
                    })
                };
                (subject.tracepoints.iter().any(is_of) || gpu, "--tracepoint")
            }
            _ => continue,
        };
        if !is_recorded {
            let message = format!(
                "the trigger {name:?} waits for what is not recorded: ask for it with {option}, too"
            );
            return Err(usage(message).into());
        }
    }
    Ok(())
}
