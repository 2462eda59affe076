//! The kernel's descriptions of its tracepoints where nobody has mounted them: on a mount of this
//! process alone, which has no place in any folder, is seen by nobody else, and goes with the
//! process.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where the events lie on it.
///
/// # Errors
///
/// The kernel is older than 5.2, or this process lacks `cap_sys_admin`.
pub(super) fn private_events() -> io::Result<PathBuf> {
    static MOUNT: OnceLock<Result<OwnedFd, i32>> = OnceLock::new();
    let mounted =
        MOUNT.get_or_init(|| mount().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)));
    match mounted {
        Ok(mount) => Ok(PathBuf::from(format!("/proc/self/fd/{}/events", mount.as_raw_fd()))),
        Err(number) => Err(io::Error::from_raw_os_error(*number)),
    }
}

/// Mounts tracefs nowhere, for reading (include/uapi/linux/mount.h).
fn mount() -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_long = 1;
    const CREATE: libc::c_long = 6;
    const READ_ONLY: libc::c_long = 0x1;
    const NO_PROGRAMS: libc::c_long = 0x2 | 0x4 | 0x8;
    const NAME: &CStr = c"tracefs";
    // SAFETY: the name ends with a zero and outlives the call.
    let context =
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, NAME.as_ptr(), CLOSE_ON_EXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes neither key nor value.
    let result =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, none, none, 0) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let attributes = READ_ONLY | NO_PROGRAMS;
    // SAFETY: no memory is involved.
    descriptor(unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, attributes)
    })
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: these calls return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
