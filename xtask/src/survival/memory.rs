//! A control group whose memory is used up: by the recorder itself, which had little from the
//! start, or by another process of its group at any moment. The kernel kills the recorder where it
//! stands.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Field, RoundCounts};
use crate::privileged::context::{ends_with_us, wait};

/// With less, a recorder refuses to begin.
const SMALLEST: u64 = 40 << 20;
/// More than a recorder here needs.
const LARGEST: u64 = 256 << 20;
const LONGEST: Duration = Duration::from_millis(1_500);

/// A control group of version 1 or 2 with a limit on memory, removed when it is dropped.
pub(super) struct Group(PathBuf);

impl Group {
    /// Whether this machine lets one be made.
    pub(super) fn can_be_made() -> Result<()> {
        Self::of(LARGEST).map(drop)
    }

    fn of(limit: u64) -> Result<Self> {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers");
        let controllers = fs::read_to_string(unified).unwrap_or_default();
        let (root, file) =
            match controllers.split_whitespace().any(|controller| controller == "memory") {
                true => ("/sys/fs/cgroup", "memory.max"),
                false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            };
        let folder = Path::new(root).join(format!("syscollect-test-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let group = Self(folder);
        fs::write(group.0.join(file), limit.to_string())
            .with_context(|| format!("cannot write {file}"))?;
        // Without this the limit is on what is not swapped out; groups without swap lack the file.
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// What this command starts is a member.
    fn admit(&self, command: &mut Command) -> Result<()> {
        let members = fs::OpenOptions::new().write(true).open(self.0.join("cgroup.procs"))?;
        // SAFETY: writes two bytes to an open descriptor; 0 is the process that writes.
        unsafe { command.pre_exec(move || std::io::Write::write_all(&mut &members, b"0\n")) };
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group whose last process has just ended may be busy for a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Another process of a group, which takes its memory: as pages of a file, which are nobody's that
/// the kernel could kill for them. It is not killed itself.
struct Taker {
    process: Child,
    file: PathBuf,
}

impl Taker {
    /// Begins to take it after that time.
    fn start(group: &Group, after: Duration) -> Result<Self> {
        let file = Path::new("/dev/shm").join(format!("syscollect-test-{}", std::process::id()));
        let mut command = Command::new("sh");
        let sleep = format!("sleep {:.3}", after.as_secs_f64());
        let take =
            format!("echo -1000 > /proc/self/oom_score_adj; exec head -c {LARGEST} /dev/zero");
        command.args(["-c", &format!("{sleep}; {take}")]);
        command.stdin(Stdio::null()).stdout(fs::File::create(&file)?).stderr(Stdio::null());
        group.admit(&mut command)?;
        ends_with_us(&mut command);
        Ok(Self { process: command.spawn()?, file })
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.file);
    }
}

/// One recorder in one group.
pub(super) fn round(field: &mut Field<'_>, counts: &mut RoundCounts) -> Result<()> {
    let long = field.random.shorter_than(LONGEST) + Duration::from_millis(100);
    let is_taken = field.random.shorter_than(LONGEST) < LONGEST / 2;
    let limit = match is_taken {
        true => LARGEST,
        false => field.random.of_any_size(SMALLEST, LARGEST) / 4096 * 4096,
    };
    // Naming and exporting is hit, too.
    let moment = field.random.shorter_than(long + LONGEST);
    let group = Group::of(limit)?;
    let taker = is_taken.then(|| Taker::start(&group, moment)).transpose()?;
    let mut command = field.context.command(&[]);
    let seconds = format!("{:.3}", long.as_secs_f64());
    command.args([
        "record",
        "-o",
        "x.pftrace",
        "--stacks",
        "samples,offcpu,wakers",
        "-d",
        &seconds,
    ]);
    let command = command
        .current_dir(&field.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    group.admit(command)?;
    let output = wait(command.spawn()?)?;
    drop(taker);
    let taken = if is_taken { format!(", taken after {moment:.1?}") } else { String::new() };
    let reported =
        format!("{limit} bytes{taken}, {seconds} s: {}\n{}", output.status, output.stderr);
    let killed =
        std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(libc::SIGKILL);
    ensure!(killed || output.status.code().is_some(), "it ended otherwise: {reported}");
    if output.status.success() {
        counts.finished += 1;
    }
    if output.status.code() == Some(1) {
        ensure!(output.stderr.contains("emory"), "an error that does not say why: {reported}");
    }
    field.check(counts).context(reported)?;
    // The process that holds probes has ended by now, too.
    drop(group);
    Ok(())
}
