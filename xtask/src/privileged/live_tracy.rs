//! `live`, as a viewer that believes nothing sees it: what it was told is what a snapshot of the
//! same recorder holds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Tables, Time};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;
use syscollect_tests::tracy_viewer::{ReceivedSwitch, StrictViewer};

use super::context::{Context, ends_with_us, finish, signal, until, wait};

/// How long what happened may be on its way to the viewer.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
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
        let mut command = context.command(&["live", "--listen", "127.0.0.1:0"]);
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
        signal(self.child.id(), libc::SIGINT);
        let ended = wait(self.child)?;
        let said = self.said.join().unwrap_or_default().join("\n");
        ensure!(ended.status.success(), "live ended with {}:\n{said}", ended.status);
        Ok(())
    }
}

/// A viewer that connects twice while threads switch and mark zones; in between it is gone.
pub(crate) fn live_tracy(context: &Context) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let live = Live::start(context, folder.path(), &["--freq", "199"])?;
    let first = watch(&live.address, || run_load(context, "2000"))?;
    run_load(context, "200")?;
    let second = watch(&live.address, || {
        run_load(context, "2000")?;
        signal(live.child.id(), libc::SIGUSR1);
        Ok(())
    })?;
    let snapshot = until("the snapshot", || {
        let files = fs::read_dir(folder.path()).ok()?.flatten().map(|file| file.path());
        files.into_iter().find(|path| path.extension().is_some_and(|end| end == "syscap"))
    })?;
    live.end()?;
    let file = events_of(snapshot)?;
    let [first, second] = [compare(&first, &file)?, compare(&second, &file)?];
    Ok(format!("{first} and, after it came back, {second} switches as in the snapshot"))
}

fn run_load(context: &Context, zones: &str) -> Result<()> {
    let output = finish(Command::new(&context.load).args(["marks", "2", zones]))?;
    ensure!(output.status.success(), "the load ended with {}", output.status);
    Ok(())
}

/// What a viewer sees while that is done, and shortly after.
fn watch(address: &str, act: impl FnOnce() -> Result<()>) -> Result<StrictViewer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut viewer = StrictViewer::default();
    let begun = Instant::now();
    let mut knows_what_is = false;
    while begun.elapsed() < ON_ITS_WAY {
        exchange(&mut stream, &mut viewer)?;
        let seen = viewer.seen();
        knows_what_is |= !seen.threads.is_empty() && !seen.plots.is_empty();
        let is_late = !knows_what_is && begun.elapsed() > LONGEST_WELCOME;
        ensure!(!is_late, "threads and plots are not there {LONGEST_WELCOME:?} after it came");
    }
    act()?;
    let acted = Instant::now();
    while acted.elapsed() < ON_ITS_WAY || !viewer.is_answered() {
        exchange(&mut stream, &mut viewer)?;
        ensure!(acted.elapsed() < 5 * ON_ITS_WAY, "what it asked is not answered");
    }
    let mut end = Vec::new();
    viewer.terminate(&mut end);
    stream.write_all(&end)?;
    Ok(viewer)
}

pub(crate) fn exchange(stream: &mut TcpStream, viewer: &mut StrictViewer) -> Result<()> {
    let mut bytes = [0; 64 << 10];
    match stream.read(&mut bytes) {
        Ok(0) => anyhow::bail!("it closed the connection"),
        Ok(read) => viewer.receive(&bytes[..read])?,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(stream.write_all(&viewer.take_bytes())?)
}

/// Switches by CPU: when, and who comes.
type Switches = BTreeMap<u8, Vec<(i64, u32)>>;

/// What is in a file.
#[derive(Default)]
struct InFile {
    switches: Switches,
    zones: u64,
}

impl Exporter for InFile {
    type Error = std::convert::Infallible;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        match event {
            Event::Switch(switch) => {
                let cpu = self.switches.entry(switch.cpu.number as u8).or_default();
                cpu.push((time.0 as i64, tables.thread(switch.next).tid));
            }
            Event::SliceBegin(..) => self.zones += 1,
            _ => {}
        }
        Ok(())
    }
}

fn events_of(path: PathBuf) -> Result<InFile> {
    let mut file = InFile::default();
    Session::open(CaptureReader::open(&path)?)?.play(&mut file)?;
    Ok(file)
}

/// Where both know all, they know the same; how many switches that are.
fn compare(viewer: &StrictViewer, file: &InFile) -> Result<usize> {
    let seen = viewer.seen();
    let joined = viewer.welcome().context("it was not welcome")?.joined;
    let missing = seen.messages.iter().find(|message| {
        message.own && (message.text.contains("lost") || message.text.contains("missing"))
    });
    ensure!(missing.is_none(), "the viewer was told of a loss: {missing:?}");
    ensure!(seen.zones.iter().any(|zone| seen.zone_name(zone) == "turn"), "there are no zones");
    let named = |switch: &&ReceivedSwitch| switch.new != 0 && switch.time > joined;
    let threads: BTreeSet<u32> = seen.switches.iter().filter(named).map(|one| one.new).collect();
    for thread in threads {
        let name = seen.threads.get(&thread).map(|thread| thread.label.as_str());
        ensure!(name.is_some_and(|name| !name.is_empty()), "thread {thread} has no name");
    }
    ensure!(file.zones > 0 && !file.switches.is_empty(), "the snapshot is empty");
    let mut compared = 0;
    for (cpu, in_file) in &file.switches {
        let told: Vec<_> =
            seen.switches.iter().filter(|one| one.cpu == *cpu && one.time > joined).collect();
        let (Some(from), Some(to)) = (told.first(), told.last()) else { continue };
        let until = to.time.min(in_file.last().map_or(0, |last| last.0));
        let both = |time: i64| (from.time..=until).contains(&time);
        // From idle to idle is no switch to the viewer.
        let mut current = None;
        let changes =
            in_file.iter().filter(|(_, next)| (current.replace(*next), *next) != (Some(0), 0));
        let changes: Vec<_> = changes.filter(|(time, _)| both(*time)).copied().collect();
        let told: Vec<_> = told.iter().map(|one| (one.time, one.new)).collect();
        let told: Vec<_> = told.into_iter().filter(|(time, _)| both(*time)).collect();
        let differs = told.iter().zip(&changes).position(|(told, in_file)| told != in_file);
        ensure!(
            differs.is_none() && told.len() == changes.len(),
            "CPU {cpu}: {} switches told and {} in the snapshot; the first that differs: {:?} and \
             {:?}",
            told.len(),
            changes.len(),
            differs.map(|at| told[at]),
            differs.map(|at| changes[at])
        );
        compared += told.len();
    }
    ensure!(compared > 1_000, "only {compared} switches were compared");
    Ok(compared)
}
