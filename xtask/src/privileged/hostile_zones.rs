//! Programs of an ordinary user that share memory to do harm to a recorder that runs as root, each
//! beside an honest program of another user, of which no zone may be missing.
//!
//! What the recorder uses under an attack is compared with what it used a moment before, with the
//! honest program alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, ProgramOutput, json_lines, number, signal, text, wait};
use super::hostile_names::symbols_of;
use super::zones::{Marked, load};

/// Who attacks, and who is attacked.
const NOBODY: &str = "65534";
const DAEMON: &str = "1";
/// How long the recorder is watched without the attack, and with it.
const BEFORE: Duration = Duration::from_secs(2);
const DURING: Duration = Duration::from_secs(4);
/// How long when the recorder has found everything.
const LATER: Duration = Duration::from_secs(3);
const MIB: u64 = 1 << 20;

/// What the recorder used.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Of one CPU, while it was watched.
    cpu: f64,
    mappings: usize,
    /// Resident memory, bytes: the most.
    memory: u64,
}

/// What came of an attack.
struct Attacked {
    before: Usage,
    during: Usage,
    later: Usage,
    to_stop: Duration,
    capture_bytes: u64,
    said: ProgramOutput,
    /// Numbers of zones of the honest program, the first and the last.
    honest: (u64, u64),
}

/// 80 arenas of 1,024 rings: once they were 65,530 mappings, and the recorder aborted.
pub(crate) fn mappings(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "mappings")?;
    let more = attacked.during.mappings.saturating_sub(attacked.before.mappings);
    ensure!(more < 1_000, "the recorder made {more} mappings");
    attacked.within_bounds()?;
    Ok(format!("{more} mappings more; {}", attacked.words()))
}

/// 1,024 rings that claim a MiB each of a file that holds nothing: once they cost 1 GB.
pub(crate) fn memory(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "memory")?;
    attacked.within_bounds()?;
    Ok(attacked.words())
}

/// 640 empty arenas: once they cost 91 % of a CPU, and honest programs lost all zones.
pub(crate) fn survey(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "survey")?;
    let more = |usage: Usage| usage.cpu - attacked.before.cpu;
    let (finding, later) = (more(attacked.during), more(attacked.later));
    // Once 91 %, for as long as they lived.
    ensure!(
        finding < 0.15 && later < 0.06,
        "they cost {:.1} % of a CPU, then {:.1} %",
        finding * 100.0,
        later * 100.0
    );
    attacked.within_bounds()?;
    Ok(format!(
        "{:.1} % of a CPU more while they are found, then {:.1} %; {}",
        finding * 100.0,
        later * 100.0,
        attacked.words()
    ))
}

/// 16 arenas with 1,048,576 definitions each, and 128 rings that are always full: once they took
/// zones of others with them, and hundreds of MB.
pub(crate) fn flood(context: &Context) -> Result<String> {
    let attacked = Attacked::by(context, "flood")?;
    attacked.within_bounds()?;
    ensure!(
        attacked.said.stderr.contains("share of --buffer"),
        "nothing says so:\n{}",
        attacked.said.stderr
    );
    Ok(attacked.words())
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
    let recorder = context.start(&capture, &[])?;
    let pid = recorder.id();
    let hostile = load(context, &["as", NOBODY, "hostile", "looks", "60"])?;
    let during = watch(pid, DURING)?;
    let later = watch(pid, LATER)?;
    let mut command = Command::new(&program);
    // From its first mapping on it is another user's.
    let daemon: u32 = DAEMON.parse()?;
    command.args(["numbered", "/dev/null", "3"]).uid(daemon).gid(daemon).stdin(Stdio::null());
    let honest = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let honest_pid = honest.id();
    let honest = wait(honest)?;
    // Its names can only be had from what was opened while it ran.
    fs::remove_file(&program)?;
    let said = context.stop(recorder)?;
    signal(hostile.id(), libc::SIGKILL);
    wait(hostile)?;
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
        "the recorder used {:.1} % of a CPU, then {:.1} %",
        during.cpu * 100.0,
        later.cpu * 100.0
    );
    Ok(format!(
        "CPU {:.1} %, then {:.1} %, of {made} zones of a new program {first} to {last}, {names} places named",
        during.cpu * 100.0,
        later.cpu * 100.0
    ))
}

impl Attacked {
    fn by(context: &Context, attack: &str) -> Result<Self> {
        let capture = context.path(&format!("hostile-{attack}.syscap"));
        let seconds = (BEFORE + DURING + LATER).as_secs() + 2;
        let honest = load(context, &["as", DAEMON, "numbered", "/dev/null", &seconds.to_string()])?;
        let honest_pid = honest.id();
        let recorder = context.start(&capture, &["--buffer", "64M"])?;
        let pid = recorder.id();
        let before = watch(pid, BEFORE)?;
        let hostile = load(context, &["as", NOBODY, "hostile", attack, "60"])?;
        let during = watch(pid, DURING)?;
        let later = watch(pid, LATER)?;
        let honest = wait(honest)?;
        let began = Instant::now();
        let said = context.stop(recorder)?;
        let to_stop = began.elapsed();
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
        let capture_bytes = fs::metadata(&capture)?.len();
        Ok(Self { before, during, later, to_stop, capture_bytes, said, honest: numbers })
    }

    /// What holds under every attack.
    fn within_bounds(&self) -> Result<()> {
        let more = self.during.memory.saturating_sub(self.before.memory);
        ensure!(more < 200 * MIB, "the recorder took {} MiB more", more / MIB);
        ensure!(self.to_stop < Duration::from_secs(30), "it took {:?} to stop", self.to_stop);
        Ok(())
    }

    fn words(&self) -> String {
        format!(
            "CPU {:.1} % -> {:.1} %, memory {} -> {} MiB, capture {} MiB, stopped in {:.1} s, zones {} to {} complete",
            self.before.cpu * 100.0,
            self.during.cpu * 100.0,
            self.before.memory / MIB,
            self.during.memory / MIB,
            self.capture_bytes / MIB,
            self.to_stop.as_secs_f64(),
            self.honest.0,
            self.honest.1
        )
    }
}

/// Watches what a process uses.
fn watch(pid: u32, long: Duration) -> Result<Usage> {
    let (began, cpu_before) = (Instant::now(), cpu_time(pid)?);
    let mut usage = Usage::default();
    while began.elapsed() < long {
        std::thread::sleep(Duration::from_millis(200));
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let resident =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let resident: u64 = resident.context("no VmRSS")?.parse()?;
        usage.mappings = usage.mappings.max(maps.lines().count());
        usage.memory = usage.memory.max(resident * 1024);
    }
    usage.cpu = (cpu_time(pid)? - cpu_before).as_secs_f64() / began.elapsed().as_secs_f64();
    Ok(usage)
}

/// User and system time of a process.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit_once(") ").context("no name in stat")?.1;
    let fields: Vec<u64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Ok(Duration::from_secs_f64(fields.iter().sum::<u64>() as f64 / ticks))
}
