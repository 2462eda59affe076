//! Other processes and the machine's CPUs.

use std::ffi::OsString;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE};
use windows_sys::Win32::System::Threading::{
    ALL_PROCESSOR_GROUPS, GetActiveProcessorCount, OpenProcess, PROCESS_NAME_WIN32,
    PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
};

use super::{Status, last_error};

/// A handle that is closed.
pub(super) struct Owned(pub(super) HANDLE);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: whoever made this opened the handle and gave it away.
        unsafe { CloseHandle(self.0) };
    }
}

/// Longest path that Windows gives.
const PATH_MAX: u32 = 32_768;

/// Whether a process with this id runs, and its program's file is named like ours.
pub(super) fn runs_this_program(pid: u32) -> bool {
    let Ok(theirs) = image_of(pid) else {
        // It is gone, or it belongs to the system; an elevated administrator may ask all others.
        return false;
    };
    let ours = std::env::current_exe().unwrap_or_default();
    file_name(theirs.as_ref()) == file_name(&ours)
}

fn file_name(path: &std::path::Path) -> Option<std::ffi::OsString> {
    path.file_name().map(std::ffi::OsStr::to_ascii_lowercase)
}

/// The file of the program that a process runs.
fn image_of(pid: u32) -> Result<OsString, Status> {
    // SAFETY: takes numbers; gives a handle or null.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if process.is_null() {
        return Err(last_error());
    }
    let process = Owned(process);
    let mut name = vec![0_u16; PATH_MAX as usize];
    let mut length = PATH_MAX;
    // SAFETY: the handle is open; at most `length` characters are written into `name`, which has as
    // many.
    let reported = unsafe {
        QueryFullProcessImageNameW(process.0, PROCESS_NAME_WIN32, name.as_mut_ptr(), &mut length)
    };
    if reported == 0 {
        return Err(last_error());
    }
    let name = name.get(..length as usize).unwrap_or_default();
    Ok(String::from_utf16_lossy(name).into())
}

/// CPUs of all processor groups.
pub(super) fn cpus() -> u32 {
    // SAFETY: takes a number.
    unsafe { GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_this_program_and_no_process_does_not() {
        assert!(runs_this_program(std::process::id()));
        // Ids are multiples of four.
        assert!(!runs_this_program(0xffff_fffe));
    }

    #[test]
    fn there_is_a_cpu() {
        assert!(cpus() >= 1);
    }
}
