//! `live`, as a viewer that believes nothing sees it: what it was told is what a snapshot of the
//! same recorder holds.

mod compared;
mod frames;
mod gpu_zones;
mod locks;
mod memory;
mod messages;
mod names;
mod samples;
mod span;
#[cfg(test)]
mod tests;
mod wakeups;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, ensure};
use syscollect_tests::tracy_viewer::StrictViewer;

use self::compared::{RecordedEvents, ToldTimeline, compare};
use super::context::{Context, NOBODY, ends_with_us, finish, signal, until, wait};
use super::hostile_tasks::Programs;

/// Connections, one after the other.
const CONNECTIONS: u32 = 3;
/// Between two of them nobody is there.
const GONE: Duration = Duration::from_millis(300);
/// Until the programs mark what they do.
const BEGUN: Duration = Duration::from_secs(1);
/// How long it waits for answers in the end.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// Within what a viewer sees again what there is.
const LONGEST_WELCOME: Duration = Duration::from_secs(1);

/// One that runs.
pub(crate) struct Live {
    /// Its process.
    pub(crate) child: Child,
    /// Where viewers connect.
    pub(crate) address: String,
    said: thread::JoinHandle<Vec<String>>,
}

impl Live {
    /// Starts it, with these options.
    pub(crate) fn start(context: &Context, folder: &Path, options: &[&str]) -> Result<Self> {
        Self::start_at("127.0.0.1:0", context, folder, options)
    }

    /// The same at another address.
    pub(crate) fn start_at(
        listen: &str,
        context: &Context,
        folder: &Path,
        options: &[&str],
    ) -> Result<Self> {
        let mut command = context.command(&["live", "--listen", listen]);
        command.arg("--folder").arg(folder).args(options);
        ends_with_us(&mut command);
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("it has no messages")?);
        let address = loop {
            let mut line = String::new();
            ensure!(lines.read_line(&mut line)? > 0, "it ended before it listened");
            if let Some((_, address)) = line.trim_end().split_once("may connect to ") {
                break address.to_owned();
            }
        };
        // What it says later is of no concern, but it has to be read.
        let said = thread::spawn(move || lines.lines().map_while(Result::ok).collect());
        Ok(Self { child, address, said })
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn end(self) -> Result<()> {
        self.end_saying().map(drop)
    }

    /// The same; what it said meanwhile.
    pub(crate) fn end_saying(self) -> Result<String> {
        signal(self.child.id(), libc::SIGINT);
        let ended = wait(self.child)?;
        let said = self.said.join().unwrap_or_default().join("\n");
        ensure!(ended.status.success(), "live ended with {}:\n{said}", ended.status);
        Ok(said)
    }
}

/// How long each connection lasts, and how much of all the time is kept to compare with.
struct Schedule {
    looks: Duration,
    buffer: &'static str,
}

/// A viewer that connects three times while programs mark what they do; in between it is gone.
pub(crate) fn live_tracy(context: &Context) -> Result<String> {
    run(context, &Schedule { looks: Duration::from_secs(2), buffer: "256M" })
}

/// The same for a minute.
pub(crate) fn long(context: &Context) -> Result<String> {
    run(context, &Schedule { looks: Duration::from_secs(20), buffer: "1G" })
}

fn run(context: &Context, Schedule { looks, buffer }: &Schedule) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let live = Live::start(context, folder.path(), &["--freq", "199", "--buffer", buffer])?;
    let lasts = (*looks + LONGEST_ANSWER + GONE) * CONNECTIONS + LONGEST_WELCOME * 2;
    let seconds = lasts.as_secs().to_string();
    let mut programs = Programs(Vec::new());
    for load in ["silent", "everything", "gpu", "callers"] {
        let mut program = Command::new(&context.load);
        program.args([load, &seconds]).stdout(Stdio::null());
        ends_with_us(&mut program);
        programs.0.push(program.spawn()?);
    }
    thread::sleep(BEGUN);
    refuses_other_users(&live.address)?;
    let mut viewers = Vec::new();
    for _ in 0..CONNECTIONS {
        viewers.push(watch(&live.address, *looks, || {
            let output = finish(Command::new(&context.load).args(["marks", "2", "2000"]))?;
            ensure!(output.status.success(), "the load ended with {}", output.status);
            Ok(())
        })?);
        thread::sleep(GONE);
    }
    signal(live.child.id(), libc::SIGUSR1);
    let snapshot = until("the snapshot", || {
        let files = fs::read_dir(folder.path()).ok()?.flatten().map(|file| file.path());
        files.into_iter().find(|path| path.extension().is_some_and(|end| end == "syscap"))
    })?;
    drop(programs);
    let recorder = live.child.id();
    live.end()?;
    let file = RecordedEvents::of(&snapshot)?;
    let mut compared = Vec::new();
    for viewer in &viewers {
        let joined = viewer.welcome().context("it was not welcome")?.joined;
        let counts = compare(&ToldTimeline { seen: viewer.seen(), joined, recorder }, &file)?;
        counts.are_enough()?;
        compared.push(counts.to_string());
    }
    Ok(format!("as in the snapshot: {}", compared.join("; ")))
}

