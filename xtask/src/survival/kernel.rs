//! Programs, maps and links that the kernel has, by their ids.

use std::collections::BTreeSet;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Commands of bpf(2) that walk over ids (enum bpf_cmd in include/uapi/linux/bpf.h): of programs,
/// maps, links.
const NEXT_ID: [(&str, libc::c_long); 3] = [("program", 11), ("map", 12), ("link", 31)];
/// The kernel takes things out after their last descriptor was closed.
const PATIENCE: Duration = Duration::from_secs(10);

type Ids = BTreeSet<(&'static str, u32)>;

/// What the kernel had when nobody recorded.
pub(super) struct Kernel {
    before: Ids,
}

impl Kernel {
    /// What it has now.
    pub(super) fn now() -> Result<Self> {
        Ok(Self { before: ids()? })
    }

    /// Waits until what came since is gone. What other programs of the machine make and remove
    /// meanwhile is never seen twice.
    pub(super) fn has_nothing_new(&self) -> Result<()> {
        let begun = Instant::now();
        let mut left: Ids = ids()?.difference(&self.before).copied().collect();
        while !left.is_empty() && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(20));
            left = ids()?.intersection(&left).copied().collect();
        }
        ensure!(
            left.is_empty(),
            "{PATIENCE:?} after the recorder's end the kernel still has {left:?}"
        );
        Ok(())
    }
}

fn ids() -> Result<Ids> {
    let mut all = Ids::new();
    for (kind, command) in NEXT_ID {
        let mut id = 0;
        while let Some(next) = next_id(command, id)? {
            id = next;
            all.insert((kind, id));
        }
    }
    Ok(all)
}

/// The id after this one, if there is one.
fn next_id(command: libc::c_long, id: u32) -> io::Result<Option<u32>> {
    // struct { __u32 start_id; __u32 next_id; __u32 open_flags; } of union bpf_attr.
    let mut attributes = [id, 0, 0];
    let size = size_of_val(&attributes);
    // SAFETY: the attributes are as long as is said, and the kernel writes within them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size) };
    match result {
        0 => Ok(Some(attributes[1])),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            error => Err(error),
        },
    }
}
