//! A process that changes its own mappings as fast as it can, beside programs whose chains are
//! known: what others' stacks look like.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::programs::beside_storm;
use super::stacks::{ProgramStacks, RecordedStacks, StackKind};
use super::{SECONDS, TABLES_MADE_NS, start};
use crate::privileged::context::{Context, json_lines, number, wait};
use crate::report::Outcome;

/// How often at least mappings are changed; it would be some ten thousand a second.
const CHANGES: u64 = 50_000;
/// Of 1,000 stacks of the other programs so many are whole, once tables were made.
const WHOLE: u64 = 990;

/// Stacks of a program that was there before the storm, and of one that begins in it, are whole.
pub(crate) fn storm(context: &Context) -> Result<Outcome> {
    let folder = context.path("storm");
    let [program, storm] = beside_storm();
    let (program_folder, storm_folder) = (folder.join("program"), folder.join("storm"));
    for (maker, folder) in [(&program, &program_folder), (&storm, &storm_folder)] {
        if let Some(missing) = maker.make(folder)? {
            return Ok(Outcome::Skipped(missing));
        }
    }
    let capture = context.path("storm.syscap");
    let options = ["--freq", "999", "--stacks", "samples,off-cpu,wakers", "--unwind", "tables"];
    let recorder = context.start(&capture, &options)?;
    let before = start(&program, &program_folder, SECONDS)?;
    std::thread::sleep(Duration::from_secs(1));
    let storm = start(&storm, &storm_folder, SECONDS)?;
    std::thread::sleep(Duration::from_secs(1));
    let during = start(&program, &program_folder, SECONDS - 2)?;
    let both = [("begun before", before), ("begun in it", during)];
    let stacks =
        both.iter().map(|(_, child)| ProgramStacks::new(child.id(), program.known.clone()));
    let stacks = stacks.collect();
    let names: Vec<&str> = both.iter().map(|(name, _)| *name).collect();
    for child in both.into_iter().map(|(_, child)| child).chain([storm]) {
        let ended = wait(child)?;
        ensure!(ended.status.success(), "a program ended with {}", ended.status);
        for line in json_lines(&ended.stdout)? {
            let changed = number(&line, "changed")?;
            ensure!(changed >= CHANGES, "only {changed} mappings were changed: that is no storm");
        }
    }
    context.stop(recorder)?;
    let recorded = RecordedStacks::read(&capture, TABLES_MADE_NS, stacks)?;
    let mut lines = Vec::new();
    for (name, stacks) in names.iter().zip(&recorded.programs) {
        stacks.ensure_none_wrong().with_context(|| (*name).to_owned())?;
        for kind in [StackKind::Sample, StackKind::OffCpu, StackKind::Waker] {
            let counts = stacks.of(kind);
            ensure!(counts.all() >= 200, "{name}: too few {kind}: {counts}");
            ensure!(counts.are_whole(WHOLE), "{name}: {kind} that are not whole: {counts}");
            lines.push(format!("  {name}, {kind}: {counts}"));
        }
    }
    Ok(Outcome::Passed(format!("\n{}", lines.join("\n"))))
}
