//! `syscollect snapshot`, `status` and `stop`: what is asked of a flight recorder.

use super::message::{
    Answer, MOST_REASON, Request, SOCKET, Status, TriggerReport, UnwatchedChunks,
};
use super::socket_entry::SocketEntry;
use crate::convert::{self, NamingScope};
use crate::escape::{print, print_json, printable};
use crate::format::{self, Format};
use crate::lost::Lost;
use crate::output::{DraftFile, Target};
use crate::owner::Owner;
use crate::record::backend::files::{SMALL_CAPTURE, local_time};
use crate::signals;
use crate::symbol_files::SymbolFileOptions;
use crate::terminal::{Style, Terminal};
use crate::units::parse_duration;
use crate::usage::usage;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use syscollect_capture::{all_go_before_many, send_descriptors};
use syscollect_exporters::TracyLayout;
use syscollect_merge::Session;
use syscollect_model::{bytes, duration, grouped};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;
use syscollect_symbolize::PinnedFiles;
use syscollect_triggers::{TriggerStatus, UserCounts};

/// How long an answer may take; a snapshot is written and named meanwhile.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
const LONGEST_SNAPSHOT: Duration = Duration::from_secs(600);
/// Most bytes of an answer.
const MOST_ANSWER: u64 = 4 << 20;

/// Where the flight recorder is found.
#[derive(Debug, clap::Args)]
pub(crate) struct SocketArgs {
    /// The socket of the flight recorder
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo syscollect snapshot                              what it holds, as ./syscollect-DATE-TIME.pftrace
  sudo syscollect snapshot --last 20s -o slow.pftrace   the last 20 seconds of it
  syscollect snapshot --reason \"p99 alarm\"              of a recorder whose --group has you

The recorder goes on, and what it holds stays there for other snapshots. The file
says when and why it was taken. Where names of functions could not be found, a line says
so, and the exit code is 0: all events are there.")]
pub(crate) struct SnapshotArgs {
    /// Only the last part of what is held
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    last: Option<Duration>,

    /// Write to this file [default: ./syscollect-DATE-TIME.pftrace]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The format, where the file's extension does not tell
    #[arg(long, value_name = "FORMAT", value_parser = format::among(format::ALL))]
    format: Option<Format>,

    /// Keep the capture beside it, as FILE.syscap, also if it is large: what `report`, `info` and
    /// other exports are of
    #[arg(long)]
    keep_capture: bool,

    /// Keep no capture beside it, however small it is
    #[arg(long, conflicts_with = "keep_capture")]
    no_capture: bool,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    /// Why it is taken, for who reads it
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = parse_reason)]
    reason: String,

    #[command(flatten)]
    socket: SocketArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo syscollect status
  sudo syscollect status --json | jq .reach_ns

JSON: schema_version, recorder, pid, running_ns, reach_ns (how far back what it
holds reaches), held_bytes, buffer_bytes, events and lost (since it began), cpu_ns,
peak_bytes, memory_bytes (what --memory allows), snapshots, writing, failed (how many of each), missing, triggers (each
with its name, text, events, fired, paused, limited, crowded, and users with the same of each
of those with most; waiting; unwatched_chunks, and unwatched_of_users: user and chunks).")]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: SocketArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo syscollect stop
  sudo syscollect snapshot && sudo syscollect stop   what it holds is written before it goes

Snapshots that are being written are completed.")]
pub(crate) struct StopArgs {
    #[command(flatten)]
    socket: SocketArgs,
}

fn parse_reason(text: &str) -> Result<String, String> {
    match text.len() > MOST_REASON {
        true => Err(format!("it has {} bytes, and may have {MOST_REASON}", text.len())),
        false => Ok(text.to_owned()),
    }
}

