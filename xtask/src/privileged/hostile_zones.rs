//! Programs of an ordinary user that share memory to do harm to a recorder that runs as root, each
//! beside an honest program of another user, of which no zone may be missing.
//!
//! What the recorder uses under an attack is compared with what it used a moment before, with the
//! honest program alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syscollect_model::LossCause;
use syscollect_records::RecordKind;
use syscollect_store::{CaptureReader, Definition, LostRecord};

use super::attacked::{AttackedRecorder, Bounds, MIB, StoppedRecorder, Usage, wait_for_peak};
use super::context::{Context, json_lines, number, signal, text, wait};
use super::hostile_names::symbols_of;
use super::zones::{ProcessZones, load};

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
const LOOKERS: [&str; 3] = ["zones-discovery", "zones", "announcements"];
/// What that may cost, of a CPU. Once it was 91 %, for as long as the arenas lived.
const LOOKERS_MAX: f64 = 0.03;

/// 640 empty arenas: once they cost 91 % of a CPU, and honest programs lost all zones.
pub(crate) fn discovery(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "discovery")?;
    let at_rest = of_lookers(&attacked.at_rest);
    let finding = of_lookers(&attacked.during) - at_rest;
    let later = of_lookers(&attacked.later) - at_rest;
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

/// What they all take of a CPU.
fn of_lookers(usage: &Usage) -> f64 {
    LOOKERS.iter().map(|name| usage.of_thread(name)).sum()
}

/// 16 arenas with 1,048,576 definitions each, and 128 rings that are always full: once they took
/// zones of others with them, and hundreds of MB.
pub(crate) fn flood(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "flood")?;
    // All that they write is recorded, up to their share.
    let words = attacked.within(&Bounds { cpu: 0.8, capture: 600 * MIB, ..Bounds::USUAL })?;
    let stderr = &attacked.recorder.output.stderr;
    ensure!(stderr.contains("share of --buffer"), "nothing says so:\n{stderr}");
    Ok(words)
}

/// How long they are written: exports of a debug build are slow.
const TEXTS_SECONDS: &str = "1";
/// What an export may take without events, and for each of a flood. When it kept what markers say
/// as it is in the program, Firefox took 430 for each, and Tracy, with two copies of a text, 243.
const EXPORT_REST: u64 = 64 * MIB;
const EXPORT_EACH: u64 = 160;

/// Zones and messages of which each has a text that no other has, as fast as they
/// come: what exports take for them.
pub(crate) fn texts(context: &Context) -> Result<String> {
    let capture = context.path("hostile-texts.syscap");
    let recorder = context.start(&capture, &["--buffer", "64M"])?;
    let programs = [
        load(context, &["as", DAEMON, "numbered", "/dev/null", "3"]),
        load(context, &["as", NOBODY, "hostile", "texts", TEXTS_SECONDS]),
    ];
    let programs = programs.map(|program| wait(program?));
    context.stop(recorder)?;
    let [honest, hostile] = programs;
    ensure!(hostile?.stderr.is_empty(), "the hostile program failed");
    let made = json_lines(&honest?.stdout)?;
    let made = number(made.first().context("the honest program printed nothing")?, "numbers")?;
    let info = context.info(&capture)?;
    let events = number(&info, "events")?;
    let mut words = vec![format!("{events} events")];
    for format in ["pftrace", "json.gz", "tracy"] {
        let exported = capture.with_extension(format);
        let mut command = context.command(&["export", text(&capture)?, "-o", text(&exported)?]);
        let export = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let peak = wait_for_peak(export)?;
        let most = EXPORT_REST + events * EXPORT_EACH;
        words.push(format!("{} MiB to export {format}", peak / MIB));
        ensure!(peak <= most, "{}: {} MiB are the bound", words.join(", "), most / MIB);
        fs::remove_file(exported)?;
    }
    ensure!(events > made + 50_000, "no flood: {}", words.join(", "));
    Ok(words.join(", "))
}

/// What floods of announcements may cost the threads that hear of them, of a CPU: on descriptors
/// that are no arenas, which the kernel program sees, and on files that might be some.
const ANNOUNCEMENTS_MAX: f64 = 0.04;
const ANNOUNCED_FILES_MAX: f64 = 0.1;

/// Processes without end that announce rings which are none: once they took 18 to 29 % of a CPU,
/// and filled the notes about what was refused; whose losses they were nobody could tell.
pub(crate) fn announcements(context: &Context) -> Result<String> {
    let none = announced(context, "announcements", ANNOUNCEMENTS_MAX)?;
    let files = announced(context, "announced-files", ANNOUNCED_FILES_MAX)?;
    Ok(format!("on no arenas: {none}; on files like arenas: {files}"))
}

