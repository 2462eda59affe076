//! What a recording says when it ends.

use crate::format::Format;
use crate::terminal::{Style, bytes, duration, grouped};
use std::fmt::Write;
use std::path::PathBuf;
use syscollect_exporters::TracyLayout;
use syscollect_model::{Loss, LossCause, RecorderSummary};
use syscollect_playback::Played;
use syscollect_store::{LaneKind, LaneLoss};

/// Most lines about losses; a machine has many lanes, and all are in `info`.
const LOSS_LINES: usize = 8;

/// A recording of less than this, nanoseconds, is too short for rates.
const SHORT_NS: u64 = 500_000_000;

/// What came of a recording.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The output and its format; `None` when it went to standard output.
    pub(crate) output: Option<(PathBuf, Format)>,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// The capture, if it was kept beside the output.
    pub(crate) capture: Option<PathBuf>,
    /// Events in it.
    pub(crate) events: u64,
    /// What the recorder says of itself.
    pub(crate) recorder: RecorderSummary,
    /// What was lost.
    pub(crate) losses: Vec<LaneLoss>,
    /// The size of the trace buffer.
    pub(crate) buffer_bytes: usize,
}

impl Outcome {
    /// Records lost against the user's will. What `--overwrite` overwrote was
    /// to be overwritten.
    pub(crate) fn lost(&self) -> u64 {
        lost(&self.losses)
    }
}

/// Records lost against the user's will.
pub(crate) fn lost(losses: &[LaneLoss]) -> u64 {
    losses.iter().filter(|loss| loss.cause != LossCause::Overwritten).map(|loss| loss.count).sum()
}

/// The summary, several lines.
pub(crate) fn text(outcome: &Outcome, style: Style) -> String {
    let mut text = String::new();
    let recorder = &outcome.recorder;
    let output = outcome.output.as_ref().map_or("standard output".into(), |(path, _)| path.display().to_string());
    // Writing to a String never fails.
    let _ = writeln!(
        text,
        "Wrote {output}: {}, {} events in {}",
        bytes(outcome.bytes),
        grouped(outcome.events),
        duration(recorder.duration_ns)
    );
    if let Some(capture) = &outcome.capture {
        let _ = writeln!(text, "Kept {}, the raw capture", capture.display());
    }
    text.push_str(&losses_text(outcome, style));
    let _ = writeln!(
        text,
        "Recorder: {}, {} of memory, recording {} after its start",
        cpu_time(recorder),
        bytes(recorder.recorder_peak_bytes),
        duration(recorder.startup_ns)
    );
    if let Some((path, format)) = &outcome.output {
        let _ = writeln!(text, "Look at it: {}", format.how_to_open(path, TracyLayout::default()));
    }
    text
}

/// `0.31 s of CPU time (3.1 % of one CPU)`.
pub(crate) fn cpu_time(recorder: &RecorderSummary) -> String {
    let time = format!("{} of CPU time", duration(recorder.recorder_cpu_ns));
    if recorder.duration_ns < SHORT_NS {
        // Stopping costs more than such a recording; a share would mislead.
        return time;
    }
    format!("{time} ({:.1} % of one CPU)", recorder.recorder_cpu_ns as f64 * 100.0 / recorder.duration_ns as f64)
}

fn losses_text(outcome: &Outcome, style: Style) -> String {
    let mut text = String::new();
    let overwritten: u64 = outcome.losses.iter().map(|loss| loss.count).sum::<u64>() - outcome.lost();
    if overwritten > 0 {
        let _ = writeln!(text, "Overwritten by newer events, as asked: {}", grouped(overwritten));
    }
    let lost = outcome.lost();
    if lost == 0 {
        let _ = writeln!(text, "{}", style.good("Lost: nothing"));
        return text;
    }
    let share = lost as f64 * 100.0 / (lost + outcome.events) as f64;
    let heading = format!("*** LOST {} of {} events ({share:.2} %) ***", grouped(lost), grouped(lost + outcome.events));
    let _ = writeln!(text, "{}", style.alarm(&heading));
    let mut losses: Vec<_> = outcome.losses.iter().filter(|loss| loss.cause != LossCause::Overwritten).collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
    for loss in losses.iter().take(LOSS_LINES) {
        let _ = writeln!(text, "{}", style.alarm(&format!("    {}", loss_line(loss))));
    }
    if let Some(more) = losses.len().checked_sub(LOSS_LINES).filter(|more| *more > 0) {
        let _ = writeln!(text, "    and {more} more: see syscollect info");
    }
    if let Some(advice) = advice(&losses, outcome.buffer_bytes) {
        let _ = writeln!(text, "    {advice}");
    }
    text
}

