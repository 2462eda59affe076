//! The tables that events point into. Rows are added, and go only where nothing names them any more
//! in a recording that goes on.

use crate::{
    CpuId, FrameId, Location, LocationId, Lock, LockId, MachineId, ModuleId, ModuleKind, ProcessId,
    Rows, Schema, SchemaId, SessionInfo, StackCut, StackId, StringId, Strings, ThreadId, Time,
    TrackId, Unit,
};
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};

/// The identity of a binary: the linker's build id, up to 20 bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// From bytes; trailing zeros beyond the note's length must be cut by the caller.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<BuildId> for String {
    fn from(id: BuildId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for BuildId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return Err(format!(
                "{text:?} is not a build id: pairs of hexadecimal digits are expected"
            ));
        }
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16))
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|error| format!("{text:?} is not a build id: {error}"))
    }
}

/// A file of code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its path as the process saw it, `[name]` for a module of Linux' kernel, or the
    /// [path of its kind](ModuleKind::path).
    pub path: StringId,
    /// Its identity; empty where it has none.
    pub build_id: BuildId,
    /// What it is.
    pub kind: ModuleKind,
}

/// A place in code, named as far as names were found.
///
/// An address inside inlined functions becomes several frames, the innermost
/// first; all but the outermost have `inlined` set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The module; `None` where no mapping is known (JIT code, a lost mapping).
    pub module: Option<ModuleId>,
    /// Offset in the module's file, or the address itself where there is no module or it is the
    /// kernel.
    pub offset: u64,
    /// The function's demangled name; `None` where there is no symbol.
    pub function: Option<StringId>,
    /// Start of the function, in the same terms as `offset`.
    pub function_start: u64,
    /// The function's size in bytes; 0 where it is not known.
    pub function_size: u64,
    /// `function` is no name, but its file and where it begins:
    /// [`Symbol::range_only`](crate::Symbol::range_only).
    pub range_only: bool,
    /// Source file.
    pub file: Option<StringId>,
    /// Source line, from 1; 0 where it is not known.
    pub line: u32,
    /// Inlined into the frame that follows.
    pub inlined: bool,
}

impl Frame {
    /// Whether nothing names its function: symbols may still be found for it.
    pub fn is_unnamed(&self) -> bool {
        self.function.is_none() || self.range_only
    }
}

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Where it runs.
    pub machine: MachineId,
    /// The kernel's process id, in the initial namespace.
    pub pid: u32,
    /// The process that created it, if known.
    pub parent_pid: Option<u32>,
    /// The last name it had.
    pub name: StringId,
    /// Its command line, if it could be read.
    pub command_line: Vec<String>,
    /// When it started, if that is within the recording.
    pub start: Option<Time>,
    /// When it ended, if that is within the recording.
    pub end: Option<Time>,
    /// A kernel thread.
    pub kernel: bool,
}

impl Process {
    /// A process of which only the id and the name are known.
    pub fn named(machine: MachineId, pid: u32, name: StringId) -> Self {
        let (parent_pid, command_line, start, end) = Default::default();
        Self { machine, pid, parent_pid, name, command_line, start, end, kernel: false }
    }
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// The kernel's thread id, in the initial namespace.
    pub tid: u32,
    /// Its process.
    pub process: ProcessId,
    /// The last name it had.
    pub name: StringId,
    /// When it started, if that is within the recording.
    pub start: Option<Time>,
    /// When it ended, if that is within the recording.
    pub end: Option<Time>,
}

impl Thread {
    /// A thread of which only the id and the name are known.
    pub fn named(tid: u32, process: ProcessId, name: StringId) -> Self {
        Self { tid, process, name, start: None, end: None }
    }
}

/// What a track belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A machine as a whole.
    Machine(MachineId),
    /// One CPU.
    Cpu(CpuId),
    /// One process.
    Process(ProcessId),
    /// One thread.
    Thread(ThreadId),
}

/// What lies on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackKind {
    /// Slices, instants and messages.
    Slices(TrackRole),
    /// Frames: each is a slice from its mark to the next one, or, where the set
    /// is not `continuous`, from its beginning to its end.
    Frames {
        /// One frame ends where the next begins.
        continuous: bool,
        /// The program gave the set no name: they are what it is about, such as a game's pictures.
        main: bool,
    },
    /// Jobs of a GPU: of an engine or ring (scope: the machine), or of what one
    /// program queued (scope: its process).
    GpuQueue,
    /// A counter.
    Counter {
        /// The unit of its values.
        unit: Unit,
    },
}

/// What a track of slices is to its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackRole {
    /// What a thread marks itself as it goes: its zones, its messages, its markers. Exporters may
    /// show it as the thread's own line, without its name. A thread of two libraries that mark
    /// has two.
    Zones,
    /// Anything else, told apart by its name.
    Named,
}

/// A line of the timeline with a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Track {
    /// What it belongs to.
    pub scope: Scope,
    /// Its name.
    pub name: StringId,
    /// What lies on it.
    pub kind: TrackKind,
}

/// Characters of a machine's name that are shown.
const HOST_NAME_MAX: usize = 64;

