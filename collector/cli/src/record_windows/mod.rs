//! `syscollect record` on Windows: a session of ETW that writes an `.etl` file.

mod finish;
mod options;
mod place;
mod watch;

use crate::signals;
use crate::terminal::{Progress, Terminal};
use anyhow::{Result, bail};
use options::Options;
use place::OutputFiles;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Instant;
use syscollect_windows::system::{self, Etw, ImageWatch};
use syscollect_windows::{Counts, Error, Plan, Session};
use watch::Ended;

pub(crate) use options::Args;

/// Exit code of an error.
const ERROR: u8 = 1;
/// Exit code when events were lost and `--fail-on-loss` is given.
const LOSS: u8 = 3;

/// Runs the sub-command.
pub(crate) fn run(args: Args, _program_start: Instant) -> Result<ExitCode> {
    let options = args.finish()?;
    if !system::is_elevated() {
        return Err(Error::NotElevated.into());
    }
    if let Err(status) = system::take_profile_privilege() {
        bail!("cannot take the right to profile the system: {status}");
    }
    let terminal = Terminal::stderr();
    let place = OutputFiles::choose(&options)?;
    let (sender, stop_events) = mpsc::channel();
    let abandon = signals::watch(sender.clone())?;
    let path = place.begin(options.force)?;
    let recorded = record(&options, &path, &terminal, |session| {
        watch::launch(&options.command, sender)?;
        let progress = || progress(session);
        watch::until_the_end(
            (options.duration, !options.command.is_empty()),
            &stop_events,
            &terminal,
            progress,
        )
    });
    abandon.writing();
    let (ended, counts) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            // A recording that never began, or whose command never did, left nothing worth keeping.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
    };
    let lost = finish::losses(&counts, terminal.style());
    finish::finish(&place, &abandon, &terminal)?;
    Ok(ExitCode::from(exit_code(&ended, lost && options.fail_on_loss)))
}

/// Records into `path` for as long as `wait` does not return.
fn record(
    options: &Options,
    path: &Path,
    terminal: &Terminal,
    wait: impl FnOnce(&Session<'_, Etw>) -> Result<Ended>,
) -> Result<(Ended, Counts)> {
    let etw = Etw;
    let here = system::place();
    let session = Session::start(&etw, &Plan::new(&wanted(options, path), here), here.pid)?;
    session.notes().iter().for_each(|note| say!("syscollect: {note}"));
    let images = ImageWatch::start(here.pid).inspect_err(|note| say!("syscollect: {note}"));
    let ended = wait(&session);
    let seen = images.map(ImageWatch::stop).unwrap_or_default();
    let counts = session.stop()?;
    let ended = ended?;
    let _busy = terminal.busy("reading images");
    let known = |image: &syscollect_windows::Image| {
        let seen = seen.get(&image.path).cloned().filter(|identity| image.is(identity));
        seen.or_else(|| {
            syscollect_windows::identity_of(&image.path).filter(|identity| image.is(identity))
        })
    };
    // The trace is whole without: its samples have names only where the same files are at hand.
    if let Err(error) = syscollect_windows::identify(path, known) {
        say!("syscollect: functions may stay without names: {error}");
    }
    Ok((ended, counts))
}

fn wanted(options: &Options, path: &Path) -> syscollect_windows::Options {
    let Options { frequency, stacks, gpu, buffer_bytes, .. } = *options;
    syscollect_windows::Options { file: PathBuf::from(path), frequency, stacks, gpu, buffer_bytes }
}

fn progress(session: &Session<'_, Etw>) -> Progress {
    let counts = session.counts().unwrap_or_default();
    let bytes = u64::from(counts.buffers_written) * session.buffer_bytes();
    Progress {
        events: None,
        bytes,
        lost: u64::from(counts.events_lost) + u64::from(counts.buffers_lost),
        ..Progress::default()
    }
}

/// The command's own failure goes first: a script that wraps a command asks for that.
fn exit_code(ended: &Ended, lost: bool) -> u8 {
    match ended {
        // Exit codes of Windows have 32 bits; what does not fit is an error all the same.
        Ended::Command(status) if !status.success() => {
            status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR)
        }
        _ if lost => LOSS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn the_commands_own_failure_goes_before_a_loss() {
        let command = |code| Ended::Command(ExitStatus::from_raw(code));
        assert_eq!(exit_code(&command(7), true), 7);
        assert_eq!(exit_code(&command(0), true), LOSS);
        assert_eq!(exit_code(&command(0xc000_0005), false), ERROR);
        assert_eq!(exit_code(&Ended::Interrupt, false), 0);
    }
}
