//! What the console says: Ctrl-C, and that its window is closed.

use super::{Abandon, Happening, Stop};
use anyhow::{Context, Result};
use std::sync::mpsc::{self, Sender};
use syscollect_windows::system::{Interrupt, interrupts};

/// Begins to watch; what asks for a stop goes to `stops`.
pub(crate) fn watch(stops: Sender<Happening>) -> Result<Abandon> {
    let abandon = Abandon::default();
    let (sender, interrupted) = mpsc::channel::<Interrupt>();
    interrupts(sender).map_err(anyhow::Error::new).context("cannot watch for Ctrl-C")?;
    let watched = abandon.clone();
    std::thread::Builder::new()
        .name("interrupts".into())
        .spawn(move || {
            for interrupt in interrupted {
                let stop = match interrupt {
                    Interrupt::Key => Stop::Interrupt,
                    Interrupt::Close => Stop::Terminate,
                };
                if let Some(stop) = watched.signal(stop) {
                    // Nobody listens any more when the recording has just ended.
                    let _ = stops.send(Happening::Signal(stop));
                }
            }
        })
        .context("cannot start the thread that watches for Ctrl-C")?;
    Ok(abandon)
}
