//! What every privileged test starts from: the programs, a folder, and ways to run them.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::offered::Offered;
use crate::engine::Engine;
use crate::process::{cargo, output_of, root, words};
use crate::report::Outcome;

/// No single recording or export of these tests takes as long.
const PATIENCE: Duration = Duration::from_secs(180);

/// Bytes of a capture's file in which nothing is recorded yet.
pub(crate) const HEADER_BYTES: u64 = 32;

/// How hard the loads work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As on any machine.
    Full,
    /// As much as an emulated machine does in the same time: a twentieth.
    Emulated,
}

/// The programs under test and a folder for what they write.
pub(crate) struct Context {
    /// The release build of `syscollect`.
    pub(crate) syscollect: PathBuf,
    /// The loads, built with frame pointers.
    pub(crate) load: PathBuf,
    /// Perfetto's engine, or why it cannot be used.
    pub(crate) engine: Result<Engine, String>,
    /// What this kernel offers to this user.
    pub(crate) offered: Offered,
    effort: Effort,
    /// How long long tests are to be, if that was said.
    length: Option<Duration>,
    folder: tempfile::TempDir,
}

/// How a program ended and what it printed.
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Context {
    /// Ends recorders that a test has started and does not wait for any more.
    pub(crate) fn end_recorders(&self) {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for pid in pids.filter(|pid| self.is_own_recorder(*pid)) {
            signal(pid, libc::SIGKILL);
            // SAFETY: takes plain numbers; no status is asked for.
            unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0) };
        }
    }

    /// Whether that is a child of this process that runs the program under test.
    fn is_own_recorder(&self, pid: u32) -> bool {
        let own = format!("PPid:\t{}", std::process::id());
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        status.lines().any(|line| line == own)
            && program.is_ok_and(|program| program == self.syscollect)
    }

    /// Builds what is to be tested.
    pub(crate) fn new() -> Result<Self> {
        output_of(cargo().args(["build", "--quiet", "--release", "-p", "syscollect"]))?;
        Self::with_program(&root().join("target/release/syscollect"))
    }

    /// With this build of syscollect.
    pub(crate) fn with_program(syscollect: &Path) -> Result<Self> {
        Ok(Self {
            offered: Offered::of(syscollect),
            syscollect: syscollect.to_path_buf(),
            load: build_loads()?,
            engine: Engine::find(),
            effort: Effort::Full,
            length: None,
            folder: tempfile::Builder::new()
                .prefix("syscollect-test-")
                .tempdir()
                .context("cannot create a folder")?,
        })
    }

    /// With programs that were built elsewhere, for an emulated machine without compilers and
    /// engines.
    pub(crate) fn emulated(programs: &Path) -> Result<Self> {
        let syscollect = programs.join("syscollect");
        Ok(Self {
            offered: Offered::of(&syscollect),
            syscollect,
            load: programs.join("syscollect-load"),
            engine: Err("not run in virtual machines, where it takes minutes".to_owned()),
            effort: Effort::Emulated,
            length: None,
            folder: tempfile::Builder::new()
                .prefix("syscollect-test-")
                .disable_cleanup(std::env::var_os("SYSCOLLECT_TESTS_KEEP").is_some())
                .tempdir()
                .context("cannot create a folder")?,
        })
    }

    /// Long tests go on for so long.
    pub(crate) fn lasting(self, length: Option<Duration>) -> Self {
        Self { length, ..self }
    }

    /// How long a test is to go on that does for so long unless something else is said.
    pub(crate) fn length(&self, usual: Duration) -> Duration {
        self.length.unwrap_or(usual)
    }

    /// How often a load does what it does `times` times on any machine.
    pub(crate) fn times(&self, times: u64) -> u64 {
        match self.effort {
            Effort::Full => times,
            Effort::Emulated => times / 20,
        }
    }

    /// Whether this runs in an emulated machine.
    pub(crate) fn is_emulated(&self) -> bool {
        self.effort == Effort::Emulated
    }

    /// A path in the tests' own folder, with nothing there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        path
    }

    /// A path in the tests' own folder, whatever is there.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The engine; the reason to skip where there is none.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref().ok()
    }

    /// How a test ends that has seen the capture only. Engines are never there in virtual machines,
    /// where this is all that is asked.
    pub(crate) fn without_engine(&self, summary: String) -> Outcome {
        match self.effort {
            Effort::Full => Outcome::Skipped(format!("{summary}; no engine reads the trace")),
            Effort::Emulated => Outcome::Passed(summary),
        }
    }

    /// `syscollect ARGUMENTS`, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.syscollect);
        command.args(arguments).stdin(Stdio::null()).current_dir(self.folder.path());
        ends_with_us(&mut command);
        command
    }

    /// Runs `syscollect ARGUMENTS`, whatever its exit status.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<ProgramOutput> {
        finish(&mut self.command(arguments))
    }

    /// Runs `syscollect ARGUMENTS`, which has to succeed.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> Result<ProgramOutput> {
        let output = self.run(arguments)?;
        if !output.status.success() {
            bail!(
                "`syscollect {}` ended with {}:\n{}{}",
                arguments.join(" "),
                output.status,
                output.stdout,
                output.stderr
            );
        }
        Ok(output)
    }

    /// Records the whole machine while a load runs; returns the lines of JSON that the load
    /// printed.
    pub(crate) fn record(
        &self,
        output: &Path,
        options: &[&str],
        load: &[&str],
    ) -> Result<Vec<Value>> {
        let (output, program) = (text(output)?, text(&self.load)?);
        let mut arguments = vec!["record", "-o", output];
        arguments.extend_from_slice(options);
        arguments.extend_from_slice(&["--", program]);
        arguments.extend_from_slice(load);
        json_lines(&self.succeed(&arguments)?.stdout)
    }

    /// The same, with places in programs attached to in this way: by `links` or by `events`.
    pub(crate) fn record_by(
        &self,
        way: &str,
        capture: &Path,
        options: &[&str],
        load: &[&str],
    ) -> Result<Vec<Value>> {
        let mut command = self.command(&["record", "-o", text(capture)?]);
        command.args(options).args(["--", text(&self.load)?]).args(load);
        let output = finish(command.env("SYSCOLLECT_UPROBES", way))?;
        if !output.status.success() {
            bail!(
                "the recording ended with {}:\n{}{}",
                output.status,
                output.stdout,
                output.stderr
            );
        }
        json_lines(&output.stdout)
    }

    /// Starts `syscollect record -o OUTPUT OPTIONS`; returns once it records.
    pub(crate) fn start(&self, output: &Path, options: &[&str]) -> Result<Child> {
        let mut arguments = vec!["record", "-o", text(output)?];
        arguments.extend_from_slice(options);
        self.start_command(&mut self.command(&arguments), output)
    }

    /// Starts a command that records to `output`; returns once it records.
    pub(crate) fn start_command(&self, command: &mut Command, output: &Path) -> Result<Child> {
        let mut recorder = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let files = [output.to_path_buf(), output.with_extension("syscap.partial")];
        let begun = until("the recording to begin", || {
            let begun = files
                .iter()
                .any(|path| fs::metadata(path).is_ok_and(|file| file.len() > HEADER_BYTES));
            (begun || !matches!(recorder.try_wait(), Ok(None))).then_some(begun)
        })?;
        if !begun {
            bail!("the recorder ended at once:\n{}", wait(recorder)?.stderr);
        }
        // Its first chunk is written when all is attached; what a test starts next is to find a
        // recorder at rest.
        std::thread::sleep(Duration::from_secs(if self.is_emulated() { 8 } else { 1 }));
        Ok(recorder)
    }

    /// Stops a recorder as Ctrl-C does; it has to succeed.
    pub(crate) fn stop(&self, recorder: Child) -> Result<ProgramOutput> {
        signal(recorder.id(), libc::SIGINT);
        let output = wait(recorder)?;
        if !output.status.success() {
            bail!("the recorder ended with {}:\n{}", output.status, output.stderr);
        }
        Ok(output)
    }

    /// Exports a capture beside itself.
    pub(crate) fn export(&self, capture: &Path) -> Result<PathBuf> {
        let output = capture.with_extension("pftrace");
        self.succeed(&["export", text(capture)?, "-o", text(&output)?, "--force"])?;
        Ok(output)
    }

    /// `syscollect info --json`.
    pub(crate) fn info(&self, capture: &Path) -> Result<Value> {
        let output = self.succeed(&["info", "--json", text(capture)?])?;
        serde_json::from_str(&output.stdout)
            .with_context(|| format!("info --json printed no JSON: {}", output.stdout))
    }
}

