//! A user who fires triggers without end, beside whom another one fires them rarely: that one has
//! its snapshots, of their own moments, and its part of each limit. The recorder ends in time
//! whatever waits.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, DAEMON, NOBODY, number, until, wait};
use super::flight::{Flight, checked_whole};
use super::flight_busy::busy_loops;
use super::zones::load;

/// What the hostile user fires without end: more triggers than may have two places each.
const STORM: [&str; 6] = [
    "z1: zone storm > 1us, pause 1ms",
    "z2: zone sto* > 1us, pause 1ms",
    "usual: zone storm > 3x p50, pause 1ms",
    "ends: exit storming code 7, pause 1ms",
    "more: exit storm* code nonzero, pause 1ms",
    "any: exit storming, pause 1ms",
];
const RATE: &str = "2000";
const SECONDS: &str = "14";
/// What only the honest user fires, and what both do: there is one snapshot for each of them.
const RARE: &str = "rare: exit sh code 37, pause 1ms";
const SHARED: &str = "shared: exit sh code 38, limit 1, pause 1h";
const OTHERS: &str = "others: exit sh code 38, user 12345";
/// The end is bounded, beside a machine that has nothing to spare.
const LONGEST_END: Duration = Duration::from_secs(45);

/// One such.
pub(crate) fn triggers(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("fired-socket"), context.path("hostile-triggers"));
    fs::create_dir(&folder)?;
    let triggers = STORM.into_iter().chain([RARE, SHARED, OTHERS]);
    let mut options: Vec<&str> = triggers.flat_map(|text| ["--trigger", text]).collect();
    options.extend(["--most", "400"]);
    let flight = Flight::start_with(context, &socket, &folder, &options)?;
    let mut loops = busy_loops()?;
    loops.start_shell(&["/bin/sh"], "while :; do :; done", NOBODY)?;
    let storm = load(context, &["as", &NOBODY.to_string(), "trigger-storm", RATE, SECONDS])?;
    std::thread::sleep(Duration::from_secs(5));
    (0..5).try_for_each(|_| ends_with(38, NOBODY))?;
    ends_with(38, DAEMON)?;
    ends_with(37, DAEMON)?;
    let began = Instant::now();
    let rare = until("the rare trigger's snapshot", || begun(&folder, "rare"))?;
    let took = began.elapsed();
    wait(storm)?;
    let status = flight.status()?;
    let began = Instant::now();
    flight.stop()?;
    let ended = began.elapsed();
    drop(loops);
    ensure!(ended < LONGEST_END, "it ended {ended:?} after it was asked to");

    let marks = marks_in(&folder);
    let of = |name: &str| marks.iter().filter(|one| one.trigger == name).collect::<Vec<_>>();
    let whose = |name: &str| {
        let users = of(name).iter().map(|one| one.user()).collect::<Result<Vec<_>>>();
        users.map(|mut users| {
            users.sort_unstable();
            users
        })
    };
    ensure!(whose("rare")? == [DAEMON], "rare: {:?}", of("rare"));
    ensure!(whose("shared")? == [DAEMON, NOBODY], "shared: {:?}", of("shared"));
    ensure!(whose("others")?.is_empty(), "others: {:?}", of("others"));
    for one in of("rare").iter().chain(&of("shared")) {
        let info = checked_whole(context, &one.path)?;
        let missing = info.pointer("/recorder/missing").and_then(Value::as_array);
        let late = missing.into_iter().flatten().filter_map(Value::as_str);
        let late: Vec<&str> = late.filter(|why| why.contains("its own moment")).collect();
        ensure!(late.is_empty(), "{one:?} lacks its own moment: {late:?}");
    }
    let mut stormed = BTreeMap::new();
    for text in STORM {
        let name = text.split(':').next().unwrap_or_default();
        stormed.insert(name, of(name).len());
    }
    let all = status.pointer("/triggers/triggers").and_then(Value::as_array);
    let events = all.context("status has no triggers")?.iter().map(|one| number(one, "events"));
    let events = events.sum::<Result<u64>>()?;
    ensure!(events > 1_000, "there was no storm: {events} causes");
    Ok(format!(
        "beside {events} causes of another user, whose snapshots were {stormed:?}, {} was begun \
         within {:.1} s and has its moment; the recorder ended {:.1} s after it was asked to",
        rare.file_name().unwrap_or_default().display(),
        took.as_secs_f64(),
        ended.as_secs_f64()
    ))
}

/// A shell of that user ends with that code.
fn ends_with(code: i32, user: u32) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    let ended = shell.args(["-c", &format!("exit {code}")]).current_dir("/").uid(user).gid(user);
    let status = ended.stdin(Stdio::null()).status()?;
    ensure!(status.code() == Some(code), "a shell ended with {status}");
    Ok(())
}

/// The file of a trigger's snapshot, complete or not, if it is there.
fn begun(folder: &Path, trigger: &str) -> Option<PathBuf> {
    let mut files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let of_trigger = format!("-{trigger}.syscap");
    files.find(|path| path.to_str().is_some_and(|path| path.contains(&of_trigger)))
}

/// Why a complete snapshot was taken.
#[derive(Debug)]
struct TakenSnapshot {
    path: PathBuf,
    trigger: String,
    reason: String,
}

impl TakenSnapshot {
    /// The user whom its reason names.
    fn user(&self) -> Result<u32> {
        let user = self.reason.split_once(" of user ").context("it names no user")?.1;
        user.split(' ').next().unwrap_or_default().parse().with_context(|| self.reason.clone())
    }
}

fn marks_in(folder: &Path) -> Vec<TakenSnapshot> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let captures = files.filter(|path| path.extension().is_some_and(|end| end == "syscap"));
    let marks = captures.filter_map(|path| {
        let reader = CaptureReader::open(&path).ok()?;
        let marks = reader.definitions().filter_map(|definition| match definition {
            Ok(Definition::Session(session)) => session.snapshot,
            _ => None,
        });
        let mark = marks.last()?;
        Some(TakenSnapshot { path, trigger: mark.trigger, reason: mark.reason })
    });
    marks.collect()
}
