//! Who has a GPU open: the file descriptors of all processes, some at a time.

#![expect(
    clippy::disallowed_methods,
    reason = "lists of descriptors and their data below /proc/PID, as the kernel writes them"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use syscollect_untrusted_files::in_process;

use super::fdinfo::ClientUsage;

/// Descriptors of one process that are looked at; GPUs are opened early.
const MOST_OF_ONE: usize = 4096;
/// Descriptors of GPUs that are remembered.
const MOST_HELD: usize = 1024;
/// A driver's text takes 2 KiB.
const LONGEST_TEXT: u64 = 16 << 10;
/// Where device files of GPUs lie; their links tell it without a look at the file itself,
/// which could be on a disk that sleeps.
const DEVICES: &str = "/dev/dri/";

/// A device of a GPU that a process has open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenDevice {
    pub(crate) descriptor: u32,
    /// `renderD128`.
    pub(crate) device: String,
}

/// What is found behind a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is closed, or its process has ended.
    Gone,
    /// The driver tells nothing.
    Silence,
    /// What the driver tells.
    Usage(ClientUsage),
}

/// The search for open GPUs, which goes round all processes again and again.
#[derive(Debug)]
pub(crate) struct Scan {
    proc: PathBuf,
    /// Processes of this turn that are still to be looked at, the next one last.
    waiting: Vec<u32>,
    holders: BTreeMap<u32, Vec<OpenDevice>>,
    refused: BTreeSet<u32>,
    /// Those that had no descriptors, nor had their threads, as none of the kernel's has.
    empty: BTreeSet<u32>,
    /// Whether something was left out: too many descriptors.
    cut: bool,
    /// Descriptors that were looked at.
    looked: u64,
}

impl Scan {
    /// Nothing is known yet; /proc lies below `root`.
    pub(crate) fn new(root: &Path) -> Self {
        let proc = root.join("proc");
        let (waiting, holders) = (Vec::new(), BTreeMap::new());
        let (refused, empty) = (BTreeSet::new(), BTreeSet::new());
        Self { proc, waiting, holders, refused, empty, cut: false, looked: 0 }
    }

    /// Begins another turn.
    pub(crate) fn begin(&mut self) {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        self.waiting = pids.collect();
        self.waiting.sort_unstable_by(|a, b| b.cmp(a));
        let waiting = &self.waiting;
        self.holders.retain(|pid, _| is_in(waiting, *pid));
        self.refused.retain(|pid| is_in(waiting, *pid));
        self.empty.retain(|pid| is_in(waiting, *pid));
    }

    /// Goes on until about `most` descriptors were looked at; whether the turn is over.
    pub(crate) fn go_on(&mut self, most: usize) -> bool {
        let mut looked = 0;
        while looked < most {
            let Some(pid) = self.waiting.pop() else { return true };
            // Each process costs something, even one without descriptors.
            looked += 1 + self.inspect(pid);
        }
        self.waiting.is_empty()
    }

    fn inspect(&mut self, pid: u32) -> usize {
        self.holders.remove(&pid);
        let process = self.proc.join(pid.to_string());
        let found = match self.empty.contains(&pid) || self.refused.contains(&pid) {
            true => descriptors(&process),
            false => in_process(&process, descriptors),
        };
        let entries = match found {
            Ok(entries) => entries,
            Err(io::ErrorKind::PermissionDenied) => {
                self.refused.insert(pid);
                return 0;
            }
            Err(_) => {
                self.empty.insert(pid);
                return 0;
            }
        };
        self.empty.remove(&pid);
        let (mut looked, mut devices) = (0, Vec::new());
        for entry in entries.flatten() {
            looked += 1;
            if looked > MOST_OF_ONE {
                self.cut = true;
                break;
            }
            match fs::read_link(entry.path()) {
                Ok(target) => devices.extend(held_by(&entry.file_name(), &target)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.refused.insert(pid);
                    break;
                }
                _ => {}
            }
        }
        self.looked += looked as u64;
        self.hold(pid, devices);
        looked
    }

    fn hold(&mut self, pid: u32, mut devices: Vec<OpenDevice>) {
        let room = MOST_HELD.saturating_sub(self.holders.values().map(Vec::len).sum());
        self.cut |= devices.len() > room;
        devices.truncate(room);
        devices.sort_unstable();
        if !devices.is_empty() {
            self.holders.insert(pid, devices);
        }
    }

    /// Processes with a GPU open, and what they hold of it, as last observed.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (u32, &OpenDevice)> + '_ {
        self.holders.iter().flat_map(|(pid, devices)| devices.iter().map(|device| (*pid, device)))
    }

    /// What the driver tells behind a descriptor.
    pub(crate) fn read(&self, pid: u32, device: &OpenDevice) -> Answer {
        let process = self.proc.join(pid.to_string());
        let mut bytes = Vec::new();
        let read = in_process(&process, |folder| {
            File::open(folder.join(format!("fdinfo/{}", device.descriptor)))
        })
        .and_then(|file| file.take(LONGEST_TEXT).read_to_end(&mut bytes));
        match read {
            Ok(_) => ClientUsage::parse(&String::from_utf8_lossy(&bytes))
                .map_or(Answer::Silence, Answer::Usage),
            Err(_) => Answer::Gone,
        }
    }

    /// Processes that may not be looked into.
    pub(crate) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Whether there were more descriptors than are looked at.
    pub(crate) fn cut(&self) -> bool {
        self.cut
    }

    /// Descriptors that were looked at so far.
    pub(crate) fn inspected(&self) -> u64 {
        self.looked
    }
}

