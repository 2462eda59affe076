//! Two recorders at the same time: both have what instrumented programs mark, and one goes on where
//! the other was killed.
//!
//! Compared with what the programs say that they did.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::context::{Context, json_lines, number, signal, statistic, text, wait};
use super::zones::{MarkedEvents, ProcessZones, last_number, load, numbered};

/// What a capture counts of programs whose zones another recorder held when this one came.
const OF_OTHERS: &str = "instrumented_programs_of_other_recorders";

/// A program with few zones and one at a high rate: both recorders have every zone of the one, and
/// of the other what they do not count as lost.
pub(crate) fn both_have_all(context: &Context) -> Result<String> {
    let captures = ["first.syscap", "second.syscap"].map(|name| context.path(name));
    let first = context.start(&captures[0], &[])?;
    let second = context.start(&captures[1], &[])?;
    // Its file is known to both from here on.
    wait(load(context, &["marks", "1", "10"])?)?;
    std::thread::sleep(Duration::from_secs(1));
    let file = context.path("both-numbers");
    let slow = load(context, &["numbered", text(&file)?, "4"])?;
    let zones = context.times(200_000).to_string();
    let fast = load(context, &["marks", "2", &zones])?;
    let pids = [slow.id(), fast.id()];
    let (fast, slow) = (wait(fast)?, wait(slow)?);
    ensure!(fast.status.success() && slow.status.success(), "a load failed: {}", fast.stderr);
    let numbers =
        json_lines(&slow.stdout)?.first().map_or(Ok(0), |line| number(line, "numbers"))?;
    // Programs that are gone are noticed within a second.
    std::thread::sleep(Duration::from_millis(1_500));
    context.stop(second)?;
    context.stop(first)?;
    let (mut of_others, mut told) = (0, Vec::new());
    for capture in &captures {
        let (from, to) = ProcessZones::read(capture, pids[0])?.numbers_in_a_row()?;
        ensure!(
            (from, to) == (1, numbers),
            "{}: the numbers {from} to {to} of 1 to {numbers}",
            capture.display()
        );
        let MarkedEvents { recorded, lost, produced } =
            MarkedEvents::read(capture, pids[1], &fast.stdout)?;
        ensure!(
            recorded + lost == produced,
            "{}: {recorded} recorded + {lost} lost is not {produced} produced",
            capture.display()
        );
        of_others += count_of_others(context, capture)?;
        told.push(format!("{recorded} + {lost} lost"));
    }
    ensure!(of_others >= 2, "{of_others} programs were observed by one of two recorders");
    Ok(format!("both have {numbers} slow zones, and of the fast ones {}", told.join(" and ")))
}

/// A second recorder that comes later has what is of its time, also after the first was killed.
pub(crate) fn second_goes_on(context: &Context) -> Result<String> {
    let captures = ["killed.syscap", "goes-on.syscap"].map(|name| context.path(name));
    let file = context.path("goes-on-numbers");
    let first = context.start(&captures[0], &[])?;
    let program = numbered(context, &file)?;
    let pid = program.id();
    std::thread::sleep(Duration::from_millis(500));
    let begun = last_number(&file)?;
    let second = context.start(&captures[1], &[])?;
    let observed = last_number(&file)?;
    std::thread::sleep(Duration::from_millis(500));
    signal(first.id(), libc::SIGKILL);
    wait(first)?;
    let killed = last_number(&file)?;
    // Nobody would have emptied the ring, which is full by then.
    std::thread::sleep(Duration::from_secs(5));
    let last = last_number(&file)?;
    context.stop(second)?;
    signal(pid, libc::SIGKILL);
    wait(program)?;
    let (from, to) = ProcessZones::read(&captures[1], pid)?.numbers_in_a_row()?;
    ensure!(
        (begun..=observed).contains(&from),
        "the second has numbers from {from} on, and was started after {begun}, before {observed}"
    );
    ensure!(
        to >= last && last > killed,
        "the second has no number after {to}, the first was killed at {killed}, and it was told to \
         stop at {last}"
    );
    ensure!(count_of_others(context, &captures[1])? >= 1, "the second held it from the start");
    Ok(format!("numbers {from} to {to} in a row where the first was killed at {killed}"))
}

fn count_of_others(context: &Context, capture: &Path) -> Result<u64> {
    let info = context.info(capture)?;
    Ok(statistic(&info, OF_OTHERS).unwrap_or(0))
}
