//! How much memory the recorder may take: of what the machine has left, what
//! control groups allow it and what it was told, and what it makes of that.

use std::fs;
use std::path::{Path, PathBuf};

use syscollect_store::{BufferMode, TraceBuffer};

use crate::error::{CaptureError, megabytes};
use crate::options::RecordOptions;

/// What the recorder needs beside lanes and buffer: its program, threads, stages, names of what
/// runs.
const BASE_BYTES: u64 = 20 << 20;
/// What has to be there when a recording starts, most of it for the kernel, while it verifies
/// programs: the group's peaks of 21 recordings on Linux 6.18 with 2 CPUs were 48 to 52 MB,
const START_BYTES: u64 = 48 << 20;
/// 53 to 69 MB with stacks (much of the difference are pages of files, which the kernel gives up),
const START_OF_STACKS: u64 = 13 << 20;
/// and 17 to 25 MB more with tracepoints.
const START_OF_TRACEPOINTS: u64 = 20 << 20;
/// The smallest trace buffer that is worth a recording.
const LEAST_BUFFER: u64 = 1 << 20;
/// Lanes of scheduling events: they hold what happens while the collector waits for a CPU.
const LARGEST_LANE: u64 = 8 << 20;
const SMALLEST_LANE: u64 = 64 << 10;
/// Lanes of their stacks: a part of that, and not less than so much. Stacks are sent once, so that
/// there are fewer of them than events unless somebody makes them on purpose.
const STACK_LANE_PART: u64 = 4;
const SMALLEST_STACK_LANE: u64 = 512 << 10;
/// What all other lanes of a CPU take, in total, with the headers of all (`bpf/include/lane.h`).
const OTHER_LANES: u64 = (2 * 512 + 256 + 5 * 8) << 10;
/// All lanes together take at most this much of what is there, and never more than so many bytes
/// unless the smallest need it: possible CPUs may be many.
const LANES_SHARE: u64 = 8;
const MOST_LANES: u64 = 1 << 30;
/// Rows of unwind tables take this part of what is there, within these bounds: what code takes that
/// runs at the moment; the rest gives way. The kernel sets memory aside for all of them at once.
const UNWIND_SHARE: u64 = 256;
/// Of what was asked for, which is little and for this alone: without a table a stack is sent as it
/// lies in memory, which takes more.
const UNWIND_SHARE_OF_ASKED: u64 = 32;
pub(crate) const LEAST_UNWIND: u64 = 512 << 10;
const MOST_UNWIND: u64 = 16 << 20;

/// What can be taken, and by whose limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRoom {
    /// Bytes that can still be taken.
    pub(crate) bytes: u64,
    pub(crate) limit: MemoryLimit,
}

/// What sets the tightest limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLimit {
    /// What the machine has left.
    Machine,
    /// A control group.
    Group {
        /// Its bytes.
        bytes: u64,
        /// The file that says so, as this process sees it.
        file: PathBuf,
    },
    /// Whoever started the recorder, in bytes.
    Asked(u64),
}

impl MemoryLimit {
    /// What the buffer with all that comes with it may have of what lanes leave: names and exports
    /// come later, and others may want memory, too. A limit that was asked for holds also for
    /// what hostile programs make the recorder keep.
    fn buffer_share(&self) -> (u64, u64) {
        match self {
            Self::Machine | Self::Group { .. } => (1, 2),
            Self::Asked(_) => (3, 8),
        }
    }

    fn unwind_share(&self) -> u64 {
        match self {
            Self::Machine | Self::Group { .. } => UNWIND_SHARE,
            Self::Asked(_) => UNWIND_SHARE_OF_ASKED,
        }
    }
}

/// How large those lanes of a CPU are that are made as large as memory allows: bytes of data, powers
/// of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneBytes {
    /// Scheduling events.
    pub(crate) sched: u32,
    /// Their stacks.
    pub(crate) sched_stack: u32,
}

impl LaneBytes {
    fn of_sched(sched: u64) -> Self {
        let sched_stack = (sched / STACK_LANE_PART).max(SMALLEST_STACK_LANE);
        Self { sched: sched as u32, sched_stack: sched_stack as u32 }
    }

