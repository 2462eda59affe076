//! What a recording says when it ends.

use crate::cost;
use crate::escape::printable;
use crate::format::Format;
use crate::lost::Lost;
use crate::terminal::Style;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use syscollect_exporters::TracyLayout;
use syscollect_model::{
    LaneKind, LossCause, LossOrigin, RecorderSummary, StopReason, bytes, duration, grouped,
};
use syscollect_playback::Played;
use syscollect_store::{LaneLoss, LostRecord};

/// What came of a recording.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The output and its format; `None` when it went to standard output.
    pub(crate) output: Option<(PathBuf, Format)>,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// What became of the capture beside the output.
    pub(crate) capture: KeptCapture,
    /// Events in it.
    pub(crate) events: u64,
    /// What the recorder says of itself.
    pub(crate) recorder: RecorderSummary,
    /// The part of the recording at its beginning in which zones and probes were not all recorded.
    pub(crate) attaching: Duration,
    /// What was lost.
    pub(crate) lost: Lost,
    /// What the recorder counted of it: by kind of record, too, which tells what helps.
    pub(crate) counted: Vec<LaneLoss>,
    /// The size of the trace buffer.
    pub(crate) buffer_bytes: usize,
    /// The bytes that may be written (`--max-size`).
    pub(crate) max_size: Option<u64>,
    /// The other files of a recording in several.
    pub(crate) series: Option<Series>,
}

/// A recording in several files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Series {
    /// The oldest file that is kept; `None` where there is one only.
    pub(crate) first: Option<PathBuf>,
    /// Files that are kept.
    pub(crate) files: usize,
    /// Files that were deleted again.
    pub(crate) deleted: usize,
    /// Bytes of those that are kept.
    pub(crate) bytes: u64,
}

/// What became of the raw capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptCapture {
    /// It is the output itself, or nobody asked for it.
    Not,
    /// It lies here.
    At(PathBuf),
    /// It was larger than what is kept unasked: bytes.
    TooLarge(u64),
}

/// Said where attaching took a part of the recording that is worth knowing: why it is longer than
/// it was asked to be, or has no zones at first.
fn attaching(outcome: &Outcome) -> String {
    let attaching = outcome.attaching.as_nanos() as u64;
    let is_short = outcome.attaching < Duration::from_millis(200);
    if is_short || attaching < outcome.recorder.duration_ns / 10 {
        return String::new();
    }
    format!(" ({} of it until zones and probes were attached)", duration(attaching))
}

/// The summary, several lines.
pub(crate) fn text(outcome: &Outcome, style: Style) -> String {
    let mut text = String::new();
    let recorder = &outcome.recorder;
    let output = outcome.output.as_ref().map_or("standard output".into(), |(path, _)| shown(path));
    let size = bytes(outcome.bytes);
    // Of what was before there is nothing.
    let of = if outcome.lost.overwritten() > 0 { "at the end of" } else { "in" };
    let recorded = format!(
        "{} events {of} {}{}",
        grouped(outcome.events),
        duration(recorder.duration_ns),
        attaching(outcome)
    );
    // Writing to a String never fails.
    let _ = match &outcome.series {
        Some(Series { first: Some(first), files, deleted, bytes: all }) => {
            let older = match deleted {
                0 => String::new(),
                more => format!("; {more} older ones were deleted, as asked"),
            };
            let which = match files {
                1 => "the one file that was kept".to_owned(),
                files => format!("the last of {files} files from {} on", shown(first)),
            };
            // What one file has is not what was recorded in all.
            writeln!(
                text,
                "Wrote {output}, {which}: {size}\nIn all: {recorded}, files of {}{older}",
                bytes(*all)
            )
        }
        _ => writeln!(text, "Wrote {output}: {size}, {recorded}"),
    };
    if let Some(stopped) = stopped_early(recorder, outcome.max_size) {
        let _ = writeln!(text, "{stopped}");
    }
    match &outcome.capture {
        KeptCapture::Not => {}
        KeptCapture::At(capture) => {
            let _ = writeln!(
                text,
                "Kept {0}, the raw capture, for `syscollect report {0}` and others",
                shown(capture)
            );
        }
        KeptCapture::TooLarge(size) => {
            let _ = writeln!(
                text,
                "The raw capture ({}), which `syscollect report` reads, was not kept: \
                 --keep-capture keeps it",
                bytes(*size)
            );
        }
    }
    text.push_str(&outcome.lost.text(outcome.events, style));
    if let Some(advice) = advice(&outcome.counted, outcome.buffer_bytes) {
        let _ = writeln!(text, "    {advice}");
    }
    let started = duration(recorder.startup_ns);
    let _ = writeln!(
        text,
        "Recorder: {}, recording {started} after its start",
        cost::recording(recorder)
    );
    if let Some(around) = cost::around(&recorder.costs) {
        let _ = writeln!(text, "Its other work: {around}");
    }
    if let Some((path, format)) = &outcome.output {
        let _ = writeln!(text, "Look at it: {}", format.how_to_open(path, TracyLayout::default()));
    }
    text
}

