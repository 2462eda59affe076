//! Recordings that are stopped while they start, that start together, and that are told to stop by
//! other signals.
//!
//! Compared with the times of the events that the captures hold, and with a clock beside the
//! recorder.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Tables, Time};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, number, signal, text, wait};

/// Moments of the start at which it is stopped, in eighths of what a whole start takes.
const MOMENTS: u32 = 12;
/// Pairs that are started together.
const PAIRS: u64 = 5;
/// A recorder that takes longer to stop stands still.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// Ctrl-C at any moment of the start: nothing is recorded, and that is said, or what is recorded
/// has its own length.
pub(crate) fn interrupted(context: &Context) -> Result<String> {
    let whole = context.path("whole.syscap");
    context.succeed(&["record", "-d", "100ms", "-o", text(&whole)?])?;
    let info = context.info(&whole)?;
    let start = Duration::from_nanos(number(&info["recorder"], "startup_ns")?);
    let (mut recorded, mut stopped) = (0, 0);
    for moment in 0..MOMENTS {
        let capture = context.path("interrupted.syscap");
        // Five of twelve within such a start; the last at five times of it, for the next may take
        // longer.
        let delay = start * moment * moment / 24;
        let recorder = begin(context, &capture)?;
        std::thread::sleep(delay);
        signal(recorder.id(), libc::SIGINT);
        let asked = Instant::now();
        let output = wait(recorder)?;
        ensure!(
            asked.elapsed() < STOPS_WITHIN,
            "after {delay:?} of its start it stopped in {:?}",
            asked.elapsed()
        );
        match output.status.code() {
            Some(0) => {
                recorded += 1;
                events_lie_within(&capture)
                    .with_context(|| format!("stopped after {delay:?} of its start"))?;
            }
            Some(1) => {
                stopped += 1;
                ensure!(
                    output.stderr.contains("stopped before the recording began"),
                    "it says: {}",
                    output.stderr
                );
                ensure!(!capture.exists(), "it recorded nothing and left a capture");
            }
            // Before it could say anything.
            None => {}
            code => anyhow::bail!("it ended with {code:?}: {}", output.stderr),
        }
        let left = capture.with_extension("syscap.partial");
        ensure!(!left.exists(), "after {delay:?} of its start it left {}", left.display());
    }
    ensure!(
        recorded > 0 && stopped > 0,
        "{recorded} were recorded and {stopped} stopped before: no moment was new"
    );
    Ok(format!(
        "{MOMENTS} moments: {stopped} stopped before they recorded, {recorded} have the length of \
         their events"
    ))
}

/// Two recordings begun together, again and again: both record, and end in time.
pub(crate) fn two(context: &Context) -> Result<String> {
    let mut longest = Duration::ZERO;
    for _ in 0..PAIRS {
        let captures = ["one.syscap", "other.syscap"].map(|name| context.path(name));
        let begun = Instant::now();
        let recorders =
            captures.iter().map(|capture| begin(context, capture)).collect::<Result<Vec<_>>>()?;
        for (recorder, capture) in recorders.into_iter().zip(&captures) {
            until_it_records(&recorder, capture)?;
            signal(recorder.id(), libc::SIGUSR1);
            let asked = Instant::now();
            let output = wait(recorder)?;
            ensure!(
                output.status.success(),
                "one of two ended with {}: {}",
                output.status,
                output.stderr
            );
            ensure!(asked.elapsed() < STOPS_WITHIN, "it stopped in {:?}", asked.elapsed());
            let reason = context.info(capture)?["recorder"]["stop_reason"].clone();
            ensure!(reason == "signal", "SIGUSR1 is told as {reason}");
            events_lie_within(capture)?;
        }
        longest = longest.max(begun.elapsed());
    }
    Ok(format!(
        "{PAIRS} pairs, both recorded and stopped by SIGUSR1, within {:.1} s",
        longest.as_secs_f64()
    ))
}

fn begin(context: &Context, capture: &Path) -> Result<Child> {
    let mut command = context.command(&["record", "-o", text(capture)?]);
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Waits for more than the header in the file.
fn until_it_records(recorder: &Child, capture: &Path) -> Result<()> {
    let partial = capture.with_extension("syscap.partial");
    let alive = format!("/proc/{}/stat", recorder.id());
    super::context::until("the recording to begin", || {
        let begun =
            std::fs::metadata(&partial).is_ok_and(|file| file.len() > super::context::HEADER_BYTES);
        (begun || !Path::new(&alive).exists()).then_some(())
    })
}

/// Whether the recording is as long as its events need, and not much longer.
fn events_lie_within(capture: &Path) -> Result<()> {
    let mut span = Span::default();
    let mut session = Session::open(CaptureReader::open(capture)?)?;
    session.play(&mut span)?;
    let reported = session.summary().context("no summary")?.duration_ns;
    let (first, last) = span.switches.context("no events")?;
    // Stopping itself is recorded, too: detaching takes its time.
    let slack = 1_000_000_000;
    ensure!(
        last - first <= reported + slack,
        "events of {} ns in a recording of {reported} ns",
        last - first
    );
    Ok(())
}

/// The first and the last switch.
#[derive(Default)]
struct Span {
    switches: Option<(u64, u64)>,
}

impl Exporter for Span {
    type Error = std::convert::Infallible;

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Self::Error> {
        if let Event::Switch(_) = event {
            let (first, last) = self.switches.unwrap_or((time.0, time.0));
            self.switches = Some((first.min(time.0), last.max(time.0)));
        }
        Ok(())
    }
}
