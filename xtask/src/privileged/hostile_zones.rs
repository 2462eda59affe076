//! Programs of an ordinary user that share memory to do harm to a recorder that runs as root, each
//! beside an honest program of another user, of which no zone may be missing.
//!
//! What the recorder uses under an attack is compared with what it used a moment before, with the
//! honest program alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::attacked::{AttackedRecorder, Bounds, MIB, StoppedRecorder, Usage};
use super::context::{Context, json_lines, number, signal, text, wait};
use super::hostile_names::symbols_of;
use super::zones::{Marked, load};

/// Who attacks, and who is attacked.
const NOBODY: &str = "65534";
const DAEMON: &str = "1";
/// How long the recorder is watched with the attack.
const DURING: Duration = Duration::from_secs(4);
/// How long when the recorder has found everything.
const LATER: Duration = Duration::from_secs(3);
/// Longer than the recorder is watched before that.
const BEFORE: Duration = Duration::from_secs(4);

/// What came of an attack.
struct Attacked {
    during: Usage,
    later: Usage,
    at_rest: Usage,
    recorder: StoppedRecorder,
    /// Numbers of zones of the honest program, the first and the last.
    honest: (u64, u64),
}

/// 80 arenas of 1,024 rings: once they were 65,530 mappings, and the recorder aborted.
pub(crate) fn mappings(context: &Context) -> Result<String> {
    Attacked::by(context, "mappings")?.within(&Bounds::USUAL)
}

/// 1,024 rings that claim a MiB each of a file that holds nothing: once they cost 1 GB.
pub(crate) fn memory(context: &Context) -> Result<String> {
    Attacked::by(context, "memory")?.within(&Bounds::USUAL)
}

/// What looks after arenas, and what takes over those that are announced.
const LOOKERS: [&str; 3] = ["zones-survey", "zones", "announcements"];
/// What that may cost, of a CPU. Once it was 91 %, for as long as the arenas lived.
const LOOKERS_MAX: f64 = 0.03;

/// 640 empty arenas: once they cost 91 % of a CPU, and honest programs lost all zones.
pub(crate) fn survey(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "survey")?;
    let of_lookers = |usage: &Usage| LOOKERS.iter().map(|name| usage.of_thread(name)).sum::<f64>();
    let more = |usage: &Usage| of_lookers(usage) - of_lookers(&attacked.at_rest);
    let (finding, later) = (more(&attacked.during), more(&attacked.later));
    ensure!(
        finding <= LOOKERS_MAX && later <= LOOKERS_MAX,
        "they cost {:.1} % of a CPU, then {:.1} %; all threads: {}, then {}, before {}",
        finding * 100.0,
        later * 100.0,
        attacked.during.threads(),
        attacked.later.threads(),
        attacked.at_rest.threads()
    );
    let words = attacked.within(&Bounds { cpu: 0.15, ..Bounds::USUAL })?;
    Ok(format!(
        "{:.1} % of a CPU to look after them while they are found, then {:.1} % (all threads: {}, \
         then {}, before {}); {words}",
        finding * 100.0,
        later * 100.0,
        attacked.during.threads(),
        attacked.later.threads(),
        attacked.at_rest.threads()
    ))
}

/// 16 arenas with 1,048,576 definitions each, and 128 rings that are always full: once they took
/// zones of others with them, and hundreds of MB.
pub(crate) fn flood(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "flood")?;
    // All that they write is recorded, up to their share.
    let words = attacked.within(&Bounds { cpu: 0.8, capture: 600 * MIB, ..Bounds::USUAL })?;
    let said = &attacked.recorder.said.stderr;
    ensure!(said.contains("share of --buffer"), "nothing says so:\n{said}");
    Ok(words)
}

/// What a flood of changed files may cost the recorder, of a CPU: looks have 250 ms of a second,
/// notes 150 ms, and both of them a second's at once. When notes had no share, it was 75 to 78 % on
/// a machine that was busy, and with it 25 to 34 %.
const LOOKS_CPU_MAX: f64 = 0.65;
const LOOKS_CPU_LATER_MAX: f64 = 0.55;