fn announced(context: &Context, attack: &str, most: f64) -> Result<String> {
    let capture = context.path(&format!("hostile-{attack}.syscap"));
    let recorder = AttackedRecorder::start(context, &capture, &["--buffer", "64M"])?;
    let hostile = load(context, &["as", NOBODY, "hostile", attack, "60"])?;
    let during = recorder.during(DURING)?;
    // Programs that begin under the attack: of another user, and of the same.
    let users = [DAEMON, NOBODY];
    let honest = users.map(|user| load(context, &["as", user, "numbered", "/dev/null", "3"]));
    let mut programs = Vec::new();
    for honest in honest {
        let honest = honest?;
        let pid = honest.id();
        programs.push((pid, wait(honest)?));
    }
    let at_rest = recorder.at_rest().clone();
    let recorder = recorder.stop(context)?;
    signal(hostile.id(), libc::SIGKILL);
    let hostile = wait(hostile)?;
    ensure!(hostile.stderr.is_empty(), "the hostile program failed:\n{}", hostile.stderr);
    let cost = of_lookers(&during) - of_lookers(&at_rest);
    ensure!(
        cost <= most,
        "they cost {:.1} % of a CPU; all threads: {}, before {}",
        cost * 100.0,
        during.threads(),
        at_rest.threads()
    );
    let mut zones = Vec::new();
    for ((pid, program), user) in programs.iter().zip(users) {
        let made = json_lines(&program.stdout)?;
        let made = number(made.first().context("the honest program printed nothing")?, "numbers")?;
        let (first, last) = ProcessZones::read(&capture, *pid)?.numbers_in_a_row()?;
        ensure!(
            first < made / 2 && last == made,
            "of {made} zones of a program of user {user} {first} to {last} are there"
        );
        zones.push(format!("of {made} zones of user {user} {first} to {last}"));
    }
    let refused = refused_by_user(&capture)?;
    for (user, is_refused) in [(Some(NOBODY), true), (Some(DAEMON), false), (None, false)] {
        let user: Option<u32> = user.map(str::parse).transpose()?;
        let of_user = refused.iter().filter(|(of, _)| *of == user).map(|(_, count)| count);
        ensure!(
            (of_user.sum::<u64>() > 0) == is_refused,
            "rings that were not taken, by user: {refused:?}"
        );
    }
    let stderr = &recorder.output.stderr;
    ensure!(stderr.contains(&format!("user {NOBODY}")), "nothing says whose they are:\n{stderr}");
    ensure!(!stderr.contains(&format!("user {DAEMON}:")), "the honest user is named:\n{stderr}");
    let words = recorder.within(&Bounds::USUAL)?;
    Ok(format!(
        "{:.1} % of a CPU to hear of them (all threads: {}), {}, {refused:?} not taken; {words}",
        cost * 100.0,
        during.threads(),
        zones.join(", ")
    ))
}

/// Rings that were announced and not taken, by user as far as that is known.
fn refused_by_user(capture: &Path) -> Result<Vec<(Option<u32>, u64)>> {
    let mut last = Vec::new();
    for definition in CaptureReader::open(capture)?.definitions() {
        if let Definition::Losses(losses) = definition? {
            let of_rings = losses.into_iter().filter(|loss| {
                loss.record == LostRecord::Kind(RecordKind::Ring)
                    && loss.cause == LossCause::NotTaken
            });
            last = of_rings.map(|loss| (loss.user, loss.count)).collect();
        }
    }
    Ok(last)
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
    let output = &recorder.output;
    signal(hostile.id(), libc::SIGKILL);
    let hostile = wait(hostile)?;
    ensure!(hostile.stderr.is_empty(), "the hostile program failed:\n{}", hostile.stderr);
    let made = number(
        json_lines(&honest.stdout)?.first().context("the honest program printed nothing")?,
        "numbers",
    )?;
    let (first, last) = ProcessZones::read(&capture, honest_pid)?.numbers_in_a_row()?;
    ensure!(
        first < made / 2 && last == made,
        "of {made} zones of a new program {first} to {last} are there"
    );
    let tables = symbols_of(&capture, text(&program)?)?;
    let symbols = tables.iter().flat_map(|table| &table.symbols);
    let names = symbols.filter(|symbol| !symbol.range_only).count();
    ensure!(names > 0, "the new program's functions have no names");
    // Files of nobody's, and not of the one who runs the other program.
    for reported in ["mapped files faster", "began, and mapped files of code, faster"] {
        ensure!(
            output.stderr.contains(&format!("programs of user {NOBODY} {reported}")),
            "nothing tells that they {reported}:\n{}",
            output.stderr
        );
        ensure!(
            !output.stderr.contains(&format!("programs of user {DAEMON} {reported}")),
            "the honest user waited:\n{}",
            output.stderr
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
        "CPU {:.1} %, then {:.1} %, of {made} zones of a new program {first} to {last}, {names} \
         places named; {words}",
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
            json_lines(&honest.stdout)?.first().context("the honest program printed nothing")?,
            "numbers",
        )?;
        let numbers = ProcessZones::read(&capture, honest_pid)?.numbers_in_a_row()?;
        ensure!(
            numbers.1 == last,
            "the last zone is number {}, the program made {last}",
            numbers.1
        );
        // It is found before the attack begins, which is a good deal earlier than half of its time.
        ensure!(
            numbers.0 <= last / 2,
            "the first zone is number {}, of {last}: those before are not there",
            numbers.0
        );
        Ok(Self { during, later, at_rest, recorder, honest: numbers })
    }

    fn within(&self, bounds: &Bounds) -> Result<String> {
        let (first, last) = self.honest;
        Ok(format!("{}, zones {first} to {last} complete", self.recorder.within(bounds)?))
    }
}
