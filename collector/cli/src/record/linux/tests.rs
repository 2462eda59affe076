//! Recordings with a recorder made by hand.

use super::*;
use crate::args::Cli;
use crate::record::{ERROR, LOSS, Surroundings, record};
use crate::terminal::Terminal;
use anyhow::anyhow;
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use syscollect_capture::{
    CostAccount, EndedFile, Progress, RaisedSession, RecordOptions, RecordingFiles, StacksInMemory,
};
use syscollect_merge::Session;
use syscollect_model::{LaneKind, LossCause, StopReason};
use syscollect_playback::Recording;
use syscollect_store::{CaptureReader, LaneLoss, LostRecord};
use syscollect_symbolize::PinnedFiles;

#[path = "../../../tests/fake/mod.rs"]
pub(super) mod fake;

/// A recorder that always has the same to tell.
#[derive(Clone, Default)]
struct Fake {
    lost: u64,
    /// What keeps it from starting.
    start_error: Option<&'static str>,
    /// What breaks it when it stops.
    stop_error: Option<&'static str>,
    /// Why the end is not in the file.
    incomplete: Option<&'static str>,
    /// The processes it is limited to have ended.
    processes_gone: bool,
    /// Records that only whoever reads them finds undecodable.
    undecodable: bool,
    /// Its events show that others are missing, which no loss tells of.
    gap: bool,
    /// How often it goes on in another file.
    changes: u32,
    /// The disk takes none of these files, counted from 0.
    refused: &'static [u32],
    /// Something puts this file in the way while it records.
    intruder: Option<PathBuf>,
}

struct Running {
    fake: Fake,
    out: RecordingFiles,
}

impl Recorders for Fake {
    fn start(&self, _: RecordOptions, out: RecordingFiles) -> Result<Box<dyn Recorder>> {
        match self.start_error {
            Some(error) => Err(anyhow!(error)),
            None => Ok(Box::new(Running { fake: self.clone(), out })),
        }
    }
}

impl Recorder for Running {
    fn progress(&self) -> Progress {
        Progress::default()
    }

    fn missing(&self) -> &[String] {
        &[]
    }

    fn pids_alive(&self) -> bool {
        !self.fake.processes_gone
    }

    fn stop(self: Box<Self>, reason: StopReason) -> Result<Recorded> {
        let Fake { lost, stop_error, intruder, incomplete, undecodable, gap, .. } = self.fake;
        let Fake { changes, refused, .. } = self.fake;
        let RecordingFiles { first: mut out, rotation } = self.out;
        let error = incomplete.map(str::to_owned);
        let loss = LaneLoss {
            origin: LaneKind::Sched.into(),
            cpu: Some(0),
            record: LostRecord::Any,
            cause: LossCause::LaneFull,
            user: None,
            count: lost,
        };
        let losses: Vec<_> = (lost > 0).then_some(loss).into_iter().collect();
        let summary = fake::summary(reason);
        let undecodable = undecodable.then(fake::undecodable);
        let more: Vec<_> = undecodable.into_iter().chain(gap.then(fake::gap)).collect();
        if let Some(mut rotation) = rotation {
            for file in 0..changes {
                let summary = fake::summary(StopReason::Rotation);
                if !refused.contains(&file) {
                    fake::write_capture_with(&out, &more, &losses, Some(summary.clone()));
                    (rotation.begun)();
                }
                out = (rotation.next)()?;
                let (_, pinned) = mpsc::channel();
                (rotation.ended)(EndedFile {
                    pinned,
                    stacks: StacksInMemory::default(),
                    summary,
                    losses: losses.clone(),
                    error: None,
                });
            }
        }
        if !refused.contains(&changes) {
            fake::write_capture_with(&out, &more, &losses, Some(summary.clone()));
        }
        if let Some(path) = intruder {
            fs::write(path, "precious")?;
        }
        match stop_error {
            Some(error) => Err(anyhow!(error)),
            None => Ok(Recorded {
                pinned: PinnedFiles::new(),
                stacks: StacksInMemory::default(),
                summary,
                losses_before: Vec::new(),
                losses,
                duration: Duration::from_millis(8),
                attaching: Duration::ZERO,
                priority: RaisedSession::default(),
                records: fake::SWITCHES,
                error,
                costs: CostAccount::default(),
            }),
        }
    }
}