/// That a recording ended sooner than anybody asked, and why; with the limit where it is known.
pub(crate) fn stopped_early(recorder: &RecorderSummary, max_size: Option<u64>) -> Option<String> {
    let limit = max_size.map_or_else(String::new, |most| format!(" ({})", bytes(most)));
    (recorder.stop_reason == StopReason::MaxSize).then(|| {
        format!(
            "Stopped after {}: what was written reached --max-size{limit}; what lay in buffers \
             then, and names, came on top",
            duration(recorder.duration_ns)
        )
    })
}

/// A path as it is shown.
fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// What came of an export.
#[derive(Debug)]
pub(crate) struct Exported {
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
    pub(crate) lost: Lost,
    /// Whether the recording came to its end.
    pub(crate) complete: bool,
}

/// The summary of an export.
pub(crate) fn export_text(exported: &Exported, style: Style) -> String {
    let Exported { path, format, layout, bytes: size, played, lost, complete } = exported;
    let mut text =
        format!("Wrote {}: {}, {} events\n", shown(path), bytes(*size), grouped(played.events));
    if played.events == 0 {
        text.push_str(
            "Nothing is in the capture, or in the part that was asked for: the file is \
                       whole, and empty\n",
        );
    }
    match (complete, lost.lacks_parts()) {
        (true, _) => {}
        (false, false) => {
            text.push_str("The recording was cut off; everything up to there is in the file\n");
        }
        (false, true) => text.push_str("The recording is not whole: see syscollect info\n"),
    }
    text.push_str(&lost.text(played.events, style));
    let _ = writeln!(text, "Look at it: {}", format.how_to_open(path, *layout));
    text
}

/// What helps against the largest loss.
fn advice(losses: &[LaneLoss], buffer_bytes: usize) -> Option<String> {
    let lost = losses.iter().filter(|loss| loss.cause != LossCause::Overwritten && loss.count > 0);
    let largest = lost.max_by_key(|loss| loss.count)?;
    Some(match largest.cause {
        LossCause::BufferFull => format!(
            "The disk, or the CPU time that the recorder got, was too little for the events: take a \
             larger --buffer (now {}), a faster disk, or fewer --stacks",
            bytes(buffer_bytes as u64)
        ),
        LossCause::LaneFull => lane_advice(largest).into(),
        LossCause::DiskFull => "The disk is full: make room, or record elsewhere with -o".into(),
        _ => return None,
    })
}

