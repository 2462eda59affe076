//! Starting and stopping the tracers, and what each recorded.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::privileged::context::{Context, ends_with_us, number, signal, text};

/// A way to record the machine.
pub(super) struct Tracer {
    pub(super) title: &'static str,
    kind: Kind,
}

enum Kind {
    Perf(&'static [&'static str]),
    /// The kernel's own ring, read raw at the end: no program runs meanwhile.
    Ftrace,
    Syscollect(&'static [&'static str]),
}

const SCHED_EVENTS: &str = "sched:sched_switch,sched:sched_waking";

pub(super) const PERF_SCHED: Tracer =
    Tracer { title: "perf record", kind: Kind::Perf(&["-m", "2048", "-e", SCHED_EVENTS]) };
pub(super) const PERF_SCHED_STACKS: Tracer =
    Tracer { title: "perf record -g", kind: Kind::Perf(&["-g", "-m", "2048", "-e", SCHED_EVENTS]) };
pub(super) const PERF_SAMPLES: Tracer = Tracer {
    title: "perf record -F 999 -g",
    kind: Kind::Perf(&["-g", "-F", "999", "-e", "cpu-clock"]),
};
pub(super) const PERF_DWARF: Tracer = Tracer {
    title: "perf record -F 999 --call-graph dwarf,16384",
    kind: Kind::Perf(&["--call-graph", "dwarf,16384", "-F", "999", "-e", "cpu-clock"]),
};
pub(super) const FTRACE: Tracer =
    Tracer { title: "ftrace ring, read at the end", kind: Kind::Ftrace };
pub(super) const SCHED: Tracer = Tracer {
    title: "syscollect --stacks none --freq 0",
    kind: Kind::Syscollect(&["--stacks", "none", "--freq", "0"]),
};
pub(super) const SCHED_STACKS: Tracer = Tracer {
    title: "syscollect --stacks offcpu,wakers --freq 0",
    kind: Kind::Syscollect(&["--stacks", "offcpu,wakers", "--freq", "0"]),
};
pub(super) const SAMPLES: Tracer = Tracer {
    title: "syscollect --freq 999",
    kind: Kind::Syscollect(&["--stacks", "samples", "--freq", "999"]),
};

/// What a recording was worth and what it took; `None` where it cannot be told.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) events: Option<f64>,
    pub(super) bytes: Option<f64>,
    pub(super) lost: Option<f64>,
    pub(super) cpu_share: Option<f64>,
    pub(super) peak_bytes: Option<f64>,
}

/// A tracer that records.
pub(super) struct Running<'a> {
    kind: &'a Kind,
    process: Option<Process>,
    instance: Option<Instance>,
}

impl Tracer {
    /// Whether this machine has it.
    pub(super) fn is_installed(&self) -> bool {
        match self.kind {
            Kind::Perf(_) => Command::new("perf")
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success()),
            Kind::Ftrace => tracefs().is_some(),
            Kind::Syscollect(_) => true,
        }
    }

    /// Whether it is ours.
    pub(super) fn is_syscollect(&self) -> bool {
        matches!(self.kind, Kind::Syscollect(_))
    }

    /// Starts it, and waits until it records.
    pub(super) fn start(&self, context: &Context, output: &Path) -> Result<Running<'_>> {
        let (mut process, mut instance) = (None, None);
        match self.kind {
            Kind::Perf(options) => {
                let mut command = Command::new("perf");
                command.args(["record", "-q", "-a", "-o", text(output)?]).args(options);
                process = Some(Process::start(command)?);
                std::thread::sleep(Duration::from_millis(1_500));
            }
            Kind::Ftrace => instance = Some(Instance::create()?),
            Kind::Syscollect(options) => {
                let output = output.with_extension("syscap");
                let _ = fs::remove_file(&output);
                let mut arguments = vec!["record", "-o", text(&output)?, "--force"];
                arguments.extend_from_slice(options);
                process = Some(Process::start(context.command(&arguments))?);
                std::thread::sleep(Duration::from_millis(1_500));
            }
        }
        Ok(Running { kind: &self.kind, process, instance })
    }
}

