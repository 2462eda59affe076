//! What a recorder that root started may still do while it records and while it exports, thread by
//! thread.
//!
//! Compared with what /proc says of it, and of the command that it launches, which has all that its
//! user has.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, finish, hexadecimal, signal, text, until, wait};

/// Numbers of include/uapi/linux/capability.h.
const CAP_KILL: u32 = 5;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// What no recorder needs on any kernel: other programs' rights, the network, modules, raw
/// hardware, other roots, reboots, the clock, devices, audit.
const NEVER: [u32; 13] = [8, 9, 10, 12, 13, 16, 17, 18, 22, 25, 27, 30, 31];
/// The user and group that stand behind a sudo of this test.
const SOMEBODY: u32 = 54_321;

/// What /proc/PID/task/TID/status says of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rights {
    name: String,
    uid: u32,
    effective: u64,
    permitted: u64,
    bounding: u64,
    no_new_privileges: bool,
    filters: bool,
}

impl Rights {
    fn parse(status: &str) -> Option<Self> {
        Some(Self {
            name: field(status, "Name")?.to_owned(),
            uid: field(status, "Uid")?.split('\t').next()?.parse().ok()?,
            effective: mask(status, "CapEff")?,
            permitted: mask(status, "CapPrm")?,
            bounding: mask(status, "CapBnd")?,
            no_new_privileges: field(status, "NoNewPrivs")? == "1",
            filters: field(status, "Seccomp")? == "2",
        })
    }

    /// Of all threads of a process; those that end meanwhile are left out.
    fn of_threads(pid: u32) -> Vec<Self> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks
            .filter_map(|task| Self::parse(&fs::read_to_string(task.path().join("status")).ok()?))
            .collect()
    }

    fn has(&self, capability: u32) -> bool {
        self.permitted >> capability & 1 == 1
    }

    /// Nothing of it can come back, and none of `refused` is there.
    fn check(&self, refused: &[u32], stage: &str) -> Result<()> {
        ensure!(self.no_new_privileges, "{stage}: a program may give thread {self:?} more");
        ensure!(self.filters, "{stage}: no filter of system calls in thread {self:?}");
        ensure!(
            self.permitted & !self.bounding == 0,
            "{stage}: more than its bound in thread {self:?}"
        );
        ensure!(self.permitted & self.effective == self.effective, "{stage}: {self:?}");
        for capability in refused {
            ensure!(!self.has(*capability), "{stage}: capability {capability} in thread {self:?}");
        }
        Ok(())
    }
}

/// A field of /proc/PID/status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
}

fn mask(status: &str, name: &str) -> Option<u64> {
    hexadecimal(field(status, name)?)
}

/// While it records, while it names and exports, and what its command has.
pub(crate) fn rights(context: &Context) -> Result<String> {
    let recording = while_it_records(context)?;
    let exporting = while_it_exports(context)?;
    command_has_all(context)?;
    folders_of_others(context)?;
    as_the_user_behind_sudo(context)?;
    Ok(format!(
        "capabilities {recording:#x} while it records, {exporting:#x} and then none while it \
         exports"
    ))
}

/// What no thread of a recorder has.
fn never(context: &Context) -> Vec<u32> {
    let admin = (!needs_admin(context)).then_some(CAP_SYS_ADMIN);
    NEVER.into_iter().chain(admin).collect()
}

/// Whether a recorder needs CAP_SYS_ADMIN: for events of the uprobe PMU (before 6.6), and where a
/// distribution keeps perf events for administrators.
fn needs_admin(context: &Context) -> bool {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    !context.offered.has("uprobe_multi") || level.trim().parse::<i32>().is_ok_and(|level| level > 2)
}

fn while_it_records(context: &Context) -> Result<u64> {
    let output = context.path("rights-recording.syscap");
    let recorder = context.start(&output, &["--jvm", "--gpu"])?;
    let rights = rights_of_recorder(context, recorder.id());
    // In any case: one that goes on takes the zones of programs of the tests that follow.
    context.stop(recorder)?;
    rights
}