/// Files that change and are mapped again without end: once a program of another user that began
/// meanwhile was not found, and nothing said so; and opening these files for their names took a
/// CPU, and the names of a program that ended meanwhile.
pub(crate) fn looks(context: &Context) -> Result<String> {
    let (capture, program) = (context.path("hostile-looks.syscap"), context.path("new-program"));
    fs::copy(&context.load, &program)?;
    // The folder above is root's alone.
    fs::set_permissions(program.parent().unwrap_or(&program), fs::Permissions::from_mode(0o755))?;
    let recorder = AttackedRecorder::start(context, &capture, &[])?;
    let hostile = load(context, &["as", NOBODY, "hostile", "looks", "60"])?;
    let during = recorder.during(DURING)?;
    let later = recorder.during(LATER)?;
    let mut command = Command::new(&program);
    // From its first mapping on it is another user's.
    let daemon: u32 = DAEMON.parse()?;
    command.args(["numbered", "/dev/null", "3"]).uid(daemon).gid(daemon).stdin(Stdio::null());
    let honest = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let honest_pid = honest.id();
    let honest = wait(honest)?;
    // Its names can only be had from what was opened while it ran.
    fs::remove_file(&program)?;
    let recorder = recorder.stop(context)?;
    let said = &recorder.said;
    signal(hostile.id(), libc::SIGKILL);
    let hostile = wait(hostile)?;
    ensure!(hostile.stderr.is_empty(), "the hostile program failed:\n{}", hostile.stderr);
    let made = number(
        json_lines(&honest.stdout)?.first().context("the honest program said nothing")?,
        "numbers",
    )?;
    let (first, last) = Marked::read(&capture, honest_pid)?.numbers_in_a_row()?;
    ensure!(
        first < made / 2 && last == made,
        "of {made} zones of a new program {first} to {last} are there"
    );
    let tables = symbols_of(&capture, text(&program)?)?;
    let symbols = tables.iter().flat_map(|table| &table.symbols);
    let names = symbols.filter(|symbol| !symbol.range_only).count();
    ensure!(names > 0, "the new program's functions have no names");
    // Files of nobody's, and not of the one who runs the other program.
    for told in ["map files faster", "begin, and map files of code, faster"] {
        ensure!(
            said.stderr.contains(&format!("programs of user {NOBODY} {told}")),
            "nothing tells of it:\n{}",
            said.stderr
        );
        ensure!(
            !said.stderr.contains(&format!("programs of user {DAEMON} {told}")),
            "the honest user waited:\n{}",
            said.stderr
        );
    }
    ensure!(
        during.cpu < LOOKS_CPU_MAX && later.cpu < LOOKS_CPU_LATER_MAX,
        "the recorder used {:.1} % of a CPU, then {:.1} %; threads: {}, then {}",
        during.cpu * 100.0,
        later.cpu * 100.0,
        during.threads(),
        later.threads()
    );
    let words = recorder.within(&Bounds { cpu: LOOKS_CPU_MAX, ..Bounds::USUAL })?;
    Ok(format!(
        "CPU {:.1} %, then {:.1} %, of {made} zones of a new program {first} to {last}, {names} places named; {words}",
        during.cpu * 100.0,
        later.cpu * 100.0
    ))
}

impl Attacked {
    fn by(context: &Context, attack: &str) -> Result<Self> {
        let capture = context.path(&format!("hostile-{attack}.syscap"));
        let seconds = (BEFORE + DURING + LATER).as_secs();
        let honest = load(context, &["as", DAEMON, "numbered", "/dev/null", &seconds.to_string()])?;
        let honest_pid = honest.id();
        let recorder = AttackedRecorder::start(context, &capture, &["--buffer", "64M"])?;
        let hostile = load(context, &["as", NOBODY, "hostile", attack, "60"])?;
        let during = recorder.during(DURING)?;
        let later = recorder.during(LATER)?;
        let honest = wait(honest)?;
        let at_rest = recorder.at_rest().clone();
        let recorder = recorder.stop(context)?;
        signal(hostile.id(), libc::SIGKILL);
        wait(hostile)?;
        let last = number(
            json_lines(&honest.stdout)?.first().context("the honest program said nothing")?,
            "numbers",
        )?;
        let numbers = Marked::read(&capture, honest_pid)?.numbers_in_a_row()?;
        ensure!(
            numbers.1 == last,
            "the last zone is number {}, the program made {last}",
            numbers.1
        );
        Ok(Self { during, later, at_rest, recorder, honest: numbers })
    }

    fn within(&self, bounds: &Bounds) -> Result<String> {
        let (first, last) = self.honest;
        Ok(format!("{}, zones {first} to {last} complete", self.recorder.within(bounds)?))
    }
}
