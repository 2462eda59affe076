//! A flight recorder for a view in the same process: what is recorded is handed on to it, and what
//! is held is written when it asks.

use super::folder::SnapshotFolder;
use super::live_names::{LiveNames, NameDetail};
use super::options::recording;
use super::places::Requester;
use super::taking::Snapshots;
use super::{nowhere, unless_stopped};
use crate::owner::Owner;
use crate::record::backend::System;
use crate::record::backend::options::Subject;
use crate::record::backend::recorder::{Connections, KernelRecorders, Recorder};
use crate::record::options::EventArgs;
use crate::signals::Abandon;
use crate::units::{parse_duration, parse_size};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syscollect_capture::{
    Recording, SnapshotOrder, Tee, Teed, Watched, cpu_time, peak_memory, thread_cpu_time,
};
use syscollect_model::{LaneKind, SnapshotMark, StopReason};

/// What is recorded, and where snapshots go.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewedArgs {
    /// How much memory keeps events, which a snapshot writes
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    buffer: usize,

    /// Keep no events of longer ago, even if there is room
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    keep: Option<Duration>,

    #[command(flatten)]
    events: EventArgs,

    /// Where snapshots go, as raw captures
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

    /// How many of these are kept, those of earlier recorders too; the oldest are deleted
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    most: u32,
}

/// One that runs.
pub(crate) struct ViewedFlight {
    recorder: Recording,
    watched: Watched,
    snapshots: Arc<Snapshots>,
    folder: SnapshotFolder,
    notes: Vec<String>,
}

/// How it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ViewedStatus {
    /// CPU time of this process so far, and of the thread that asks.
    pub(crate) cpu: Duration,
    pub(crate) viewer_cpu: Duration,
    /// The most memory that it had, bytes.
    pub(crate) peak_bytes: u64,
    /// How far back the events reach that are held,
    pub(crate) held: Duration,
    /// and what they take.
    pub(crate) held_bytes: u64,
    /// Events that were lost so far.
    pub(crate) lost: u64,
}

impl ViewedFlight {
    /// Begins to record; what comes of lanes that are `wanted` is to be [taken](Self::take).
    /// `None` where somebody stopped it before.
    ///
    /// # Errors
    ///
    /// What keeps it from recording.
    pub(crate) fn begin(
        args: ViewedArgs,
        connections: Connections,
        wanted: impl Fn(LaneKind) -> bool + Send + Sync + 'static,
        abandon: &Abandon,
        program_start: Instant,
    ) -> Result<Option<Self>> {
        let options = recording(Subject::machine(), args.events, args.buffer, args.keep);
        System::this().may_record(&options)?;
        let folder = SnapshotFolder::open(&args.folder, args.most as usize, Owner::behind_sudo())?;
        let (tee, watched) = Tee::to_watch(wanted);
        let mut settings = options.settings(None, program_start);
        settings.stop_asked = abandon.stop_asked();
        settings.snapshots = true;
        settings.tee = Some(tee);
        // What a recording writes meanwhile, its definitions, is kept in memory for snapshots.
        let nowhere = nowhere().context("cannot open /dev/null")?;
        let recorder = match KernelRecorders::begin_with(settings, nowhere.into(), connections) {
            Ok(recorder) => recorder,
            Err(error) => return unless_stopped(error).map_or(Ok(None), Err),
        };
        let notes = recorder.missing().to_vec();
        let snapshots = Arc::new(Snapshots::new(recorder.snapshots(), abandon.clone()));
        Ok(Some(Self { recorder, watched, snapshots, folder, notes }))
    }

    /// What this machine lacks.
    pub(crate) fn missing(&self) -> &[String] {
        &self.notes
    }

    /// What is recorded, for a thread of its own.
    pub(crate) fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// What was recorded since the last call.
    pub(crate) fn take(&self) -> Vec<Teed> {
        self.watched.take()
    }

    /// Writes what is held into the folder, on another thread; a line on standard error says where
    /// it is.
    pub(crate) fn snapshot(&self, reason: &str) {
        let mark = SnapshotMark { reason: reason.into(), ..SnapshotMark::default() };
        let order = SnapshotOrder { mark, ..SnapshotOrder::default() };
        Arc::clone(&self.snapshots).take_into_folder(&self.folder, order, Requester::Owner);
    }

    /// Whoever did not see all stacks since the beginning is sent all of them again.
    pub(crate) fn ask_stacks_anew(&self) {
        self.snapshots.ask_stacks_anew();
    }

    /// The same, for a thread of its own.
    pub(crate) fn stacks_asker(&self) -> impl Fn() + Send + use<> {
        let snapshots = Arc::clone(&self.snapshots);
        move || snapshots.ask_stacks_anew()
    }

    /// Who finds names of functions.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub(crate) fn names(&self, detail: NameDetail) -> Result<LiveNames> {
        LiveNames::start(Arc::clone(&self.snapshots), detail)
    }

    pub(crate) fn status(&self) -> ViewedStatus {
        let progress = self.recorder.progress();
        ViewedStatus {
            cpu: cpu_time(),
            viewer_cpu: thread_cpu_time(),
            peak_bytes: peak_memory(),
            held: self.snapshots.held().reach,
            held_bytes: progress.buffered,
            lost: progress.lost,
        }
    }

    /// Ends it, when snapshots are written that somebody waits for.
    pub(crate) fn end(self, reason: StopReason) -> Result<()> {
        self.snapshots.wait();
        Box::new(self.recorder).stop(reason).map(drop)
    }
}
