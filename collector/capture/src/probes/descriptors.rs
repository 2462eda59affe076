//! Where the kernel keeps the files of a process, so that its program can see what a descriptor is
//! that was announced.

use std::io;
use std::path::Path;

use syscollect_zone_protocol::arena::ARENA_BYTES;

use crate::btf;
use crate::zones::memfd_device;

/// Bits of a minor number in the kernel's own form of a device's number.
const MINOR_BITS: u32 = 20;

/// Constants of the kernel program, and the structures and members whose offsets they are.
const MEMBERS: [(&str, (&str, &str)); 11] = [
    ("TASK_FILES", ("task_struct", "files")),
    ("TASK_LEADER", ("task_struct", "group_leader")),
    ("TASK_START", ("task_struct", "start_time")),
    ("FILES_TABLE", ("files_struct", "fdt")),
    ("TABLE_SIZE", ("fdtable", "max_fds")),
    ("TABLE_FILES", ("fdtable", "fd")),
    ("FILE_INODE", ("file", "f_inode")),
    ("INODE_NUMBER", ("inode", "i_ino")),
    ("INODE_SIZE", ("inode", "i_size")),
    ("INODE_SUPERBLOCK", ("inode", "i_sb")),
    ("SUPERBLOCK_DEVICE", ("super_block", "s_dev")),
];

/// Where that lies, and what arenas are.
#[derive(Debug)]
pub(super) struct DescriptorLayout {
    offsets: [u32; MEMBERS.len()],
    device: u32,
}

impl DescriptorLayout {
    /// That of the machine whose /sys lies below `root`.
    ///
    /// # Errors
    ///
    /// The kernel describes its structures in another way, or makes no memfds.
    pub(super) fn below(root: &Path) -> io::Result<Self> {
        let offsets = btf::offsets_of_each(root, MEMBERS.map(|(_, place)| place))?;
        let (major, minor) = memfd_device()?;
        Ok(Self { offsets, device: major << MINOR_BITS | minor })
    }

    /// The constants of the kernel program.
    pub(super) fn constants(&self) -> Vec<(&'static str, Vec<u8>)> {
        let offsets = MEMBERS.iter().zip(self.offsets);
        let offsets = offsets.map(|((name, _), offset)| (*name, offset.to_ne_bytes().to_vec()));
        let arena = [
            ("ARENA_DEVICE", self.device.to_ne_bytes().to_vec()),
            ("ARENA_SIZE", (ARENA_BYTES as u64).to_ne_bytes().to_vec()),
        ];
        offsets.chain(arena).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_says_where_a_process_has_its_files() {
        match DescriptorLayout::below(Path::new("/")) {
            Ok(layout) => {
                let constants = layout.constants();
                assert_eq!(constants.len(), MEMBERS.len() + 2);
                // The other reader of these, one structure at a time.
                let wanted = ["i_ino", "i_size", "i_sb"];
                let of_inodes = btf::offsets(Path::new("/"), None, "inode", wanted).unwrap();
                assert_eq!(layout.offsets[7..10], of_inodes);
            }
            Err(error) => {
                assert!(!Path::new("/sys/kernel/btf/vmlinux").exists(), "{error}");
            }
        }
    }
}
