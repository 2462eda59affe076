//! An ordinary user's code against root's recorder: unwind tables without end, files that say they
//! are Python interpreters, thousands of files with probes, rights that change without end, and
//! debug information that covers everything.
//!
//! Compared with a program of another user that begins meanwhile: its stacks are whole, its zones
//! are there.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::attacked::{AttackedRecorder, Bounds, MIB, StoppedRecorder};
use super::chains::stacks::{ProgramStacks, RecordedStacks, StackKind};
use super::context::{Context, DAEMON, NOBODY, json_lines, number, signal, text, wait};
use super::failures::Mounted;
use super::hostile_files::{Running, longest_fork};
use super::hostile_names::symbols_of;
use super::unwinding;
use super::zones::{ProcessZones, RunningHonest, load};

/// For how long the hostile program goes on at most, and for how long the honest one runs, seconds.
const SECONDS: &str = "60";
const HONEST_SECONDS: u64 = 4;
/// Of 1,000 stacks of the honest program so many are whole; once it were 100 to 510. On a busy
/// machine, of the few that there are, some are the first.
const WHOLE: u64 = 900;
const STACKS_LEAST: u64 = 20;
/// What is recorded of stacks.
const STACKS: &[&str] =
    &["--freq", "999", "--stacks", "samples,off-cpu", "--unwind", "tables", "--buffer", "64M"];

/// Tables of 192 pages of code through which walks come, three times as many rows as there is room
/// for.
pub(crate) fn tables(context: &Context) -> Result<String> {
    let attack = Attack::begin(context, "tables")?;
    let (stacks, recorder) = attack.on_stacks(context)?;
    Ok(format!("{stacks}; {}", recorder.within(&Bounds::USUAL)?))
}

/// 24 files that say they are Python interpreters, with loops of 8 pages, one that says that its
/// tables have 1.5 GB, and 600 whose tables of symbols are as large as is looked through: who reads
/// files in the order in which they come has others' code wait for all of these.
pub(crate) fn interpreters(context: &Context) -> Result<String> {
    let attack = Attack::begin(context, "interpreters")?;
    let (stacks, recorder) = attack.on_stacks(context)?;
    // Its share of three threads (probes, notes, tables) and all that may be had at once: 31 to
    // 38 % of the few seconds that this takes.
    let bounds = Bounds { cpu: 0.5, ..Bounds::USUAL };
    Ok(format!("{stacks}; {}", recorder.within(&bounds)?))
}

/// 60 processes that map one file of code again and again, 8,000 times at once each: the file of a
/// program that began meanwhile was never looked at, and all of its stacks were cut.
pub(crate) fn mapped(context: &Context) -> Result<String> {
    let (capture, program) = (context.path("hostile-mapped.syscap"), context.path("new-program"));
    let recorder = AttackedRecorder::start(context, &capture, STACKS)?;
    let attack = Attack::begin(context, "mapped")?;
    // Until what waits to be looked at is as much as can be.
    std::thread::sleep(Duration::from_secs(2));
    fs::copy(&context.load, &program)?;
    let (stacks, recorder) = attack.on_stacks_of(context, &program, recorder, &capture)?;
    let stderr = &recorder.output.stderr;
    ensure!(stderr.contains("map hundreds of them at once"), "nothing says so:\n{stderr}");
    // The kernel's work for half a million mappings at once holds everybody up.
    let bounds = Bounds { to_stop: Duration::from_secs(90), ..Bounds::USUAL };
    Ok(format!("{stacks}; {}", recorder.within(&bounds)?))
}

/// A file with 140,000 notes of one probe, no two alike, which were once compared with one another,
/// and 10,500 new files with a probe: a program that was new had no zones, and the end took 44 s.
pub(crate) fn probed(context: &Context) -> Result<String> {
    let capture = context.path("hostile-probed.syscap");
    let recorder = AttackedRecorder::start(context, &capture, &[])?;
    let mut attack = Attack::begin(context, "probed")?;
    attack.hostile.line()?;
    // Half of all files that tables are made of, which are held by a mapping each. Looks into files
    // have 250 ms of a second, notes 150 ms, and both of them a second's at once; when the mappings
    // by which the recorder holds files were looked into, too, it was 95 to 101 %.
    let bounds = Bounds { mappings: 2_500, cpu: 0.65, ..Bounds::USUAL };
    attack.on_a_new_program(context, recorder, &capture, &bounds)
}