impl Running<'_> {
    /// Stops it and counts.
    pub(super) fn stop(self, context: &Context, output: &Path) -> Result<Figures> {
        let mut figures = Figures::default();
        if let Some(process) = self.process {
            figures.cpu_share = process.cpu_share();
            let (peak, _) = process.interrupt()?;
            figures.peak_bytes = Some(peak as f64);
        }
        match self.kind {
            Kind::Perf(_) => perf_counts(output, &mut figures)?,
            Kind::Ftrace => {
                if let Some(instance) = &self.instance {
                    instance.counts(&mut figures)?;
                }
            }
            Kind::Syscollect(_) => {
                let output = output.with_extension("syscap");
                let info = context.info(&output)?;
                figures.events = Some(number(&info, "events")? as f64);
                figures.lost = Some(number(&info, "lost")? as f64);
                figures.bytes = Some(fs::metadata(&output)?.len() as f64);
                figures.peak_bytes = largest_memory(&info).map(|bytes| bytes as f64);
            }
        }
        Ok(figures)
    }
}

fn perf_counts(output: &Path, figures: &mut Figures) -> Result<()> {
    let printed = Command::new("perf")
        .args(["report", "--stats", "-i", text(output)?])
        .stdin(Stdio::null())
        .output()?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    figures.events = count(&printed, "SAMPLE events");
    // Perf reports lost events as records; where there is none, nothing was lost.
    figures.lost = if printed.contains("LOST") {
        count(&printed, "LOST_SAMPLES events").or(count(&printed, "LOST events"))
    } else {
        Some(0.0)
    };
    figures.bytes = Some(fs::metadata(output)?.len() as f64);
    Ok(())
}

fn count(printed: &str, name: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.trim_start().starts_with(name))?;
    line.split(':').nth(1)?.split_whitespace().next()?.parse::<f64>().ok()
}

/// A tracer's process.
struct Process {
    child: Child,
    started: Instant,
}

impl Process {
    fn start(mut command: Command) -> Result<Self> {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { child: child.context("cannot start the tracer")?, started: Instant::now() })
    }

    /// CPU time so far in per cent of one CPU.
    fn cpu_share(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        // USER_HZ is 100 on every Linux ABI that this runs on.
        Some(ticks / self.started.elapsed().as_secs_f64())
    }

    /// Stops it as Ctrl-C does; its largest resident memory in bytes, and how long it took to end.
    fn interrupt(self) -> Result<(u64, Duration)> {
        let (pid, start) = (self.child.id(), Instant::now());
        signal(pid, libc::SIGINT);
        let mut status = 0;
        // SAFETY: rusage is plain data; both pointers are valid for writing; the child is not
        // waited for elsewhere.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage), usage)
        };
        ensure!(
            waited == pid as libc::pid_t,
            "cannot wait for the tracer: {}",
            io::Error::last_os_error()
        );
        Ok((usage.ru_maxrss as u64 * 1024, start.elapsed()))
    }
}

