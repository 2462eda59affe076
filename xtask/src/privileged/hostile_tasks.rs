//! An ordinary user begins threads without end, each of which sends a signal and ends, and has
//! others interrupted every few microseconds: before the recording begins, so that all of it finds
//! a busy machine.
//!
//! Compared with programs of another user: no switch is lost, stacks are whole, forks take no longer
//! than on such a machine, and of programs that begin meanwhile both begin and end are there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, ProcessId, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::attacked::{AttackedRecorder, Bounds, MIB};
use super::chains::stacks::{ProgramStacks, RecordedStacks, StackKind};
use super::context::{Context, DAEMON, NOBODY, ends_with_us, number, text};
use super::hostile_files::longest_fork;
use super::unwinding;

/// Longer than all of this takes.
const SECONDS: &str = "60";
/// For how long it is forked, from before the recorder starts on.
const FORKING: Duration = Duration::from_secs(4);
/// How long the machine is busy before the recording begins.
const BEFORE: Duration = Duration::from_millis(500);
/// A function that nobody calls, which takes its time to attach to: while nobody emptied the lanes
/// until all was attached, 6 to 16 % of the events were lost with it, and 0 to 2 % without. And
/// tracepoints, each of which the kernel takes out more slowly than on a quiet machine.
const OPTIONS: &[&str] = &["--gpu", "--function", "libc.so.6:getpwnam"];
/// Of 1,000 stacks of the honest program so many are whole.
const WHOLE: u64 = 700;
const STACKS_LEAST: u64 = 20;
/// Programs that the honest user starts, each for a moment, while nobody empties the lanes, after
/// these have become as full as the attack can make them.
pub(super) const SHORT_PROGRAMS: usize = 40;
const FILLING: Duration = Duration::from_millis(500);
/// So long runs the one that begins then, beside all others.
const LATE_RUNS: Duration = Duration::from_secs(4);
/// Mostly it is milliseconds.
const LONGEST_FORK: Duration = Duration::from_secs(2);
/// Nothing is compared with what is used at rest, because there is none; and of CPU time this sees
/// the first moments, in which tables are made of all that runs. It stops within 3 to 6 s, and
/// after all other tests once within 17 s, of which it uses 1 s: all others run meanwhile.
const BOUNDS: Bounds = Bounds { cpu: 1.0, memory: 400 * MIB, ..Bounds::USUAL };

/// Programs that are killed when this is dropped.
pub(super) struct Programs(pub(super) Vec<Child>);

impl Programs {
    pub(super) fn start(
        &mut self,
        context: &Context,
        arguments: &[&str],
        user: u32,
    ) -> Result<u32> {
        let mut command = Command::new(&context.load);
        command.args(arguments).uid(user).gid(user).stdin(Stdio::null()).stdout(Stdio::null());
        ends_with_us(&mut command);
        self.0.push(command.spawn()?);
        Ok(self.0.last().map_or(0, Child::id))
    }

