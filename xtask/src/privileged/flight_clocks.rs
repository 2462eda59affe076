//! What happens to the machine below a flight recorder: a CPU that goes and comes back, a clock
//! that is set, and suspend. Its triggers go on, and its snapshots are whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::clock::switch_of_a_cpu;
use super::context::{Context, finish, number, text, until, wait};
use super::flight::{Flight, checked_whole};
use super::flight_stopped::{lost_switches, switches_of};
use super::trigger_storm::of_trigger_in;
use crate::report::Outcome;

/// The program whose ends are waited for, and the trigger for it.
const NAME: &str = "leaver";
const TRIGGER: &str = "ended: exit leaver code 3, pause 0s";
/// Switches of the load on the CPU that came back.
const SWITCHES: u64 = 20_000;
/// An hour, seconds.
const HOUR: i64 = 3600;
/// How long the machine is suspended.
const SUSPENDED: Duration = Duration::from_secs(5);

/// A CPU that goes for two seconds: what runs before, meanwhile and on it afterwards is there or
/// counted, and the next snapshot is whole.
pub(crate) fn hotplug(context: &Context) -> Result<Outcome> {
    let switch = match switch_of_a_cpu() {
        Ok(switch) => switch,
        Err(not_offered) => return Ok(not_offered),
    };
    let recorder = Recorder::start(context, "flight-hotplug", &["--trigger", TRIGGER])?;
    let Recorder { flight, folder, .. } = &recorder;
    let work = (|| {
        let before = switching(context, "1")?;
        fs::write(switch, "0").context("cannot switch CPU 1 off")?;
        std::thread::sleep(Duration::from_secs(1));
        let meanwhile = switching(context, "0")?;
        ends(context)?;
        std::thread::sleep(Duration::from_secs(1));
        fs::write(switch, "1").context("cannot switch CPU 1 on")?;
        std::thread::sleep(Duration::from_millis(500));
        Ok::<_, anyhow::Error>(before + meanwhile + switching(context, "1")?)
    })();
    let _ = fs::write(switch, "1");
    let made = work?;
    let fired = until("the snapshot of what ended meanwhile", || {
        of_trigger_in(folder, "ended").first().cloned()
    })?;
    checked_whole(context, &fired)?;
    let info = snapshot(context, flight, "hotplug-flight.syscap")?;
    let (found, lost) = (number(&info["events_by_type"], "switch")?, lost_switches(&info)?);
    ensure!(
        found + lost >= made,
        "of {made} switches {found} are there and {lost} counted as lost: {}",
        info["losses"]
    );
    recorder.flight.stop()?;
    Ok(Outcome::Passed(format!(
        "{found} switches there and {lost} counted as lost, of {made} that were made on both CPUs; \
         the trigger fired while one was off"
    )))
}

/// The clock is set back an hour, and forward, and back: each time a trigger fires once, no
/// snapshot takes another one's name, and what is held goes on.
pub(crate) fn clock_set(context: &Context) -> Result<Outcome> {
    if let Some(outcome) = not_root() {
        return Ok(outcome);
    }
    if !context.is_emulated() {
        return Ok(Outcome::Skipped(
            "only in virtual machines: the clocks of this one are in use".to_owned(),
        ));
    }
    let recorder = Recorder::start(context, "flight-clock", &["--trigger", TRIGGER])?;
    let Recorder { flight, folder, .. } = &recorder;
    let mut reach = 0;
    for (taken, step) in (1..).zip([0, -HOUR, 2 * HOUR, -HOUR, -1]) {
        step_clock(step)?;
        ends(context)?;
        until("the trigger's snapshot", || {
            (of_trigger_in(folder, "ended").len() >= taken).then_some(())
        })?;
        let status = flight.status()?;
        let reaches = number(&status, "reach_ns")?;
        ensure!(
            reaches > reach,
            "it held {reach} ns before, and {reaches} behind a step of {step}"
        );
        reach = reaches;
    }
    let taken = of_trigger_in(folder, "ended");
    ensure!(taken.len() == 5, "five causes, and {taken:?}");
    for capture in &taken {
        checked_whole(context, capture)?;
    }
    let status = flight.status()?;
    let trigger = &status["triggers"]["triggers"][0];
    ensure!(number(trigger, "events")? == 5 && number(trigger, "fired")? == 5, "{trigger}");
    recorder.flight.stop()?;
    Ok(Outcome::Passed("five causes between steps of an hour, each one snapshot".to_owned()))
}

