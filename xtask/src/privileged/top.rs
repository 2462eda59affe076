//! The view of the machine in the terminal: its figures against the kernel's own, and the terminal
//! as it was whatever ends it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::context::{Context, finish, json_lines, number, signal, until, wait};
use super::uncharged::uncharged_ns;

/// Nanoseconds by which a thread's own reading and the records of it may differ: it reads before it
/// ends.
const READING_NS: u64 = 3_000_000;

/// What is asked for where no stacks are.
const UNSAMPLED: [&str; 4] = ["--freq", "99", "--stacks", "none"];

/// A program that burns and one that waits, each in a function that is known: what was shown of
/// that is what they measured themselves, by name, and it is what has most of its kind.
pub(crate) fn functions(context: &Context) -> Result<String> {
    let options = ["--by", "functions"];
    let (seconds, told) = watched(context, 7, &options, &["callers", "3"])?;
    let told = told.first().context("the load told nothing")?;
    let mut shares = Vec::new();
    for caller in ["caller_thirty", "caller_seventy"] {
        let shown = of_function(&seconds, &format!("callers::{caller}"), "cpu_with_calls_ns")?;
        let truth = number(told, &format!("{caller}_ns"))?;
        // A thousand samples a second.
        ensure!(shown.abs_diff(truth) < truth / 10, "{caller}: {shown} ns are shown of {truth}");
        shares.push(shown as f64 * 100.0 / truth as f64);
    }
    let burning = most(&seconds, "cpu_ns")?;
    ensure!(burning.contains("callers::bur"), "{burning} has most time on a CPU");
    let (seconds, told) = watched(context, 7, &options, &["waits", "3"])?;
    let truth = number(told.first().context("the load told nothing")?, "waited_ns")?;
    let shown = of_function(&seconds, "waits::waits_here", "blocked_with_calls_ns")?;
    ensure!(shown.abs_diff(truth) < truth / 20, "{shown} ns of waiting are shown of {truth}");
    Ok(format!(
        "{:.1} and {:.1} % of two callers' time, {:.1} % of the time that is waited",
        shares[0],
        shares[1],
        shown as f64 * 100.0 / truth as f64
    ))
}

/// The sum of a figure of a function over all seconds.
fn of_function(seconds: &[Value], name: &str, figure: &str) -> Result<u64> {
    let mut sum = 0;
    for second in seconds {
        for row in list(&second["functions"], "rows")? {
            if row["name"].as_str().is_some_and(|shown| shown.ends_with(name)) {
                sum += number(row, figure)?;
            }
        }
    }
    Ok(sum)
}