/// What helps against a lane that ran full: what filled it is another thing for each.
fn lane_advice(loss: &LaneLoss) -> &'static str {
    match &loss.origin {
        LossOrigin::Lane(LaneKind::Zone) if loss.record == LostRecord::ItemWithoutRing => {
            "An instrumented program has more than 1,024 threads at a time; zones of the others \
             are lost"
        }
        LossOrigin::Lane(LaneKind::Zone | LaneKind::ZoneLog) => {
            "Threads recorded more zones than could be taken, or than their user's share: \
             instrument less in short loops, or give the recorder a CPU"
        }
        LossOrigin::Lane(LaneKind::Probe) => {
            "Probes were hit more often than could be taken: probe fewer places, or give the \
             recorder a CPU"
        }
        _ => {
            "The recorder got the CPU too late: take fewer --stacks or a lower --freq, or give it \
             a CPU"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lost::loss_text;
    use crate::terminal::Terminal;
    use syscollect_model::{CpuId, Loss};
    use syscollect_records::RecordKind;

    fn outcome(losses: Vec<LaneLoss>) -> Outcome {
        Outcome {
            output: Some(("x.pftrace".into(), Format::Pftrace)),
            bytes: 12_300_000,
            capture: KeptCapture::At("x.syscap".into()),
            events: 99_000,
            recorder: RecorderSummary {
                recorder_cpu_ns: 80_000_000,
                recorder_peak_bytes: 31_000_000,
                startup_ns: 150_000_000,
                duration_ns: 2_000_000_000,
                ..Default::default()
            },
            attaching: Duration::from_millis(20),
            lost: Lost::default().at_least(&losses),
            counted: losses,
            buffer_bytes: 64 << 20,
            max_size: None,
            series: None,
        }
    }

    fn loss(cause: LossCause, count: u64) -> LaneLoss {
        LaneLoss {
            origin: LaneKind::Sched.into(),
            cpu: Some(1),
            record: LostRecord::Kind(RecordKind::Switch),
            cause,
            user: None,
            count,
        }
    }

    fn plain(outcome: &Outcome) -> String {
        text(outcome, Terminal::hidden().style())
    }

    #[test]
    fn a_good_recording_needs_few_lines() {
        assert_eq!(
            plain(&outcome(Vec::new())),
            "Wrote x.pftrace: 12.3 MB, 99,000 events in 2.00 s\n\
             Kept x.syscap, the raw capture, for `syscollect report x.syscap` and others\n\
             Lost: nothing\n\
             Recorder: 80.0 ms of CPU time (4.0 % of one CPU), 31.0 MB of memory, recording 150 ms \
             after its start\n\
             Look at it: open https://ui.perfetto.dev and drop x.pftrace into it\n"
        );
    }

    #[test]
    fn a_recording_that_was_long_at_attaching_says_so() {
        let text = attached_in(Duration::from_millis(600));
        assert!(text.contains("in 2.00 s (600 ms of it until zones and probes"), "{text}");
        assert!(!attached_in(Duration::from_millis(190)).contains("until zones"));
    }

    fn attached_in(attaching: Duration) -> String {
        plain(&Outcome { attaching, ..outcome(Vec::new()) })
    }

    #[test]
    fn a_capture_that_was_too_large_to_keep_unasked_is_told_of() {
        let text = plain(&Outcome {
            capture: KeptCapture::TooLarge(3_000_000_000),
            ..outcome(Vec::new())
        });
        assert!(
            text.contains("raw capture (3.00 GB)") && text.contains("--keep-capture"),
            "{text}"
        );
        assert!(
            !plain(&Outcome { capture: KeptCapture::Not, ..outcome(Vec::new()) })
                .contains("raw capture")
        );
    }

    #[test]
    fn of_a_recording_in_several_files_the_last_ones_size_is_apart_from_what_all_have() {
        let text = of_series(5, 0);
        let expected = "Wrote x.pftrace, the last of 5 files from x-0001.pftrace on: 12.3 MB\n\
                        In all: 99,000 events in 2.00 s, files of 50.0 MB\n";
        assert!(text.starts_with(expected), "{text}");
        let text = of_series(1, 4);
        assert!(text.starts_with("Wrote x.pftrace, the one file that was kept: 12.3 MB\n"));
        assert!(text.contains("; 4 older ones were deleted, as asked\n"), "{text}");
    }

    fn of_series(files: usize, deleted: usize) -> String {
        let first = Some("x-0001.pftrace".into());
        let series = Some(Series { first, files, deleted, bytes: 50_000_000 });
        plain(&Outcome { series, ..outcome(Vec::new()) })
    }

    #[test]
    fn a_recording_that_its_size_ended_says_so() {
        let mut stopped = outcome(Vec::new());
        stopped.max_size = Some(1 << 20);
        assert!(!plain(&stopped).contains("Stopped"));
        stopped.recorder.stop_reason = StopReason::MaxSize;
        let text = plain(&stopped);
        assert!(
            text.contains("\nStopped after 2.00 s: what was written reached --max-size (1.05 MB);"),
            "{text}"
        );
    }

    #[test]
    fn a_loss_says_what_helps_against_the_largest() {
        let text =
            plain(&outcome(vec![loss(LossCause::LaneFull, 10), loss(LossCause::BufferFull, 990)]));
        assert!(text.contains("*** LOST 1,000 of 100,000 events (1.00 %) ***"), "{text}");
        assert!(text.contains("larger --buffer (now 67.1 MB)"), "{text}");
        assert!(!text.contains("Lost: nothing"), "{text}");
    }

    #[test]
    fn marks_and_probes_that_were_too_many_have_advice_of_their_own() {
        assert!(lost_text(LaneKind::Zone, LostRecord::ZoneItem).contains("instrument less"));
        assert!(
            lost_text(LaneKind::Zone, LostRecord::ItemWithoutRing)
                .contains("more than 1,024 threads")
        );
        assert!(
            lost_text(LaneKind::Probe, LostRecord::Kind(RecordKind::Probe))
                .contains("probe fewer places")
        );
        assert!(
            lost_text(LaneKind::Sched, LostRecord::Kind(RecordKind::Switch))
                .contains("fewer --stacks")
        );
    }

    fn lost_text(lane: LaneKind, record: LostRecord) -> String {
        let loss = LaneLoss { origin: lane.into(), record, ..loss(LossCause::LaneFull, 7) };
        plain(&outcome(vec![loss]))
    }

    #[test]
    fn a_loss_says_once_what_was_lost() {
        assert_eq!(text_of(LossOrigin::Events, LossCause::LaneFull, 7), "7 events: lane-full");
        assert_eq!(text_of(LossOrigin::Buffers, LossCause::Damaged, 1), "1 buffer: damaged");
        let of_a_cpu = text_of(LaneKind::Sched.into(), LossCause::Nested, 1_000);
        assert_eq!(of_a_cpu, "1,000 sched records of CPU 3: nested");
    }

    fn text_of(origin: LossOrigin, cause: LossCause, count: u64) -> String {
        let cpu = (origin == LaneKind::Sched.into()).then(|| CpuId::new(3));
        loss_text(&Loss { origin, cpu, cause, user: None, count, between: None })
    }
}