/// Takes a snapshot.
pub(crate) fn snapshot(args: SnapshotArgs) -> Result<ExitCode> {
    let path = args.output.unwrap_or_else(|| {
        let extension = args.format.unwrap_or(Format::Pftrace).extension();
        format!("syscollect-{}.{extension}", local_time()).into()
    });
    let format = Format::of_output(&path, args.format, format::ALL).map_err(usage)?;
    let target = Target::new(&path, args.force, Owner::behind_sudo())?;
    let raw = match format {
        Format::Syscap => target.clone(),
        format => target.beside_unchecked(format.raw_beside(target.name(), "syscap")),
    };
    // It would be taken for this snapshot's.
    let is_in_the_way = !raw.is_free();
    if !args.no_capture && !args.force && is_in_the_way {
        let path = raw.path();
        bail!("{} exists: add --force to replace it, or --no-capture", path.display());
    }
    let abandon = signals::watch_writing()?;
    // Whoever may not ask is told that, and not what of their files is in the way.
    let recorder = FlightSocket::connect(&args.socket.socket)?;
    let draft = raw.draft()?;
    // People ask when the machine is busy. Where that is permitted.
    let _priority = all_go_before_many();
    let last_ns = args.last.map(|last| last.as_nanos() as u64);
    let request = Request::Snapshot { last_ns, reason: args.reason };
    let answer = recorder.ask(&request, Some(draft.file()), LONGEST_SNAPSHOT)?;
    let Answer::Snapshot { duration_ns, incomplete, unnamed } = answer else {
        bail!("the flight recorder did not answer as one: {answer:?}");
    };
    let of = duration(duration_ns);
    if let Some(why) = incomplete {
        let path = draft.keep();
        bail!("the snapshot is incomplete: {why}; what there is of it is {}", path.display());
    }
    let (path, size, events, lost) = match format {
        Format::Syscap => {
            let reader = CaptureReader::from_file(draft.file().try_clone()?)?;
            let events = convert::stored_events(&reader);
            let size = draft.file().metadata()?.len();
            (draft.publish(&raw)?, size, events, None)
        }
        format => {
            let exported = export(&draft, &target, format, &abandon)?;
            let is_small = draft.file().metadata()?.len() <= SMALL_CAPTURE;
            if args.keep_capture || (!args.no_capture && (is_small || is_in_the_way)) {
                draft.publish(&raw)?;
            }
            (exported.path, exported.bytes, exported.events, Some(exported.lost))
        }
    };
    if let Some(why) = unnamed {
        eprint_line!("syscollect: names are missing in the snapshot: {}", printable(&why));
    }
    eprint_line!(
        "syscollect: {} events of {of} in {} ({})",
        grouped(events),
        path.display(),
        bytes(size)
    );
    if let Some(lost) = lost {
        lost.text(events, Style::new(false)).lines().for_each(|line| eprint_line!("{line}"));
    }
    eprint_line!("Look at it: {}", format.how_to_open(&path, TracyLayout::default()));
    Ok(ExitCode::SUCCESS)
}

/// A snapshot that was exported.
struct ExportedSnapshot {
    path: PathBuf,
    bytes: u64,
    events: u64,
    lost: Lost,
}

/// Exports the capture.
fn export(
    capture: &DraftFile,
    target: &Target,
    format: Format,
    abandon: &signals::Abandon,
) -> Result<ExportedSnapshot> {
    let terminal = Terminal::stderr();
    let reader = CaptureReader::from_file(capture.file().try_clone()?)?;
    let mut session = Session::open(reader)?;
    // The recorder has named what it could; what this machine's files say is no more.
    let nameable = NamingScope::now(true);
    let options = SymbolFileOptions::default();
    let files = (PinnedFiles::default(), None);
    let named = convert::name(&session, files, &nameable, &options, abandon, &terminal)?;
    session.add_symbols(named.tables);
    let exported = convert::export_file(&mut session, (target, format), abandon, &terminal)?;
    let path = exported.draft.publish(target)?;
    let events = exported.played.events;
    Ok(ExportedSnapshot { path, bytes: exported.bytes, events, lost: exported.lost })
}

