//! `cargo xtask cut CAPTURE OUT`: what a test needs of a recording of GPUs, and
//! nothing else of the machine.
//!
//! Kept are some records of tracepoints in a row, as they were recorded, what
//! describes them, the clock, and the names of the threads that they name. No
//! other process is kept, no path, no command line, no name of a host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use syscollect_model::{Lane, LaneKind, RecorderSummary, SessionInfo, Ticks};
use syscollect_records::{ClockRecord, RecordKind, TaskRecord, TracepointRecord};
use syscollect_store::{
    CaptureReader, CaptureWriter, Chunk, ChunkHeader, Definition, KnownProcess,
    TracepointDefinition,
};

/// Readings of the clock that are kept: times need no more.
const MOST_READINGS: usize = 8;

/// What to cut, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A capture that was recorded with --gpu, in a virtual machine.
    capture: PathBuf,
    /// The file to write.
    output: PathBuf,
    /// Records of tracepoints to keep.
    #[arg(long, default_value_t = 100)]
    records: usize,
    /// Records of tracepoints to leave out before these.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Only records of this subsystem (dma_fence); may be repeated. Failures are always kept.
    #[arg(long)]
    only: Vec<String>,
}

/// Reads the capture and writes the part.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { capture, output, records, skip, only } = arguments;
    let reader = CaptureReader::open(capture)?;
    let (part, kept) = cut(&reader, only, *skip, *records)?;
    fs::write(output, &part).with_context(|| format!("cannot write {}", output.display()))?;
    println!("{}: {kept} records in {} bytes", output.display(), part.len());
    Ok(())
}

/// A record of a lane.
struct Record {
    lane: Lane,
    ticks: u64,
    bytes: Vec<u8>,
}

impl Record {
    fn head(&self) -> Option<TracepointRecord> {
        TracepointRecord::from_bytes(&self.bytes)
    }

    fn is_failure(&self) -> bool {
        self.bytes.first() == Some(&(RecordKind::GpuFailure as u8))
    }
}

/// The numbers of some subsystems' tracepoints.
fn tracepoints_of(reader: &CaptureReader, systems: &[String]) -> Result<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    for definition in reader.definitions() {
        if let Definition::Tracepoints(list) = definition? {
            let wanted = list.iter().filter(|tracepoint| systems.contains(&tracepoint.system));
            numbers.extend(wanted.map(|tracepoint| tracepoint.tracepoint));
        }
    }
    Ok(numbers)
}

fn cut(
    reader: &CaptureReader,
    only: &[String],
    skip: usize,
    most: usize,
) -> Result<(Vec<u8>, usize)> {
    let mut records = records(reader, LaneKind::Tracepoint, tracepoint_size)?;
    if !only.is_empty() {
        let numbers = tracepoints_of(reader, only)?;
        records.retain(|record| {
            record.is_failure()
                || record.head().is_some_and(|head| numbers.contains(&head.tracepoint))
        });
    }
    let mut ticks: Vec<u64> = records.iter().map(|record| record.ticks).collect();
    ticks.sort_unstable();
    let window = ticks.get(skip..ticks.len().min(skip + most)).filter(|window| !window.is_empty());
    let window = window.context("the capture has no such records of tracepoints")?;
    let (first, last) = (window[0], window[window.len() - 1]);
    records.retain(|record| (first..=last).contains(&record.ticks));
    let named = Named::of(&records);
    let mut tasks = self::records(reader, LaneKind::Task, |_| Some(TaskRecord::SIZE))?;
    tasks.retain(|record| record.ticks <= last && named.is_of(&record.bytes));
    let readings = thinned(self::records(reader, LaneKind::Clock, |_| Some(ClockRecord::SIZE))?);

    let mut writer = CaptureWriter::create(Vec::new())?;
    let (definitions, summary) = definitions(reader, &named)?;
    definitions.iter().try_for_each(|definition| writer.define(definition))?;
    let kept = records.len();
    write(&mut writer, readings, ClockRecord::SIZE)?;
    write(&mut writer, tasks, TaskRecord::SIZE)?;
    write(&mut writer, records, 0)?;
    writer.define(&Definition::Summary(Box::new(summary)))?;
    Ok((writer.finish()?, kept))
}