/// Suspend to idle: nothing is lost, a thread that waits for a CPU did not wait so long, and the
/// next snapshot is whole.
pub(crate) fn suspend(context: &Context) -> Result<Outcome> {
    if let Some(outcome) = not_root() {
        return Ok(outcome);
    }
    let (state, alarm) = ("/sys/power/state", "/sys/class/rtc/rtc0/wakealarm");
    if !context.is_emulated() {
        return Ok(Outcome::Skipped(
            "only in virtual machines: this one is not to be suspended".to_owned(),
        ));
    }
    let offered = fs::read_to_string(state).unwrap_or_default();
    if !offered.split_whitespace().any(|name| name == "freeze") || !Path::new(alarm).exists() {
        return Ok(Outcome::NotOffered(format!(
            "{state} offers {offered:?}, or there is no {alarm}"
        )));
    }
    let waiting = format!("waits: waiting > {}s", SUSPENDED.as_secs() - 1);
    let options = ["--trigger", TRIGGER, "--trigger", &waiting];
    let recorder = Recorder::start(context, "flight-suspend", &options)?;
    let Recorder { flight, folder, .. } = &recorder;
    let made = switching(context, "0")?;
    fs::write(alarm, "0").context("cannot clear the alarm")?;
    fs::write(alarm, format!("+{}", SUSPENDED.as_secs())).context("cannot set the alarm")?;
    fs::write(state, "freeze").context("cannot suspend")?;
    let made = made + switching(context, "0")?;
    ends(context)?;
    let fired =
        until("the trigger's snapshot", || of_trigger_in(folder, "ended").first().cloned())?;
    checked_whole(context, &fired)?;
    let info = snapshot(context, flight, "suspended.syscap")?;
    let (found, lost) = (number(&info["events_by_type"], "switch")?, lost_switches(&info)?);
    ensure!(
        found + lost >= made,
        "of {made} switches {found} are there and {lost} counted as lost"
    );
    let status = flight.status()?;
    let waits = &status["triggers"]["triggers"][1];
    ensure!(number(waits, "events")? == 0, "who was suspended waited for a CPU: {waits}");
    recorder.flight.stop()?;
    Ok(Outcome::Passed(format!("{found} of {made} switches there, {lost} counted as lost")))
}

/// A flight recorder with its folder and that of its socket, which cannot lie in a folder that a
/// virtual machine shares with its host.
struct Recorder<'c> {
    flight: Flight<'c>,
    folder: PathBuf,
    _place: tempfile::TempDir,
}

impl<'c> Recorder<'c> {
    fn start(context: &'c Context, name: &str, options: &[&str]) -> Result<Self> {
        let place = tempfile::Builder::new().prefix("syscollect-flight-").tempdir_in("/tmp")?;
        let (socket, folder) = (place.path().join("socket"), context.path(name));
        fs::create_dir(&folder)?;
        let flight = Flight::start_with(context, &socket, &folder, options)?;
        Ok(Self { flight, folder, _place: place })
    }
}

/// Why this user cannot have such a recorder: its socket is given to a group.
fn not_root() -> Option<Outcome> {
    // SAFETY: geteuid has no preconditions and always succeeds.
    let user = unsafe { libc::geteuid() };
    (user != 0).then(|| Outcome::NotOffered("only root gives a socket to a group".to_owned()))
}

/// Switches of the load on that CPU.
fn switching(context: &Context, cpu: &str) -> Result<u64> {
    let mut load = Command::new(&context.load);
    load.args(["ping-pong", &context.times(SWITCHES / 2).to_string(), cpu]);
    let load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = wait(load)?;
    switches_of(&output.stdout).with_context(|| format!("CPU {cpu}: {}", output.stderr))
}

/// A program of that name ends with code 3.
fn ends(context: &Context) -> Result<()> {
    let program = context.path_of(NAME);
    if !program.exists() {
        fs::copy("/bin/sh", &program)?;
    }
    let status = Command::new(&program).args(["-c", "exit 3"]).stdin(Stdio::null()).status()?;
    ensure!(status.code() == Some(3), "the program ended with {status}");
    Ok(())
}

fn snapshot(context: &Context, flight: &Flight<'_>, name: &str) -> Result<Value> {
    let capture = context.path(name);
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
    ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
    checked_whole(context, &capture)
}

/// Sets the clock so many seconds on.
fn step_clock(seconds: i64) -> Result<()> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is valid for writing, then for reading.
    let set = unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
        now.tv_sec += seconds;
        libc::clock_settime(libc::CLOCK_REALTIME, &raw const now)
    };
    ensure!(set == 0, "cannot set the clock: {}", io::Error::last_os_error());
    Ok(())
}