fn loss_line(loss: &LaneLoss) -> String {
    let lane = if loss.record.is_empty() { loss.lane.clone() } else { format!("{} {}", loss.lane, loss.record) };
    loss_text(&lane, loss.cpu, loss.cause.name(), loss.count)
}

/// `12,345 sched switch records of CPU 3: lane-full`, and of Windows traces `7 events: lane-full`.
pub(crate) fn loss_text(lane: &str, cpu: Option<u32>, cause: &str, count: u64) -> String {
    let cpu = cpu.map_or(String::new(), |cpu| format!(" of CPU {cpu}"));
    let what = match lane {
        // These say what they count.
        "events" | "buffers" if count == 1 => lane.trim_end_matches('s').to_owned(),
        "events" | "buffers" => lane.to_owned(),
        _ => format!("{lane} records"),
    };
    format!("{} {what}{cpu}: {cause}", grouped(count))
}

/// What the capture calls events of threads that got no ring.
const WITHOUT_RING: &str = "event of a thread without a ring";

/// What came of an export.
#[derive(Debug)]
pub(crate) struct Exported<'a> {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its format.
    pub(crate) format: Format,
    /// Which viewers a Tracy file is for.
    pub(crate) layout: TracyLayout,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// What was played into it.
    pub(crate) played: Played,
    /// What the capture lost.
    pub(crate) losses: &'a [Loss],
    /// Whether the recording came to its end.
    pub(crate) complete: bool,
}

/// The summary of an export.
pub(crate) fn export_text(exported: &Exported<'_>, style: Style) -> String {
    let Exported { path, format, layout, bytes: size, played, losses, complete } = exported;
    let mut text = format!("Wrote {}: {}, {} events\n", path.display(), bytes(*size), grouped(played.events));
    if played.events == 0 {
        text.push_str("Nothing is in the capture, or in the part that was asked for: the file is whole, and empty\n");
    }
    if !complete {
        text.push_str("The recording was cut off; everything up to there is in the file\n");
    }
    let overwritten: u64 =
        losses.iter().filter(|loss| loss.cause == LossCause::Overwritten).map(|loss| loss.count).sum();
    if overwritten > 0 {
        let _ = writeln!(text, "Overwritten by newer events, as asked: {}", grouped(overwritten));
    }
    match played.lost.saturating_sub(overwritten) {
        0 => text.push_str(&(style.good("Lost: nothing") + "\n")),
        lost => text.push_str(&(style.alarm(&format!("*** LOST {} events ***", grouped(lost))) + "\n")),
    }
    for loss in losses.iter().filter(|loss| loss.cause != LossCause::Overwritten).take(LOSS_LINES) {
        let line = loss_text(&loss.lane, loss.cpu, loss.cause.name(), loss.count);
        text.push_str(&(style.alarm(&format!("    {line}")) + "\n"));
    }
    let _ = writeln!(text, "Look at it: {}", format.how_to_open(path, *layout));
    text
}

/// What helps against the largest loss.
fn advice(losses: &[&LaneLoss], buffer_bytes: usize) -> Option<String> {
    Some(match losses.first()?.cause {
        LossCause::BufferFull => format!(
            "The disk was slower than the events: take a larger --buffer (now {}), a faster disk, or fewer --stacks",
            bytes(buffer_bytes as u64)
        ),
        LossCause::LaneFull => lane_advice(losses[0]).into(),
        LossCause::DiskFull => "The disk is full: make room, or record elsewhere with -o".into(),
        _ => return None,
    })
}

