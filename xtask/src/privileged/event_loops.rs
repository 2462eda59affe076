//! Event loops that are away from their wait: what the report says of each time, by the loop's own
//! clock.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::context::{Context, number, text};

const MS: u64 = 1_000_000;
/// What clocks, the way out of the kernel and a wakeup may make of a time.
const SLACK: u64 = 6 * MS;
/// What `report` tells of if nothing else is asked for.
const LIMIT: u64 = 50 * MS;

/// A turn of a loop that took long, as it says itself. Times are nanoseconds.
#[derive(Debug)]
struct Turn {
    kind: String,
    length: u64,
    cpu: u64,
}

pub(crate) fn event_loops(context: &Context) -> Result<String> {
    let capture = context.path("event-loops.syscap");
    let printed = context.record(&capture, &[], &["event-loops"])?;
    let report = context.succeed(&["report", text(&capture)?, "--rows", "1000", "--json"])?;
    let report: Value = serde_json::from_str(&report.stdout)?;
    let loops = &report["event_loops"];
    // Some kernels lose switches and say nothing of it: a turn in which that was is told in part.
    let unreported = number(&report, "untold_gaps")? as usize;
    let mut told = 0;
    for name in ["epoll", "poll", "pool", "spins"] {
        let tid = printed.iter().find(|line| line["loop"] == name);
        let tid = number(tid.with_context(|| format!("the load has no {name}"))?, "tid")?;
        let turns = printed.iter().filter(|line| line["turn"] == name);
        let turns: Vec<Turn> = turns.map(turn).collect::<Result<_>>()?;
        let found = rows(&loops["loops"])?.iter().find(|row| row["tid"] == tid);
        ensure!(found.is_some(), "{name} is not known to be a loop: {loops}");
        let stretches = rows(&loops["stretches"])?.iter().filter(|row| row["tid"] == tid);
        let mut stretches: Vec<&Value> = stretches.collect();
        stretches.sort_by_key(|row| row["at_ns"].as_u64());
        told += compare(context, &turns, &stretches, unreported)
            .with_context(|| format!("{name}: {stretches:?}"))?;
    }
    let other = printed.iter().find(|line| line["loop"] == "none");
    let other = number(other.context("the load has nothing else")?, "tid")?;
    let is_other = rows(&loops["loops"])?.iter().any(|row| row["tid"] == other);
    ensure!(!is_other, "one who computes and waits for a futex is said to be a loop: {loops}");
    Ok(format!("{told} stretches of four loops, none of near misses, a start and who computes"))
}

fn turn(line: &Value) -> Result<Turn> {
    let kind = line["kind"].as_str().context("a turn has a kind")?.to_owned();
    Ok(Turn { kind, length: number(line, "length_ns")?, cpu: number(line, "cpu_ns")? })
}

fn rows(table: &Value) -> Result<&Vec<Value>> {
    table["rows"].as_array().context("a table has rows")
}

/// Each stretch is a turn, in their order, and each turn over the limit a stretch, but for so many.
fn compare(
    context: &Context,
    turns: &[Turn],
    stretches: &[&Value],
    mut untold: usize,
) -> Result<usize> {
    let mut left = turns;
    for row in stretches {
        if row["end"] == "records-missing" || row["may_be_longer"] == true {
            ensure!(untold > 0, "no event is missing: {row}");
            continue;
        }
        let Some(found) = turn_of(left, row, untold)? else {
            // A short turn takes long where nobody gives it a CPU.
            let own = number(row, "length_ns")? - number(row, "waiting_ns")?;
            ensure!(own <= LIMIT, "that was none of these turns: {row}, {left:?}");
            continue;
        };
        check_activity(context, &left[found], row)?;
        untold -= left[..found].iter().filter(|turn| turn.length > LIMIT).count();
        left = &left[found + 1..];
    }
    if let Some(left) = left.iter().filter(|turn| turn.length > LIMIT).nth(untold) {
        bail!("it is not told: {left:?}");
    }
    Ok(stretches.len())
}

/// Which turn a stretch is about: of the next long one and those before it the last, or, where
/// turns are untold, one further on.
fn turn_of(turns: &[Turn], row: &Value, untold: usize) -> Result<Option<usize>> {
    let mut begin = 0;
    for part in turns.split_inclusive(|turn| turn.length > LIMIT).take(untold + 1) {
        for (at, turn) in part.iter().enumerate().rev() {
            if is_about(turn, row)? {
                return Ok(Some(begin + at));
            }
        }
        begin += part.len();
    }
    Ok(None)
}

/// Whether a stretch has the times of a turn. It begins with the wakeup, and the turn where the
/// thread is on a CPU again.
fn is_about(turn: &Turn, row: &Value) -> Result<bool> {
    let (length, waiting) = (number(row, "length_ns")?, number(row, "waiting_ns")?);
    let is_as_long = turn.length <= length + MS && length <= turn.length + waiting + SLACK;
    let on_cpu = number(row, "on_cpu_ns")?;
    Ok(is_as_long && on_cpu.abs_diff(turn.cpu) <= SLACK + turn.cpu / 20)
}

/// What a stretch says that the thread did meanwhile.
fn check_activity(context: &Context, turn: &Turn, row: &Value) -> Result<()> {
    ensure!(row["end"] == "returned" && row["may_be_longer"] == false, "it is known: {row}");
    let named = |text: &Value, part: &str| text.as_str().is_some_and(|text| text.contains(part));
    if turn.kind == "busy" {
        // A machine without a counter of cycles samples less often.
        let samples = number(row, "samples")?;
        let first = &row["functions"][0];
        let is_named = named(&first["function"], "burns_here");
        ensure!(samples < 10 || is_named, "what ran is not named: {row}");
        return Ok(());
    }
    let first = &row["blocked_in"][0];
    let blocked = number(first, "blocked_ns")?;
    let asleep = turn.length - turn.cpu.min(turn.length);
    let waiting = number(row, "waiting_ns")?;
    ensure!(
        blocked.abs_diff(asleep) <= SLACK + waiting,
        "asleep for {asleep} ns, and {blocked} are told: {row}"
    );
    let what = if turn.kind == "asleep" { "sleep" } else { "lock" };
    // Who waits for a futex is known by its functions alone.
    let by_stacks = turn.kind == "asleep" || context.offered.has("unwind_tables");
    ensure!(!by_stacks || first["waits_for"] == what, "it waits for a {what}: {row}");
    Ok(())
}
