//! Acting with somebody else's rights.
//!
//! The ids by which the kernel judges access to files belong to each thread, so a thread can look
//! at files as the user would on whose behalf it does. The calls are those of the kernel: libc's
//! change all threads of the process.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::folder_of;
use crate::living_other;

/// More groups than this are no user's.
const GROUPS_MAX: usize = 4096;

/// Who owns a process or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

impl Owner {
    /// Whose rights a process has; `None` if it has ended.
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::of_folder(&folder_of(pid))
    }

    pub(super) fn of_folder(process: &Path) -> Option<Self> {
        let own = status_of(process)?;
        if is_of_living(&own) {
            return parse(&own);
        }
        // A thread that has ended keeps the rights that it had; the others may have changed theirs
        // since.
        parse(
            &living_other(process)
                .and_then(|tid| status_of(&process.join(format!("task/{tid}"))))
                .unwrap_or(own),
        )
    }

    /// Who owns an open file.
    pub fn of_file(file: &File) -> Option<Self> {
        let data = file.metadata().ok()?;
        Some(Self { uid: data.uid(), gid: data.gid(), groups: Vec::new() })
    }

    /// The user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether this process is somebody else and may act as them.
    pub(crate) fn is_another(&self) -> bool {
        // SAFETY: no memory is involved.
        self.uid != 0 && unsafe { libc::geteuid() } == 0
    }
}

fn status_of(folder: &Path) -> Option<String> {
    status_at(&folder.join("status"))
}

/// What the kernel says of a process or a thread in the file `status` of its folder in /proc;
/// `None` if it has ended.
///
/// Its name is in there, which is whatever bytes it likes: those that are no UTF-8 are replaced.
pub fn status_at(path: &Path) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the thread whose status this is has not ended.
fn is_of_living(status: &str) -> bool {
    !line_of(status, "State").is_some_and(|state| state.trim_start().starts_with(['Z', 'X']))
}

fn line_of<'s>(status: &'s str, key: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

fn parse(status: &str) -> Option<Owner> {
    let groups = line_of(status, "Groups")
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|group| group.parse().ok());
    let (uid, gid) = (last_of(status, "Uid")?, last_of(status, "Gid")?);
    Some(Owner { uid, gid, groups: groups.take(GROUPS_MAX).collect() })
}

/// Of real, effective, saved, and that of file systems the last one.
fn last_of(status: &str, key: &str) -> Option<u32> {
    line_of(status, key)?.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Does `work` with the rights of `owner`, if this process may take them; with its own otherwise.
pub(crate) fn acting_as<T>(owner: Option<&Owner>, work: impl FnOnce() -> T) -> T {
    let acting = owner.filter(|owner| owner.is_another()).and_then(BorrowedRights::begin);
    let result = work();
    drop(acting);
    result
}

/// The thread has somebody else's rights to files until this is dropped.
struct BorrowedRights {
    groups: Vec<u32>,
}

impl BorrowedRights {
    fn begin(owner: &Owner) -> Option<Self> {
        let own = own_groups()?;
        // Without this right none of it can be done.
        set_groups(&owner.groups).then_some(())?;
        let acting = Self { groups: own };
        set_id(libc::SYS_setfsgid, owner.gid);
        set_id(libc::SYS_setfsuid, owner.uid);
        Some(acting)
    }
}

impl Drop for BorrowedRights {
    fn drop(&mut self) {
        // SAFETY: no memory is involved.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        // The user first: with it come the rights that the others need.
        set_id(libc::SYS_setfsuid, uid);
        set_id(libc::SYS_setfsgid, gid);
        set_groups(&self.groups);
    }
}

fn set_id(call: libc::c_long, id: u32) {
    // SAFETY: no memory is involved; the call cannot fail, at worst it changes nothing.
    unsafe { libc::syscall(call, id) };
}

fn set_groups(groups: &[u32]) -> bool {
    // SAFETY: the kernel reads as many ids as the slice has.
    unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0 }
}

fn own_groups() -> Option<Vec<u32>> {
    let mut groups = vec![0; 65_536];
    // SAFETY: the kernel writes at most as many ids as the vector has; its limit (NGROUPS_MAX) is
    // that.
    let count = unsafe { libc::syscall(libc::SYS_getgroups, groups.len(), groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).ok()?);
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_for_file_systems_are_those_that_count() {
        let status = "Name:\tx\nUid:\t1000\t0\t0\t1001\nGid:\t5\t6\t7\t8\nGroups:\t4 24 27 \n";
        assert_eq!(parse(status), Some(Owner { uid: 1001, gid: 8, groups: vec![4, 24, 27] }));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_has_an_owner_and_one_that_is_gone_none() {
        assert!(Owner::of_process(std::process::id()).is_some());
        assert_eq!(Owner::of_process(u32::MAX), None);
    }

    #[test]
    fn a_name_that_is_no_text_hides_nobody() {
        // What its main thread is called is what a process is called.
        let name = Path::new("/proc/self/comm");
        let before = std::fs::read(name).unwrap();
        std::fs::write(name, b"A\xff").unwrap();
        let owner = Owner::of_process(std::process::id());
        std::fs::write(name, before.trim_ascii_end()).unwrap();
        assert!(owner.is_some());
    }
}
