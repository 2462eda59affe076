//! What kinds of file systems there are, and who can make their files shrink or never answer.

use crate::FileData;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, PoisonError, RwLock};

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Disks and memory: calls on it end.
    Local,
    /// Servers, programs of users, and what may lie over such: calls on it may never end.
    Elsewhere,
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

/// Disks that were found to be local, so that most files need no further look. Only block devices: numbers without
/// one (major 0) go to another file system when theirs is unmounted.
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
    } else {
        Storage::Elsewhere
    };
    let on_disk = libc::major(data.device) != 0;
    if on_disk && storage == Storage::Local {
        DISKS.write().unwrap_or_else(PoisonError::into_inner).insert(data.device);
    }
    Ok(storage)
}

/// A mounted file system that a program serves (FUSE).
pub(super) struct Served {
    device: u64,
    place: PathBuf,
}

/// Those that a process sees, this one for `None`. The kernel lists them without asking anybody.
pub(super) fn served(pid: Option<u32>) -> Vec<Served> {
    let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let text = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_served).collect()
}

fn parse_served(line: &str) -> Option<Served> {
    let (mount, of) = line.split_once(" - ")?;
    of.starts_with("fuse").then_some(())?;
    let mut fields = mount.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = libc::makedev(major.parse().ok()?, minor.parse().ok()?);
    let place = fields.nth(1)?.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    Some(Served { device, place: place.into() })
}

impl Served {
    /// Whether `data` are of a file of it.
    pub(super) fn has(&self, data: &FileData) -> bool {
        self.device == data.device
    }

    /// Whether a path without links leads into it.
    pub(super) fn is_on_the_way(&self, path: &Path) -> bool {
        path.starts_with(&self.place)
    }
}

/// What is known of a file without asking whoever serves its file system.
pub(super) fn data_of(file: &File) -> io::Result<FileData> {
    // SAFETY: an all-zero statx is a valid value of plain integers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is an empty C string, and `found` is writable for the whole call.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, libc::STATX_BASIC_STATS, &mut found) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
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
        let served = parse_served(line).unwrap();
        assert_eq!(served.device, libc::makedev(0, 39));
        assert!(served.is_on_the_way(Path::new("/home/a b/lib.so")) && !served.is_on_the_way(Path::new("/home/a b2")));
        for other in ["29 1 254:0 / / rw - ext4 /dev/vda rw", "30 1 0:5 / /v rw - virtiofs v rw", "", " - fuse"] {
            assert!(parse_served(other).is_none(), "{other}");
        }
    }
}