struct Scenario {
    folder: tempfile::TempDir,
}

impl Scenario {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Records with these arguments; `@` stands for the folder.
    fn record(&self, fake: &Fake, arguments: &[&str]) -> Result<u8> {
        let folder = format!("{}/", self.folder.path().display());
        let arguments = arguments.iter().map(|argument| argument.replace('@', &folder));
        let cli = Cli::try_parse_from(std::iter::once("syscollect".to_owned()).chain(arguments))?;
        let system = System { recorders: Box::new(fake.clone()) };
        let around = Surroundings { system, terminal: Terminal::hidden(), owner: None };
        record(&cli.record.finish()?, &around, Instant::now())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn stop_reason(&self, name: &str) -> StopReason {
        let session = Session::open(CaptureReader::open(&self.path(name)).unwrap()).unwrap();
        session.summary().unwrap().stop_reason.clone()
    }
}

#[test]
fn a_recording_becomes_one_exported_file() {
    let scenario = Scenario::new();
    assert_eq!(scenario.record(&Fake::default(), &["-d", "0.01", "-o", "@x.pftrace"]).unwrap(), 0);
    assert_eq!(scenario.names(), ["x.pftrace", "x.syscap"], "a small capture stays beside it");
    assert!(fs::metadata(scenario.path("x.pftrace")).unwrap().len() > 100);
    scenario.record(&Fake::default(), &["-d", "0.01", "-o", "@y.pftrace", "--no-capture"]).unwrap();
    assert_eq!(scenario.names(), ["x.pftrace", "x.syscap", "y.pftrace"]);
}

#[test]
fn a_kept_capture_says_what_naming_and_exporting_cost() {
    let scenario = Scenario::new();
    scenario.record(&Fake::default(), &["-d", "0.01", "-o", "@x.pftrace"]).unwrap();
    scenario.record(&Fake::default(), &["-d", "0.01", "-o", "@y.syscap"]).unwrap();
    for (name, last) in [("x.syscap", "export"), ("y.syscap", "reading")] {
        let session = Session::open(CaptureReader::open(&scenario.path(name)).unwrap()).unwrap();
        let costs = &session.summary().unwrap().costs;
        let work: Vec<_> = costs.iter().map(|cost| cost.work.name()).collect();
        assert_eq!(work, ["naming", last]);
        assert!(costs.iter().all(|cost| cost.peak_bytes > 0), "{costs:?}");
    }
}

/// What `info` counts of a capture: everything is read.
fn lost(scenario: &Scenario, name: &str) -> u64 {
    let mut session = Session::open(CaptureReader::open(&scenario.path(name)).unwrap()).unwrap();
    session.play(&mut syscollect_playback::NullExporter::new()).unwrap();
    syscollect_model::records_lost(session.losses())
}

#[test]
fn what_is_found_lost_on_reading_is_lost_for_the_recording_too() {
    let scenario = Scenario::new();
    let broken = Fake { undecodable: true, ..Fake::default() };
    for name in ["x.pftrace", "y.syscap"] {
        let output = format!("@{name}");
        let code =
            scenario.record(&broken, &["-d", "0.01", "-o", &output, "--fail-on-loss"]).unwrap();
        assert_eq!(code, LOSS, "{name}");
    }
    assert_eq!(
        (lost(&scenario, "x.syscap"), lost(&scenario, "y.syscap")),
        (fake::UNDECODABLE, fake::UNDECODABLE)
    );
}

#[test]
fn a_gap_that_no_loss_tells_of_fails_no_recording() {
    let scenario = Scenario::new();
    let gap = Fake { gap: true, ..Fake::default() };
    let code = scenario.record(&gap, &["-d", "0.01", "-o", "@x.syscap", "--fail-on-loss"]).unwrap();
    assert_eq!((code, lost(&scenario, "x.syscap")), (0, 0));
}

#[test]
fn the_capture_stays_where_it_is_asked_for() {
    let scenario = Scenario::new();
    scenario
        .record(&Fake::default(), &["-d", "0.01", "-o", "@x.pftrace", "--keep-capture"])
        .unwrap();
    scenario.record(&Fake::default(), &["-d", "0.01", "-o", "@y.syscap"]).unwrap();
    assert_eq!(scenario.names(), ["x.pftrace", "x.syscap", "y.syscap"]);
    assert_eq!(scenario.stop_reason("y.syscap"), StopReason::Duration);
}

#[test]
fn a_recording_ends_with_its_command_and_a_failure_is_passed_on() {
    let scenario = Scenario::new();
    let code = scenario
        .record(&Fake::default(), &["-o", "@x.syscap", "--", "/bin/sh", "-c", "exit 9"])
        .unwrap();
    assert_eq!(code, 9);
    assert_eq!(scenario.stop_reason("x.syscap"), StopReason::Command);
    let code = scenario.record(&Fake::default(), &["-o", "@y.syscap", "--", "/bin/true"]).unwrap();
    assert_eq!(code, 0);
}

#[test]
fn a_recording_ends_with_the_processes_it_is_limited_to() {
    let scenario = Scenario::new();
    let gone = Fake { processes_gone: true, ..Fake::default() };
    scenario.record(&gone, &["-p", "1", "-o", "@x.syscap"]).unwrap();
    assert_eq!(scenario.stop_reason("x.syscap"), StopReason::ProcessesEnded);
}

#[test]
fn a_recording_in_several_files_keeps_the_newest_and_replaces_nothing() {
    let scenario = Scenario::new();
    fs::write(scenario.path("x-0003.syscap"), "somebody else's").unwrap();
    let changing = Fake { changes: 5, ..Fake::default() };
    let arguments = ["-d", "0.01", "-o", "@x.syscap", "--rotate", "10m", "--keep", "3"];
    assert_eq!(scenario.record(&changing, &arguments).unwrap(), 0);
    assert_eq!(
        scenario.names(),
        ["x-0003.syscap", "x-0007.syscap", "x-0008.syscap", "x-0009.syscap"]
    );
    let reasons =
        ["x-0007.syscap", "x-0008.syscap", "x-0009.syscap"].map(|name| scenario.stop_reason(name));
    assert_eq!(reasons, [StopReason::Rotation, StopReason::Rotation, StopReason::Duration]);
    assert_eq!(fs::read(scenario.path("x-0003.syscap")).unwrap(), b"somebody else's");
}

#[test]
fn losses_of_all_files_count_and_each_is_read_where_that_is_asked_for() {
    let scenario = Scenario::new();
    let broken = Fake { changes: 2, undecodable: true, ..Fake::default() };
    let arguments = ["-d", "0.01", "-o", "@x.syscap", "--rotate", "10m", "--fail-on-loss"];
    assert_eq!(scenario.record(&broken, &arguments).unwrap(), LOSS);
    assert_eq!(scenario.names(), ["x-0001.syscap", "x-0002.syscap", "x-0003.syscap"]);
}

#[test]
fn files_of_which_the_disk_took_nothing_are_removed_and_their_losses_count() {
    let scenario = Scenario::new();
    let full = Fake { changes: 3, refused: &[1, 3], lost: 5, ..Fake::default() };
    let arguments = ["-d", "0.01", "-o", "@x.syscap", "--rotate", "10m", "--fail-on-loss"];
    assert_eq!(scenario.record(&full, &arguments).unwrap(), LOSS);
    assert_eq!(scenario.names(), ["x-0001.syscap", "x-0003.syscap"]);
    let nothing = Fake { changes: 1, refused: &[0, 1], ..Fake::default() };
    let error = scenario.record(&nothing, &["-d", "0.01", "-o", "@y.syscap", "--rotate", "10m"]);
    assert!(format!("{:#}", error.unwrap_err()).contains("is empty"));
}

#[test]
fn a_recording_in_several_files_that_cannot_start_leaves_nothing() {
    let scenario = Scenario::new();
    let broken = Fake { start_error: Some("no BTF here"), ..Fake::default() };
    assert!(scenario.record(&broken, &["-o", "@x.syscap", "--rotate", "10m"]).is_err());
    assert!(scenario.names().is_empty(), "{:?}", scenario.names());
}

#[test]
fn a_loss_fails_only_where_that_is_asked_for_and_after_the_commands_own_failure() {
    let scenario = Scenario::new();
    let lossy = Fake { lost: 5, ..Fake::default() };
    assert_eq!(scenario.record(&lossy, &["-d", "0.01", "-o", "@a.syscap"]).unwrap(), 0);
    assert_eq!(
        scenario.record(&lossy, &["-d", "0.01", "-o", "@b.pftrace", "--fail-on-loss"]).unwrap(),
        LOSS
    );
    let both = ["--fail-on-loss", "-o", "@c.syscap", "--", "/bin/sh", "-c", "exit 9"];
    assert_eq!(scenario.record(&lossy, &both).unwrap(), 9);
    assert_eq!(
        scenario
            .record(&Fake::default(), &["-d", "0.01", "-o", "@d.syscap", "--fail-on-loss"])
            .unwrap(),
        0
    );
}

#[test]
fn a_recording_that_cannot_start_leaves_nothing_and_never_runs_the_command() {
    let scenario = Scenario::new();
    let broken = Fake { start_error: Some("no BTF here"), ..Fake::default() };
    let touch = format!("touch {}", scenario.path("ran").display());
    let error =
        scenario.record(&broken, &["-o", "@x.pftrace", "--", "/bin/sh", "-c", &touch]).unwrap_err();
    assert!(error.to_string().contains("no BTF here"));
    std::thread::sleep(Duration::from_millis(50));
    assert!(scenario.names().is_empty(), "{:?}", scenario.names());
}

#[test]
fn a_recording_that_breaks_off_keeps_what_it_has_and_says_where() {
    let scenario = Scenario::new();
    let broken = Fake { stop_error: Some("a thread panicked"), ..Fake::default() };
    let error =
        format!("{:#}", scenario.record(&broken, &["-d", "0.01", "-o", "@x.pftrace"]).unwrap_err());
    assert!(error.contains("x.syscap.partial") && error.contains("a thread panicked"), "{error}");
    assert_eq!(scenario.names(), ["x.syscap.partial"]);
}

#[test]
fn a_file_that_comes_in_the_way_is_kept_and_so_is_the_recording() {
    let scenario = Scenario::new();
    let fake = Fake { intruder: Some(scenario.path("x.pftrace")), ..Fake::default() };
    let error =
        format!("{:#}", scenario.record(&fake, &["-d", "0.01", "-o", "@x.pftrace"]).unwrap_err());
    assert!(error.contains("x.pftrace exists"), "{error}");
    assert_eq!(fs::read(scenario.path("x.pftrace")).unwrap(), b"precious");
    assert_eq!(scenario.stop_reason("x.syscap"), StopReason::Duration);
}

#[test]
fn the_command_that_cannot_be_run_is_named_and_nothing_is_kept() {
    let scenario = Scenario::new();
    let script = scenario.path("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    make_executable(&script);
    let error =
        scenario.record(&Fake::default(), &["-o", "@x.pftrace", "--", "@script"]).unwrap_err();
    assert!(format!("{error:#}").contains("cannot run"), "{error:#}");
    assert_eq!(scenario.names(), ["script"]);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_full_disk_is_an_error_though_what_there_is_exports() {
    let scenario = Scenario::new();
    let full = Fake { incomplete: Some("No space left on device"), ..Fake::default() };
    assert_eq!(scenario.record(&full, &["-d", "0.01", "-o", "@x.pftrace"]).unwrap(), ERROR);
    assert_eq!(scenario.names(), ["x.pftrace", "x.syscap"]);
}

#[test]
fn what_turns_out_to_be_missing_is_told_once_and_in_few_lines() {
    let reported = ["no rapl".to_owned()];
    let more =
        (0..MOST_LEARNED + 3).map(|pid| format!("process {pid}: another recorder reads its zones"));
    let notes: Vec<String> = reported.iter().cloned().chain(more).collect();
    assert!(learned(&reported, &notes[..1]).is_empty());
    assert_eq!(learned(&reported, &notes[..2]), ["process 0: another recorder reads its zones"]);
    let many = learned(&reported, &notes);
    assert_eq!(many.len(), MOST_LEARNED + 1);
    assert!(
        many[MOST_LEARNED].contains("3 more") && many[MOST_LEARNED].contains("syscollect info"),
        "{many:?}"
    );
}
