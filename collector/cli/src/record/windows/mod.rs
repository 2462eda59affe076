//! Recording on Windows: a session of ETW that writes an `.etl` file.

pub(super) mod command;
pub(super) mod files;
mod finish;
pub(super) mod options;

use super::options::Options;
use super::watch::{RecordingEnd, Watchable};
use super::{RecordingFinish, RecordingResult, RecordingStart};
use crate::terminal::{Progress, Terminal};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;
use syscollect_model::StopReason;
use syscollect_windows::system::{self, Etw, ImageWatch};
use syscollect_windows::{Counts, Error, Image, Plan, Session, Stacks};

/// How often progress is looked at.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// What records here.
pub(super) struct System;

impl System {
    /// Windows itself.
    pub(super) fn this() -> Self {
        Self
    }

    /// Whether a recording can work at all.
    ///
    /// # Errors
    ///
    /// A message that says what to do instead.
    pub(super) fn may_record(&self, _: &Options) -> Result<()> {
        if !system::is_elevated() {
            return Err(Error::NotElevated.into());
        }
        if let Err(status) = system::take_profile_privilege() {
            bail!("cannot take the right to profile the system: {status}");
        }
        Ok(())
    }

    /// Begins to record: when it returns, events are recorded.
    ///
    /// # Errors
    ///
    /// What keeps it from recording; nothing is left then.
    pub(super) fn begin(&self, beginning: &RecordingStart<'_>) -> Result<Running> {
        let RecordingStart { options, files, .. } = *beginning;
        let path = files.begin()?;
        let here = system::place();
        let session = Session::start(&Etw, &Plan::new(&wanted(options, &path), here), here.pid);
        let session = session.inspect_err(|_| remove(&path))?;
        session.notes().iter().for_each(|note| eprint_line!("syscollect: {note}"));
        let images =
            ImageWatch::start(here.pid).inspect_err(|note| eprint_line!("syscollect: {note}"));
        Ok(Running { session, images: images.ok(), path })
    }
}

/// A recording that runs.
pub(super) struct Running {
    session: Session<'static, Etw>,
    images: Option<ImageWatch>,
    /// What Windows writes.
    path: PathBuf,
}

impl Watchable for Running {
    fn limit(&self) -> Option<StopReason> {
        None
    }

    fn has_limits(&self) -> bool {
        false
    }

    fn progress(&self) -> Progress {
        let counts = self.session.counts().unwrap_or_default();
        Progress {
            events: None,
            bytes: u64::from(counts.buffers_written) * self.session.buffer_bytes(),
            lost: u64::from(counts.events_lost) + u64::from(counts.buffers_lost),
            ..Progress::default()
        }
    }
}

impl Running {
    /// Stops a recording of which there is nothing to keep.
    pub(super) fn discard(self) {
        drop(self.images.map(ImageWatch::stop));
        // Why it is discarded is what the user hears of.
        let _ = self.session.stop();
        remove(&self.path);
    }

    /// Stops, exports, and says what came of it.
    ///
    /// # Errors
    ///
    /// What kept the files from being finished.
    pub(super) fn finish(
        self,
        _: &RecordingEnd,
        finishing: RecordingFinish<'_>,
    ) -> Result<RecordingResult> {
        let path = self.path.clone();
        let counts = self.stop(finishing.terminal).inspect_err(|_| remove(&path))?;
        finishing.timings.end("stopping");
        let is_lossy = finish::losses(&counts, finishing.terminal.style());
        let exported = finish::finish(finishing)?;
        Ok(RecordingResult { is_lossy: is_lossy || exported.is_lossy, ..exported })
    }

    /// Ends the session, and notes in its file which images the code was of.
    fn stop(self, terminal: &Terminal) -> Result<Counts> {
        let watched = self.images.map(ImageWatch::stop).unwrap_or_default();
        let counts = self.session.stop()?;
        let _busy = terminal.busy("reading images");
        let identity = |image: &Image| {
            let watched = watched.get(&image.path).cloned().filter(|identity| image.is(identity));
            watched.or_else(|| {
                syscollect_windows::identity_of(&image.path).filter(|identity| image.is(identity))
            })
        };
        // The trace is whole without: its samples have names only where the same files are at hand.
        if let Err(error) = syscollect_windows::identify(&self.path, identity) {
            eprint_line!("syscollect: functions may stay without names: {error}");
        }
        Ok(counts)
    }
}

/// Removes a recording of which there is nothing worth keeping.
fn remove(path: &Path) {
    // Why it is removed is what the user hears of.
    let _ = std::fs::remove_file(path);
}

fn wanted(options: &Options, path: &Path) -> syscollect_windows::Options {
    syscollect_windows::Options {
        file: path.to_owned(),
        frequency: options.frequency,
        stacks: Stacks {
            samples: options.stacks.samples,
            switches: options.stacks.off_cpu,
            wakeups: options.stacks.wakers,
        },
        gpu: options.gpu,
        buffer_bytes: options.buffer_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::options::StackKinds;
    use crate::record::{ERROR, LOSS, exit_code};
    use clap::Parser;
    use std::os::windows::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn options(arguments: &[&str]) -> Options {
        let arguments = ["syscollect"].iter().chain(arguments);
        crate::args::Cli::try_parse_from(arguments).unwrap().record.finish().unwrap()
    }

    #[test]
    fn the_commands_own_failure_goes_before_a_loss() {
        let options = options(&["--fail-on-loss"]);
        let lossy = RecordingResult { is_lossy: true, ..RecordingResult::default() };
        let command = |code| RecordingEnd::Command(ExitStatus::from_raw(code));
        assert_eq!(exit_code(&options, &command(7), lossy), 7);
        assert_eq!(exit_code(&options, &command(0), lossy), LOSS);
        let whole = RecordingResult::default();
        assert_eq!(exit_code(&options, &command(0xc000_0005), whole), ERROR);
        assert_eq!(exit_code(&options, &RecordingEnd::Duration, whole), 0);
    }

    #[test]
    fn the_session_is_asked_for_what_the_options_say() {
        let options = options(&["--stacks", "off-cpu", "--freq", "100", "--buffer", "8M", "--gpu"]);
        assert_eq!(options.stacks, StackKinds { off_cpu: true, ..StackKinds::default() });
        let wanted = wanted(&options, Path::new("x.partial.etl"));
        assert_eq!(wanted.stacks, Stacks { switches: true, ..Stacks::default() });
        assert_eq!((wanted.frequency, wanted.buffer_bytes, wanted.gpu), (100, 8 << 20, true));
    }
}
