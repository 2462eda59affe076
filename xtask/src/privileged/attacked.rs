//! A recorder while it is attacked: what it uses of the machine, and how much of that is too much.
//!
//! All programs of the recorder count, the one that holds its probes, too. Most of it is compared
//! with what the same recorder used a moment before the attack. CPU time, memory, mappings and
//! bytes hardly depend on what else the machine does; time on a clock does, and has room for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::context::{Context, ProgramOutput};

/// How long a recorder is watched before the attack.
const AT_REST: Duration = Duration::from_secs(2);
/// How often memory and mappings are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
pub(super) const MIB: u64 = 1 << 20;
/// Threads that may run in the real-time class: who empties the kernel's lanes, and for a part of
/// each 100 ms who writes what was in them, who takes over what programs announce, who notes what
/// they map, and who makes tables of it.
const REAL_TIME: &[&str] =
    &["collector", "writer", "zones", "announcements", "metadata", "unwind-tables"];

/// What an attack may cost a recorder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of one CPU, more than at rest, from then on until it is stopped.
    pub(super) cpu: f64,
    /// CPU time from when it is stopped until it has ended.
    pub(super) cpu_to_stop: Duration,
    /// Resident memory, bytes: the most, more than at rest.
    pub(super) memory: u64,
    /// The most, more than at rest.
    pub(super) mappings: usize,
    /// Bytes of the capture.
    pub(super) capture: u64,
    /// From the signal to the end, on a clock.
    pub(super) to_stop: Duration,
}

impl Bounds {
    /// Of a few seconds of most attacks. The smallest defect of those that they were written for
    /// cost 400 MiB, a tenth of the mappings that a process may have, 79 % of a CPU for as long as
    /// it went on, 331 MB of capture, or did not end within a minute.
    pub(super) const USUAL: Self = Self {
        cpu: 0.35,
        cpu_to_stop: Duration::from_secs(15),
        memory: 200 * MIB,
        mappings: 1_000,
        capture: 100 * MIB,
        to_stop: Duration::from_secs(40),
    };
}

/// What a recorder used while it was watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    /// Of one CPU, all its threads together.
    pub(super) cpu: f64,
    /// The same by the names of threads.
    by_thread: BTreeMap<String, f64>,
}

impl Usage {
    /// What threads of that name used, of a CPU.
    pub(super) fn of_thread(&self, name: &str) -> f64 {
        self.by_thread.get(name).copied().unwrap_or(0.0)
    }

    /// What all threads but those of these names used, of a CPU, of those that have not ended.
    pub(super) fn of_all_but(&self, names: &[&str]) -> f64 {
        let others = self.by_thread.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        others.map(|(_, cpu)| cpu).sum()
    }

    /// The threads that used more than a thousandth of a CPU, in words.
    pub(super) fn threads(&self) -> String {
        let busy = self.by_thread.iter().filter(|(_, cpu)| **cpu > 0.001);
        let words = busy.map(|(name, cpu)| format!("{name} {:.1}", cpu * 100.0));
        words.collect::<Vec<String>>().join(", ")
    }
}

/// The most that was seen of what comes and goes.
#[derive(Clone, Copy, Debug, Default)]
struct PeakUsage {
    mappings: usize,
    /// Resident memory, bytes.
    memory: u64,
    /// CPU time so far.
    cpu: Duration,
}

/// A recorder that runs and is watched.
pub(super) struct AttackedRecorder {
    process: Child,
    programs: Programs,
    capture: PathBuf,
    watch: Watch,
    at_rest: (Usage, PeakUsage),
    since: CpuReading,
}

impl AttackedRecorder {
    /// Starts one that is attacked already: what it uses is compared with nothing.
    pub(super) fn start_attacked(
        context: &Context,
        capture: &Path,
        options: &[&str],
    ) -> Result<Self> {
        let process = context.start(capture, options)?;
        let programs = Programs::of(process.id())?;
        let (watch, since) = (Watch::start(programs.clone()), programs.now()?);
        let (capture, at_rest) = (capture.to_path_buf(), (Usage::default(), PeakUsage::default()));
        Ok(Self { process, programs, capture, watch, at_rest, since })
    }

    /// Starts one, and watches it for a moment; from then on it is attacked.
    pub(super) fn start(context: &Context, capture: &Path, options: &[&str]) -> Result<Self> {
        let mut recorder = Self::start_attacked(context, capture, options)?;
        let usage = recorder.during(AT_REST)?;
        recorder.at_rest = (usage, recorder.watch.most());
        recorder.since = recorder.programs.now()?;
        Ok(recorder)
    }

    /// What it used before the attack.
    pub(super) fn at_rest(&self) -> &Usage {
        &self.at_rest.0
    }