fn rights_of_recorder(context: &Context, recorder: u32) -> Result<u64> {
    let threads = Rights::of_threads(recorder);
    ensure!(threads.len() > 3, "only the threads {threads:?}");
    for thread in &threads {
        thread.check(&never(context), "recording")?;
    }
    let waits =
        threads.iter().find(|thread| thread.name == "signals").context("no thread for signals")?;
    let accounts = 1 << CAP_SETUID | 1 << CAP_SETGID;
    ensure!(waits.permitted & !accounts == 0, "who only waits for signals has {waits:?}");
    who_holds_probes(context, recorder)?;
    who_holds_tracepoints(context, recorder)?;
    who_asks_jvms(context, recorder)?;
    Ok(threads.iter().fold(0, |all, thread| all | thread.permitted))
}

/// The process of that name that a recorder has started.
fn child(recorder: u32, name: &str) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children"))?;
    let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    let found = children.find(|pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    found.with_context(|| format!("the recorder has no process {name}"))
}

/// The process that has Java virtual machines asked can look at them, become their users, and end
/// who asks as one of them.
fn who_asks_jvms(context: &Context, recorder: u32) -> Result<()> {
    let threads = Rights::of_threads(child(recorder, "jvm-asker")?);
    let needed: u64 = 1 << CAP_SYS_PTRACE | 1 << CAP_SETUID | 1 << CAP_SETGID | 1 << CAP_KILL;
    ensure!(threads.len() == 1, "who forks has {threads:?}");
    for thread in &threads {
        thread.check(&never(context), "asking")?;
        ensure!(thread.permitted & !needed == 0, "who asks has {thread:?}");
    }
    Ok(())
}

/// The process that attaches to programs can do that and nothing else, and holds nothing of the
/// recorder's.
fn who_holds_probes(context: &Context, recorder: u32) -> Result<()> {
    let pid = child(recorder, "uprobe-keeper")?;
    let threads = Rights::of_threads(pid);
    let mut needed: u64 = 1 << CAP_BPF | 1 << CAP_PERFMON | 1 << CAP_SYS_PTRACE;
    if needs_admin(context) {
        needed |= 1 << CAP_SYS_ADMIN | 1 << CAP_SYS_RESOURCE;
    }
    for thread in &threads {
        thread.check(&never(context), "attaching")?;
        ensure!(thread.permitted & !needed == 0, "who attaches has {thread:?}");
    }
    for file in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        let Ok(target) = fs::read_link(file.path()) else { continue };
        let target = target.to_string_lossy();
        let is_own = target == "/dev/null"
            || target.starts_with("socket:")
            || target.starts_with("anon_inode:");
        ensure!(is_own, "who attaches has {target} open");
    }
    Ok(())
}

/// The process that holds tracepoints can do nothing but close them.
fn who_holds_tracepoints(context: &Context, recorder: u32) -> Result<()> {
    for thread in Rights::of_threads(child(recorder, "event-keeper")?) {
        thread.check(&never(context), "holding tracepoints")?;
        ensure!(thread.permitted == 0, "who holds tracepoints has {thread:?}");
    }
    Ok(())
}

