//! What kinds of file systems there are, and who can make their files shrink or never answer.

use super::folder_of;
use crate::{FileData, OpenError, in_process};
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, PoisonError, RwLock};

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Disks and memory: calls on it end.
    Local,
    /// Servers, and hypervisors: calls on it may never end.
    Elsewhere,
    /// What users mount, in namespaces of their own: programs, and what may lie over such. It is up
    /// to them when a call on it ends.
    OfUsers,
    /// Interfaces of the kernel: reading may do things.
    Kernel,
}

/// Numbers of linux/magic.h, and of file systems that are not in there.
const LOCAL: [i64; 15] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x7371_7368, // SquashFS
    0xe0f5_e1e2, // EROFS
    0x9660,      // ISO 9660
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x9584_58f6, // hugetlbfs
    0x28cd_3d45, // cramfs
];

/// The file systems that can be mounted without root (FS_USERNS_MOUNT) and lead to a program that
/// serves them.
const OF_USERS: [i64; 2] = [
    0x6573_5546, // FUSE
    0x794c_7630, // overlay
];

const KERNEL: [i64; 22] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x27_e0eb,   // cgroup
    0x6367_7270, // cgroup2
    0xcafe_4a11, // bpf
    0xf97c_ff8c, // SELinux
    0x4341_5d53, // Smack
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x6265_6570, // configfs
    0x1980_0202, // mqueue
    0x4249_4e4d, // binfmt_misc
    0x1cd1,      // devpts
    0x0765_5821, // resctrl
    0x6e73_6673, // namespaces
    0x6573_5543, // control of FUSE
    0x6759_6969, // rpc_pipefs
    0x0bad_1dea, // futexfs
    0x5049_4446, // pidfd
];

/// Disks that were found to be local, so that most files need no further look. Only block devices:
/// numbers without one (major 0) go to another file system when theirs is unmounted.
static DISKS: LazyLock<RwLock<FxHashSet<u64>>> = LazyLock::new(RwLock::default);

/// Whether the file lies on a disk that is known: calls on it end, and nobody needs to be asked.
pub(super) fn is_on_known_disk(data: &FileData) -> bool {
    DISKS.read().unwrap_or_else(PoisonError::into_inner).contains(&data.device)
}

/// Where `file` lies, which may also be a mere place (O_PATH). May never return.
pub(super) fn storage(file: &File, data: &FileData) -> io::Result<Storage> {
    // SAFETY: an all-zero statfs is a valid value of plain integers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is writable for the whole call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The field's type differs by architecture; the number has 32 bits.
    let kind = i64::from(found.f_type as u32);
    let storage = if LOCAL.contains(&kind) {
        Storage::Local
    } else if KERNEL.contains(&kind) {
        Storage::Kernel
    } else if OF_USERS.contains(&kind) {
        Storage::OfUsers
    } else {
        Storage::Elsewhere
    };
    let on_disk = libc::major(data.device) != 0;
    if on_disk && storage == Storage::Local {
        DISKS.write().unwrap_or_else(PoisonError::into_inner).insert(data.device);
    }
    Ok(storage)
}

/// A mount, as a line of /proc/PID/mountinfo tells of it.
pub(super) struct Mount {
    id: u64,
    /// Of the file system: the same wherever that is mounted.
    device: u64,
    place: PathBuf,
    kind: String,
}

/// A process as a folder of /proc, which leads to no other process that gets its number later.
struct ProcessFolder {
    folder: File,
    mountinfo: File,
}

