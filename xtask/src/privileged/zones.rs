//! Programs that mark what they do: recorded before and after they start, too
//! slowly, and until they are killed.
//!
//! Compared with what the programs say that they did. What they marked is read
//! from the capture's chunks by a second, plain reader.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syscollect_model::LaneKind;
use syscollect_records::{RecordKind, ZoneChunk, ZoneLogChunk};
use syscollect_store::{CaptureReader, Chunk, Definition, LostRecord};
use syscollect_zone_protocol::{ItemKind, ZONE_END, item_words};

use super::context::{Context, ProgramOutput, json_lines, number, signal, text, until, wait};

const MILLION: u64 = 1_000_000;
const THREADS: u64 = 2;

/// A program that runs already when the recording begins, and goes on after it.
pub(crate) fn late(context: &Context) -> Result<String> {
    let (capture, file) = (context.path("late.syscap"), context.path("late-numbers"));
    let program = numbered(context, &file)?;
    let first = last_number(&file)?;
    for round in 0..2 {
        // The second time it has an arena from the first.
        let recorder = context.start(&capture, &["--force"])?;
        std::thread::sleep(Duration::from_millis(500));
        context.stop(recorder)?;
        let zones = ProcessZones::read(&capture, program.id())?;
        let (from, to) = zones.numbers_in_a_row()?;
        ensure!(from > first, "round {round}: number {from} is older than the recording");
        ensure!(
            to > from + context.times(1_000),
            "round {round}: only the numbers {from} to {to} were recorded"
        );
        let open = zones.open("whole")?;
        // The first recording may know of it, too: the kernel takes a recorder's probes out after
        // that has ended, and a program that begins before then is marked already.
        ensure!(
            open || round == 0,
            "round {round}: nothing tells of the zone that was open already"
        );
    }
    signal(program.id(), libc::SIGKILL);
    wait(program)?;
    let output = context.succeed(&["report", text(&capture)?])?;
    ensure!(
        output.stdout.contains("numbered"),
        "the report does not name the zones:\n{}",
        output.stdout
    );
    if let Some(engine) = context.engine() {
        let trace = context.export(&capture)?;
        let query = "select count(*) from slice where name in ('numbered', 'whole')";
        let [slices] = engine.numbers(&trace, [query])?;
        ensure!(slices > 1_000, "Perfetto shows {slices} of the zones");
    }
    Ok("two recordings of one running program, each from its open zone on, no number missing"
        .to_owned())
}

/// A program that is started while the recording goes on: every zone.
pub(crate) fn early(context: &Context) -> Result<String> {
    let capture = context.path("early.syscap");
    let recorder = context.start(&capture, &[])?;
    let honest = Honest::run(context)?;
    context.stop(recorder)?;
    honest.is_whole_in(&capture)
}

/// A program of a file that was never seen before: its zones from when it was found, and how long
/// it ran until then is said; who runs this file next has all of them.
pub(crate) fn first(context: &Context) -> Result<String> {
    let (capture, program) = (context.path("first.syscap"), context.path("never-seen"));
    fs::copy(&context.load, &program)?;
    let recorder = context.start(&capture, &[])?;
    let (found, next) =
        (run_numbered(context, &program, "found")?, run_numbered(context, &program, "next")?);
    let stderr = context.stop(recorder)?.stderr;
    let (since, _) = ProcessZones::read(&capture, found)?.numbers_in_a_row()?;
    let (from, _) = ProcessZones::read(&capture, next)?.numbers_in_a_row()?;
    ensure!(from == 1, "the file was known, and the first zone of process {next} is number {from}");
    let reported = format!("process {found} used {} for ", program.display());
    let Some((_, time)) = stderr.split_once(&reported) else {
        ensure!(
            since == 1,
            "process {found}'s zones begin with number {since}, and nothing says why:\n{stderr}"
        );
        return Ok("every zone of a file that was never seen, and of it again".to_owned());
    };
    let time = time.split_once(" before").map_or(time, |(time, _)| time);
    Ok(format!(
        "a file that was never seen: {} zones in {time} before it was found; again: every zone",
        since - 1
    ))
}