/// Another user of this machine speaks the protocol, and is told nothing.
fn refuses_other_users(address: &str) -> Result<()> {
    let (host, port) = address.rsplit_once(':').context("an address has a port")?;
    let hello = r"TracyPrf\x52\0\0\0";
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port}; printf '{hello}' >&3; timeout 5 head -c 1 <&3 | wc -c"
    );
    let heard = Command::new("bash").uid(NOBODY).args(["-c", &script]).output()?;
    let heard = String::from_utf8_lossy(&heard.stdout).trim().to_owned();
    ensure!(heard == "0", "user {NOBODY} heard {heard:?} bytes of the machine");
    Ok(())
}

/// What a viewer sees for so long, while something is done.
fn watch(address: &str, looks: Duration, act: impl FnOnce() -> Result<()>) -> Result<StrictViewer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut viewer = StrictViewer::default();
    let begun = Instant::now();
    loop {
        let missing = missing_of_what_is_open(&viewer);
        let Some(missing) = missing.first() else { break };
        let waited = begun.elapsed();
        ensure!(waited < LONGEST_WELCOME, "{missing} is not there {waited:?} after it came");
        exchange(&mut stream, &mut viewer)?;
    }
    act()?;
    while begun.elapsed() < looks {
        exchange(&mut stream, &mut viewer)?;
    }
    // It wants to hear no more, but the answers to all that it asked: functions that nobody asked
    // for before take their time to be named.
    stream.write_all(&viewer.disconnect())?;
    while !viewer.is_terminated() {
        exchange(&mut stream, &mut viewer)?;
        let is_late = begun.elapsed() > looks + LONGEST_ANSWER;
        ensure!(!is_late, "not all was answered {LONGEST_ANSWER:?} after it left");
    }
    Ok(viewer)
}

/// What a viewer was not told yet of what the load `silent` holds open.
fn missing_of_what_is_open(viewer: &StrictViewer) -> Vec<&'static str> {
    let seen = viewer.seen();
    let is_open =
        |name| seen.zones.iter().any(|zone| zone.end.is_none() && seen.zone_name(zone) == name);
    let lock = seen.lock_names.iter().find(|(_, name)| *name == "registry").map(|(lock, _)| *lock);
    let does = |kind| seen.locks.iter().any(|event| Some(event.lock) == lock && event.kind == kind);
    let is_named = |name: &str| seen.threads.values().any(|thread| thread.label.ends_with(name));
    let plot = seen.plot_names.iter().find(|(_, name)| name.contains("connections"));
    let has_value = |plot| seen.plots.iter().any(|(_, of, value)| of == plot && *value == 42.0);
    let is_there = [
        ("the zone of who holds the lock", is_open("stuck")),
        ("the zone of who waits for it", is_open("waiting")),
        ("who holds the lock", does(1)),
        ("who waits for the lock", does(0)),
        ("the plot", plot.is_some_and(|(plot, _)| has_value(plot))),
        ("the name of a thread", is_named(" / holder") && is_named(" / waiter")),
    ];
    is_there.into_iter().filter(|(_, is)| !is).map(|(what, _)| what).collect()
}

pub(crate) fn exchange(stream: &mut TcpStream, viewer: &mut StrictViewer) -> Result<()> {
    let mut bytes = [0; 64 << 10];
    match stream.read(&mut bytes) {
        Ok(0) => anyhow::bail!("it closed the connection"),
        Ok(read) => viewer.receive(&bytes[..read])?,
        Err(error) if is_later(&error) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(stream.write_all(&viewer.take_bytes())?)
}

/// Nothing came within the time that one waits for it.
pub(crate) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