/// Where tracefs is mounted; mounts it, as perf does, where nobody has.
fn tracefs() -> Option<PathBuf> {
    mounted_tracefs().or_else(|| {
        // SAFETY: the strings are constants; no data is passed. A failure shows in the next look.
        unsafe {
            libc::mount(
                c"tracefs".as_ptr(),
                c"/sys/kernel/tracing".as_ptr(),
                c"tracefs".as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        mounted_tracefs()
    })
}

fn mounted_tracefs() -> Option<PathBuf> {
    let folders = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    folders.into_iter().find(|folder| folder.join("instances").is_dir())
}

/// An ftrace instance of our own, removed when it is dropped.
struct Instance(PathBuf);

impl Instance {
    fn create() -> Result<Self> {
        let tracefs = tracefs().context("tracefs cannot be mounted")?;
        let folder = tracefs.join(format!("instances/syscollect-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let instance = Self(folder);
        instance.set("buffer_size_kb", "65536")?;
        for event in ["sched_switch", "sched_waking"] {
            instance.set(&format!("events/sched/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        fs::write(self.0.join(file), value).with_context(|| format!("cannot set {file}"))
    }

    fn counts(&self, figures: &mut Figures) -> Result<()> {
        self.set("tracing_on", "0")?;
        let (mut events, mut bytes, mut lost) = (0.0, 0.0, 0.0);
        for cpu in fs::read_dir(self.0.join("per_cpu"))? {
            let stats = fs::read_to_string(cpu?.path().join("stats"))?;
            events += value(&stats, "entries:");
            bytes += value(&stats, "bytes:");
            lost += value(&stats, "overrun:") + value(&stats, "dropped events:");
        }
        (figures.events, figures.bytes, figures.lost) = (Some(events), Some(bytes), Some(lost));
        Ok(())
    }
}

fn value(stats: &str, name: &str) -> f64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// What a long recording straight to a trace took.
pub(super) struct Finished {
    pub(super) events: u64,
    pub(super) lost: u64,
    pub(super) startup_ms: f64,
    /// The same beside [`BUSY_THREADS`].
    pub(super) busy_startup_ms: f64,
    /// The same beside as many programs, each in a session of its own.
    pub(super) busy_sessions_startup_ms: f64,
    /// The recorder's CPU time while it recorded, its start left out, in per cent of one CPU.
    pub(super) cpu_share: f64,
    pub(super) seconds: f64,
    pub(super) peak_bytes: u64,
    pub(super) trace_bytes: u64,
}

/// Records ten seconds with all stacks to `trace`, in which two pairs of processes
/// switch `rounds` times there and back.
pub(super) fn finish_time(context: &Context, trace: &Path, rounds: &str) -> Result<Finished> {
    let arguments = [
        "record",
        "-o",
        text(trace)?,
        "--stacks",
        "offcpu,wakers",
        "--freq",
        "0",
        "--keep-capture",
    ];
    let recorder = Process::start(context.command(&arguments))?;
    std::thread::sleep(Duration::from_millis(1_500));
    let mut loads = Vec::new();
    for _ in 0..2 {
        let mut load = Command::new(&context.load);
        load.args(["ping-pong", rounds]).stdout(Stdio::null()).stderr(Stdio::null());
        loads.push(load.spawn().context("cannot start the load")?);
    }
    std::thread::sleep(Duration::from_secs(10));
    for mut load in loads {
        load.kill()?;
        load.wait()?;
    }
    let (last_peak_bytes, time) = recorder.interrupt()?;
    let kept = ["syscap", "syscap.partial"].map(|extension| trace.with_extension(extension));
    let Some(capture) = kept.iter().find(|path| path.exists()) else {
        bail!("--keep-capture kept no capture")
    };
    let info = context.info(capture)?;
    let cpu_share = recorder_figure(&info, "recorder_cpu_ns")
        .zip(recorder_figure(&info, "duration_ns"))
        .map(|(cpu, time)| 100.0 * cpu / time);
    Ok(Finished {
        cpu_share: cpu_share.unwrap_or(f64::NAN),
        events: number(&info, "events")?,
        lost: number(&info, "lost")?,
        startup_ms: startup_ms(&info),
        busy_startup_ms: startup_when_busy(context)?,
        busy_sessions_startup_ms: startup_beside_sessions(context)?,
        seconds: time.as_secs_f64(),
        peak_bytes: largest_memory(&info).unwrap_or_default().max(last_peak_bytes),
        trace_bytes: fs::metadata(trace).context("no trace was written")?.len(),
    })
}

fn recorder_figure(info: &serde_json::Value, name: &str) -> Option<f64> {
    info.pointer(&format!("/recorder/{name}")).and_then(serde_json::Value::as_f64)
}

/// Of all its work: it has the kernel begin anew with each part, so that the end of the process
/// tells of the last alone.
fn largest_memory(info: &serde_json::Value) -> Option<u64> {
    let parts = info.pointer("/recorder/costs")?.as_array()?;
    parts.iter().filter_map(|part| part["peak_bytes"].as_u64()).max()
}

fn startup_ms(info: &serde_json::Value) -> f64 {
    let ns = info.pointer("/recorder/startup_ns").and_then(serde_json::Value::as_f64);
    ns.unwrap_or(f64::NAN) / 1e6
}

/// Threads that compute while a recording starts: people reach for a profiler when a machine is
/// busy.
pub(super) const BUSY_THREADS: usize = 20;

fn startup_when_busy(context: &Context) -> Result<f64> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..BUSY_THREADS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let started = startup(context);
        over.store(true, Ordering::Relaxed);
        started
    })
}

/// A session has a share of the CPUs as large as the recorder's, however many threads either has
/// (`sched_autogroup`).
fn startup_beside_sessions(context: &Context) -> Result<f64> {
    let mut programs = Vec::new();
    for _ in 0..BUSY_THREADS {
        let mut program = Command::new("/bin/sh");
        ends_with_us(&mut program);
        program.args(["-c", "while :; do :; done"]);
        // SAFETY: between fork and exec it makes one call, which takes no memory.
        unsafe {
            program.pre_exec(|| match libc::setsid() {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        programs.push(program.spawn().context("cannot start a program")?);
    }
    let started = startup(context);
    for mut program in programs {
        program.kill()?;
        program.wait()?;
    }
    started
}

/// What a short recording took to begin.
fn startup(context: &Context) -> Result<f64> {
    let capture = context.path("bench-start.syscap");
    context.succeed(&["record", "-d", "0.2", "-o", text(&capture)?])?;
    Ok(startup_ms(&context.info(&capture)?))
}