/// Runs a load that numbers its zones for a second; its process.
pub(super) fn run_numbered(context: &Context, program: &Path, name: &str) -> Result<u32> {
    let mut command = Command::new(program);
    command.args(["numbered", text(&context.path(name))?, "1"]).stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the load")?;
    let pid = child.id();
    let output = wait(child)?;
    ensure!(output.status.success(), "the load failed:\n{}", output.stderr);
    Ok(pid)
}

/// The first and the last of a process's numbered zones in a capture, between which none is
/// missing.
pub(super) fn numbers_in(capture: &Path, pid: u32) -> Result<(u64, u64)> {
    ProcessZones::read(capture, pid)?.numbers_in_a_row()
}

/// A program that recorded zones while a recording went on, and has ended.
pub(super) struct Honest {
    pid: u32,
    zones: u64,
    output: ProgramOutput,
}

/// The same, which still runs.
pub(super) struct RunningHonest {
    program: Child,
    zones: u64,
}

impl RunningHonest {
    pub(super) fn start(context: &Context) -> Result<Self> {
        let zones = context.times(5_000);
        Ok(Self { program: load(context, &["marks", "2", &zones.to_string()])?, zones })
    }

    /// Waits until it has ended.
    pub(super) fn end(self) -> Result<Honest> {
        let Self { program, zones } = self;
        let pid = program.id();
        let output = wait(program)?;
        ensure!(output.status.success(), "the load failed:\n{}", output.stderr);
        Ok(Honest { pid, zones, output })
    }
}

impl Honest {
    /// Runs it.
    pub(super) fn run(context: &Context) -> Result<Self> {
        RunningHonest::start(context)?.end()
    }

    /// Fails if one of its zones is missing in a capture.
    pub(super) fn is_whole_in(&self, capture: &Path) -> Result<String> {
        let (expected, recorded) = (self.zones, ProcessZones::read(capture, self.pid)?);
        for line in json_lines(&self.output.stdout)? {
            let tid = number(&line, "tid")? as u32;
            let items = recorded.of(tid);
            let (begun, ended) = (count(&items, is_begin), count(&items, is_end));
            ensure!(
                begun == expected && ended == expected,
                "thread {tid}: {begun} zones began and {ended} ended of {expected}"
            );
        }
        Ok(format!("{} zones on {THREADS} threads, all of them", THREADS * expected))
    }
}

/// A collector that is too slow: what is recorded and what is lost is what was produced.
pub(crate) fn losses(context: &Context) -> Result<String> {
    let capture = context.path("slow.syscap");
    // More than the rings hold, and for longer than the recorder is left alone, which is longer
    // where it is slow.
    let zones = if context.is_emulated() { 4 * MILLION } else { MILLION };
    let count_of_each = zones / THREADS;
    let program = load(context, &["marks", &THREADS.to_string(), &count_of_each.to_string()])?;
    let pid = program.id();
    let recorder = context.command(&["record", "-o", text(&capture)?, "-p", &pid.to_string()]);
    let recorder = { recorder }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Its threads begin when it sees that it is recorded.
    until("the load to see the recorder", || {
        (count_tasks(pid) > 1 || has_ended(pid)).then_some(())
    })?;
    // It stands still for as long as the load needs to fill its rings.
    let (still, going) = if context.is_emulated() { (2_500, 700) } else { (3, 2) };
    // The rings are its own from here on.
    std::thread::sleep(Duration::from_millis(going));
    while !has_ended(pid) {
        for (what, pause) in [(libc::SIGSTOP, still), (libc::SIGCONT, going)] {
            signal(recorder.id(), what);
            std::thread::sleep(Duration::from_millis(pause));
        }
    }
    let output = wait(program)?;
    ensure!(output.status.success(), "the load failed:\n{}", output.stderr);
    let _ = context.stop(recorder)?;
    let MarkedEvents { recorded, lost, produced } =
        MarkedEvents::read(&capture, pid, &output.stdout)?;
    ensure!(lost > 0, "nothing was lost, although the recorder stood still");
    ensure!(
        recorded + lost == produced,
        "{recorded} recorded + {lost} lost is not {produced} produced"
    );
    Ok(format!("{recorded} events of {zones} zones recorded + {lost} lost = produced"))
}