/// 150 mappings of a probed file whose rights change without end: once a program that was new had
/// no zones, and forks of everybody waited for 2.7 s.
pub(crate) fn rights(context: &Context) -> Result<String> {
    let capture = context.path("hostile-rights.syscap");
    let recorder = AttackedRecorder::start(context, &capture, &[])?;
    let attack = Attack::begin(context, "rights")?;
    attack.on_a_new_program(context, recorder, &capture, &Bounds::USUAL)
}

/// Bytes of deleted files that may still lie on their file system, of 800 MiB: those that a
/// recorder keeps of one user, and what it looks at just then. Once it were all of them, for as
/// long as it recorded.
const KEPT_MAX: u64 = 320 * MIB;
/// As long may it take until the others are gone.
const LONGEST_KEPT: Duration = Duration::from_secs(30);

/// 100 files of 8 MiB that are mapped for a moment and then deleted.
pub(crate) fn deleted(context: &Context) -> Result<String> {
    let capture = context.path("hostile-deleted.syscap");
    let memory = Mounted::tmpfs(context.path("hostile-deleted"), "size=1200m,mode=1777")?;
    let folder = text(memory.folder())?;
    // The folder above is root's alone.
    let above = memory.folder().parent().context("no folder")?;
    fs::set_permissions(above, fs::Permissions::from_mode(0o755))?;
    let recorder = AttackedRecorder::start(context, &capture, &[])?;
    let user = NOBODY.to_string();
    let honest = RunningHonest::start(context)?;
    let hostile = wait(load(context, &["as", &user, "hostile-code", "deleted", folder, "0"])?)?;
    ensure!(hostile.status.success(), "the hostile program failed:\n{}", hostile.stderr);
    let (ended, mut kept) = (Instant::now(), used_bytes(memory.folder())?);
    while kept > KEPT_MAX {
        ensure!(ended.elapsed() < LONGEST_KEPT, "{} MiB of deleted files are kept", kept / MIB);
        std::thread::sleep(Duration::from_millis(200));
        kept = used_bytes(memory.folder())?;
    }
    let waited = ended.elapsed();
    let honest = honest.end()?;
    let recorder = recorder.stop(context)?;
    let stderr = &recorder.output.stderr;
    ensure!(stderr.contains(&format!("user {NOBODY} have deleted")), "nothing says so:\n{stderr}");
    let cost = recorder.within(&Bounds::USUAL)?;
    let honest = honest.is_whole_in(&capture)?;
    Ok(format!(
        "{} MiB are kept {:.1} s after the program's end; {honest}; {cost}",
        kept / MIB,
        waited.as_secs_f64()
    ))
}

/// Bytes of a file system that are in use.
fn used_bytes(folder: &Path) -> Result<u64> {
    let folder = CString::new(text(folder)?)?;
    // SAFETY: an all-zero statvfs is a valid value of plain integers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a structure that is writable for the whole call.
    let status = unsafe { libc::statvfs(folder.as_ptr(), &mut found) };
    ensure!(status == 0, "statvfs: {}", std::io::Error::last_os_error());
    Ok((found.f_blocks - found.f_bfree) * found.f_frsize)
}

/// Debug information of which each of 20,000 units covers all code: naming once took 60 s. And of
/// 400,000 functions, each inlined in the one before: naming once ran out of stack.
pub(crate) fn debug_information(context: &Context) -> Result<String> {
    let (capture, program) = (context.path("hostile-debug.syscap"), context.path("honest-named"));
    fs::copy(&context.load, &program)?;
    let attack = Attack::begin(context, "debug")?;
    let recorder = AttackedRecorder::start_attacked(context, &capture, &["--freq", "999"])?;
    let mut honest = Command::new(&program);
    honest.args(["callers", "2"]).uid(DAEMON).gid(DAEMON).stdin(Stdio::null());
    let honest = wait(honest.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)?;
    ensure!(honest.status.success(), "the honest program failed:\n{}", honest.stderr);
    let recorder = recorder.stop(context)?;
    drop(attack);
    let tables = symbols_of(&capture, text(&program)?)?;
    let symbols = tables.iter().flat_map(|table| &table.symbols);
    let names = symbols.filter(|symbol| !symbol.range_only).count();
    ensure!(names > 0, "the honest program's functions have no names");
    let bounds = Bounds { cpu_to_stop: Duration::from_secs(25), ..Bounds::USUAL };
    Ok(format!("{names} places of another program named; {}", recorder.within(&bounds)?))
}