/// Tells how the recorder is.
pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode> {
    match FlightSocket::connect(&args.socket.socket)?.ask(&Request::Status, None, LONGEST_ANSWER)? {
        Answer::Status(status) if args.json => print_json(&serde_json::to_string(&status)?)?,
        Answer::Status(status) => print(&text(&status), Terminal::stdout().style())?,
        other => bail!("the flight recorder did not answer as one: {other:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends it.
pub(crate) fn stop(args: &StopArgs) -> Result<ExitCode> {
    match FlightSocket::connect(&args.socket.socket)?.ask(&Request::Stop, None, LONGEST_ANSWER)? {
        Answer::Stopping => Ok(ExitCode::SUCCESS),
        other => bail!("the flight recorder did not answer as one: {other:?}"),
    }
}

fn text(status: &Status) -> String {
    let seconds = (status.running_ns as f64 / 1e9).max(1e-9);
    let mut lines = vec![
        format!(
            "{} (PID {}) records for {}, {} events ({} a second), {} lost",
            printable(&status.recorder),
            status.pid,
            duration(status.running_ns),
            grouped(status.events),
            grouped((status.events as f64 / seconds) as u64),
            grouped(status.lost),
        ),
        format!(
            "it holds the last {} ({} of {})",
            duration(status.reach_ns),
            bytes(status.held_bytes),
            bytes(status.buffer_bytes),
        ),
        format!(
            "it costs {:.2} % of one CPU and at most {} of memory{}",
            status.cpu_ns as f64 / 1e7 / seconds,
            bytes(status.peak_bytes),
            status
                .memory_bytes
                .map_or_else(String::new, |most| format!(" (may have {})", bytes(most))),
        ),
        format!(
            "snapshots: {} taken, {} being written, {} failed",
            status.snapshots, status.writing, status.failed
        ),
    ];
    lines.extend(triggers(&status.triggers));
    lines.extend(status.missing.iter().map(|note| printable(note)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A line for each trigger.
fn triggers(report: &TriggerReport) -> Vec<String> {
    let line = |status: &TriggerStatus| {
        let TriggerStatus { text, events, fired, paused, limited, crowded, note, users, .. } =
            status;
        let mut line = format!(
            "trigger {}: happened {}, fired {}",
            printable(text),
            times(*events),
            grouped(*fired)
        );
        let crowd = "when more snapshots waited than may";
        let without_snapshot =
            [(paused, "within its pause"), (limited, "beyond its limit"), (crowded, crowd)];
        for (count, what) in without_snapshot {
            if *count > 0 {
                line.push_str(&format!(", {} {what}", grouped(*count)));
            }
        }
        line.push_str(&of_users(users));
        if !note.is_empty() {
            line.push_str(&format!("; {}", printable(note)));
        }
        line
    };
    let mut lines: Vec<String> = report.triggers.iter().map(line).collect();
    if report.waiting > 0 {
        let many = grouped(report.waiting);
        lines.push(format!("{many} snapshots of triggers wait for their time, or for a place"));
    }
    if report.unwatched_chunks > 0 {
        let chunks = grouped(report.unwatched_chunks);
        lines.push(format!("{chunks} chunks of records came too fast to be watched for triggers"));
    }
    for UnwatchedChunks { user, chunks } in &report.unwatched_of_users {
        lines.push(format!(
            "  {} of user {user}'s programs, whose async zones and frames were not timed meanwhile",
            grouped(*chunks)
        ));
    }
    if report.unfollowed > 0 {
        let many = grouped(report.unfollowed);
        lines.push(format!(
            "{many} threads, zones, calls or names were more than triggers follow at a time"
        ));
    }
    lines
}

/// Whose causes they were: ` (of user 1001 12 times, of root once)`.
fn of_users(users: &[UserCounts]) -> String {
    let each = users.iter().filter_map(|counts| {
        let UserCounts { user, events, limited, .. } = counts;
        let user = match (*user)? {
            0 => "root".to_owned(),
            user => format!("user {user}"),
        };
        let beyond = match limited {
            0 => String::new(),
            limited => format!(", {} beyond the limit", grouped(*limited)),
        };
        Some(format!("of {user} {}{beyond}", times(*events)))
    });
    match each.collect::<Vec<_>>() {
        each if each.is_empty() => String::new(),
        each => format!(" ({})", each.join("; ")),
    }
}

/// `once`, `12 times`.
fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{} times", grouped(count)),
    }
}

/// A socket that leads to the flight recorder.
struct FlightSocket<'a> {
    socket: UnixDatagram,
    path: &'a Path,
}

impl<'a> FlightSocket<'a> {
    /// Finds it. Nobody is told anything but a recorder of root's, or of the user's own: a request
    /// comes with a file that whoever hears it may write.
    fn connect(path: &'a Path) -> Result<Self> {
        let socket = UnixDatagram::unbound().context("cannot make a socket")?;
        let file = SocketEntry::open(path).map_err(|error| unreachable(&error, path))?;
        // Of datagrams the kernel does not tell who listens (SO_PEERCRED). Whose the socket's file
        // is, is who bound it.
        if !file.is_of_root_or_own(Owner::behind_sudo()) {
            bail!(
                "the socket {} belongs to user {}, and is asked nothing: a flight recorder is \
                 root's, or that of who asks",
                path.display(),
                file.uid()
            );
        }
        socket.connect(file.path()).map_err(|error| unreachable(&error, path))?;
        Ok(Self { socket, path })
    }

    /// Sends a request and waits for its answer.
    fn ask(&self, request: &Request, file: Option<&File>, longest: Duration) -> Result<Answer> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        ours.set_read_timeout(Some(longest)).context("cannot make a socket")?;
        let message = serde_json::to_vec(request)?;
        let descriptors: Vec<_> =
            std::iter::once(theirs.as_fd()).chain(file.map(AsFd::as_fd)).collect();
        send_descriptors(&self.socket, &message, &descriptors).with_context(|| {
            format!("cannot ask the flight recorder at {}", self.path.display())
        })?;
        drop(theirs);
        let mut answer = Vec::new();
        match ours.take(MOST_ANSWER).read_to_end(&mut answer) {
            Ok(0) => bail!("the flight recorder ended before it answered"),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("the flight recorder did not answer within {} seconds", longest.as_secs())
            }
            Err(error) => return Err(error).context("cannot read the flight recorder's answer"),
        }
        let answer = serde_json::from_slice(&answer)
            .context("the flight recorder's answer cannot be read: is it of another version?")?;
        match answer {
            Answer::Refused { why } => bail!("the flight recorder refuses: {}", printable(&why)),
            answer => Ok(answer),
        }
    }
}

/// What to do where nobody can be asked.
fn unreachable(error: &std::io::Error, path: &Path) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow::anyhow!(
            "no flight recorder listens at {path}: start one with `sudo syscollect flight`, or \
             name its --socket"
        ),
        ErrorKind::PermissionDenied => anyhow::anyhow!(
            "you may not ask the flight recorder at {path}: root may, and the members of the group \
             that `syscollect flight --group` names"
        ),
        _ => anyhow::anyhow!("cannot ask the flight recorder at {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    /// Why nothing was sent to what listens there, if so.
    fn asked(path: &Path) -> Result<(), String> {
        let request = FlightSocket::connect(path)
            .and_then(|recorder| recorder.ask(&Request::Status, None, Duration::from_millis(1)));
        match request.map_err(|error| format!("{error:#}")) {
            Err(why) if why.contains("did not answer within") => Ok(()),
            other => other.map(drop),
        }
    }

    #[test]
    fn a_false_recorder_of_another_user_hears_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["socket", "link"].map(|name| folder.path().join(name));
        let recorder = UnixDatagram::bind(&path).unwrap();
        recorder.set_nonblocking(true).unwrap();
        symlink(&path, &link).unwrap();
        let mut heard = [0; 64];
        for way in [&path, &link] {
            asked(way).unwrap();
            assert!(recorder.recv(&mut heard).is_ok(), "its own user's is asked");
        }
        // Only root can give it to somebody else.
        if chown(&path, Some(12_345), None).is_ok() {
            for way in [&path, &link] {
                let why = asked(way).unwrap_err();
                assert!(why.contains("belongs to user 12345"), "{why}");
                assert!(recorder.recv(&mut heard).is_err(), "it heard something");
            }
        }
    }

    #[test]
    fn where_nobody_listens_it_is_said_how_to_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(asked(&path).unwrap_err().contains("no flight recorder listens"));
        std::fs::write(&path, "").unwrap();
        assert!(asked(&path).unwrap_err().contains("no flight recorder listens"));
        std::fs::remove_file(&path).unwrap();
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(asked(&path).unwrap_err().contains("no flight recorder listens"));
    }
}
