//! The part of a recording that is looked at: the same options for every sub-command that reads
//! one.

use crate::units::{parse_duration, parse_moment};
use crate::usage::usage;
use anyhow::{Context, Result};
use std::time::Duration;
use syscollect_model::Time;
use syscollect_playback::Recording;

/// From when on, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct TimeRange {
    /// Leave out what was before this time of the recording: 2.5 (seconds), 500ms, 1m
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    from: Option<Duration>,

    /// Leave out what was from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    to: Option<Duration>,

    /// Of a snapshot, only so much before and after the moment for which it was taken
    #[arg(long, value_name = "TIME", value_parser = parse_duration,
          conflicts_with_all = ["from", "to"])]
    around: Option<Duration>,
}

impl TimeRange {
    /// The range, if it is one.
    pub(crate) fn checked(self) -> Result<Self, clap::Error> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from >= to => {
                Err(usage("--to must be later than --from".into()))
            }
            _ => Ok(self),
        }
    }

    /// Whether something is left out.
    pub(crate) fn is_part(self) -> bool {
        self.from.is_some() || self.to.is_some() || self.around.is_some()
    }

    /// Which part it is, in words with a space before; nothing for all.
    pub(crate) fn words(self) -> String {
        let from =
            self.from.map_or_else(String::new, |from| format!(" from {} s on", from.as_secs_f64()));
        let to = self.to.map_or_else(String::new, |to| format!(" before {} s", to.as_secs_f64()));
        let around = self.around.map_or_else(String::new, |around| {
            format!(" within {} s of the snapshot's mark", around.as_secs_f64())
        });
        from + &to + &around
    }

    /// Times of the session.
    ///
    /// # Errors
    ///
    /// It is to be around a snapshot's mark, and the session is no snapshot.
    pub(crate) fn of(self, session: &impl Recording) -> Result<(Option<Time>, Option<Time>)> {
        if let Some(around) = self.around.map(nanoseconds) {
            let mark = session.info().snapshot.as_ref().context(
                "--around is for snapshots of a flight recorder, which say for what they were \
                 taken; other recordings are cut by --from and --to",
            )?;
            let mark = session.clock().time(mark.at).0;
            let [from, to] = [mark.saturating_sub(around), mark.saturating_add(around)].map(Time);
            return Ok((Some(from), Some(to)));
        }
        let began = beginning(session).0;
        let after = |after| Some(Time(began.saturating_add(nanoseconds(after?))));
        Ok((after(self.from), after(self.to)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What times that people name count from: clocks are read when a recording begins.
pub(crate) fn beginning(session: &impl Recording) -> Time {
    Time(session.clock().pairs().first().map_or(0, |pair| pair.boottime))
}
