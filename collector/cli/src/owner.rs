//! The user behind `sudo`: who output files belong to and whom commands run as.

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// Whether what this user made is as good as what this process's own makes: root, who may do
/// everything, that own user, and the one behind sudo.
pub(crate) fn is_trusted(uid: u32, behind_sudo: Option<Owner>) -> bool {
    // SAFETY: geteuid has no preconditions and always succeeds.
    let own = unsafe { libc::geteuid() };
    uid == 0 || uid == own || behind_sudo.is_some_and(|owner| owner.uid == uid)
}

/// A user and group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// User id.
    pub(crate) uid: u32,
    /// Group id.
    pub(crate) gid: u32,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user {}", self.uid)
    }
}

impl Owner {
    /// Makes the file this user's.
    pub(crate) fn give(&self, file: &std::fs::File) -> std::io::Result<()> {
        std::os::unix::fs::fchown(file, Some(self.uid), Some(self.gid))
    }

    /// The user who called sudo, if this process is root because of that.
    pub(crate) fn behind_sudo() -> Option<Self> {
        Self::from_variables(is_root(), |name| std::env::var(name).ok())
    }

    /// Whose a file is that takes the place of `file`: its owner's, if this process is root and may
    /// give it.
    pub(crate) fn to_keep(file: &std::fs::File) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let data = file.metadata().ok().filter(|_| is_root())?;
        Some(Self { uid: data.uid(), gid: data.gid() })
    }

    /// Whether this process is root and `path`, or the last folder on the way to it that is there,
    /// is another user's.
    pub(crate) fn is_root_in_anothers(path: &std::path::Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let nearest = path.ancestors().find_map(|folder| folder.metadata().ok());
        is_root() && nearest.is_some_and(|data| data.uid() != 0)
    }

    /// The number of the user who asks: the one who called sudo, else this process's.
    pub(crate) fn user_asking() -> Option<u32> {
        // SAFETY: geteuid has no preconditions and always succeeds.
        Some(Self::behind_sudo().map_or_else(|| unsafe { libc::geteuid() }, |owner| owner.uid))
    }

    /// The user behind sudo from given variables. Only root may act for another user, and
    /// root behind sudo is nobody but root.
    fn from_variables(root: bool, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let (uid, gid) = (variable("SUDO_UID")?, variable("SUDO_GID")?);
        let owner = Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
        (root && owner.uid != 0).then_some(owner)
    }
}

/// What a process needs to run as a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// The user and the primary group.
    pub(crate) owner: Owner,
    /// All groups, the primary one included.
    pub(crate) groups: Vec<libc::gid_t>,
    /// Name, if the user is in the user database.
    pub(crate) name: Option<OsString>,
    /// Home folder.
    pub(crate) home: Option<OsString>,
    /// Login shell.
    pub(crate) shell: Option<OsString>,
}

impl Account {
    /// Looks the user up; a user missing from the database keeps number and group.
    pub(crate) fn of(owner: Owner) -> Self {
        let mut account =
            Self { owner, groups: vec![owner.gid], name: None, home: None, shell: None };
        let mut buffer = vec![0u8; 16 << 10];
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the length is the buffer's.
        let result = unsafe {
            libc::getpwuid_r(
                owner.uid,
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                std::ptr::from_mut(&mut found),
            )
        };
        if result != 0 || found.is_null() {
            return account;
        }
        // SAFETY: `found` is not null, so it points to `entry`, which is filled;
        // its strings lie in `buffer`, which outlives this block.
        let (name, home, shell) = unsafe {
            let entry = &*found;
            (CStr::from_ptr(entry.pw_name).to_owned(), text(entry.pw_dir), text(entry.pw_shell))
        };
        account.groups = groups_of(&name, owner.gid);
        account.name = Some(OsString::from_vec(name.into_bytes()));
        (account.home, account.shell) = (home, shell);
        account
    }
}

/// Copies a C string.
///
/// # Safety
///
/// `pointer` is null or points to a string that ends with a zero byte.
unsafe fn text(pointer: *const libc::c_char) -> Option<OsString> {
    // SAFETY: the caller's promise.
    (!pointer.is_null())
        .then(|| OsString::from_vec(unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()))
}

/// Every group the named user is in.
fn groups_of(name: &CString, gid: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: `count` says how many entries `groups` has room for.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        if result >= 0 {
            groups.truncate(count.max(0) as usize);
            return groups;
        }
        // Too small: `count` is what is needed. A kernel allows 65,536 groups.
        if groups.len() >= 1 << 16 {
            return vec![gid];
        }
        groups.resize((count.max(0) as usize).max(groups.len() * 2), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sudo(uid: &'static str) -> impl Fn(&str) -> Option<String> {
        move |name| match name {
            "SUDO_UID" => Some(uid.to_owned()),
            "SUDO_GID" => Some("1001".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn the_caller_of_sudo_is_the_owner() {
        assert_eq!(Owner::from_variables(true, sudo("1000")), Some(Owner { uid: 1000, gid: 1001 }));
    }

    #[test]
    fn root_oneself_and_the_caller_of_sudo_are_trusted_and_nobody_else() {
        // SAFETY: no preconditions.
        let own = unsafe { libc::geteuid() };
        let alice = Some(Owner { uid: 4_000_000, gid: 4_000_000 });
        assert!(is_trusted(0, None) && is_trusted(own, None));
        assert!(is_trusted(4_000_000, alice) && !is_trusted(4_000_000, None));
        assert!(!is_trusted(4_000_001, alice));
    }

    #[test]
    fn nobody_is_behind_a_plain_user_a_root_login_or_nonsense() {
        assert_eq!(
            Owner::from_variables(false, sudo("1000")),
            None,
            "a plain user cannot act for others"
        );
        assert_eq!(Owner::from_variables(true, |_| None), None);
        assert_eq!(Owner::from_variables(true, sudo("0")), None);
        assert_eq!(Owner::from_variables(true, sudo("-5")), None);
        assert_eq!(Owner::from_variables(true, sudo("root; rm")), None);
    }

    #[test]
    fn an_account_has_its_groups_and_an_unknown_one_its_numbers() {
        let root = Account::of(Owner { uid: 0, gid: 0 });
        assert_eq!(root.name.as_deref(), Some("root".as_ref()));
        assert!(root.groups.contains(&0));
        let unknown = Account::of(Owner { uid: 3_999_999, gid: 77 });
        assert_eq!((unknown.name, unknown.groups), (None, vec![77]));
    }
}