/// All tables of a session.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Every text.
    pub strings: Strings,
    /// Machines by [`MachineId`], and how each was recorded; there is one at least.
    pub machines: Vec<SessionInfo>,
    /// Modules by [`ModuleId`].
    pub modules: Vec<Module>,
    /// Frames by [`FrameId`].
    pub frames: Vec<Frame>,
    /// Processes by [`ProcessId`]; row 0 is the idle process, one for all machines.
    pub processes: Rows<Process>,
    /// Threads by [`ThreadId`]; row 0 is the idle thread, one for all CPUs.
    pub threads: Rows<Thread>,
    /// Tracks by [`TrackId`]. Tracks of one scope that have the same name are
    /// rows of one track: they hold what overlaps in time (async zones).
    pub tracks: Rows<Track>,
    /// Places in the source by [`LocationId`].
    pub locations: Rows<Location>,
    /// Kinds of markers by [`SchemaId`].
    pub schemas: Rows<Schema>,
    /// Locks by [`LockId`].
    pub locks: Rows<Lock>,
    stack_frames: Vec<FrameId>,
    stack_ends: Vec<u32>,
    /// By the hash of their frames, or the next number that is free: the frames themselves are
    /// there once.
    stack_ids: FxHashMap<u64, StackId>,
    truncations: Vec<(FrameId, StackCut)>,
}

impl Default for Tables {
    fn default() -> Self {
        let mut strings = Strings::default();
        let name = strings.intern("swapper");
        let process = Process { kernel: true, ..Process::named(MachineId::FIRST, 0, name) };
        let thread = Thread::named(0, Self::IDLE_PROCESS, name);
        Self {
            strings,
            machines: vec![SessionInfo::default()],
            modules: Vec::new(),
            frames: Vec::new(),
            processes: Rows::from_iter([process]),
            threads: Rows::from_iter([thread]),
            tracks: Rows::default(),
            locations: Rows::default(),
            schemas: Rows::default(),
            locks: Rows::default(),
            stack_frames: Vec::new(),
            stack_ends: Vec::new(),
            stack_ids: FxHashMap::default(),
            truncations: Vec::new(),
        }
    }
}

impl Tables {
    /// The process that stands for idle CPUs.
    pub const IDLE_PROCESS: ProcessId = ProcessId(0);
    /// The thread that stands for idle CPUs.
    pub const IDLE_THREAD: ThreadId = ThreadId(0);

    /// The frame in the place of those that are missing from a stack. Every viewer shows it as what
    /// it is called, such as `[truncated]`; it is no place in code.
    pub fn truncation(&mut self, cut: StackCut) -> FrameId {
        if let Some((id, _)) = self.truncations.iter().find(|(_, known)| *known == cut) {
            return *id;
        }
        let function = Some(self.strings.intern(cut.frame_name()));
        self.frames.push(Frame {
            module: None,
            offset: 0,
            function,
            function_start: 0,
            function_size: 0,
            range_only: false,
            file: None,
            line: 0,
            inlined: false,
        });
        let id = FrameId(self.frames.len() as u32 - 1);
        self.truncations.push((id, cut));
        id
    }

    /// Why frames are missing where this frame stands for them; `None` if it is a frame like
    /// others.
    pub fn truncated_by(&self, frame: FrameId) -> Option<StackCut> {
        self.truncations.iter().find(|(id, _)| *id == frame).map(|(_, cut)| *cut)
    }

    /// Whether a frame stands for missing ones, see [`Self::truncation`].
    pub fn is_truncation(&self, frame: FrameId) -> bool {
        self.truncated_by(frame).is_some()
    }

    /// The stack with these frames, innermost first, if there is one.
    pub fn find_stack(&self, frames: &[FrameId]) -> Option<StackId> {
        self.stack_at(stack_key(frames), frames).ok()
    }

    /// The stack with these frames, or where it is to be found once it is there.
    fn stack_at(&self, mut key: u64, frames: &[FrameId]) -> Result<StackId, u64> {
        while let Some(id) = self.stack_ids.get(&key) {
            if self.stack(*id) == frames {
                return Ok(*id);
            }
            key = key.wrapping_add(1);
        }
        Err(key)
    }

    /// The stack with these frames, innermost first, added if it is new.
    pub fn intern_stack(&mut self, frames: &[FrameId]) -> StackId {
        let key = match self.stack_at(stack_key(frames), frames) {
            Ok(id) => return id,
            Err(free) => free,
        };
        let id = StackId(self.stack_ends.len() as u32);
        self.stack_frames.extend_from_slice(frames);
        self.stack_ends.push(self.stack_frames.len() as u32);
        self.stack_ids.insert(key, id);
        id
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        let start = id.index().checked_sub(1).map_or(0, |before| self.stack_ends[before] as usize);
        &self.stack_frames[start..self.stack_ends[id.index()] as usize]
    }

    /// How many stacks there are.
    pub fn stack_count(&self) -> usize {
        self.stack_ends.len()
    }

    /// A machine's row.
    pub fn machine(&self, id: MachineId) -> &SessionInfo {
        &self.machines[usize::from(id.0)]
    }

