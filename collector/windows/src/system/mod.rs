//! The calls of Windows' API.

mod console;
mod etw;
mod layouts;
mod processes;
mod rights;
mod watch;

pub use console::{Interrupt, interrupts};
pub use etw::Etw;
pub use rights::{is_elevated, take_profile_privilege};
pub use watch::ImageWatch;

use crate::error::Status;
use crate::plan::RecordingContext;
use processes::cpus;
use windows_sys::Win32::Foundation::SYSTEMTIME;
use windows_sys::Win32::System::SystemInformation::GetLocalTime;

/// This process on this machine, with a GUID that nothing has had.
#[must_use]
pub fn place() -> RecordingContext {
    RecordingContext { pid: std::process::id(), fresh: etw::fresh_guid(), cpus: cpus() }
}

/// Now, in local time, as `20261231-235959`.
#[must_use]
pub fn local_time() -> String {
    let mut now = SYSTEMTIME::default();
    // SAFETY: one SYSTEMTIME is written.
    unsafe { GetLocalTime(&mut now) };
    let date = format!("{:04}{:02}{:02}", now.wYear, now.wMonth, now.wDay);
    format!("{date}-{:02}{:02}{:02}", now.wHour, now.wMinute, now.wSecond)
}

/// What the last call of this thread failed with.
fn last_error() -> Status {
    // SAFETY: takes nothing; reads a value of this thread's own.
    Status(unsafe { windows_sys::Win32::Foundation::GetLastError() })
}

/// Zero is success, as the tracing functions have it.
fn done(status: u32) -> Result<(), Status> {
    if status == 0 { Ok(()) } else { Err(Status(status)) }
}

/// UTF-16 that ends with a 0, as the API takes names.
fn terminated(text: &str) -> Vec<u16> {
    let mut units = crate::layouts::wide(text);
    units.push(0);
    units
}