/// All threads of the recorder that were observed from the signal to stop until it has ended.
fn watched_to_the_end(recorder: Child) -> Result<Vec<Vec<Rights>>> {
    signal(recorder.id(), libc::SIGINT);
    let (pid, begun) = (recorder.id(), Instant::now());
    let mut observed = Vec::new();
    while begun.elapsed() < Duration::from_secs(60) {
        let threads = Rights::of_threads(pid);
        // One that has ended and was not waited for yet has one thread without memory.
        if threads.is_empty() || is_over(pid) {
            break;
        }
        if observed.last() != Some(&threads) {
            observed.push(threads);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let output = wait(recorder)?;
    ensure!(
        output.status.success(),
        "the recorder ended with {}:\n{}",
        output.status,
        output.stderr
    );
    Ok(observed)
}

fn is_over(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .is_ok_and(|status| status.contains("State:\tZ"))
}

fn while_it_exports(context: &Context) -> Result<u64> {
    let output = context.path("rights-exporting.pftrace");
    let recorder = context.start(&output, &["--stacks", "samples,offcpu"])?;
    let load = finish(
        Command::new(&context.load).args(["ping-pong", &context.times(100_000).to_string()]),
    )?;
    ensure!(load.status.success(), "the load failed:\n{}", load.stderr);
    let observed = watched_to_the_end(recorder)?;
    let finishing: Vec<_> = observed
        .iter()
        .filter(|threads| threads.iter().all(|thread| !thread.has(CAP_SYS_PTRACE)))
        .collect();
    ensure!(
        !finishing.is_empty(),
        "it named and exported with the rights of a recorder: {observed:?}"
    );
    let mut refused = never(context);
    refused.extend([CAP_PERFMON, CAP_BPF]);
    for thread in finishing.iter().flat_map(|threads| threads.iter()) {
        thread.check(&refused, "exporting")?;
    }
    ensure!(
        finishing.iter().any(|threads| threads.iter().any(exports_without)),
        "no export without: {finishing:?}"
    );
    let main = finishing
        .iter()
        .flat_map(|threads| threads.iter())
        .filter(|thread| thread.name.starts_with("syscoll"));
    Ok(main.map(|thread| thread.permitted).fold(0, |all, one| all | one))
}

fn exports_without(thread: &Rights) -> bool {
    thread.name.starts_with("syscollect") && thread.effective == 0
}

/// What `sh` has that the recorder launches is what `sh` has that this test launches.
fn command_has_all(context: &Context) -> Result<()> {
    let lines = "grep -E '^(Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups)' /proc/self/status; ulimit -a";
    let mine = finish(Command::new("/bin/sh").args(["-c", lines]))?;
    let output = context.path("rights-command.syscap");
    let its = context.succeed(&["record", "-o", text(&output)?, "--", "/bin/sh", "-c", lines])?;
    let (mine, its) = (lines_of(&mine.stdout), lines_of(&its.stdout));
    let differ: Vec<_> = mine.symmetric_difference(&its).collect();
    ensure!(!mine.is_empty() && differ.is_empty(), "the launched command differs in {differ:#?}");
    Ok(())
}

fn lines_of(printed: &str) -> BTreeSet<String> {
    printed.lines().map(str::to_owned).collect()
}

/// Files in a folder that only another user may enter are made, renamed, and given their names.
fn folders_of_others(context: &Context) -> Result<()> {
    let folder = context.path("rights-of-another");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    chown(&folder, Some(SOMEBODY), Some(SOMEBODY))?;
    let output = folder.join("x.pftrace");
    context.succeed(&["-d", "0.3", "--keep-capture", "-o", text(&output)?])?;
    let exported = folder.join("y.pftrace");
    context.succeed(&["export", text(&folder.join("x.syscap"))?, "-o", text(&exported)?])?;
    ensure!(
        fs::metadata(&output)?.len() > 1_000 && fs::metadata(&exported)?.len() > 1_000,
        "no trace was written"
    );
    Ok(())
}

/// In a folder of the user behind sudo, this user exports; in root's folder root does, for this
/// user.
fn as_the_user_behind_sudo(context: &Context) -> Result<()> {
    for (name, theirs) in [("rights-sudo-theirs", true), ("rights-sudo-roots", false)] {
        let folder = context.path(name);
        fs::create_dir(&folder)?;
        if theirs {
            chown(&folder, Some(SOMEBODY), Some(SOMEBODY))?;
        }
        let output = folder.join("x.pftrace");
        let mut command = context.command(&["record", "-o", text(&output)?]);
        let id = SOMEBODY.to_string();
        command.env("SUDO_UID", &id).env("SUDO_GID", &id).env("SUDO_USER", "somebody");
        let recorder = context.start_command(&mut command, &output)?;
        let load = finish(
            Command::new(&context.load).args(["ping-pong", &context.times(100_000).to_string()]),
        )?;
        ensure!(load.status.success(), "the load failed:\n{}", load.stderr);
        let observed = watched_to_the_end(recorder)?;
        let mut as_somebody = observed
            .iter()
            .filter(|threads| threads.iter().all(|thread| thread.uid == SOMEBODY))
            .peekable();
        ensure!(as_somebody.peek().is_some() == theirs, "{name}: {:?}", observed.last());
        for thread in as_somebody.flatten() {
            ensure!(thread.permitted == 0, "{name}: {thread:?}");
        }
        check_owner(&output).with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn check_owner(file: &Path) -> Result<()> {
    let data = until("the trace", || fs::metadata(file).ok())?;
    ensure!(
        (data.uid(), data.gid()) == (SOMEBODY, SOMEBODY),
        "{} belongs to {}",
        file.display(),
        data.uid()
    );
    Ok(())
}
