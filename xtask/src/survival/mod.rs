//! `cargo xtask survival`: a recorder that is killed, stopped, starved or out of disk at random
//! moments, under load.
//!
//! Each round draws its moment from the seed, so that a failure can be had again; many short runs
//! with different seeds do as well as one long one. After each round the capture opens, or there is
//! none; nothing is left in the kernel; and the instrumented program's semaphore is down.

mod disk;
mod kernel;
mod kill;
mod memory;
mod random;
mod stop;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use self::kernel::Kernel;
use self::random::Random;
pub(crate) use self::workload::Workload;
use crate::privileged::context::{Context, number, signal};
use crate::report::Outcome;

/// A capture without anything in it: its header.
const EMPTY_CAPTURE_BYTES: u64 = syscollect_store::EMPTY_CAPTURE_BYTES;

/// What happens to the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InjectedFailure {
    /// `kill -9`.
    Kill,
    /// SIGSTOP for a while.
    Stop,
    /// Its control group's memory is used up.
    Memory,
    /// The disk is full.
    Disk,
}

/// What to do, and how often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What happens to the recorder.
    blow: InjectedFailure,
    /// How often.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Where the random moments come from [default: the clock].
    #[arg(long)]
    seed: Option<u64>,
    /// End after so many seconds, whatever was done by then.
    #[arg(long, value_name = "SECONDS")]
    within: Option<u64>,
}

/// Runs the rounds and says what was seen.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !crate::privileged::is_root() {
        bail!("this records the whole machine: run it as root");
    }
    let seed = arguments.seed.unwrap_or_else(|| {
        std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64)
    });
    println!("{:?}, {} rounds, --seed {seed}", arguments.blow, arguments.rounds);
    match rounds(&Context::new()?, arguments, seed)? {
        Outcome::Passed(summary) => println!("{summary}"),
        Outcome::Skipped(why) | Outcome::NotOffered(why) => println!("skipped: {why}"),
    }
    Ok(())
}

/// What every round works with.
struct Field<'a> {
    context: &'a Context,
    load: Workload,
    kernel: Kernel,
    random: Random,
    folder: PathBuf,
}

/// What was seen in all rounds together.
#[derive(Debug, Default)]
struct RoundCounts {
    rounds: u32,
    /// Rounds that left no file.
    without_file: u32,
    /// Rounds that left a capture that opens.
    captures: u32,
    /// Events in these.
    events: u64,
    /// Rounds in which the recorder came to its own end first.
    finished: u32,
}

fn rounds(context: &Context, arguments: &Arguments, seed: u64) -> Result<Outcome> {
    let &Arguments { blow, rounds, within, .. } = arguments;
    let end = within.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    if blow == InjectedFailure::Memory
        && let Err(why) = memory::Group::can_be_made()
    {
        return Ok(Outcome::Skipped(format!("no control group can be made: {why:#}")));
    }
    let folder = context.path("survival");
    fs::create_dir(&folder)?;
    let load = Workload::start(context)?;
    let mut field =
        Field { context, load, kernel: Kernel::now()?, random: Random::new(seed), folder };
    let mut counts = RoundCounts::default();
    while counts.rounds < rounds && end.is_none_or(|end| Instant::now() < end) {
        let round = counts.rounds;
        let result = match blow {
            InjectedFailure::Kill => kill::round(&mut field, &mut counts),
            InjectedFailure::Stop => stop::round(&mut field, &mut counts),
            InjectedFailure::Memory => memory::round(&mut field, &mut counts),
            InjectedFailure::Disk => disk::round(&mut field, &mut counts),
        };
        result.with_context(|| format!("round {round} of seed {seed}"))?;
        counts.rounds += 1;
        if counts.rounds.is_multiple_of(100) {
            println!("{}", counts.text());
        }
    }
    Ok(Outcome::Passed(counts.text()))
}

impl RoundCounts {
    fn text(&self) -> String {
        let Self { rounds, without_file, captures, events, finished } = self;
        format!(
            "{rounds} rounds: {without_file} left no file, {captures} a capture that opens \
             ({events} events), {finished} came to their end"
        )
    }
}

impl Field<'_> {
    /// After a recorder that is gone: nothing of it in the kernel, semaphores down, every capture
    /// opens.
    fn check(&mut self, counts: &mut RoundCounts) -> Result<()> {
        self.load.semaphores_are_down()?;
        self.kernel.has_nothing_new()?;
        self.check_files(counts)
    }

    /// Every capture opens; the folder is empty afterwards.
    fn check_files(&self, counts: &mut RoundCounts) -> Result<()> {
        let mut captures = 0;
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.contains(".syscap") {
                captures += 1;
                counts.events += self.opens(&path)?;
            }
            fs::remove_file(&path)?;
        }
        if captures > 0 {
            counts.captures += 1;
        } else {
            counts.without_file += 1;
        }
        Ok(())
    }

    /// How many events a capture has that opens and exports.
    fn opens(&self, capture: &Path) -> Result<u64> {
        let bytes = fs::metadata(capture)?.len();
        ensure!(bytes > EMPTY_CAPTURE_BYTES, "{} holds nothing: {bytes} bytes", capture.display());
        number(&self.context.info(capture)?, "events")
    }

    /// Ends what recorders of this round have launched: it goes on running when they are killed, as
    /// it should.
    fn end_launched(&self) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            if fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder == self.folder) {
                signal(pid, libc::SIGKILL);
            }
        }
    }
}
