//! A recorder whose control group has no more threads to give: whoever runs programs in the same
//! group may have taken all. What was recorded is there, whole, and can be exported.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, ProgramOutput, finish, number, text};
use super::control_group::ControlGroup;
use crate::report::Outcome;

/// What a load does while it is recorded.
const ROUNDS: &str = "20000";
/// Files of each format that has one, and `info` and `report`, are made without a thread, too.
const FORMATS: [&str; 4] = ["pftrace", "json.gz", "tracy", "folded"];

/// The limit comes while it records; then one export after the other is made below it.
pub(crate) fn no_threads(context: &Context) -> Result<Outcome> {
    let group = match ThreadGroup::make() {
        Ok(group) => group,
        Err(reason) => {
            return Ok(Outcome::NotOffered(format!("no control group can be made: {reason}")));
        }
    };
    let capture = context.path("no-threads.syscap");
    let events = group.record(context, "no-threads.syscap", &[])?;
    let exported = context.path("no-threads-exported.pftrace");
    group.record(context, "no-threads-exported.pftrace", &["--keep-capture"])?;
    shows_switches(context, &exported)?;

    group.limit("1")?;
    for format in FORMATS {
        let output = context.path(&format!("no-threads-later.{format}"));
        group.succeed(context, &["export", text(&capture)?, "-o", text(&output)?])?;
        ensure!(fs::metadata(&output)?.len() > 0, "{} is empty", output.display());
        if format == "pftrace" {
            shows_switches(context, &output)?;
        }
    }
    for command in ["info", "report"] {
        group.succeed(context, &[command, text(&capture)?])?;
    }
    // None may begin: it says why.
    let none = context.path("no-threads-none.syscap");
    let said = group.run(context, &["record", "-d", "1", "-o", text(&none)?])?;
    ensure!(
        said.status.code() == Some(1) && said.stderr.contains("thread"),
        "a recorder that may begin no thread ended with {}:\n{}",
        said.status,
        said.stderr
    );
    Ok(Outcome::Passed(format!(
        "{events} events of a recording that ended without a thread to have, and exports of it as \
         {}",
        FORMATS.join(", ")
    )))
}

/// The judge of Perfetto's files finds switches in that one, and no error.
fn shows_switches(context: &Context, trace: &Path) -> Result<()> {
    let Some(engine) = context.engine() else { return Ok(()) };
    let errors = engine.errors(trace)?;
    ensure!(errors.is_empty(), "trace_processor finds errors: {errors:?}");
    let [switches] = engine.numbers(trace, ["select count(*) from sched"])?;
    ensure!(switches > 0, "there are no switches in {}", trace.display());
    Ok(())
}

/// A control group with a limit of threads and processes.
struct ThreadGroup(ControlGroup);

impl ThreadGroup {
    const LIMIT: [&str; 2] = ["pids.max"; 2];

    fn make() -> Result<Self, String> {
        ControlGroup::make("syscollect-no-threads", "pids", Self::LIMIT).map(Self)
    }

    /// How many there may be; those that are beyond it go on.
    fn limit(&self, most: &str) -> Result<()> {
        let file = self.0.file(Self::LIMIT);
        fs::write(&file, most).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Records a load; the group has no more threads from when it is at work. The events of the
    /// capture.
    fn record(&self, context: &Context, name: &str, options: &[&str]) -> Result<u64> {
        let output = context.path(name);
        self.limit("max")?;
        let arguments = [&["record", "-o", text(&output)?], options].concat();
        let recorder = context.start_command(&mut self.0.command(context, &arguments)?, &output)?;
        let load = finish(Command::new(&context.load).args(["ping-pong", ROUNDS]))?;
        ensure!(load.status.success(), "the load failed:\n{}", load.stderr);
        self.limit("1")?;
        std::thread::sleep(Duration::from_millis(200));
        let said = context.stop(recorder)?.stderr;
        ensure!(!said.contains("panicked"), "it panicked:\n{said}");
        self.limit("max")?;
        let events = number(&context.info(&output.with_extension("syscap"))?, "events")?;
        let least = 2 * ROUNDS.parse::<u64>()?;
        ensure!(events >= least, "there are only {events} events of at least {least}");
        Ok(events)
    }

    /// Runs `syscollect ARGUMENTS` within the group, whatever its exit status.
    fn run(&self, context: &Context, arguments: &[&str]) -> Result<ProgramOutput> {
        finish(&mut self.0.command(context, arguments)?)
    }

    /// The same, which has to succeed.
    fn succeed(&self, context: &Context, arguments: &[&str]) -> Result<()> {
        let said = self.run(context, arguments)?;
        ensure!(
            said.status.success() && !said.stderr.contains("panicked"),
            "without threads `syscollect {}` ended with {}:\n{}",
            arguments.join(" "),
            said.status,
            said.stderr
        );
        Ok(())
    }
}