    /// What the lanes of that many CPUs take, the others included.
    fn on(self, cpus: u32) -> u64 {
        u64::from(cpus) * (u64::from(self.sched) + u64::from(self.sched_stack) + OTHER_LANES)
    }
}

/// What the trace buffer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferUse {
    pub(crate) mode: BufferMode,
    /// Snapshots are taken of it.
    pub(crate) snapshots: bool,
}

impl BufferUse {
    pub(crate) fn of(options: &RecordOptions) -> Self {
        Self { mode: options.mode, snapshots: options.snapshots }
    }

    /// What a buffer of so many bytes takes at most.
    fn memory(self, bytes: u64) -> u64 {
        let buffer = TraceBuffer::new(bytes as usize, self.mode).retaining(self.snapshots);
        buffer.most_memory() as u64
    }
}

/// What a recording takes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Bytes of the trace buffer.
    pub(crate) buffer_bytes: usize,
    pub(crate) lane_bytes: LaneBytes,
    /// Bytes of all lanes.
    pub(crate) lanes_bytes: u64,
    /// Bytes of rows of unwind tables, unless others are asked for.
    pub(crate) unwind_bytes: u64,
    /// Why the buffer is smaller than asked for, if it is.
    pub(crate) note: Option<String>,
}

impl MemoryPlan {
    /// Whether the buffer had to be smaller than asked for.
    pub(crate) fn is_short(&self) -> bool {
        self.note.is_some()
    }
}

impl MemoryRoom {
    /// What there is for this process, from the files below `root`; without any of them, no limit.
    pub(crate) fn read(root: &Path) -> Self {
        let available = number_of_line(&text(&root.join("proc/meminfo")), "MemAvailable:");
        let mut room = Self {
            bytes: available.map_or(u64::MAX, |kilobytes| kilobytes.saturating_mul(1024)),
            limit: MemoryLimit::Machine,
        };
        for folder in group_folders(root) {
            let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"]
                .map(|name| folder.join(name));
            for file in limits {
                let Some(limit) = number(&text(&file)) else { continue };
                let left = limit.saturating_sub(in_use(&folder));
                if left < room.bytes {
                    let file = Path::new("/").join(file.strip_prefix(root).unwrap_or(&file));
                    room = Self { bytes: left, limit: MemoryLimit::Group { bytes: limit, file } };
                }
            }
        }
        room
    }

    /// No more than was asked for, if anything was, of which this process has `own` bytes already.
    pub(crate) fn at_most(self, asked: Option<u64>, own: u64) -> Self {
        match asked {
            Some(asked) if asked.saturating_sub(own) < self.bytes => {
                Self { bytes: asked.saturating_sub(own), limit: MemoryLimit::Asked(asked) }
            }
            _ => self,
        }
    }

    /// What is left of it when so many bytes are taken.
    pub(crate) fn without(self, bytes: u64) -> Self {
        Self { bytes: self.bytes.saturating_sub(bytes), ..self }
    }

    /// What has to be there when a recording starts with these options.
    ///
    /// # Errors
    ///
    /// [`CaptureError::TooLittleMemory`] where it is not: the kernel would end the recorder.
    pub(crate) fn suffices_for(&self, options: &RecordOptions) -> Result<(), CaptureError> {
        let RecordOptions { stacks, gpu, tracepoints, .. } = options;
        let stacks = if stacks.any() { START_OF_STACKS } else { 0 };
        let asks_for_tracepoints = *gpu || !tracepoints.is_empty();
        let tracepoints = if asks_for_tracepoints { START_OF_TRACEPOINTS } else { 0 };
        self.has(START_BYTES + stacks + tracepoints)
    }

    fn has(&self, needed: u64) -> Result<(), CaptureError> {
        match needed <= self.bytes {
            true => Ok(()),
            false => {
                let limit = self.limit_text();
                Err(CaptureError::TooLittleMemory { needed, room: self.bytes, limit })
            }
        }
    }

