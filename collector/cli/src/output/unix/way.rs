//! The way to a folder, one name after the other.
//!
//! What root writes lies where root said. Whoever owns a folder on the way may put a symbolic link
//! in the place of the next one, between two looks: links are followed only if they were made by
//! root, by this process's user or by the one behind sudo. Each is looked at by its own handle, so
//! that it is the one that was checked that is followed.

#![expect(clippy::disallowed_methods, reason = "outputs, which the user names")]

use super::c_string;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: u32 = 40;
/// Longer than any link's text (`PATH_MAX`).
const LONGEST_LINK: usize = 4096;

/// Why a folder cannot be had.
#[derive(Debug)]
pub(super) enum WayError {
    /// There is none, or it may not be looked at.
    System(io::Error),
    /// A link leads there that somebody else made.
    ForeignLink { link: PathBuf, uid: u32 },
}

impl From<io::Error> for WayError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A handle of the folder, to which no link leads whose owner is not trusted.
pub(super) fn open_folder(
    path: &Path,
    is_trusted: impl Fn(u32) -> bool,
) -> Result<OwnedFd, WayError> {
    let mut walk = Walk::new(path)?;
    let mut links = 0;
    while let Some(name) = walk.left.pop() {
        let c_name = c_string(&name)?;
        match open(walk.at.as_raw_fd(), &c_name, libc::O_DIRECTORY | libc::O_NOFOLLOW) {
            Ok(next) => {
                walk.at = next;
                walk.passed.push(&name);
                continue;
            }
            // What is no folder may be a link.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ELOOP)) => {}
            Err(error) => return Err(error.into()),
        }
        let link = File::from(open(walk.at.as_raw_fd(), &c_name, libc::O_NOFOLLOW)?);
        let data = link.metadata()?;
        if !data.is_symlink() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR).into());
        }
        // Those are the kernel's own, and lead where their text does not say.
        if is_in_proc(&link)? {
            walk.at = open(walk.at.as_raw_fd(), &c_name, libc::O_DIRECTORY)?;
            walk.passed.push(&name);
            continue;
        }
        if !is_trusted(data.uid()) {
            return Err(WayError::ForeignLink { link: walk.passed.join(&name), uid: data.uid() });
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        walk.turn(Path::new(&text_of(&link)?))?;
    }
    Ok(walk.at)
}

/// Where somebody is on the way.
struct Walk {
    at: OwnedFd,
    passed: PathBuf,
    /// Names that come, the next one last.
    left: Vec<OsString>,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        let at = open(libc::AT_FDCWD, c".", libc::O_DIRECTORY)?;
        let mut walk = Self { at, passed: PathBuf::new(), left: Vec::new() };
        walk.turn(path)?;
        Ok(walk)
    }

    /// Goes that way from here, and only then on.
    fn turn(&mut self, path: &Path) -> io::Result<()> {
        if path.is_absolute() {
            self.at = open(libc::AT_FDCWD, c"/", libc::O_DIRECTORY)?;
            self.passed = PathBuf::from("/");
        }
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::ParentDir => Some(OsStr::new("..")),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        });
        self.left.extend(names.map(OsStr::to_owned).collect::<Vec<_>>().into_iter().rev());
        Ok(())
    }
}

fn open(at: RawFd, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the name ends with a zero byte; the flags ask for no mode.
    let descriptor =
        unsafe { libc::openat(at, name.as_ptr(), flags | libc::O_PATH | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn is_in_proc(link: &File) -> io::Result<bool> {
    let mut data = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the handle is open, and `data` has room for the result.
    if unsafe { libc::fstatfs(link.as_raw_fd(), data.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zero bytes are a valid `statfs`, and the call has filled it.
    Ok(unsafe { data.assume_init() }.f_type as u64 == libc::PROC_SUPER_MAGIC as u64)
}

/// Where a link leads.
fn text_of(link: &File) -> io::Result<OsString> {
    let mut text = vec![0; LONGEST_LINK];
    let (at, name) = (link.as_raw_fd(), c"".as_ptr());
    // SAFETY: the handle is open, the name is an empty C string, and the buffer is as long as is
    // said.
    let length = unsafe { libc::readlinkat(at, name, text.as_mut_ptr().cast(), text.len()) };
    text.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(OsString::from_vec(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The folder that a handle is of.
    fn place(handle: &OwnedFd) -> PathBuf {
        std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).unwrap()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(path.join("real/deep")).unwrap();
        (folder, path)
    }

    #[test]
    fn links_of_who_is_trusted_lead_where_the_kernel_says() {
        let (_folder, path) = folder();
        symlink("real", path.join("relative")).unwrap();
        symlink(path.join("real"), path.join("absolute")).unwrap();
        symlink("../relative/./deep/..", path.join("real/back")).unwrap();
        for way in [
            "real/deep",
            "relative/deep",
            "absolute/deep",
            "./relative//deep/",
            "real/back/deep",
            "absolute/back/back/deep/../deep",
        ] {
            let handle = open_folder(&path.join(way), |_| true).unwrap();
            assert_eq!(place(&handle), path.join("real/deep"), "{way}");
        }
        let own = format!("/proc/self/cwd/{}", path.display());
        let by_kernel = open_folder(Path::new(&own), |_| true);
        assert!(matches!(by_kernel, Err(WayError::System(_))), "from there it is no path");
        let handle = open_folder(Path::new("/proc/self/cwd"), |_| false).unwrap();
        assert_eq!(place(&handle), std::env::current_dir().unwrap());
        assert_eq!(place(&open_folder(Path::new("."), |_| false).unwrap()), place(&handle));
    }

    #[test]
    fn a_link_of_somebody_else_is_named_and_not_followed() {
        let (_folder, path) = folder();
        symlink("/etc", path.join("sub")).unwrap();
        symlink("sub", path.join("own")).unwrap();
        let own = std::fs::symlink_metadata(path.join("sub")).unwrap().uid();
        // Who makes a link can only be told apart by root.
        std::os::unix::fs::lchown(path.join("sub"), Some(12_345), None).ok();
        let uid = std::fs::symlink_metadata(path.join("sub")).unwrap().uid();
        for way in ["sub", "real/../sub", "own"] {
            let followed = open_folder(&path.join(way), |of| of == own && uid != own);
            let Err(WayError::ForeignLink { link, uid: of }) = followed else {
                panic!("{way}: {followed:?}")
            };
            assert!(of == uid && (link.ends_with("sub") || uid == own), "{}", link.display());
        }
    }

    #[test]
    fn a_ring_of_links_and_what_is_no_folder_are_errors() {
        let (_folder, path) = folder();
        symlink("ring", path.join("ring")).unwrap();
        std::fs::write(path.join("file"), "").unwrap();
        symlink("file", path.join("to-file")).unwrap();
        for (way, code) in [
            ("ring", libc::ELOOP),
            ("file", libc::ENOTDIR),
            ("to-file", libc::ENOTDIR),
            ("none/x", libc::ENOENT),
        ] {
            match open_folder(&path.join(way), |_| true) {
                Err(WayError::System(error)) => assert_eq!(error.raw_os_error(), Some(code)),
                other => panic!("{way}: {other:?}"),
            }
        }
    }
}