/// Whether it is among these, the highest of which comes first.
fn is_in(waiting: &[u32], pid: u32) -> bool {
    waiting.binary_search_by(|other| pid.cmp(other)).is_ok()
}

/// What a process, or a thread, has open; an error where that is nothing.
fn descriptors(
    process: &Path,
) -> Result<impl Iterator<Item = io::Result<fs::DirEntry>> + use<>, io::ErrorKind> {
    let mut entries = fs::read_dir(process.join("fd")).map_err(|error| error.kind())?;
    let first = entries.next().ok_or(io::ErrorKind::NotFound)?;
    Ok(std::iter::once(first).chain(entries))
}

fn held_by(descriptor: &OsStr, target: &Path) -> Option<OpenDevice> {
    let device = target.to_str()?.strip_prefix(DEVICES)?;
    Some(OpenDevice { descriptor: descriptor.to_str()?.parse().ok()?, device: device.to_owned() })
}

/// A /proc on disk.
#[cfg(test)]
pub(crate) mod fake {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// A process holds a file; what its driver says of it, if one does.
    pub(crate) fn open(root: &Path, pid: u32, descriptor: u32, file: &str, fdinfo: Option<&str>) {
        let process = root.join(format!("proc/{pid}"));
        for folder in ["fd", "fdinfo"] {
            fs::create_dir_all(process.join(folder)).unwrap();
        }
        let link = process.join(format!("fd/{descriptor}"));
        let _ = fs::remove_file(&link);
        symlink(file, link).unwrap();
        let text = fdinfo
            .map_or_else(|| "pos:\t0\nflags:\t02\n".to_owned(), |text| format!("pos:\t0\n{text}"));
        fs::write(process.join(format!("fdinfo/{descriptor}")), text).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::fake::open;
    use super::*;

    fn turn(scan: &mut Scan) -> Vec<(u32, u32)> {
        scan.begin();
        while !scan.go_on(3) {}
        scan.holders().map(|(pid, device)| (pid, device.descriptor)).collect()
    }

    #[test]
    fn only_devices_of_gpus_are_held_and_only_as_long_as_they_are_open() {
        let root = tempfile::tempdir().unwrap();
        open(
            root.path(),
            70,
            3,
            "/dev/dri/renderD128",
            Some("drm-driver: i915\ndrm-client-id: 4\n"),
        );
        open(root.path(), 70, 4, "/dev/dri/card0", Some("drm-driver: i915\ndrm-client-id: 5\n"));
        open(root.path(), 70, 5, "/dev/driver", None);
        open(root.path(), 9, 0, "/dev/null", None);
        open(root.path(), 8, 12, "/dev/dri/card0", None);
        fs::create_dir_all(root.path().join("proc/sys")).unwrap();
        let mut scan = Scan::new(root.path());
        assert_eq!(turn(&mut scan), [(8, 12), (70, 3), (70, 4)]);
        let read =
            |pid, descriptor| scan.read(pid, &OpenDevice { descriptor, device: "card0".into() });
        assert!(matches!(read(70, 4), Answer::Usage(usage) if usage.client.number == 5));
        assert_eq!((read(8, 12), read(70, 99)), (Answer::Silence, Answer::Gone));
        assert_eq!(scan.holders().next().unwrap().1.device, "card0");
        fs::remove_dir_all(root.path().join("proc/8")).unwrap();
        fs::remove_file(root.path().join("proc/70/fd/3")).unwrap();
        assert_eq!(turn(&mut scan), [(70, 4)]);
        assert_eq!((scan.refused(), scan.cut(), scan.inspected()), (0, false, 5 + 3));
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_still_has_what_its_others_have() {
        let root = tempfile::tempdir().unwrap();
        open(root.path(), 71, 3, "/dev/dri/card0", Some("drm-driver: i915\ndrm-client-id: 5\n"));
        let process = root.path().join("proc/70");
        for folder in ["fd", "fdinfo", "task"] {
            fs::create_dir_all(process.join(folder)).unwrap();
        }
        fs::rename(root.path().join("proc/71"), process.join("task/71")).unwrap();
        fs::write(process.join("stat"), "70 (a) Z 1").unwrap();
        let mut scan = Scan::new(root.path());
        assert_eq!(turn(&mut scan), [(70, 3)]);
        let held = OpenDevice { descriptor: 3, device: "card0".into() };
        assert!(matches!(scan.read(70, &held), Answer::Usage(_)));
    }

    #[test]
    fn a_process_that_is_new_is_found_in_the_next_turn_and_one_that_waits_is_not_forgotten() {
        let root = tempfile::tempdir().unwrap();
        (1..=20).for_each(|pid| open(root.path(), pid, 3, "/dev/dri/card0", None));
        let mut scan = Scan::new(root.path());
        scan.begin();
        assert!(!scan.go_on(6), "six of forty");
        assert_eq!(scan.holders().count(), 3);
        open(root.path(), 21, 3, "/dev/dri/card0", None);
        while !scan.go_on(6) {}
        assert_eq!(scan.holders().count(), 20);
        assert_eq!(turn(&mut scan).len(), 21);
    }

    #[test]
    fn a_machine_that_holds_thousands_is_looked_at_so_far_and_it_is_said() {
        let root = tempfile::tempdir().unwrap();
        (0..1100).for_each(|descriptor| open(root.path(), 5, descriptor, "/dev/dri/card0", None));
        let mut scan = Scan::new(root.path());
        assert_eq!((turn(&mut scan).len(), scan.cut()), (MOST_HELD, true));
    }
}
