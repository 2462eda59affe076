//! What the console says: Ctrl-C, and that its window is closed.

use super::{Abandon, SignalAction, Stop, StopEvent};
use anyhow::{Context, Result};
use std::sync::mpsc::{self, Sender};
use std::time::Instant;
use syscollect_windows::system::{Interrupt, interrupts};

/// Begins to watch; what asks for a stop goes to `stops`.
pub(crate) fn watch(stops: Sender<StopEvent>) -> Result<Abandon> {
    let abandon = Abandon::default();
    let (sender, interrupted) = mpsc::channel::<Interrupt>();
    interrupts(sender).map_err(anyhow::Error::new).context("cannot watch for Ctrl-C")?;
    let watched = abandon.clone();
    let begin = Instant::now();
    std::thread::Builder::new()
        .name("interrupts".into())
        .spawn(move || {
            for interrupt in interrupted {
                let stop = match interrupt {
                    Interrupt::Key => Stop::Interrupt,
                    Interrupt::Close => Stop::Terminate,
                };
                let now = begin.elapsed().as_nanos() as u64;
                match watched.signal(stop, now.saturating_add(1)) {
                    // Nobody listens any more when the recording has just ended.
                    _ if watched.is_recording() => drop(stops.send(StopEvent::Signal(stop))),
                    SignalAction::End => {
                        eprint_line!("syscollect: ended at once; unfinished files end in .partial");
                        std::process::exit(1);
                    }
                    SignalAction::Stop | SignalAction::Wait | SignalAction::Abandon => {}
                }
            }
        })
        .context("cannot start the thread that watches for Ctrl-C")?;
    Ok(abandon)
}

/// The same where nothing is recorded that could be stopped: every signal means giving up.
pub(crate) fn watch_writing() -> Result<Abandon> {
    let abandon = watch(mpsc::channel().0)?;
    abandon.writing_only();
    Ok(abandon)
}
