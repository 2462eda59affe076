//! Who may write to a flight recorder's socket sends it as much as it takes, of any length: what
//! that costs is bounded, root is answered meanwhile, and nothing is left behind. Who may not write
//! to it costs nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::attacked::{MIB, Programs, Usage};
use super::context::{Context, DAEMON, NOBODY, finish, json_lines, number, text, wait};
use super::flight::{Flight, checked_whole};

/// What is sent: small requests that are answered, snapshots without end, messages of 100 KB, what
/// is none, and 253 descriptors with each.
const FLOODS: [&str; 5] = ["requests", "snapshots", "long", "nonsense", "descriptors"];
const SECONDS: u64 = 4;
/// How long the recorder is watched meanwhile.
const WATCHED: Duration = Duration::from_secs(2);
/// What all of it may take of a CPU, for the threads that hear, answer and close (28 to 50 % before
/// requests were heard at a pace, 4 to 12 % since); and what it may add to the recorder's memory
/// and to its descriptors: naming the one snapshot at a time that a member may have took 84 MiB.
const CPU_MAX: f64 = 0.2;
const MEMORY_MAX: u64 = 160 * MIB;
const DESCRIPTORS_MAX: usize = 600;
/// How long root waits for an answer at most.
const ANSWER: Duration = Duration::from_secs(2);
/// The threads that hear and answer, and close what was brought.
const HEARING: [&str; 3] = ["control", "closing", "syscollect"];

/// Each flood by a member of the group, and all of them by who is none.
pub(crate) fn flood(context: &Context) -> Result<String> {
    let place = tempfile::Builder::new().prefix("syscollect-flood-").tempdir()?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    let load = place.path().join("load");
    fs::copy(&context.load, &load)?;
    let (socket, folder) = (place.path().join("socket"), context.path("flight-flood"));
    fs::create_dir(&folder)?;
    let flight = Flight::start_with(context, &socket, &folder, &["--memory", "400M"])?;
    std::thread::sleep(Duration::from_secs(1));

    for what in FLOODS {
        let refused = finish(&mut flooding(&load, &socket, what, NOBODY))?;
        ensure!(
            !refused.status.success() && refused.stderr.contains("Permission denied"),
            "a user without rights reaches the socket: {} {}",
            refused.stdout,
            refused.stderr
        );
    }
    let mut told = Vec::new();
    for what in FLOODS {
        told.push(one_flood(context, &flight, &load, &socket, what)?);
    }
    let status = flight.status()?;
    ensure!(number(&status, "lost")? == 0, "records were lost: {status}");
    ensure!(fs::read_dir(&folder)?.next().is_none(), "something is left in the recorder's folder");
    // Whoever has no part in it has a snapshot as ever.
    let capture = context.path("flood.syscap");
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
    ensure!(taken.status.success(), "no snapshot behind the floods: {}", taken.stderr);
    checked_whole(context, &capture)?;
    flight.stop()?;
    Ok(told.join("; "))
}

fn flooding(load: &Path, socket: &Path, what: &str, user: u32) -> Command {
    let mut command = Command::new(load);
    command.arg("flood-socket").arg(socket).args([what, &SECONDS.to_string()]);
    command.uid(user).gid(user).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn one_flood(
    context: &Context,
    flight: &Flight<'_>,
    load: &Path,
    socket: &Path,
    what: &str,
) -> Result<String> {
    let recorder = Programs::of(flight.recorder_id())?;
    let pid = flight.recorder_id();
    let (memory, descriptors) = (resident(pid)?, open_descriptors(pid)?);
    let at_rest = recorder.during(Duration::from_millis(500))?;
    let flood = flooding(load, socket, what, DAEMON).spawn()?;
    let begun = Instant::now();
    let mut most = (0, 0);
    let during = std::thread::scope(|scope| -> Result<_> {
        let watch = scope.spawn(|| recorder.during(WATCHED));
        while begun.elapsed() < WATCHED {
            most = (most.0.max(resident(pid)?), most.1.max(open_descriptors(pid)?));
            std::thread::sleep(Duration::from_millis(50));
        }
        watch.join().map_err(|_| anyhow::anyhow!("who watches failed"))?
    })?;
    let asked = Instant::now();
    let status = flight.status().context("root is not answered")?;
    let answered = asked.elapsed();
    let flood = wait(flood)?;
    ensure!(flood.status.success(), "the flood of {what} failed: {}", flood.stderr);
    let sent = json_lines(&flood.stdout)?.pop().context("the flood printed nothing")?;
    let (memory, descriptors) = (most.0.saturating_sub(memory), most.1.saturating_sub(descriptors));
    let hearing = |usage: &Usage| -> f64 { HEARING.iter().map(|name| usage.of_thread(name)).sum() };
    let cpu = hearing(&during) - hearing(&at_rest);
    let words = format!(
        "{} of {what} sent ({} found no room): {:.1} % of a CPU, {} MiB, {descriptors} \
         descriptors, root answered in {} ms",
        number(&sent, "sent")?,
        number(&sent, "refused")?,
        cpu * 100.0,
        memory / MIB,
        answered.as_millis()
    );
    ensure!(
        cpu <= CPU_MAX && memory <= MEMORY_MAX && descriptors <= DESCRIPTORS_MAX,
        "too much: {words}; threads: {}; {status}",
        during.threads()
    );
    ensure!(context.is_emulated() || answered <= ANSWER, "root waits: {words}");
    let refused = number(&sent, "refused")?;
    ensure!(number(&sent, "sent")? > 50 && refused > 100, "that is no flood: {words}");
    Ok(words)
}

/// Memory that the process has now, bytes.
fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.context("no VmRSS")? << 10)
}

fn open_descriptors(pid: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}
