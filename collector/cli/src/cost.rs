//! What the recorder cost, as `record` and `info` tell it: each part of its work, and all of them.

use syscollect_model::{RecorderSummary, RecorderWork, WorkCost, bytes, duration};

/// A recording of less than this, nanoseconds, is too short for rates.
const SHORT_NS: u64 = 500_000_000;

/// `310.0 ms of CPU time (3.1 % of one CPU), 31.0 MB of memory`: the recording alone.
pub(crate) fn recording(recorder: &RecorderSummary) -> String {
    let time = format!("{} of CPU time", duration(recorder.recorder_cpu_ns));
    // Stopping costs more than a short recording; a share would mislead.
    let share = match recorder.duration_ns {
        0..SHORT_NS => String::new(),
        whole => {
            format!(" ({:.1} % of one CPU)", recorder.recorder_cpu_ns as f64 * 100.0 / whole as f64)
        }
    };
    format!("{time}{share}, {} of memory", bytes(recorder.recorder_peak_bytes))
}

/// `start 100.0 ms, 12.0 MB; naming 1.20 s, 90.0 MB; in all 1.61 s of CPU time, at most 90.0 MB of
/// memory`; nothing for captures that do not tell.
pub(crate) fn around(costs: &[WorkCost]) -> Option<String> {
    let most = costs.iter().map(|cost| cost.peak_bytes).max()?;
    let all = costs.iter().fold(0u64, |sum, cost| sum.saturating_add(cost.cpu_ns));
    let others = costs.iter().filter(|cost| cost.work != RecorderWork::Recording);
    let mut parts: Vec<String> = others
        .map(|cost| format!("{} {}, {}", cost.work, duration(cost.cpu_ns), bytes(cost.peak_bytes)))
        .collect();
    parts.push(format!("in all {} of CPU time, at most {} of memory", duration(all), bytes(most)));
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(work: RecorderWork, cpu_ms: u64, peak_mb: u64) -> WorkCost {
        WorkCost { work, cpu_ns: cpu_ms * 1_000_000, peak_bytes: peak_mb * 1_000_000 }
    }

    #[test]
    fn a_short_recording_has_no_share_of_a_cpu() {
        assert_eq!(
            recording(&recorder(2_000_000_000)),
            "80.0 ms of CPU time (4.0 % of one CPU), 31.0 MB of memory"
        );
        assert_eq!(recording(&recorder(2_000_000)), "80.0 ms of CPU time, 31.0 MB of memory");
    }

    fn recorder(duration_ns: u64) -> RecorderSummary {
        RecorderSummary {
            recorder_cpu_ns: 80_000_000,
            recorder_peak_bytes: 31_000_000,
            duration_ns,
            ..Default::default()
        }
    }

    #[test]
    fn all_parts_of_the_work_are_told_and_add_up() {
        let costs = [
            cost(RecorderWork::Start, 400, 60),
            cost(RecorderWork::Recording, 12_900, 43),
            cost(RecorderWork::Naming, 32_000, 486),
        ];
        assert_eq!(
            around(&costs).unwrap(),
            "start 400 ms, 60.0 MB; naming 32.0 s, 486 MB; in all 45.3 s of CPU time, at most 486 \
             MB of memory"
        );
        assert_eq!(around(&[]), None, "older captures say nothing of it");
    }
}