    /// Watches it for so long.
    pub(super) fn during(&self, long: Duration) -> Result<Usage> {
        self.programs.during(long)
    }

    /// Does something while the recorder gets no CPU, as on a machine that has more to do.
    pub(super) fn while_stopped<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let signal = |number| {
            // SAFETY: plain numbers; the process is this one's child and has not been waited for.
            let failed = unsafe { libc::kill(self.process.id() as libc::pid_t, number) };
            ensure!(failed == 0, "no signal {number} to the recorder");
            Ok(())
        };
        signal(libc::SIGSTOP)?;
        let done = work();
        signal(libc::SIGCONT)?;
        done
    }

    /// Stops it.
    pub(super) fn stop(self, context: &Context) -> Result<StoppedRecorder> {
        let Self { process, programs, capture, watch, at_rest: (rest, most_at_rest), since } = self;
        let real_time = real_time_threads(process.id())?;
        let now = programs.now()?;
        let (attacked, begun) = (since.until(&now), Instant::now());
        let output = context.stop(process)?;
        let to_stop = begun.elapsed();
        let most = watch.most();
        Ok(StoppedRecorder {
            rest,
            most_at_rest,
            attacked,
            most,
            cpu_to_stop: most.cpu.saturating_sub(now.cpu),
            to_stop,
            capture_bytes: fs::metadata(&capture)?.len(),
            real_time,
            output,
        })
    }
}

/// A recorder that was attacked, and what that has cost.
pub(super) struct StoppedRecorder {
    rest: Usage,
    most_at_rest: PeakUsage,
    /// From the attack's beginning until it was stopped.
    pub(super) attacked: Usage,
    most: PeakUsage,
    cpu_to_stop: Duration,
    pub(super) to_stop: Duration,
    capture_bytes: u64,
    real_time: BTreeSet<String>,
    pub(super) output: ProgramOutput,
}

impl StoppedRecorder {
    /// Fails if the attack has cost more than that; what it has cost, in words.
    pub(super) fn within(&self, bounds: &Bounds) -> Result<String> {
        let words = self.words();
        let cpu = self.attacked.cpu - self.rest.cpu;
        let memory = self.most.memory.saturating_sub(self.most_at_rest.memory);
        let mappings = self.most.mappings.saturating_sub(self.most_at_rest.mappings);
        let within = [
            ("CPU", cpu <= bounds.cpu),
            ("CPU time to stop", self.cpu_to_stop <= bounds.cpu_to_stop),
            ("memory", memory <= bounds.memory),
            ("mappings", mappings <= bounds.mappings),
            ("bytes of the capture", self.capture_bytes <= bounds.capture),
            ("time to stop", self.to_stop <= bounds.to_stop),
        ];
        let beyond: Vec<&str> =
            within.iter().filter(|(_, within)| !within).map(|(what, _)| *what).collect();
        ensure!(
            beyond.is_empty(),
            "too much: {}: {words}; threads: {}; the bounds are {bounds:?}",
            beyond.join(", "),
            self.attacked.threads()
        );
        let unexpected: Vec<&String> =
            self.real_time.iter().filter(|name| !REAL_TIME.contains(&name.as_str())).collect();
        ensure!(unexpected.is_empty(), "threads in the real-time class: {unexpected:?}");
        Ok(words)
    }

    fn words(&self) -> String {
        format!(
            "CPU {:.1} % -> {:.1} %, memory {} -> {} MiB, mappings {} -> {}, capture {:.1} MiB, \
             stopped in {:.1} s and {:.1} s of CPU time",
            self.rest.cpu * 100.0,
            self.attacked.cpu * 100.0,
            self.most_at_rest.memory / MIB,
            self.most.memory / MIB,
            self.most_at_rest.mappings,
            self.most.mappings,
            self.capture_bytes as f64 / MIB as f64,
            self.to_stop.as_secs_f64(),
            self.cpu_to_stop.as_secs_f64()
        )
    }
}