    /// A process's row.
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.index()]
    }

    /// A thread's row.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    /// A process's name, as lists of all machines show it: `server`, and on another machine than
    /// the first `server on HOST`.
    pub fn process_name(&self, id: ProcessId) -> Cow<'_, str> {
        let row = self.process(id);
        self.on_machine(row.name, row.machine)
    }

    /// A thread's name, as lists of all machines show it.
    pub fn thread_name(&self, id: ThreadId) -> Cow<'_, str> {
        let row = self.thread(id);
        self.on_machine(row.name, self.machine_of(id))
    }

    /// A name, and the machine if it is not the first.
    fn on_machine(&self, name: StringId, machine: MachineId) -> Cow<'_, str> {
        let name = self.strings.get(name);
        match machine {
            MachineId::FIRST => name.into(),
            machine => format!("{name} on {}", self.machine_name(machine)).into(),
        }
    }

    /// The machine on which a thread runs; of idle, which all have in common, the first.
    pub fn machine_of(&self, thread: ThreadId) -> MachineId {
        self.process(self.thread(thread).process).machine
    }

    /// What a machine calls itself, as far as such a name may go (`HOST_NAME_MAX`, 64 bytes on
    /// Linux), with its number where another is called so, or its number alone where it has no
    /// name.
    pub fn machine_name(&self, id: MachineId) -> Cow<'_, str> {
        let hostname = &self.machine(id).hostname;
        let known = hostname.chars().filter(|character| !character.is_control());
        let known: String = known.take(HOST_NAME_MAX).collect();
        let same = self.machines.iter().filter(|machine| machine.hostname == *hostname).count();
        match (known.as_str(), same) {
            ("", _) => id.to_string().into(),
            (_, 1) => known.into(),
            _ => format!("{known} ({id})").into(),
        }
    }

    /// A frame's row.
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.index()]
    }

    /// A module's row.
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.index()]
    }

    /// A track's row.
    pub fn track(&self, id: TrackId) -> &Track {
        &self.tracks[id.index()]
    }

    /// A location's row.
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.index()]
    }

    /// A schema's row.
    pub fn schema(&self, id: SchemaId) -> &Schema {
        &self.schemas[id.index()]
    }

    /// A lock's row.
    pub fn lock(&self, id: LockId) -> &Lock {
        &self.locks[id.index()]
    }

    /// Forgets all stacks, their frames and modules: whoever has a number of one has to find it
    /// anew.
    pub fn forget_code(&mut self) {
        self.modules = Vec::new();
        self.frames = Vec::new();
        self.stack_frames = Vec::new();
        self.stack_ends = Vec::new();
        self.stack_ids = FxHashMap::default();
        self.truncations = Vec::new();
    }

    /// Adds a process.
    pub fn add_process(&mut self, process: Process) -> ProcessId {
        self.processes.push(process);
        ProcessId(self.processes.len() as u32 - 1)
    }

    /// Adds a thread.
    pub fn add_thread(&mut self, thread: Thread) -> ThreadId {
        self.threads.push(thread);
        ThreadId(self.threads.len() as u32 - 1)
    }

    /// Gives a thread another name, and its process if it is the main thread.
    pub fn rename(&mut self, thread: ThreadId, name: StringId) {
        let row = &mut self.threads[thread.index()];
        row.name = name;
        let process = &mut self.processes[row.process.index()];
        if process.pid == row.tid {
            process.name = name;
        }
    }

    /// Adds a track.
    pub fn add_track(&mut self, track: Track) -> TrackId {
        self.tracks.push(track);
        TrackId(self.tracks.len() as u32 - 1)
    }

    /// What to show for a frame: its function, or `module+0x1234`, or the address.
    pub fn frame_label(&self, id: FrameId) -> String {
        let frame = self.frame(id);
        match (frame.function, frame.module) {
            (Some(function), _) => self.strings.get(function).to_owned(),
            (None, Some(module)) => {
                format!("{}+{:#x}", self.strings.get(self.module(module).path), frame.offset)
            }
            (None, None) => format!("{:#x}", frame.offset),
        }
    }
}

/// By what a stack is found.
fn stack_key(frames: &[FrameId]) -> u64 {
    let mut hasher = FxHasher::default();
    frames.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_one_hash_are_told_apart() {
        let mut tables = Tables::default();
        let stacks = [[1, 2], [2, 1], [7, 7]].map(|frames| frames.map(FrameId));
        let ids = stacks.each_ref().map(|frames| tables.intern_stack(frames));
        // As if all had the hash of the first.
        let key = stack_key(&stacks[0]);
        tables.stack_ids =
            [(key, ids[1]), (key + 1, ids[2]), (key + 2, ids[0])].into_iter().collect();
        assert_eq!(tables.find_stack(&stacks[0]), Some(ids[0]));
        assert_eq!(tables.intern_stack(&stacks[0]), ids[0]);
        assert_eq!(tables.stack_at(key, &stacks[1]), Ok(ids[1]));
        assert_eq!(tables.stack_at(key, &[FrameId(9)]), Err(key + 3));
        assert_eq!((tables.stack_count(), tables.find_stack(&[FrameId(9)])), (3, None));
    }
}