impl Drop for Attack {
    fn drop(&mut self) {
        // It reads no input, and its files are large.
        signal(self.hostile.pid(), libc::SIGKILL);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A hostile program that has made its files. It ends when this is dropped.
struct Attack {
    hostile: Running,
    name: &'static str,
    folder: PathBuf,
}

impl Attack {
    fn begin(context: &Context, name: &'static str) -> Result<Self> {
        let folder = context.path(&format!("hostile-{name}"));
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        // The folder above is root's alone.
        fs::set_permissions(folder.parent().unwrap_or(&folder), fs::Permissions::from_mode(0o755))?;
        let mut hostile = Command::new(&context.load);
        hostile.args(["hostile-code", name, text(&folder)?, SECONDS]).uid(NOBODY).gid(NOBODY);
        let mut hostile = Running::start(&mut hostile)?;
        hostile.line()?;
        Ok(Self { hostile, name, folder })
    }

    /// The stacks of an honest program that begins when the hostile one has had its turn are whole;
    /// ends the recording.
    fn on_stacks(self, context: &Context) -> Result<(String, StoppedRecorder)> {
        let capture = context.path(&format!("hostile-{}.syscap", self.name));
        let recorder = AttackedRecorder::start_attacked(context, &capture, STACKS)?;
        self.on_stacks_of(context, &context.load, recorder, &capture)
    }

    /// The same of that program, in this recording.
    fn on_stacks_of(
        self,
        context: &Context,
        program: &Path,
        recorder: AttackedRecorder,
        capture: &Path,
    ) -> Result<(String, StoppedRecorder)> {
        let mut honest = Command::new(program);
        honest.args(["unwound", &HONEST_SECONDS.to_string()]).uid(DAEMON).gid(DAEMON);
        let honest = honest.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let honest = wait(honest)?;
        ensure!(honest.status.success(), "the honest program failed:\n{}", honest.stderr);
        let recorder = recorder.stop(context)?;
        // What is read from here on is not attacked.
        drop(self);
        let line = json_lines(&honest.stdout)?;
        let pid =
            number(line.first().context("the honest program printed nothing")?, "pid")? as u32;
        // Its tables are to be made meanwhile, so that its first stacks count like all others.
        let program = ProgramStacks::new(pid, unwinding::known());
        let recorded = RecordedStacks::read(capture, 0, vec![program])?;
        let program = &recorded.programs[0];
        let mut found = Vec::new();
        for kind in [StackKind::Sample, StackKind::OffCpu] {
            let counts = program.of(kind);
            ensure!(counts.all() >= STACKS_LEAST, "too few {kind}: {counts}");
            ensure!(counts.are_whole(WHOLE), "{kind} that do not reach main: {counts}");
            found.push(format!("{kind}: {counts}"));
        }
        Ok((found.join("; "), recorder))
    }

    /// A program whose file is new is found while the attack goes on, everybody forks meanwhile,
    /// and the recording ends.
    fn on_a_new_program(
        self,
        context: &Context,
        recorder: AttackedRecorder,
        capture: &Path,
        bounds: &Bounds,
    ) -> Result<String> {
        let program = context.path("new-program");
        fs::copy(&context.load, &program)?;
        let mut honest = Command::new(&program);
        honest.args(["numbered", "/dev/null", "2"]).uid(DAEMON).gid(DAEMON).stdin(Stdio::null());
        let honest = honest.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pid = honest.id();
        let longest = longest_fork(Duration::from_secs(1))?;
        let honest = wait(honest)?;
        let recorder = recorder.stop(context)?;
        let line = json_lines(&honest.stdout)?;
        let made = number(line.first().context("the honest program printed nothing")?, "numbers")?;
        let (first, last) = ProcessZones::read(capture, pid)?.numbers_in_a_row()?;
        ensure!(
            first < made / 2 && last == made,
            "of {made} zones of a new program {first} to {last} are there"
        );
        ensure!(
            longest <= Duration::from_secs(1),
            "a fork took {longest:?} while files were attached to"
        );
        Ok(format!(
            "of {made} zones of a new program {first} to {last}; the longest fork took \
             {longest:.1?}; {}",
            recorder.within(bounds)?
        ))
    }
}
