//! What this process may do.

use std::mem::size_of;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{HANDLE, LUID};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetTokenInformation, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    SE_PRIVILEGE_ENABLED, TOKEN_ADJUST_PRIVILEGES, TOKEN_ELEVATION, TOKEN_PRIVILEGES, TOKEN_QUERY,
    TokenElevation,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::processes::Owned;
use super::{Status, last_error, terminated};

/// ERROR_NOT_ALL_ASSIGNED: the account does not have the privilege.
const NOT_ALL_ASSIGNED: Status = Status(1300);

/// Whether this process runs as an elevated administrator.
#[must_use]
pub fn is_elevated() -> bool {
    let Ok(token) = token(TOKEN_QUERY) else { return false };
    let mut elevation = TOKEN_ELEVATION::default();
    let size = size_of::<TOKEN_ELEVATION>() as u32;
    let mut length = 0;
    // SAFETY: the token is open; the call writes one TOKEN_ELEVATION and its length.
    let reported = unsafe {
        GetTokenInformation(token.0, TokenElevation, (&raw mut elevation).cast(), size, &mut length)
    };
    reported != 0 && elevation.TokenIsElevated != 0
}

/// Enables SeSystemProfilePrivilege, without which there are no samples.
///
/// # Errors
///
/// Where the account does not have it.
pub fn take_profile_privilege() -> Result<(), Status> {
    let token = token(TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES)?;
    let name = terminated("SeSystemProfilePrivilege");
    let mut id = LUID::default();
    // SAFETY: the name ends with a 0; one LUID is written.
    if unsafe { LookupPrivilegeValueW(null(), name.as_ptr(), &mut id) } == 0 {
        return Err(last_error());
    }
    let wanted = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES { Luid: id, Attributes: SE_PRIVILEGE_ENABLED }],
    };
    // SAFETY: the token is open for this; the state before is not asked for.
    if unsafe { AdjustTokenPrivileges(token.0, 0, &wanted, 0, null_mut(), null_mut()) } == 0 {
        return Err(last_error());
    }
    // It succeeds, too, where nothing was changed.
    match last_error() {
        NOT_ALL_ASSIGNED => Err(Status::PRIVILEGE_NOT_HELD),
        _ => Ok(()),
    }
}

fn token(access: u32) -> Result<Owned, Status> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the handle of this process needs no closing; one handle is written.
    match unsafe { OpenProcessToken(GetCurrentProcess(), access, &mut token) } {
        0 => Err(last_error()),
        _ => Ok(Owned(token)),
    }
}
