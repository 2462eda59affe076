//! What a session lost, in words: loudly, because a trace with holes looks whole.

use crate::layouts::Counts;

/// Lines about losses; none where nothing was lost.
#[must_use]
pub fn losses(counts: &Counts) -> Vec<String> {
    let lines = [
        (counts.events_lost, "events were lost: no buffer was free (--buffer gives more memory)"),
        (
            counts.buffers_lost,
            "buffers were lost: the disk did not take them in time (-o on a faster disk)",
        ),
        (counts.real_time_buffers_lost, "buffers were lost on their way to a live consumer"),
    ];
    lines
        .into_iter()
        .filter(|(lost, _)| *lost > 0)
        .map(|(lost, what)| format!("{lost} {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_loss_has_its_line_and_its_advice() {
        let counts = Counts { events_lost: 7, buffers_lost: 2, ..Counts::default() };
        let lines = losses(&counts);
        assert!(
            lines[0].starts_with("7 events were lost") && lines[0].contains("--buffer"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("2 buffers were lost") && lines[1].contains("-o"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn what_was_written_is_no_loss() {
        assert!(losses(&Counts { buffers_written: 100, ..Counts::default() }).is_empty());
    }
}