/// What helps against a lane that ran full: what filled it is another thing for each.
fn lane_advice(loss: &LaneLoss) -> &'static str {
    match loss.lane.as_str() {
        lane if lane == LaneKind::Zone.name() && loss.record == WITHOUT_RING => {
            "A marked program has more than 1,024 threads at a time; zones of the others are lost"
        }
        lane if lane == LaneKind::Zone.name() || lane == LaneKind::ZoneLog.name() => {
            "Threads marked more than could be taken from them: mark less in short loops, or give the recorder a CPU"
        }
        lane if lane == LaneKind::Probe.name() => {
            "Probes were hit more often than could be taken: probe fewer places, or give the recorder a CPU"
        }
        _ => "The recorder got the CPU too late: take fewer --stacks or a lower --freq, or give it a CPU",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Terminal;

    fn outcome(losses: Vec<LaneLoss>) -> Outcome {
        Outcome {
            output: Some(("x.pftrace".into(), Format::Pftrace)),
            bytes: 12_300_000,
            capture: None,
            events: 99_000,
            recorder: RecorderSummary {
                recorder_cpu_ns: 80_000_000,
                recorder_peak_bytes: 31_000_000,
                startup_ns: 150_000_000,
                duration_ns: 2_000_000_000,
                ..Default::default()
            },
            losses,
            buffer_bytes: 64 << 20,
        }
    }

    fn loss(cause: LossCause, count: u64) -> LaneLoss {
        LaneLoss { lane: "sched".into(), cpu: Some(1), record: "switch".into(), cause, count }
    }

    fn plain(outcome: &Outcome) -> String {
        text(outcome, Terminal::hidden().style())
    }

    #[test]
    fn a_good_recording_needs_four_lines() {
        assert_eq!(
            plain(&outcome(Vec::new())),
            "Wrote x.pftrace: 12.3 MB, 99,000 events in 2.00 s\n\
             Lost: nothing\n\
             Recorder: 80.0 ms of CPU time (4.0 % of one CPU), 31.0 MB of memory, recording 150.0 ms after its start\n\
             Look at it: open https://ui.perfetto.dev and drop x.pftrace into it\n"
        );
    }

    #[test]
    fn a_loss_cannot_be_missed_and_says_what_helps() {
        let text = plain(&outcome(vec![loss(LossCause::LaneFull, 10), loss(LossCause::BufferFull, 990)]));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in {text}"));
        assert!(at("*** LOST 1,000 of 100,000 events (1.00 %) ***") < at("990 sched switch records of CPU 1"));
        assert!(at("buffer-full") < at("lane-full"), "the largest comes first");
        assert!(text.contains("larger --buffer (now 67.1 MB)"));
        assert!(!text.contains("Lost: nothing"));
    }

    #[test]
    fn marks_and_probes_that_were_too_many_have_advice_of_their_own() {
        let lost = |lane: LaneKind, record: &str| {
            let loss = LaneLoss { lane: lane.name().into(), record: record.into(), ..loss(LossCause::LaneFull, 7) };
            plain(&outcome(vec![loss]))
        };
        assert!(lost(LaneKind::Zone, "item").contains("mark less"));
        assert!(lost(LaneKind::Zone, WITHOUT_RING).contains("more than 1,024 threads"));
        assert!(lost(LaneKind::Probe, "probe").contains("probe fewer places"));
        assert!(lost(LaneKind::Sched, "switch").contains("fewer --stacks"));
    }

    #[test]
    fn what_overwriting_dropped_is_told_and_is_no_loss() {
        let outcome = outcome(vec![loss(LossCause::Overwritten, 5_000)]);
        assert_eq!(outcome.lost(), 0);
        let text = plain(&outcome);
        assert!(text.contains("Overwritten by newer events, as asked: 5,000"), "{text}");
        assert!(text.contains("Lost: nothing"), "{text}");
    }

    #[test]
    fn a_loss_says_once_what_was_lost() {
        assert_eq!(loss_text("events", None, "lane-full", 7), "7 events: lane-full");
        assert_eq!(loss_text("buffers", None, "damaged", 1), "1 buffer: damaged");
        assert_eq!(loss_text("sched", Some(3), "nested", 1_000), "1,000 sched records of CPU 3: nested");
    }

    #[test]
    fn many_lanes_of_losses_stay_short() {
        let text = plain(&outcome((1..=64).map(|count| loss(LossCause::LaneFull, count)).collect()));
        assert!(text.lines().count() < 16, "{text}");
        assert!(text.contains("and 56 more: see syscollect info"), "{text}");
    }
}
