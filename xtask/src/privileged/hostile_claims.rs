//! An ordinary user's program that says of its threads that they are those of others. Compared with
//! what the others are and do.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::context::{Context, DAEMON, NOBODY, json_lines, number, text, wait};
use super::hostile_files::Running;
use super::zones::{ProcessZones, load};

/// For so long an honest program runs, whose number is claimed while it does.
const HONEST_SECONDS: &str = "4";
/// What a recorder has to hear of what is claimed.
const HEARD: Duration = Duration::from_secs(1);
/// For so long zones are marked under numbers that others have by then.
const CLAIMED: Duration = Duration::from_millis(1_500);
/// Programs that begin with a number that is claimed, half of them root's.
const VICTIMS: usize = 20;
/// Of so many it is looked at what is shown of them.
const LOOKED_AT: usize = 4;

/// 400 threads: once their zones were shown in whoever began next, and these had their names.
pub(crate) fn claims(context: &Context) -> Result<String> {
    let capture = context.path("hostile-claims.syscap");
    let recorder = context.start(&capture, &[])?;
    let daemon = DAEMON.to_string();
    let honest = load(context, &["as", &daemon, "numbered", "/dev/null", HONEST_SECONDS])?;
    let honest_pid = honest.id();

    let mut hostile = Command::new(&context.load);
    let arguments = ["as", &NOBODY.to_string(), "hostile-claims", &honest_pid.to_string()];
    let mut hostile = Running::start(hostile.args(arguments))?;
    let claimed: Value = serde_json::from_str(&hostile.line()?)?;
    let claimed = number(&claimed, "first")? as u32..=number(&claimed, "last")? as u32;
    std::thread::sleep(HEARD);
    let mut sleepers = Sleepers::default();
    let begun = Instant::now();
    while sleepers.in_range(claimed.clone()).count() < VICTIMS {
        let last = sleepers.begin()?;
        ensure!(
            last <= *claimed.end() && begun.elapsed() < Duration::from_secs(5),
            "{last} is the last number, {claimed:?} are claimed: too few were others' by now"
        );
    }
    std::thread::sleep(CLAIMED);
    let victims: Vec<u32> = sleepers.in_range(claimed.clone()).collect();
    drop(sleepers);
    let hostile_pid = hostile.pid();
    drop(hostile);
    let honest = wait(honest)?;
    context.stop(recorder)?;

    let taken = ProcessZones::read(&capture, hostile_pid)?.threads_with_zones();
    let taken: BTreeSet<u32> = victims.into_iter().filter(|tid| taken.contains(tid)).collect();
    ensure!(
        taken.len() >= VICTIMS / 2,
        "the recorder took only {taken:?} of what was claimed: this tries nothing"
    );
    for pid in taken.iter().take(LOOKED_AT) {
        let shown = Shown::of(context, &capture, *pid)?;
        ensure!(
            shown.threads == ["sleep"] && shown.slices.is_empty() && shown.instants.is_empty(),
            "of a `sleep` that has a number that somebody claimed is shown: {shown:?}"
        );
    }
    let made = json_lines(&honest.stdout)?;
    let made = number(made.first().context("the honest program said nothing")?, "numbers")?;
    let (first, last) = ProcessZones::read(&capture, honest_pid)?.numbers_in_a_row()?;
    ensure!(
        first < made / 2 && last == made,
        "of {made} zones of an honest program {first} to {last} are there"
    );
    let shown = Shown::of(context, &capture, honest_pid)?;
    ensure!(
        shown.threads == ["marker"] && !shown.slices.iter().any(|name| name == "claimed"),
        "of the honest program is shown: {shown:?}"
    );
    Ok(format!(
        "nothing of it in {} programs whose numbers it claimed, of {made} zones of an honest one \
         {first} to {last}",
        taken.len()
    ))
}

/// What `report` has of a process.
#[derive(Debug)]
struct Shown {
    threads: Vec<String>,
    slices: Vec<String>,
    instants: Vec<String>,
}

impl Shown {
    fn of(context: &Context, capture: &Path, pid: u32) -> Result<Self> {
        let arguments = ["report", text(capture)?, "--json", "--process", &pid.to_string()];
        let report: Value = serde_json::from_str(&context.succeed(&arguments)?.stdout)?;
        let [threads, slices, instants] = ["threads", "slices", "instants"].map(|table| {
            let rows = report[table]["rows"].as_array().into_iter().flatten();
            rows.filter_map(|row| Some(row["name"].as_str()?.to_owned())).collect()
        });
        Ok(Self { threads, slices, instants })
    }
}

/// Programs that do nothing, root's and another user's in turn.
#[derive(Default)]
struct Sleepers(Vec<Child>);

impl Sleepers {
    /// Starts one; its number.
    fn begin(&mut self) -> Result<u32> {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null());
        if self.0.len() % 2 == 1 {
            command.uid(DAEMON).gid(DAEMON);
        }
        let sleeper = command.spawn().context("cannot start `sleep`")?;
        let pid = sleeper.id();
        self.0.push(sleeper);
        Ok(pid)
    }

    fn in_range(&self, range: RangeInclusive<u32>) -> impl Iterator<Item = u32> {
        self.0.iter().map(Child::id).filter(move |pid| range.contains(pid))
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for sleeper in &mut self.0 {
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
    }
}