fn tracepoint_size(bytes: &[u8]) -> Option<usize> {
    let record = TracepointRecord::from_bytes(bytes)?;
    Some(TracepointRecord::SIZE + usize::from(record.bytes).next_multiple_of(8))
}

/// All records of a kind of lane, in the order in which they were written.
fn records(
    reader: &CaptureReader,
    kind: LaneKind,
    size: impl Fn(&[u8]) -> Option<usize>,
) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for lane in reader.lanes().into_iter().filter(|lane| lane.kind == kind) {
        for entry in reader.chunks(lane) {
            let chunk = reader.read(entry)?;
            let mut rest = chunk.data.as_slice();
            while let Some(bytes) = size(rest).and_then(|size| rest.get(..size)) {
                let stamp = TracepointRecord::from_bytes(bytes)
                    .map(|head| head.stamp)
                    .context("a short record")?;
                let ticks = stamp.ticks_near(chunk.header.first.0);
                records.push(Record { lane, ticks, bytes: bytes.to_vec() });
                rest = &rest[bytes.len()..];
            }
            ensure!(rest.is_empty(), "{lane} ends with bytes that are no record");
        }
    }
    Ok(records)
}

/// The first and the last of them, and some between.
fn thinned(mut records: Vec<Record>) -> Vec<Record> {
    let step = records.len().saturating_sub(1).div_ceil(MOST_READINGS - 1).max(1);
    let last = records.len().saturating_sub(1);
    let mut number = 0..;
    records.retain(|_| {
        number.next().is_some_and(|number: usize| number.is_multiple_of(step) || number == last)
    });
    records
}

/// What the kept records name.
struct Named {
    threads: BTreeSet<u32>,
    processes: BTreeSet<u32>,
    tracepoints: BTreeSet<u32>,
}

impl Named {
    fn of(records: &[Record]) -> Self {
        let heads: Vec<_> = records.iter().filter_map(Record::head).collect();
        // What an interrupt interrupted is not named by anything.
        let threads = heads.iter().filter(|head| head.interrupt == 0);
        Self {
            threads: threads.clone().flat_map(|head| [head.tid, head.tgid]).collect(),
            processes: threads.map(|head| head.tgid).collect(),
            tracepoints: heads.iter().map(|head| head.tracepoint).collect(),
        }
    }

    /// Whether a record of a task is of one of the threads.
    fn is_of(&self, bytes: &[u8]) -> bool {
        TaskRecord::from_bytes(bytes).is_some_and(|task| self.threads.contains(&task.tid))
    }

    fn process(&self, known: KnownProcess) -> Option<KnownProcess> {
        let mut threads = known.threads;
        threads.retain(|thread| self.threads.contains(&thread.tid));
        let KnownProcess { pid, parent_pid, kernel, noted, names_read, states_read, .. } = known;
        let process = KnownProcess {
            pid,
            parent_pid,
            command_line: Vec::new(),
            kernel,
            user: None,
            threads,
            noted,
            names_read,
            states_read,
        };
        self.processes.contains(&pid).then_some(process)
    }

    /// Those of the scheduler tell even by being there that fences of its own say nothing more.
    fn describes(&self, tracepoint: &TracepointDefinition) -> bool {
        tracepoint.system == "gpu_scheduler" || self.tracepoints.contains(&tracepoint.tracepoint)
    }
}

/// What is defined at the beginning, and the summary, which is the end.
fn definitions(
    reader: &CaptureReader,
    named: &Named,
) -> Result<(Vec<Definition>, RecorderSummary)> {
    let (mut session, mut kept, mut summary) =
        (SessionInfo::default(), Vec::new(), RecorderSummary::default());
    for definition in reader.definitions() {
        match definition? {
            Definition::Session(info) => session = *info,
            Definition::Processes(list) => {
                kept.push(Definition::Processes(
                    list.into_iter().filter_map(|known| named.process(known)).collect(),
                ));
            }
            Definition::Tracepoints(list) => kept.push(Definition::Tracepoints(
                list.into_iter().filter(|tracepoint| named.describes(tracepoint)).collect(),
            )),
            Definition::Summary(reported) => {
                let RecorderSummary { stop_reason, duration_ns, .. } = *reported;
                summary =
                    RecorderSummary { stop_reason, duration_ns, ..RecorderSummary::default() };
            }
            _ => {}
        }
    }
    let SessionInfo {
        recorder,
        os,
        kernel_release,
        machine,
        cpus,
        clock_source,
        tick_rate_hz,
        clocks,
        ..
    } = session;
    let about = SessionInfo {
        recorder,
        os,
        kernel_release,
        machine,
        cpus,
        clock_source,
        tick_rate_hz,
        clocks,
        ..Default::default()
    };
    kept.retain(|definition| {
        !matches!(definition, Definition::Processes(list) if list.is_empty())
            && !matches!(definition, Definition::Tracepoints(list) if list.is_empty())
    });
    kept.insert(0, Definition::Session(Box::new(about)));
    Ok((kept, summary))
}