/// A thread that looks at memory and mappings until the recorder has ended.
struct Watch {
    most: Arc<Mutex<PeakUsage>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(programs: Programs) -> Self {
        let (most, ends) =
            (Arc::new(Mutex::new(PeakUsage::default())), Arc::new(AtomicBool::new(false)));
        let (seen, reported) = (most.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            while !reported.load(Ordering::Relaxed) {
                // The last looks are at what has ended, and see nothing.
                if let Ok(now) = programs.usage() {
                    let mut most = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    most.mappings = most.mappings.max(now.mappings);
                    most.memory = most.memory.max(now.memory);
                    most.cpu = most.cpu.max(now.cpu);
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
        });
        Self { most, ends, thread: Some(thread) }
    }

    fn most(&self) -> PeakUsage {
        *self.most.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a program; the most memory that it had, bytes. What wait4 gives has the memory of this
/// process in it, which the program had as well until it began its own.
pub(super) fn wait_for_peak(mut program: Child) -> Result<u64> {
    let watch = Watch::start(Programs(vec![program.id()]));
    let ended = program.wait()?;
    ensure!(ended.success(), "process {} has {ended}", program.id());
    Ok(watch.most().memory)
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// The recorder and the program that holds its probes, which it starts before it records.
#[derive(Clone, Debug)]
pub(super) struct Programs(Vec<u32>);

impl Programs {
    pub(super) fn of(pid: u32) -> Result<Self> {
        let all = fs::read_dir("/proc")?.flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // Others end meanwhile.
        let children = all.filter(|other| {
            status(*other).is_ok_and(|status| number_of(&status, "PPid:") == Some(pid.into()))
        });
        Ok(Self(std::iter::once(pid).chain(children).collect()))
    }

    /// What they have now.
    fn usage(&self) -> Result<PeakUsage> {
        let mut now = PeakUsage { cpu: self.cpu_time()?, ..PeakUsage::default() };
        for pid in &self.0 {
            // Some end before others.
            let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
            let status = status(*pid).unwrap_or_default();
            // The most so far as the kernel knows it, which looks between two moments would miss.
            let resident = ["VmHWM:", "VmRSS:"].iter().filter_map(|name| number_of(&status, name));
            now.mappings += maps.lines().count();
            now.memory += resident.max().unwrap_or(0) * 1024;
        }
        Ok(now)
    }

    /// User and system time so far.
    fn cpu_time(&self) -> Result<Duration> {
        let times = self.0.iter().map(|pid| stat(Path::new(&format!("/proc/{pid}/stat"))));
        let mut times = times.map(|stat| Ok::<_, anyhow::Error>(stat?.1));
        // The first is the recorder itself, which has to be there.
        let own = times.next().context("no programs")??;
        Ok(own + times.flatten().sum::<Duration>())
    }

    fn now(&self) -> Result<CpuReading> {
        let (at, cpu) = (Instant::now(), self.cpu_time()?);
        let folders = self.0.iter().map(|pid| fs::read_dir(format!("/proc/{pid}/task")));
        let tasks = folders.flatten().flatten().flatten();
        // Threads end.
        let by_thread = tasks.filter_map(|task| {
            let (name, cpu) = stat(&task.path().join("stat")).ok()?;
            Some(((task.file_name().to_str()?.parse().ok()?, name), cpu))
        });
        Ok(CpuReading { at, cpu, by_thread: by_thread.collect() })
    }

    /// What they use in so long a time.
    pub(super) fn during(&self, long: Duration) -> Result<Usage> {
        let before = self.now()?;
        std::thread::sleep(long);
        Ok(before.until(&self.now()?))
    }
}

fn status(pid: u32) -> Result<String> {
    Ok(fs::read_to_string(format!("/proc/{pid}/status"))?)
}

/// A number of /proc/PID/status.
fn number_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// CPU time that a recorder, and each of its threads, had until a moment.
struct CpuReading {
    at: Instant,
    cpu: Duration,
    by_thread: BTreeMap<(u32, String), Duration>,
}

impl CpuReading {
    /// What was used between.
    fn until(&self, later: &Self) -> Usage {
        let wall = later.at.duration_since(self.at);
        let mut by_thread = BTreeMap::<String, f64>::new();
        for (thread, cpu) in &later.by_thread {
            let before = self.by_thread.get(thread).copied().unwrap_or_default();
            *by_thread.entry(thread.1.clone()).or_default() +=
                cpu.saturating_sub(before).div_duration_f64(wall);
        }
        Usage { cpu: later.cpu.saturating_sub(self.cpu).div_duration_f64(wall), by_thread }
    }
}

/// The name of a process or thread, and its user and system time (proc(5)).
fn stat(path: &Path) -> Result<(String, Duration)> {
    let stat = fs::read_to_string(path)?;
    let (name, rest) = stat.rsplit_once(") ").context("no name in stat")?;
    let name = name.split_once('(').context("no name in stat")?.1.to_owned();
    let fields: Vec<u64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Ok((name, Duration::from_secs_f64(fields.iter().sum::<u64>() as f64 / ticks)))
}

/// The names of a process's threads that go before all ordinary ones.
fn real_time_threads(pid: u32) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let Some(tid) = task.file_name().to_str().and_then(|tid| tid.parse().ok()) else {
            bail!("{} is no thread", task.path().display());
        };
        // SAFETY: takes a plain number.
        let policy = unsafe { libc::sched_getscheduler(tid) } & !libc::SCHED_RESET_ON_FORK;
        if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            found.insert(name.trim_end().to_owned());
        }
    }
    Ok(found)
}