impl ProcessFolder {
    /// This process's for `None`. There is none of a process that has ended: it sees nothing.
    fn of(pid: Option<u32>) -> io::Result<Self> {
        let process = pid.map_or_else(|| PathBuf::from("/proc/self"), folder_of);
        in_process(&process, |folder| {
            let folder = File::open(folder)?;
            let mountinfo = File::open(super::path_of(&folder).join("mountinfo"))?;
            Ok(Self { folder, mountinfo })
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        super::path_of(&self.folder).join(name)
    }

    /// What it sees mounted. The kernel lists it without asking anybody.
    fn mounts(&self, most: u64) -> Result<Vec<Mount>, OpenError> {
        let mut text = Vec::new();
        // What cannot be read has ended, and sees nothing.
        let mut list = &self.mountinfo;
        let _ = list.rewind().and_then(|()| list.take(most + 1).read_to_end(&mut text));
        if text.len() as u64 > most {
            return Err(OpenError::TooManyMounts);
        }
        Ok(String::from_utf8_lossy(&text).lines().filter_map(parse_mount).collect())
    }

    /// Whether only who is root to this process, too, could mount what it sees: the user namespace
    /// that owns its mount namespace (ioctl_ns(2), 4.9) is the one of this process.
    fn sees_mounts_of_root(&self) -> bool {
        const NS_GET_USERNS: libc::Ioctl = 0xb701;
        let Ok(namespace) = File::open(self.path("ns/mnt")) else { return false };
        // SAFETY: the call takes no argument.
        let owner = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
        if owner < 0 {
            return false;
        }
        // SAFETY: the call returned a new descriptor that nobody else owns.
        let owner = unsafe { File::from_raw_fd(owner) };
        file_number(owner.metadata())
            .is_some_and(|own| file_number(std::fs::metadata("/proc/self/ns/user")) == Some(own))
    }
}

fn file_number(data: io::Result<std::fs::Metadata>) -> Option<(u64, u64)> {
    data.ok().map(|data| (data.dev(), data.ino()))
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, of) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let id = fields.next()?.parse().ok()?;
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    let device = libc::makedev(major.parse().ok()?, minor.parse().ok()?);
    let place = fields.nth(1)?.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    Some(Mount { id, device, place: place.into(), kind: of.split(' ').next()?.to_owned() })
}

/// The mounted file systems that programs serve (FUSE), of those that a process sees, this one for
/// `None`.
///
/// # Errors
///
/// [`OpenError::TooManyMounts`].
pub(super) fn served(pid: Option<u32>) -> Result<Vec<Mount>, OpenError> {
    let Ok(process) = ProcessFolder::of(pid) else { return Ok(Vec::new()) };
    let mut all = process.mounts(most_of(pid))?;
    all.retain(Mount::is_served);
    Ok(all)
}

/// Bytes of the list of mounts that are read: in a namespace of one's own anybody has a hundred
/// thousand, with names of 4 KiB.
fn most_of(pid: Option<u32>) -> u64 {
    const OF_OTHERS: u64 = 1 << 20;
    const OURS: u64 = 256 << 20;
    if pid.is_some() { OF_OTHERS } else { OURS }
}

/// Whether root mounted the file system of a file, and no program serves it. `seen_by` sees the
/// file's mount, this process for `None`.
pub(super) fn is_mounted_by_root(file: &File, seen_by: Option<u32>) -> bool {
    let Some(found) = statx_of(file).ok().filter(|data| data.stx_mask & libc::STATX_MNT_ID != 0)
    else {
        return false;
    };
    let Ok(process) = ProcessFolder::of(seen_by) else { return false };
    let Ok(mounts) = process.mounts(most_of(seen_by)) else { return false };
    let Some(own) = mounts.into_iter().find(|mount| mount.id == found.stx_mnt_id) else {
        return false;
    };
    // A user's namespaces also hold what was mounted before they were made.
    !own.is_served()
        && (process.sees_mounts_of_root() || is_seen_by(None, &own) || is_seen_by(Some(1), &own))
}

/// Whether a process sees the same file system.
fn is_seen_by(pid: Option<u32>, mount: &Mount) -> bool {
    let mounts = ProcessFolder::of(pid).map(|process| process.mounts(most_of(None)));
    matches!(mounts, Ok(Ok(mounts)) if mounts.iter().any(|other| other.device == mount.device))
}

impl Mount {
    fn is_served(&self) -> bool {
        self.kind.starts_with("fuse")
    }

    /// Whether `data` are of a file of it.
    pub(super) fn has(&self, data: &FileData) -> bool {
        self.device == data.device
    }

    /// Whether a path without links leads into it.
    pub(super) fn is_on_the_way(&self, path: &Path) -> bool {
        path.starts_with(&self.place)
    }
}

/// What the kernel knows of a file without asking whoever serves its file system.
fn statx_of(file: &File) -> io::Result<libc::statx> {
    // SAFETY: an all-zero statx is a valid value of plain integers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let (flags, wanted) = (
        libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
        libc::STATX_BASIC_STATS | libc::STATX_MNT_ID,
    );
    // SAFETY: the path is an empty C string, and `found` is writable for the whole call.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, wanted, &mut found) };
    if result == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// Bytes that are allocated to a file that has no name.
pub(super) fn allocated_without_name(file: &File) -> io::Result<u64> {
    // What statx(2) counts in.
    const BLOCK: u64 = 512;
    let found = statx_of(file)?;
    Ok(if found.stx_nlink == 0 { found.stx_blocks * BLOCK } else { 0 })
}

/// The same, as far as it is of use.
pub(super) fn data_of(file: &File) -> io::Result<FileData> {
    let found = statx_of(file)?;
    Ok(FileData {
        device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        mode: u32::from(found.stx_mode),
        uid: found.stx_uid,
        gid: found.stx_gid,
        size: found.stx_size,
        written: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_serves_is_known_by_its_number_and_its_place() {
        let line = "91 29 0:39 / /home/a\\040b rw,nosuid - fuse.sshfs user@host rw,user_id=1000";
        let served = parse_mount(line).unwrap();
        assert_eq!((served.id, served.device), (91, libc::makedev(0, 39)));
        assert!(served.is_served());
        assert!(
            served.is_on_the_way(Path::new("/home/a b/lib.so"))
                && !served.is_on_the_way(Path::new("/home/a b2"))
        );
        for other in
            ["29 1 254:0 / / rw - ext4 /dev/vda rw", "30 1 0:5 / /v rw shared:1 - virtiofs v rw"]
        {
            assert!(!parse_mount(other).unwrap().is_served(), "{other}");
        }
        assert!(parse_mount("").is_none() && parse_mount(" - fuse").is_none());
    }

    #[test]
    fn a_list_of_mounts_that_is_too_long_is_not_half_known() {
        let own = ProcessFolder::of(None).unwrap();
        assert!(!own.mounts(most_of(None)).unwrap().is_empty());
        assert!(matches!(own.mounts(10), Err(OpenError::TooManyMounts)));
        assert!(served(Some(u32::MAX)).unwrap().is_empty(), "who has ended sees nothing");
    }

    #[test]
    fn what_this_process_runs_was_mounted_by_root() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(
            is_mounted_by_root(&own, None) && is_mounted_by_root(&own, Some(std::process::id()))
        );
        assert!(!is_mounted_by_root(&own, Some(u32::MAX)), "nobody sees its mount");
    }
}