/// Writes the records as one chunk for each lane.
fn write(writer: &mut CaptureWriter<Vec<u8>>, records: Vec<Record>, stride: usize) -> Result<()> {
    let mut lanes: BTreeMap<Lane, Vec<Record>> = BTreeMap::new();
    for record in records {
        lanes.entry(record.lane).or_default().push(record);
    }
    for (lane, records) in lanes {
        let ticks = records.iter().map(|record| Ticks(record.ticks));
        let first = ticks.clone().min().unwrap_or_default();
        let last = ticks.max().unwrap_or_default();
        let data: Vec<u8> =
            records.iter().flat_map(|record| record.bytes.iter().copied()).collect();
        let (count, length) = (records.len() as u32, data.len() as u32);
        let header = ChunkHeader {
            lane,
            sequence: 0,
            first,
            last,
            current_tid: 0,
            stride: stride as u32,
            records_before: 0,
            records: count,
            length,
        };
        writer.write(&Chunk { header, data })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syscollect_tests::tracepoint::FakeTracepoint;
    use syscollect_tests::{FakeMachine, golden};

    use super::*;

    #[test]
    fn a_part_has_the_wanted_records_with_their_threads_and_nothing_of_others() {
        let mut machine = FakeMachine::new(2);
        machine.process(100, 1, "game", &[(100, "game"), (101, "somebody")]);
        machine.process(200, 1, "secret", &[]);
        let seen = FakeTracepoint::new(&mut machine, 1, ("drm", "seen"), &[("number", 8)]);
        let unseen = FakeTracepoint::new(&mut machine, 2, ("drm", "unseen"), &[("number", 8)]);
        let other = FakeTracepoint::new(&mut machine, 3, ("other", "unwanted"), &[("number", 8)]);
        other.fire(&mut machine, (0, 4), 200, &[1.into()]);
        unseen.fire(&mut machine, (0, 5), 200, &[1.into()]);
        for number in 2..5 {
            seen.fire(&mut machine, ((number % 2) as u16, 10 * number), 100, &[number.into()]);
            seen.interrupt(&mut machine, ((number % 2) as u16, 10 * number + 5), 200, &[9.into()]);
        }
        let capture = machine.finish();
        let capture = CaptureReader::from_bytes(capture).unwrap();
        let (part, kept) = cut(&capture, &["drm".to_owned()], 1, 3).unwrap();
        assert_eq!(kept, 3);
        let (text, played) = golden::text(&mut golden::open(part.clone()));
        assert_eq!((played.lost, played.events_by_type["tracepoint"]), (0, 3), "{text}");
        assert!(
            text.contains("number=2") && text.contains("number=3") && !text.contains("number=4"),
            "{text}"
        );
        let part = CaptureReader::from_bytes(part).unwrap();
        let definitions: Vec<_> = part.definitions().collect::<Result<_, _>>().unwrap();
        let definitions = format!("{definitions:?}");
        assert!(definitions.contains("game") && definitions.contains("seen"), "{definitions}");
        for absent in ["secret", "somebody", "unseen", "unwanted"] {
            assert!(!definitions.contains(absent), "{absent} is in the file: {definitions}");
        }
    }

    #[test]
    fn a_capture_without_such_records_is_refused() {
        let capture = FakeMachine::new(1).finish();
        assert!(cut(&CaptureReader::from_bytes(capture).unwrap(), &[], 0, 10).is_err());
    }
}