/// Events of a load that marks zones as fast as it can.
pub(super) struct MarkedEvents {
    pub(super) recorded: u64,
    pub(super) lost: u64,
    pub(super) produced: u64,
}

impl MarkedEvents {
    /// Those in a capture, and those that the load has printed.
    pub(super) fn read(capture: &Path, pid: u32, printed: &str) -> Result<Self> {
        let process = ProcessZones::read(capture, pid)?;
        let mut marked = Self { recorded: 0, lost: process.lost, produced: 0 };
        for line in json_lines(printed)? {
            let items = process.of(number(&line, "tid")? as u32);
            marked.recorded += count(&items, is_begin)
                + count(&items, is_end)
                + count(&items, is(ItemKind::ThreadEnd));
            // Its end is an event, too.
            marked.produced += 2 * number(&line, "zones")? + 1;
        }
        Ok(marked)
    }
}

fn has_ended(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

fn count_tasks(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// `kill -9` of the program: everything that it had written is there.
pub(crate) fn killed(context: &Context) -> Result<String> {
    let (capture, file) = (context.path("killed-marks.syscap"), context.path("killed-numbers"));
    let program = numbered(context, &file)?;
    let pid = program.id();
    let recorder = context.start(&capture, &[])?;
    std::thread::sleep(Duration::from_millis(500));
    signal(pid, libc::SIGKILL);
    wait(program)?;
    let last = last_number(&file)?;
    std::thread::sleep(Duration::from_millis(1_500));
    context.stop(recorder)?;
    let (from, to) = ProcessZones::read(&capture, pid)?.numbers_in_a_row()?;
    ensure!(
        to >= last,
        "{to} is the last number recorded, the program had done {last} when it was killed"
    );
    Ok(format!("numbers {from} to {to}, the program was killed at {last}"))
}

/// Starts the load that numbers its zones; returns once it is at work.
pub(super) fn numbered(context: &Context, file: &Path) -> Result<Child> {
    let program = load(context, &["numbered", text(file)?, "60"])?;
    until("the load to begin", || last_number(file).ok())?;
    Ok(program)
}

pub(super) fn load(context: &Context, arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(&context.load);
    let command =
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot start the load")
}

/// The number of the last zone that the load has ended.
pub(super) fn last_number(file: &Path) -> Result<u64> {
    fs::read_to_string(file)?.trim().parse().context("no number in the load's file")
}

/// What one process marked.
pub(super) struct ProcessZones {
    /// The words of its threads, in their order.
    threads: BTreeMap<u32, Vec<u64>>,
    /// The logs of its arenas, by client.
    logs: BTreeMap<u32, Vec<u8>>,
    /// Events of zones that were lost, of all programs.
    lost: u64,
}

impl ProcessZones {
    pub(super) fn read(capture: &Path, pid: u32) -> Result<Self> {
        let reader = CaptureReader::open(capture)?;
        let mut process = Self { threads: BTreeMap::new(), logs: BTreeMap::new(), lost: 0 };
        let mut clients = BTreeSet::new();
        for definition in reader.definitions() {
            match definition? {
                Definition::Clients(list) => {
                    let ours = list.into_iter().filter(|client| client.pid == pid);
                    clients.extend(ours.map(|client| client.client));
                }
                Definition::Losses(losses) => {
                    // Rings are counted, too, but what lay in one that was not taken is not known.
                    let of_events = losses.iter().filter(|loss| {
                        loss.origin == LaneKind::Zone.into()
                            && loss.record != LostRecord::Kind(RecordKind::Ring)
                    });
                    process.lost = of_events.map(|loss| loss.count).sum();
                }
                _ => {}
            }
        }
        for lane in reader.lanes() {
            for entry in reader.chunks(lane) {
                let chunk = reader.read(entry)?;
                match lane.kind {
                    LaneKind::Zone => process.zones(&chunk, &clients),
                    LaneKind::ZoneLog => process.log(&chunk, &clients),
                    _ => {}
                }
            }
        }
        ensure!(!clients.is_empty(), "nothing of process {pid} was recorded");
        Ok(process)
    }

    fn zones(&mut self, chunk: &Chunk, clients: &BTreeSet<u32>) {
        let Some(prefix) =
            ZoneChunk::from_bytes(&chunk.data).filter(|prefix| clients.contains(&prefix.client))
        else {
            return;
        };
        let words = chunk.data[ZoneChunk::SIZE..].chunks_exact(8).map(|bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        self.threads.entry(prefix.tid).or_default().extend(words);
    }

    fn log(&mut self, chunk: &Chunk, clients: &BTreeSet<u32>) {
        let Some(prefix) =
            ZoneLogChunk::from_bytes(&chunk.data).filter(|prefix| clients.contains(&prefix.client))
        else {
            return;
        };
        let log = self.logs.entry(prefix.client).or_default();
        log.resize(prefix.position as usize, 0);
        log.extend_from_slice(&chunk.data[ZoneLogChunk::SIZE..]);
    }

    /// The threads that marked something, by the numbers that the program says they have.
    pub(super) fn threads_with_zones(&self) -> BTreeSet<u32> {
        self.threads.keys().copied().collect()
    }

    /// The items of a thread.
    fn of(&self, tid: u32) -> Vec<&[u64]> {
        let mut rest = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let mut items = Vec::new();
        while let Some((item, more)) =
            rest.first().and_then(|first| rest.split_at_checked(item_words(*first)?))
        {
            items.push(item);
            rest = more;
        }
        items
    }

    /// Events of zones that are counted as lost, of all programs.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// The numbers that zones have as values.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let items = self.threads.keys().flat_map(|tid| self.of(*tid));
        let values = items.filter(|item| is(ItemKind::Value)(item));
        values.filter_map(|item| item.get(1).copied()).collect()
    }

    /// The first and the last of the numbers that zones have as values; fails if one is missing.
    pub(super) fn numbers_in_a_row(&self) -> Result<(u64, u64)> {
        let numbers = self.numbers();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1) {
            bail!("the number {} is followed by {}", pair[0], pair[1]);
        }
        numbers
            .first()
            .copied()
            .zip(numbers.last().copied())
            .context("no zone with a number was recorded")
    }

    /// Whether a thread reported that it was in a zone of that name when it was first observed.
    fn open(&self, name: &str) -> Result<bool> {
        let items = self.threads.keys().flat_map(|tid| self.of(*tid));
        let locations =
            items.filter(|item| is(ItemKind::OpenZone)(item)).filter_map(|item| item.get(1));
        let log = self.logs.values().next().context("no definitions were recorded")?;
        // A location: header, line and color, 8 bytes each, then its name with its length.
        let mut names = locations.filter_map(|location| {
            log.get((*location as u32 as usize).checked_sub(1)? * 8 + 18..)?.get(..name.len())
        });
        Ok(names.any(|found| found == name.as_bytes()))
    }
}

fn count(items: &[&[u64]], wanted: impl Fn(&[u64]) -> bool) -> u64 {
    items.iter().filter(|item| wanted(item)).count() as u64
}

fn is(kind: ItemKind) -> impl Fn(&[u64]) -> bool {
    move |item| item[0] as u8 == kind as u8
}

fn is_begin(item: &[u64]) -> bool {
    is(ItemKind::ZoneBegin)(item)
}

fn is_end(item: &[u64]) -> bool {
    item[0] as u8 >= ZONE_END
}