/// Builds the loads with frame pointers, apart from the product's own objects.
pub(crate) fn build_loads() -> Result<PathBuf> {
    let target = root().join("target/workloads");
    output_of(
        cargo()
            .args(["build", "--quiet", "--release", "-p", "syscollect-load", "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", "-C force-frame-pointers=yes")
            // CI builds without; their frames are to have lines.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"),
    )?;
    Ok(target.join("release/syscollect-load"))
}

/// The users and groups `nobody` and `daemon`: the one who attacks, and the other.
pub(crate) const NOBODY: u32 = 65_534;
pub(crate) const DAEMON: u32 = 1;

/// A path as text for a command line.
pub(crate) fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// The lines of JSON among what a load printed.
pub(crate) fn json_lines(printed: &str) -> Result<Vec<Value>> {
    let lines = printed.lines().filter(|line| line.starts_with("{\""));
    lines
        .map(|line| serde_json::from_str(line).with_context(|| format!("the load printed {line}")))
        .collect()
}

/// A whole number of a JSON value.
pub(crate) fn number(value: &Value, key: &str) -> Result<u64> {
    value[key].as_u64().with_context(|| format!("no number \"{key}\" in {value}"))
}

/// What the recorder counted by that name.
pub(crate) fn statistic(info: &Value, name: &str) -> Result<u64> {
    let value = info.pointer(&format!("/recorder/statistics/{name}"));
    value.and_then(Value::as_u64).with_context(|| format!("info has no statistic {name}"))
}

/// A parameter of a kernel module that is loaded.
pub(crate) fn module_parameter(module: &str, name: &str) -> Result<u64> {
    let path = format!("/sys/module/{module}/parameters/{name}");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.trim().parse().with_context(|| format!("{path} says {text}"))
}

pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Whether the kernel that runs is of that version or a later one.
pub(crate) fn kernel_at_least(major: u32, minor: u32) -> Result<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    Ok((numbers.next(), numbers.next()) >= (Some(major), Some(minor)))
}