    /// Divides it: an eighth of what the recorder does not need itself at most for lanes, as much
    /// as possible for the buffer, up to what was asked for. Who asks for a small buffer gets no
    /// lane that is larger.
    ///
    /// # Errors
    ///
    /// [`CaptureError::TooLittleMemory`] where not even the smallest recording has room.
    pub(crate) fn plan(
        &self,
        buffer_bytes: usize,
        holds: BufferUse,
        cpus: u32,
    ) -> Result<MemoryPlan, CaptureError> {
        let free = self.bytes.saturating_sub(BASE_BYTES);
        let most = (free / LANES_SHARE).min(MOST_LANES);
        let asked = buffer_bytes.max(1).ilog2();
        let mut sched = (1 << asked).clamp(SMALLEST_LANE, LARGEST_LANE);
        while sched > SMALLEST_LANE && LaneBytes::of_sched(sched).on(cpus) > most {
            sched /= 2;
        }
        let lane_bytes = LaneBytes::of_sched(sched);
        let lanes = lane_bytes.on(cpus);
        let left = free.saturating_sub(lanes);
        let mut buffer = buffer_bytes as u64;
        let (part, of) = self.limit.buffer_share();
        while buffer > LEAST_BUFFER && holds.memory(buffer) > left / of * part {
            buffer = (buffer / 8 * 7).max(LEAST_BUFFER);
        }
        self.has(BASE_BYTES + lanes + holds.memory(buffer))?;
        let buffer = buffer as usize;
        // Whoever asks for no less than all wants what fits.
        let wants_what_fits = self.limit == MemoryLimit::Asked(buffer_bytes as u64);
        let note = (buffer < buffer_bytes && !wants_what_fits).then(|| {
            let (asked, given) = (megabytes(buffer_bytes as u64), megabytes(buffer as u64));
            format!("the trace buffer has {given}, not {asked}: {} to take", self.limit_text())
        });
        Ok(MemoryPlan {
            buffer_bytes: buffer,
            lane_bytes,
            lanes_bytes: lanes,
            unwind_bytes: (self.bytes / self.limit.unwind_share()).clamp(LEAST_UNWIND, MOST_UNWIND),
            note,
        })
    }

    /// `the control group allows 64.0 MB (/sys/fs/cgroup/x/memory.max) and leaves 50.1 MB`.
    pub(crate) fn limit_text(&self) -> String {
        let left = megabytes(self.bytes);
        match &self.limit {
            MemoryLimit::Group { bytes, file } => {
                format!(
                    "its control group allows {} ({}) and leaves {left}",
                    megabytes(*bytes),
                    file.display()
                )
            }
            MemoryLimit::Asked(bytes) => {
                format!("--memory allows {} and leaves {left}", megabytes(*bytes))
            }
            MemoryLimit::Machine => format!("the machine leaves {left}"),
        }
    }
}

/// Bytes of memory that this process can still take: what the machine has left, or what its control
/// groups leave it if that is less.
pub fn available_memory() -> u64 {
    MemoryRoom::read(Path::new("/")).bytes
}

/// Bytes of this process in memory, from the files below `root`.
pub(crate) fn own_memory(root: &Path) -> u64 {
    let kilobytes = number_of_line(&text(&root.join("proc/self/status")), "VmRSS:");
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// The folders of the control groups that limit this process's memory: its own and those above it,
/// in each hierarchy.
fn group_folders(root: &Path) -> Vec<PathBuf> {
    let groups = text(&root.join("proc/self/cgroup"));
    let mounts = text(&root.join("proc/self/mountinfo"));
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_unified = controllers.is_empty();
        if !is_unified && !controllers.split(',').any(|controller| controller == "memory") {
            continue;
        }
        let Some((mounted_at, mounted)) =
            mounts.lines().find_map(|line| group_mount(line, is_unified))
        else {
            continue;
        };
        // What is mounted may be a group within the hierarchy, as in a container.
        let path = Path::new(path).strip_prefix(mounted).unwrap_or(Path::new(""));
        let top = root.join(mounted_at.trim_start_matches('/'));
        let below = path.ancestors().map(|path| top.join(path.strip_prefix("/").unwrap_or(path)));
        folders.extend(below);
    }
    folders
}

