//! A recorder in a control group with little memory: it stays beneath the limit and says what it
//! took instead, or says what it needs. Compared with the group's own account.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, ProgramOutput, number, text, wait};
use super::control_group::ControlGroup;
use crate::report::Outcome;

const ENOUGH: u64 = 64 << 20;
const TOO_LITTLE: u64 = 12 << 20;
/// Between them a recording starts or says that it needs more, with stacks and without: megabytes
/// and stacks. From 27.5 to 58 it once began, and was killed.
const BETWEEN: [(u64, &str); 6] = [
    (60, "samples,offcpu"),
    (56, "none"),
    (54, "samples,offcpu"),
    (48, "samples,offcpu"),
    (32, "samples,offcpu"),
    (24, "none"),
];
const SECONDS: &str = "4";

/// With 64 MB, while two processes switch as fast as they can; and with less than any recording
/// needs.
pub(crate) fn low_memory(context: &Context) -> Result<Outcome> {
    let group = match MemoryGroup::make() {
        Ok(group) => group,
        Err(reason) => {
            return Ok(Outcome::NotOffered(format!("no control group can be made: {reason}")));
        }
    };
    let capture = context.path("low-memory.pftrace");
    let kept = context.path("low-memory.syscap");
    group.limit(ENOUGH)?;
    let load = [text(&context.load)?, "ping-pong", "150000"];
    let options = ["--stacks", "offcpu,wakers", "--force", "--keep-capture"];
    let output = group.record(context, &capture, &options, &load)?;
    ensure!(
        output.status.success(),
        "within 64 MB it ended with {}:\n{}",
        output.status,
        output.stderr
    );
    ensure!(group.killed() == 0, "the kernel killed something in the group:\n{}", output.stderr);
    let info = context.info(&kept)?;
    ensure!(number(&info, "events")? > 0, "nothing was recorded");
    let notes = info["recording"]["notes"].to_string();
    ensure!(
        notes.contains("the trace buffer has"),
        "it did not say that it took a smaller buffer: {notes}"
    );
    let peak = group.peak();

    let mut refused = 0;
    for (megabytes, stacks) in BETWEEN {
        group.limit(megabytes << 20)?;
        let options = ["--force", "--stacks", stacks];
        let load = [text(&context.load)?, "use-cpu", "1"];
        let output = group.record(context, &capture, &options, &load)?;
        let refuses = output.stderr.contains("a recording needs");
        ensure!(
            group.killed() == 0 && (output.status.success() || refuses),
            "within {megabytes} MB it ended with {}:\n{}",
            output.status,
            output.stderr
        );
        refused += u32::from(refuses);
    }

    group.limit(TOO_LITTLE)?;
    let output = group.record(context, &capture, &options, &load)?;
    let killed = group.killed();
    ensure!(killed == 0, "within {TOO_LITTLE} bytes the kernel killed it instead of it saying so");
    ensure!(
        output.status.code() == Some(1),
        "with too little memory it ended with {}:\n{}",
        output.status,
        output.stderr
    );
    ensure!(
        output.stderr.contains("a recording needs"),
        "it did not say what it needs:\n{}",
        output.stderr
    );
    Ok(Outcome::Passed(format!(
        "{:.1} of {:.1} MB used at most, names and export included; with less {refused} of {} \
         refused",
        mb(peak),
        mb(ENOUGH),
        BETWEEN.len()
    )))
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A control group with a limit of memory.
struct MemoryGroup(ControlGroup);

impl MemoryGroup {
    const LIMIT: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

    fn make() -> Result<Self, String> {
        ControlGroup::make("syscollect-low-memory", "memory", Self::LIMIT).map(Self)
    }

    fn limit(&self, bytes: u64) -> Result<()> {
        let file = self.0.file(Self::LIMIT);
        fs::write(&file, bytes.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        // No way out into swap.
        let _ = fs::write(self.0.file(["memory.swap.max"; 2]), "0");
        let _ = fs::write(self.0.file(["memory.memsw.limit_in_bytes"; 2]), bytes.to_string());
        Ok(())
    }

    /// `syscollect record` within the group, with a load beside it.
    fn record(
        &self,
        context: &Context,
        output: &Path,
        options: &[&str],
        load: &[&str],
    ) -> Result<ProgramOutput> {
        let arguments = [&["record", "-d", SECONDS, "-o", text(output)?], options].concat();
        let mut command = self.0.command(context, &arguments)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let recorder = command.spawn()?;
        std::thread::sleep(Duration::from_secs(1));
        let mut beside = Command::new(load[0]).args(&load[1..]).stdout(Stdio::null()).spawn()?;
        let ended = wait(recorder);
        let _ = beside.kill();
        let _ = beside.wait();
        ended
    }

    /// How often the kernel killed something here.
    fn killed(&self) -> u64 {
        let events = fs::read_to_string(self.0.file(["memory.events", "memory.oom_control"]))
            .unwrap_or_default();
        let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// The most bytes that were in use, pages of files included.
    fn peak(&self) -> u64 {
        let file = self.0.file(["memory.peak", "memory.max_usage_in_bytes"]);
        fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}