    /// The same of a script, which that shell runs.
    pub(super) fn start_shell(&mut self, shell: &[&str], script: &str, user: u32) -> Result<()> {
        let (program, arguments) = shell.split_first().context("no shell is named")?;
        let mut command = Command::new(program);
        command.args(arguments).args(["-c", script]).uid(user).gid(user);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ends_with_us(&mut command);
        self.0.push(command.spawn()?);
        Ok(())
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for program in &mut self.0 {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Runs it.
pub(crate) fn threads(context: &Context) -> Result<String> {
    let capture = context.path("hostile-threads.syscap");
    let mut programs = Programs(Vec::new());
    for attack in ["threads", "timers"] {
        programs.start(context, &["hostile-tasks", attack, SECONDS], NOBODY)?;
    }
    let honest = programs.start(context, &["unwound", SECONDS], DAEMON)?;
    std::thread::sleep(BEFORE);
    let forks = std::thread::spawn(|| longest_fork(FORKING));
    let recorder = AttackedRecorder::start_attacked(context, &capture, OPTIONS)?;
    let late = recorder.while_stopped(|| {
        std::thread::sleep(FILLING);
        start_short_programs(context, "hostile-threads-short")?;
        programs.start(context, &["unwound", SECONDS], DAEMON)
    })?;
    let longest = forks.join().map_err(|_| anyhow!("what forks panicked"))??;
    std::thread::sleep(LATE_RUNS);
    let recorder = recorder.stop(context)?;
    drop(programs);

    let info = context.info(&capture)?;
    let (lost, events) = (number(&info, "lost")?, number(&info, "events")?);
    let short = ShortPrograms::read(&capture)?;
    let honest = [honest, late].map(|program| ProgramStacks::new(program, unwinding::known()));
    let recorded = RecordedStacks::read(&capture, 0, honest.into())?;
    let kinds = [StackKind::Sample, StackKind::OffCpu];
    let [stacks, of_late] =
        [0, 1].map(|program| kinds.map(|kind| (kind, recorded.programs[program].of(kind))));
    let words = format!(
        "{lost} records are lost, beside {events} events; {} and {} of {SHORT_PROGRAMS} programs \
         begin and end; the longest fork took {longest:.1?}; {}: {}; {}: {}; of one that began \
         meanwhile {}: {}",
        short.begun.len(),
        short.ended.len(),
        stacks[0].0,
        stacks[0].1,
        stacks[1].0,
        stacks[1].1,
        of_late[0].0,
        of_late[0].1
    );
    ensure!(
        info["losses"].as_array().into_iter().flatten().all(is_the_attacks),
        "{words}: {}",
        info["losses"]
    );
    ensure!([short.begun.len(), short.ended.len()] == [SHORT_PROGRAMS; 2], "{words}");
    ensure!(longest <= LONGEST_FORK, "{words}");
    // Records of what the late one has mapped are among those that are lost.
    for (_, counts) in stacks.iter().chain(&of_late[..1]) {
        ensure!(counts.all() >= STACKS_LEAST && counts.are_whole(WHOLE), "{words}");
    }
    Ok(format!("{words}; {}", recorder.within(&BOUNDS)?))
}

/// Whether what was lost is of nobody but the attack: of its threads' lives and mappings some may
/// be, where the machine has more to do still.
fn is_the_attacks(loss: &Value) -> bool {
    match loss["lane"].as_str() {
        Some("sched") => false,
        Some("tasks") => {
            (&loss["cause"], &loss["user"]) == (&json!("beyond-share"), &json!(NOBODY))
        }
        _ => true,
    }
}

/// They run one behind another, in a folder of that name, and end.
pub(super) fn start_short_programs(context: &Context, name: &str) -> Result<()> {
    let folder = context.path(name);
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    // The folder above is root's alone.
    fs::set_permissions(folder.parent().unwrap_or(&folder), fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new(&context.load);
    command.args(["start-programs", text(&folder)?, &SHORT_PROGRAMS.to_string()]);
    command.uid(DAEMON).gid(DAEMON).stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.status().context("cannot start the honest user's programs")?;
    ensure!(ended.success(), "the honest user's programs failed: {ended}");
    Ok(())
}

/// Which of them a capture has.
#[derive(Debug, Default)]
pub(super) struct ShortPrograms {
    pub(super) begun: BTreeSet<ProcessId>,
    pub(super) ended: BTreeSet<ProcessId>,
}

impl ShortPrograms {
    pub(super) fn read(capture: &Path) -> Result<Self> {
        let mut read = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut read)?;
        Ok(read)
    }
}

impl Exporter for ShortPrograms {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        match event {
            Event::ProcessExec(process, name) => {
                let number = tables.strings.get(*name).strip_prefix('p');
                if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
                    self.begun.insert(*process);
                }
            }
            Event::ProcessEnd(process) if self.begun.contains(process) => {
                self.ended.insert(*process);
            }
            _ => (),
        }
        Ok(())
    }
}
