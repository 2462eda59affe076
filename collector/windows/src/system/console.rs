//! Ctrl-C and what else ends a program of a console.

use std::sync::OnceLock;
use std::sync::mpsc::Sender;
use std::time::Duration;

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

use super::{Status, last_error};

/// Why the program is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C or Ctrl-Break; a launched command got it too.
    Key,
    /// The window is closed, the user logs off, or the machine shuts down.
    Close,
}

type Tell = Box<dyn Fn(Interrupt) -> bool + Send + Sync>;
static TELL: OnceLock<Tell> = OnceLock::new();

/// Longer than Windows waits for a program whose window was closed.
const FOREVER: Duration = Duration::from_secs(60);

/// From now on interrupts are sent rather than ending the program. Only the first
/// call in a process counts. An interrupt that nobody receives ends the program as ever.
///
/// # Errors
///
/// Where the system refuses.
pub fn interrupts<T: From<Interrupt> + Send + 'static>(sender: Sender<T>) -> Result<(), Status> {
    let sender = std::sync::Mutex::new(sender);
    let tell =
        move |interrupt| sender.lock().is_ok_and(|sender| sender.send(T::from(interrupt)).is_ok());
    // A second caller would take the interrupts away from the first.
    if TELL.set(Box::new(tell)).is_err() {
        return Ok(());
    }
    // SAFETY: the handler is a function that lives as long as the program.
    match unsafe { SetConsoleCtrlHandler(Some(handler), 1) } {
        0 => Err(last_error()),
        _ => Ok(()),
    }
}

/// Runs on a thread that Windows makes for it.
unsafe extern "system" fn handler(event: u32) -> BOOL {
    let interrupt = match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT => Interrupt::Key,
        _ => Interrupt::Close,
    };
    let reported = TELL.get().is_some_and(|tell| tell(interrupt));
    if reported && interrupt == Interrupt::Close {
        // The program ends when this returns; it is to stop its session first.
        std::thread::sleep(FOREVER);
    }
    BOOL::from(reported)
}