/// Runs a command to its end, with patience.
pub(crate) fn finish(command: &mut Command) -> Result<ProgramOutput> {
    let line = words(command);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    wait(child).with_context(|| format!("`{line}`"))
}

/// Waits for a child whose output is piped; kills it when it takes too long.
pub(crate) fn wait(child: Child) -> Result<ProgramOutput> {
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            signal(pid, libc::SIGKILL);
        }
    });
    let output = child.wait_with_output();
    drop(done);
    let _ = guard.join();
    let output = output.context("cannot read its output")?;
    Ok(ProgramOutput {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The program is killed when this one ends: a test that failed leaves no recorder behind, which
/// would disturb all that come later.
pub(crate) fn ends_with_us(command: &mut Command) {
    // SAFETY: between fork and exec one system call is made; nothing is allocated.
    unsafe { command.pre_exec(die_with_parent) };
}

fn die_with_parent() -> io::Result<()> {
    // SAFETY: takes plain numbers, and is async-signal-safe.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    Ok(())
}

/// Sends a signal to a process that these tests started and have not waited for yet.
pub(crate) fn signal(pid: u32, signal: libc::c_int) {
    // SAFETY: kill takes plain numbers.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Waits until `done` gives something; fails after two minutes: an emulated machine takes one to
/// verify the kernel programs.
pub(crate) fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        if let Some(value) = done() {
            return Ok(value);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("waited two minutes in vain: {what}")
}