/// What has most of a figure in any second.
fn most(seconds: &[Value], figure: &str) -> Result<String> {
    let mut most = (0, String::new());
    for second in seconds {
        for row in list(&second["functions"], "rows")? {
            let of = number(row, figure)?;
            if of > most.0 {
                most = (of, row["name"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    Ok(most.1)
}

/// Threads that work for known shares of the time, from before the first to after the last: what
/// was shown of each in all seconds together is what the kernel counted of it. On each CPU the
/// times are one second.
pub(crate) fn figures(context: &Context) -> Result<String> {
    let before = uncharged_ns()?;
    let (seconds, told) = watched(context, 7, &UNSAMPLED, &["shares", "3"])?;
    let uncharged = (uncharged_ns()? - before) as u64;
    for second in &seconds {
        ensure!(second["incomplete"] == false, "a second is incomplete: {}", second["recorder"]);
        for cpu in list(second, "cpus")? {
            let parts = ["busy_ns", "idle_ns", "unknown_ns"].map(|part| number(cpu, part));
            let [busy, idle, unknown] = parts;
            let sum = busy? + idle? + unknown?;
            // Each is rounded down.
            ensure!((999_999_997..=1_000_000_000).contains(&sum), "{cpu} is {sum} ns");
        }
    }
    let mut compared = Vec::new();
    for thread in told {
        let (tid, name) = (number(&thread, "tid")?, &thread["name"]);
        let sum = |part: &str| sum_of(&seconds, tid, part);
        let (running, waiting) = (sum("running_ns")?, sum("runnable_ns")?);
        let (own_running, own_waiting) =
            (number(&thread, "running_ns")?, number(&thread, "waiting_ns")?);
        // The kernel counts waits from where a thread is put into a queue, which is a moment after
        // it was woken, or much later where another CPU has to do it. Some kernels do not tell of
        // every switch of their own threads (seen of kdamond and kworker, 6.18): until the next
        // switch on that CPU the time counts as theirs. What the hypervisor takes from a thread
        // that is on a CPU the kernel does not charge to it.
        let compared_times = [
            ("on a CPU", running, own_running, 2 * READING_NS + own_running / 20 + uncharged),
            (
                "waiting for one",
                waiting,
                own_waiting,
                3 * READING_NS + own_waiting / 10 + uncharged,
            ),
        ];
        for (what, shown, counted, allowed) in compared_times {
            ensure!(
                shown.abs_diff(counted) <= allowed,
                "{name}: {shown} ns shown {what}, {counted} ns counted by the kernel, which \
                 charged {uncharged} ns to nobody"
            );
        }
        let [shown, counted] = [running, own_running].map(|ns| ns as f64 / 1e6);
        compared.push(format!("{name} {shown:.1} of {counted:.1} ms"));
    }
    ensure!(compared.len() == 4, "only {compared:?}");
    Ok(compared.join(", "))
}

/// What is shown of a program's zones, in all seconds together, is what it says it marked.
pub(crate) fn zones(context: &Context) -> Result<String> {
    let (seconds, told) = watched(context, 6, &UNSAMPLED, &["marks", "2", "2000"])?;
    let marked: u64 = told.iter().map(|thread| number(thread, "zones")).sum::<Result<_>>()?;
    let (mut named, mut others) = (0, 0);
    for second in &seconds {
        ensure!(second["zones_incomplete"] == false, "zones are missing");
        others += number(second, "other_zones")?;
        for zones in list(second, "zones")?.iter().filter(|zones| zones["name"] == "turn") {
            named += number(zones, "count")?;
            let longest = number(zones, "longest_ns")?;
            ensure!(number(zones, "p50_ns")? <= longest && longest > 0, "{zones}");
        }
    }
    ensure!(
        marked == 4000 && named + others == marked && others < marked / 2,
        "{named} zones and {others} others are shown of {marked}"
    );
    Ok(format!("{named} zones of {marked}, {others} whose name came too late"))
}

/// What is printed of so many seconds, in the first of which a load begins, and what that says.
fn watched(
    context: &Context,
    seconds: usize,
    options: &[&str],
    load: &[&str],
) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut command = context.command(&["top", "--json"]);
    command.args(options).args(["--buffer", "32M", "--seconds", &seconds.to_string()]);
    let mut top = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(top.stdout.take().context("it has no output")?);
    let mut printed = String::new();
    lines.read_line(&mut printed)?;
    let told = finish(Command::new(&context.load).args(load))?;
    ensure!(told.status.success(), "the load failed: {}", told.stderr);
    lines.read_to_string(&mut printed)?;
    let output = wait(top)?;
    ensure!(output.status.success(), "top ended with {}:\n{}", output.status, output.stderr);
    let shown = json_lines(&printed)?;
    ensure!(shown.len() == seconds, "{} seconds:\n{}", shown.len(), output.stderr);
    Ok((shown, json_lines(&told.stdout)?))
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>> {
    value[key].as_array().with_context(|| format!("there is no list of {key}"))
}

/// A time of a thread in all seconds.
fn sum_of(seconds: &[Value], tid: u64, part: &str) -> Result<u64> {
    let mut sum = 0;
    for second in seconds {
        for thread in list(second, "threads")?.iter().filter(|thread| thread["tid"] == tid) {
            sum += number(&thread["times"], part)?;
        }
    }
    Ok(sum)
}

/// A shell that runs a program as a job of its own, says when that is stopped, and lets it go on
/// when a line is typed.
const SHELL: &str = "\"$@\"; echo \"stopped: $?\"; read -r; fg";

/// Most of what a terminal shows that is told where it is not what it should be.
const TOLD: usize = 1500;

/// The view on a terminal of 80 by 24: it shows the machine, a key writes a snapshot and the path of
/// it is shown; a key or SIGTERM ends it, and the terminal is as it was. SIGKILL apart, the same
/// holds where it is ended at once. Where the terminal goes away, it ends.
pub(crate) fn terminal(context: &Context) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let shown = PseudoTerminal::open()?;
    let top = shown.start(context, folder.path())?;
    shown.until("Run-queue")?;
    ensure!(!shown.is_canonical()?, "keys do not arrive one by one");
    shown.type_keys(b"ps")?;
    shown.until(".syscap")?;
    let snapshots = || {
        let names = fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let is_one = |name: &str| name.starts_with("snapshot-") && name.ends_with(".syscap");
        names.filter(|file| file.file_name().to_str().is_some_and(is_one)).count()
    };
    until("the snapshot", || (snapshots() == 1).then_some(()))?;
    // Stopped in either way, with the terminal as a shell has it meanwhile, it is drawn anew.
    for stop in [libc::SIGSTOP, libc::SIGTSTP] {
        signal(top.id(), stop);
        let stat = format!("/proc/{}/stat", top.id());
        until("the view to stop", || {
            let stat = fs::read_to_string(&stat).ok()?;
            stat.rsplit(") ").next()?.starts_with('T').then_some(())
        })?;
        shown.restore()?;
        shown.forget();
        signal(top.id(), libc::SIGCONT);
        shown.until("Run-queue")?;
        ensure!(!shown.is_canonical()?, "keys do not arrive one by one behind a stop");
    }
    // Another key takes away what was said before: what is written behind that is in one piece.
    shown.forget();
    shown.type_keys(b"t")?;
    shown.until("q quit")?;
    shown.type_keys(b"\x1a")?;
    shown.until("no shell")?;
    shown.type_keys(b"q")?;
    shown.ended(top, Some(0))?;
    suspended(context, folder.path())?;
    in_the_background(context, folder.path())?;
    let mut ends = Vec::new();
    let signals =
        [("SIGTERM", libc::SIGTERM), ("SIGQUIT", libc::SIGQUIT), ("SIGSEGV", libc::SIGSEGV)];
    for (name, number) in signals {
        let shown = PseudoTerminal::open()?;
        let top = shown.start(context, folder.path())?;
        shown.until("Run-queue")?;
        signal(top.id(), number);
        shown.ended(top, (number == libc::SIGTERM).then_some(0))?;
        ends.push(name);
    }
    let shown = PseudoTerminal::open()?;
    let mut top = shown.start(context, folder.path())?;
    shown.until("Run-queue")?;
    shown.hang_up()?;
    until("the end behind a terminal that went away", || {
        (!matches!(top.try_wait(), Ok(None))).then_some(())
    })?;
    let piped = context.run(&["top"])?;
    ensure!(
        piped.status.code() == Some(2) && piped.stderr.contains("--once"),
        "without a terminal: {} {}",
        piped.status,
        piped.stderr
    );
    Ok(format!(
        "a key, {} give the terminal back, and Ctrl-Z to a shell; without it, it ends; stopped, it \
         is drawn anew",
        ends.join(", ")
    ))
}

/// Ctrl-Z gives the terminal to the shell that runs it, which lets it go on.
fn suspended(context: &Context, folder: &Path) -> Result<()> {
    let shown = PseudoTerminal::open()?;
    let view = PseudoTerminal::view(context, folder);
    let mut shell = Command::new("bash");
    shell.args(["-mc", SHELL, "bash"]).arg(view.get_program()).args(view.get_args());
    let shell = shown.spawn(shell)?;
    shown.until("Run-queue")?;
    shown.type_keys(b"\x1a")?;
    shown.until("stopped: ")?;
    let text = shown.text();
    ensure!(
        shown.is_canonical()? && text.rfind("\u{1b}[?1049l") < text.rfind("stopped: "),
        "it has the terminal while it is stopped:\n{:?}",
        shown.end()
    );
    shown.forget();
    shown.type_keys(b"\n")?;
    shown.until("Run-queue")?;
    ensure!(!shown.is_canonical()?, "keys do not arrive one by one behind Ctrl-Z");
    shown.type_keys(b"q")?;
    shown.ended(shell, Some(0))
}

/// As a job in the background it says so and ends: whoever takes the terminal there is stopped.
fn in_the_background(context: &Context, folder: &Path) -> Result<()> {
    let shown = PseudoTerminal::open()?;
    let view = PseudoTerminal::view(context, folder);
    let mut shell = Command::new("bash");
    shell.args(["-mc", "\"$@\" & wait $!", "bash"]).arg(view.get_program()).args(view.get_args());
    let status = shown.spawn(shell)?.wait()?;
    shown.until("in the background of its terminal")?;
    let is_taken = shown.text().contains("\u{1b}[?1049h");
    ensure!(status.code() == Some(1) && !is_taken, "{status}:\n{:?}", shown.end());
    Ok(())
}

/// A terminal, and what was written to it.
struct PseudoTerminal {
    master: File,
    side: OwnedFd,
    written: Arc<Written>,
    reader: JoinHandle<()>,
    modes: libc::termios,
}

/// What was written to a terminal.
#[derive(Default)]
struct Written {
    bytes: Mutex<Vec<u8>>,
    /// Nobody reads any more.
    is_over: AtomicBool,
}

impl PseudoTerminal {
    fn open() -> Result<Self> {
        let (mut master, mut side) = (-1, -1);
        let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are to values of ours that outlive the call, or null.
        let opened = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut side,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                &raw const size as *mut _,
            )
        };
        ensure!(opened == 0, "no pseudo terminal: {}", io::Error::last_os_error());
        // What is started would hold its own terminal open.
        for descriptor in [master, side] {
            // SAFETY: it takes plain numbers.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        // SAFETY: both were opened here, for nobody else.
        let (master, side) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(side)) };
        let written = Arc::<Written>::default();
        let (mut read, into) = (master.try_clone()?, Arc::clone(&written));
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while !into.is_over.load(Ordering::Relaxed) {
                let mut ready =
                    libc::pollfd { fd: read.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: the structure outlives the call.
                if unsafe { libc::poll(&raw mut ready, 1, 50) } != 1 {
                    continue;
                }
                let Ok(length @ 1..) = read.read(&mut part) else { return };
                let mut bytes = into.bytes.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend(&part[..length]);
            }
        });
        let modes = modes(&side)?;
        Ok(Self { master, side, written, reader, modes })
    }

    fn view(context: &Context, folder: &Path) -> Command {
        let mut command = context.command(&["top", "--freq", "99", "--buffer", "32M"]);
        command.arg("--folder").arg(folder);
        command
    }

    fn start(&self, context: &Context, folder: &Path) -> Result<Child> {
        self.spawn(Self::view(context, folder))
    }

    /// Starts what has this terminal, as the first program of a session.
    fn spawn(&self, mut command: Command) -> Result<Child> {
        let side = || self.side.try_clone().map(Stdio::from);
        command.stdin(side()?).stdout(side()?).stderr(side()?).env("TERM", "xterm-256color");
        // SAFETY: between fork and exec two system calls are made; nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        Ok(command.spawn()?)
    }

    /// All that was written: what did not change is not written again, so that words of a line
    /// may be apart.
    fn text(&self) -> String {
        let written = self.written.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    fn end(&self) -> String {
        let text = self.text();
        let chars = text.chars().count();
        text.chars().skip(chars.saturating_sub(TOLD)).collect()
    }

    /// Waits until that was written.
    fn until(&self, what: &str) -> Result<()> {
        until(what, || self.text().contains(what).then_some(()))
            .with_context(|| format!("the terminal shows:\n{:?}", self.end()))
    }

    fn type_keys(&self, keys: &[u8]) -> Result<()> {
        Ok((&self.master).write_all(keys)?)
    }

    /// The terminal goes away, as that of a connection that is lost.
    fn hang_up(self) -> Result<()> {
        self.written.is_over.store(true, Ordering::Relaxed);
        self.reader.join().ok().context("the reader failed")
    }

    /// The modes as they were.
    fn restore(&self) -> Result<()> {
        // SAFETY: the modes outlive the call.
        let set =
            unsafe { libc::tcsetattr(self.side.as_raw_fd(), libc::TCSANOW, &raw const self.modes) };
        ensure!(set == 0, "cannot set modes: {}", io::Error::last_os_error());
        Ok(())
    }

    /// What was written so far is not looked at any more, but how the screen is.
    fn forget(&self) {
        self.written.bytes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether it gives whole lines only.
    fn is_canonical(&self) -> Result<bool> {
        Ok(modes(&self.side)?.c_lflag & libc::ICANON != 0)
    }

    /// The view has ended, and the terminal is as it was.
    fn ended(&self, mut top: Child, code: Option<i32>) -> Result<()> {
        let status = top.wait()?;
        ensure!(status.code() == code, "it ended with {status}:\n{:?}", self.end());
        let after = modes(&self.side)?;
        let flags =
            |modes: &libc::termios| [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag];
        ensure!(flags(&after) == flags(&self.modes), "the terminal is in another mode");
        until("the screen of before", || {
            let text = self.text();
            let left = text.rfind("\u{1b}[?1049l")?;
            let cursor = text.rfind("\u{1b}[?25h")?;
            // Where it took the screen was looked at long ago, maybe.
            let is_left = text.rfind("\u{1b}[?1049h") < Some(left);
            (is_left && text.rfind("\u{1b}[?25l") < Some(cursor)).then_some(())
        })
        .with_context(|| format!("{:?}", self.end()))
    }
}

fn modes(terminal: &OwnedFd) -> Result<libc::termios> {
    let mut modes = MaybeUninit::uninit();
    // SAFETY: the pointer is to a termios of ours, which the call fills where it succeeds.
    unsafe {
        let read = libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr());
        ensure!(read == 0, "cannot read modes: {}", io::Error::last_os_error());
        Ok(modes.assume_init())
    }
}
