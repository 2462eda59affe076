//! What an interrupt did is told from what the thread did that it interrupted.
//!
//! Compared with what is known of who does what: vgem's fences are made and
//! signaled by a program's system calls; those of the test module are made by
//! threads and signaled by timers, but for the jobs that the scheduler gives
//! up, which a thread ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_model::LaneKind;
use syscollect_records::{RecordKind, TracepointRecord};
use syscollect_store::{
    CaptureReader, Chunk, Definition, TracepointDefinition, TracepointFieldKind,
};

use super::context::{Context, finish, module_parameter, text};
use crate::report::Outcome;

const MODULE: &str = "syscollect_scheduler";
const JOBS: u64 = 30;
const FENCES: u64 = 100;

/// Records by the fence's driver, the event, and whether an interrupt is said to have done it.
type Counts = BTreeMap<(String, String, bool), u64>;

/// Both loads in one recording.
pub(crate) fn interrupts(context: &Context) -> Result<Outcome> {
    let module = context
        .syscollect
        .parent()
        .context("a program without a folder")?
        .join(format!("{MODULE}.ko"));
    if !module.exists() {
        let why = fs::read_to_string(module.with_extension("why"));
        return Ok(Outcome::NotOffered(
            why.unwrap_or_else(|_| "`cargo xtask vm` builds a module for it".to_owned()),
        ));
    }
    // Another test may have left it.
    let _ = finish(Command::new("/sbin/rmmod").arg(MODULE));
    let capture = context.path("interrupts.syscap");
    let workloads = format!(
        "'{}' fences {FENCES} && /sbin/insmod '{}' jobs={JOBS}",
        text(&context.load)?,
        text(&module)?
    );
    context.succeed(&[
        "record",
        "-o",
        text(&capture)?,
        "--gpu",
        "--",
        "/bin/sh",
        "-c",
        &workloads,
    ])?;
    let given_up = module_parameter(MODULE, "timeouts");
    finish(Command::new("/sbin/rmmod").arg(MODULE))?;

    judge(&counted(&capture)?, given_up?)
}

/// `given_up` is how many fences a thread signaled in a timer's place.
fn judge(counts: &Counts, given_up: u64) -> Result<Outcome> {
    for event in ["dma_fence_init", "dma_fence_signaled"] {
        ensure!(
            by_both(counts, "vgem", event) == (FENCES, 0),
            "vgem's {event}, by threads and by interrupts: {counts:?}"
        );
    }
    let (made, by_interrupts) = by_both(counts, "syscollect_test", "dma_fence_init");
    ensure!(
        made > JOBS && by_interrupts == 0,
        "{made} fences made by threads, {by_interrupts} by interrupts: {counts:?}"
    );
    let (threads, timers) = by_both(counts, "syscollect_test", "dma_fence_signaled");
    ensure!(
        threads == given_up,
        "{threads} fences signaled by threads, not {given_up}: {counts:?}"
    );
    // An interrupt that comes while a program of the recorder runs is left out by the kernel.
    let by_timers = made - given_up;
    let enough = by_timers * 3 / 4..=by_timers;
    ensure!(
        enough.contains(&timers),
        "{timers} fences signaled by timers, not {by_timers}: {counts:?}"
    );
    let of_threads = 2 * FENCES + made + given_up;
    Ok(Outcome::Passed(format!(
        "{timers} of {by_timers} signals of timers are recorded, as interrupts'; {of_threads} of \
         {of_threads} events of threads as theirs"
    )))
}

fn counted(capture: &Path) -> Result<Counts> {
    let reader = CaptureReader::open(capture)?;
    let (mut definitions, mut counts) = (BTreeMap::new(), Counts::new());
    for definition in reader.definitions() {
        if let Definition::Tracepoints(tracepoints) = definition? {
            definitions.extend(
                tracepoints.into_iter().map(|tracepoint| (tracepoint.tracepoint, tracepoint)),
            );
        }
    }
    for lane in reader.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Tracepoint) {
        for entry in reader.chunks(lane) {
            count(&reader.read(entry)?, &definitions, &mut counts)?;
        }
    }
    Ok(counts)
}

fn count(
    chunk: &Chunk,
    definitions: &BTreeMap<u32, TracepointDefinition>,
    counts: &mut Counts,
) -> Result<()> {
    let mut rest = &chunk.data[..];
    while let Some(head) = TracepointRecord::from_bytes(rest) {
        let end = (TracepointRecord::SIZE + usize::from(head.bytes)).next_multiple_of(8);
        let (record, more) = rest.split_at_checked(end).context("a record is cut")?;
        rest = more;
        // Others say their size at the same place.
        if record[0] != RecordKind::Tracepoint as u8 {
            continue;
        }
        let definition =
            definitions.get(&head.tracepoint).context("a record of an unknown tracepoint")?;
        if let Some(driver) = driver(definition, &record[TracepointRecord::SIZE..]) {
            *counts.entry((driver, definition.name.clone(), head.interrupt != 0)).or_default() += 1;
        }
    }
    Ok(())
}

/// The driver that a fence's event names.
fn driver(definition: &TracepointDefinition, bytes: &[u8]) -> Option<String> {
    let field = definition.fields.iter().find(|field| field.name == "driver")?;
    let place = bytes
        .get(usize::from(field.offset)..)?
        .first_chunk()
        .map(|place| u32::from_le_bytes(*place))?;
    let start = match field.kind {
        TracepointFieldKind::TextElsewhere => (place & 0xffff) as usize,
        TracepointFieldKind::TextRelative => {
            usize::from(field.offset) + 4 + (place & 0xffff) as usize
        }
        _ => return None,
    };
    let name = bytes.get(start..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// How many of a driver's events were threads' and how many interrupts'.
fn by_both(counts: &Counts, driver: &str, event: &str) -> (u64, u64) {
    let [by_threads, by_interrupts] = [false, true].map(|interrupt| {
        counts.get(&(driver.to_owned(), event.to_owned(), interrupt)).copied().unwrap_or(0)
    });
    (by_threads, by_interrupts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(driver: &str, event: &str, interrupt: bool) -> (String, String, bool) {
        (driver.to_owned(), format!("dma_fence_{event}"), interrupt)
    }

    fn counts(signals_of_timers: (u64, u64)) -> Counts {
        let (as_threads, as_interrupts) = signals_of_timers;
        Counts::from([
            (key("vgem", "init", false), FENCES),
            (key("vgem", "signaled", false), FENCES),
            (key("syscollect_test", "init", false), 37),
            (key("syscollect_test", "signaled", false), 1 + as_threads),
            (key("syscollect_test", "signaled", true), as_interrupts),
        ])
    }

    #[test]
    fn an_interrupt_that_is_told_of_a_thread_is_a_failure_and_so_are_many_that_are_missing() {
        assert!(judge(&counts((0, 36)), 1).is_ok());
        assert!(judge(&counts((1, 35)), 1).is_err());
        assert!(judge(&counts((36, 0)), 1).is_err());
        assert!(judge(&counts((0, 20)), 1).is_err());
    }
}