/// Where a line of mountinfo (proc(5)) says that the hierarchy is mounted, and which group of it.
fn group_mount(line: &str, is_unified: bool) -> Option<(&str, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (file_system, _, options) = (kind.next()?, kind.next()?, kind.next()?);
    let is_it = match is_unified {
        true => file_system == "cgroup2",
        false => file_system == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    let mut mount = mount.split(' ').skip(3);
    let (mounted, at) = (mount.next()?, mount.next()?);
    is_it.then_some((at, mounted))
}

/// What a group uses, without pages of files, which the kernel gives up first.
fn in_use(folder: &Path) -> u64 {
    let used = ["memory.current", "memory.usage_in_bytes"]
        .iter()
        .find_map(|name| number(&text(&folder.join(name))));
    let stat = text(&folder.join("memory.stat"));
    let files = of_either_version(&stat, "total_inactive_file", "inactive_file")
        + of_either_version(&stat, "total_active_file", "active_file");
    used.unwrap_or(0).saturating_sub(files)
}

fn of_either_version(stat: &str, v1: &str, v2: &str) -> u64 {
    number_of_line(stat, v1).or_else(|| number_of_line(stat, v2)).unwrap_or(0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "limits below /proc/self and in the control groups of this process"
)]
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// A file with one number; `max` is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number behind a name, of a text with one such pair in each line.
pub(crate) fn number_of_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().map(str::split_ascii_whitespace).find_map(|mut words| {
        let is_it = words.next() == Some(name);
        is_it.then(|| words.next()).flatten()
    });
    line?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Stacks;

    /// A folder with what the kernel would show.
    fn fake(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const UNIFIED: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const SEPARATE: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup \
                            rw,memory\n\
                            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_tightest_of_all_groups_above_counts_without_its_pages_of_files() {
        let root = fake(&[
            ("proc/meminfo", "MemTotal:  8000000 kB\nMemAvailable:  4000000 kB\n"),
            ("proc/self/cgroup", "0::/user.slice/build.service/inner\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/user.slice/build.service/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/build.service/memory.max", "67108864\n"),
            ("sys/fs/cgroup/user.slice/build.service/memory.high", "60000000\n"),
            ("sys/fs/cgroup/user.slice/build.service/memory.current", "30000000\n"),
            (
                "sys/fs/cgroup/user.slice/build.service/memory.stat",
                "anon 5\ninactive_file 15000000\nactive_file 5000000\n",
            ),
            ("sys/fs/cgroup/user.slice/memory.max", "9999999999\n"),
        ]);
        let room = MemoryRoom::read(root.path());
        assert_eq!(room.bytes, 50_000_000);
        let file = "/sys/fs/cgroup/user.slice/build.service/memory.high".into();
        assert_eq!(room.limit, MemoryLimit::Group { bytes: 60_000_000, file });
    }

    #[test]
    fn groups_of_the_first_version_are_found_where_they_are_mounted() {
        let root = fake(&[
            ("proc/self/cgroup", "8:pids:/\n4:cpu,memory:/docker/abc/x\n0::/\n"),
            ("proc/self/mountinfo", &SEPARATE.replace("0:32 / ", "0:32 /docker/abc ")),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "7108864\n"),
        ]);
        assert_eq!(MemoryRoom::read(root.path()).bytes, 60_000_000);
    }

    #[test]
    fn without_limits_the_machine_is_the_limit_and_without_that_none_is() {
        let root =
            fake(&[("proc/meminfo", "MemAvailable:  1000 kB\n"), ("proc/self/cgroup", "0::/x\n")]);
        assert_eq!(MemoryRoom::read(root.path()), room(1_024_000));
        assert_eq!(MemoryRoom::read(Path::new("/nowhere")).bytes, u64::MAX);
    }

    const TO_DISK: BufferUse = BufferUse { mode: BufferMode::Discard, snapshots: false };

    fn room(bytes: u64) -> MemoryRoom {
        MemoryRoom { bytes, limit: MemoryLimit::Machine }
    }

    #[test]
    fn a_plan_stays_beneath_what_is_there_or_says_what_it_needs() {
        for holds in [TO_DISK, BufferUse { mode: BufferMode::Overwrite, snapshots: true }] {
            for cpus in [1, 2, 16, 256] {
                for megabytes in [8, 32, 50, 64, 200, 1000, 64_000, 2_000_000] {
                    let bytes = megabytes << 20;
                    match room(bytes).plan(64 << 20, holds, cpus) {
                        Ok(plan) => {
                            let buffer = holds.memory(plan.buffer_bytes as u64);
                            assert!(
                                BASE_BYTES + plan.lanes_bytes + buffer <= bytes,
                                "{megabytes} {cpus}: {plan:?}"
                            );
                            assert!(plan.lane_bytes.sched.is_power_of_two());
                            assert!(plan.lane_bytes.sched_stack.is_power_of_two());
                            assert_eq!(plan.note.is_some(), plan.buffer_bytes < 64 << 20);
                        }
                        Err(CaptureError::TooLittleMemory { needed, .. }) => {
                            assert!(needed > bytes);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_asked_for_is_divided_as_what_there_is() {
        const ASKED: u64 = 512 << 20;
        let holds = BufferUse { mode: BufferMode::Overwrite, snapshots: true };
        let asked = room(8 << 30).at_most(Some(ASKED), 20 << 20);
        assert_eq!(asked, MemoryRoom { bytes: 492 << 20, limit: MemoryLimit::Asked(ASKED) });
        let whatever_fits = asked.plan(ASKED as usize, holds, 2).unwrap();
        let buffer = holds.memory(whatever_fits.buffer_bytes as u64);
        assert!((ASKED / 4..ASKED * 3 / 8).contains(&buffer), "{whatever_fits:?}");
        assert_eq!((whatever_fits.note, whatever_fits.unwind_bytes), (None, (492 << 20) / 32));
        let too_much = asked.plan(256 << 20, holds, 2).unwrap().note.unwrap();
        assert!(too_much.contains("--memory allows 536.9 MB and leaves 515.9 MB"), "{too_much}");
        assert_eq!(asked.plan(16 << 20, holds, 2).unwrap().buffer_bytes, 16 << 20);
        let little = room(ASKED / 2);
        assert_eq!(little.clone().at_most(Some(ASKED), 0), little, "there is not so much");
        assert_eq!(little.clone().at_most(None, 0), little);
    }

    #[test]
    fn a_recording_of_more_needs_more_to_start() {
        let plain = RecordOptions { stacks: Stacks::default(), ..RecordOptions::default() };
        let stacks = Stacks { samples: true, ..Stacks::default() };
        let with_stacks = RecordOptions { stacks, ..plain.clone() };
        let gpu = RecordOptions { gpu: true, ..with_stacks.clone() };
        let has_room = [50, 62, 84].map(|megabytes| {
            let room = room(megabytes << 20);
            [&plain, &with_stacks, &gpu].map(|options| room.suffices_for(options).is_ok())
        });
        assert_eq!(has_room, [[true, false, false], [true, true, false], [true; 3]]);
        let error = room(40 << 20).suffices_for(&gpu).unwrap_err().to_string();
        assert!(error.contains("needs 84.9 MB"), "{error}");
    }

    #[test]
    fn lanes_are_as_large_as_memory_allows_and_bounded_together() {
        let largest = LaneBytes { sched: 8 << 20, sched_stack: 2 << 20 };
        assert_eq!(lane_bytes(8 << 30, 2), largest);
        assert_eq!(lane_bytes(8 << 30, 64), largest);
        assert!(room(2 << 40).plan(64 << 20, TO_DISK, 256).unwrap().lanes_bytes <= MOST_LANES);
        let small = lane_bytes(50 << 20, 2);
        assert!(small.sched < 2 << 20 && small.sched_stack == 512 << 10);
        let sizes = [64 << 20, 1 << 30, 1 << 40]
            .map(|bytes| room(bytes).plan(1 << 20, TO_DISK, 2).unwrap().unwind_bytes);
        assert_eq!(sizes, [LEAST_UNWIND, 4 << 20, MOST_UNWIND]);
        let small = room(8 << 30).plan(3 << 20, TO_DISK, 2).unwrap();
        assert_eq!(small.lane_bytes.sched, 2 << 20, "no larger than the buffer that was asked for");
    }

    fn lane_bytes(bytes: u64, cpus: u32) -> LaneBytes {
        room(bytes).plan(64 << 20, TO_DISK, cpus).unwrap().lane_bytes
    }
}
