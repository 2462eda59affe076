//! What events refer to and what is said once: JSON, one value per chunk.
//!
//! Readers ignore unknown fields and unknown definitions; fields are only
//! added, with a default. That is the compatibility promise of the format.

use crate::{Chunk, ChunkHeader, LostRecord};
use serde::{Deserialize, Serialize};
use syscollect_model::{
    BuildId, Lane, LaneKind, LossCause, LossOrigin, MachineId, Mapping, ProgramTicks,
    RecorderSummary, SessionInfo, SymbolTable, Ticks, Unit,
};

/// Most bytes of a list in one chunk: less than a chunk may have, so that one that has no room, or
/// is damaged, costs little.
const LIST_BYTES: usize = 1 << 20;

/// One definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Definition {
    /// The machine and the recording; may come again, the last one counts.
    Session(Box<SessionInfo>),
    /// Processes that were there when the recording began (or were noted later).
    Processes(Vec<KnownProcess>),
    /// Mappings that were there when the recording began.
    Mappings(Vec<Mapping>),
    /// What the numbers in counter records mean.
    Counters(Vec<CounterDefinition>),
    /// Cumulative losses; the last one of the file counts.
    Losses(Vec<LaneLoss>),
    /// Names of addresses. A module may have several tables, which add up.
    Symbols(SymbolTable),
    /// What the recorder says of itself; written last, so its absence means
    /// that the recording was cut off.
    Summary(Box<RecorderSummary>),
    /// What each lane produced in all. The writer adds it at the end, so that
    /// chunks that are missing there are noticed too; the last one counts.
    Lanes(Vec<LaneEnd>),
    /// Programs that are marked and were recorded.
    Clients(Vec<ClientDefinition>),
    /// What the numbers in probe records mean.
    Probes(Vec<ProbeDefinition>),
    /// What the numbers in tracepoint records mean, and where their fields lie.
    Tracepoints(Vec<TracepointDefinition>),
    /// Callers of stacks that were cut because an unwind table was not made yet, found when the
    /// recording had ended.
    Unwound(Vec<UnwoundStack>),
    /// Files of code of which the capture has parts, and such of which it has none.
    Files(Vec<KeptFile>),
}

/// A file of code that other machines may not have: what of it lies in the capture, so that its
/// functions can be named there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptFile {
    /// The path of its module, as in mappings.
    pub path: String,
    /// The build id of its module, as in mappings; may be empty.
    pub build_id: BuildId,
    /// It is a separate debug file of the module, not what was mapped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub debug: bool,
    /// Bytes of the whole file.
    pub length: u64,
    /// How many of them were kept, or would have been.
    pub bytes: u64,
    /// What they take in the capture.
    pub stored: u64,
    /// The number of the first chunk with a part of it.
    pub first: u64,
    /// How many chunks hold its parts; 0 if it was not kept.
    pub chunks: u64,
    /// Why it was not kept; empty if it was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The callers of a stack that was cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnwoundStack {
    /// The machine.
    #[serde(skip_serializing_if = "MachineId::is_first")]
    pub machine: MachineId,
    /// Number of the kind of lane that has the stack's definition.
    pub kind: u16,
    /// Which of that kind.
    #[serde(rename = "cpu")]
    pub index: u16,
    /// The stack's id in that lane.
    pub id: u32,
    /// Addresses that come behind those of the definition.
    pub addresses: Vec<u64>,
    /// Why there may be more, one of `syscollect_records::stack_ending`; 0 where there are none.
    pub truncated: u32,
}

/// A kernel tracepoint and the layout of its records, as its format file in
/// tracefs states them on the recorded kernel: names and places of fields
/// change between kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracepointDefinition {
    /// The number that records carry.
    pub tracepoint: u32,
    /// The subsystem: `"dma_fence"`.
    pub system: String,
    /// The event: `"dma_fence_emit"`.
    pub name: String,
    /// Its fields; the common ones are left out.
    pub fields: Vec<TracepointField>,
}

/// A field of a tracepoint's record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracepointField {
    /// Its name.
    pub name: String,
    /// Where it begins, bytes from the start of the record.
    pub offset: u16,
    /// Its bytes.
    pub size: u16,
    /// It is a signed number.
    pub signed: bool,
    /// What it is.
    pub kind: TracepointFieldKind,
}

/// How a field of a tracepoint's record is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TracepointFieldKind {
    /// A number of `size` bytes.
    #[default]
    Number,
    /// A text of at most `size` bytes, ended by a NUL.
    Text,
    /// 4 bytes: the offset of a text in the record (low half) and its bytes (`__data_loc char[]`).
    TextElsewhere,
    /// The same with an offset that counts from behind this field (`__rel_loc`).
    TextRelative,
    /// Bytes of another meaning: arrays, bit masks.
    Bytes,
}

/// An instrumented program whose zones are recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientDefinition {
    /// The number that chunks of zones carry.
    pub client: u32,
    /// Its process, in the initial pid namespace.
    pub pid: u32,
    /// What its ticks are.
    pub clock: ProgramTicks,
    /// When it was taken over.
    pub since: Ticks,
    /// The user whose shares it has a part of, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
}

/// A probe that was attached: one place in one file, or several with the same meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeDefinition {
    /// The number that records carry.
    pub probe: u32,
    /// What a hit means.
    pub role: ProbeRole,
    /// The number that a begin and its end have in common; each such number nests by itself on a
    /// thread's track.
    pub pair: u32,
    /// The track's name; empty for the thread's own track.
    pub track: String,
    /// What the hit, or the zone, is called: `"python:function__entry"`, a function's demangled
    /// name.
    pub name: String,
    /// Its arguments, in the order of the record's words.
    pub arguments: Vec<ProbeArgument>,
    /// The argument that names the zone or the hit instead.
    pub named_by: Option<u8>,
    /// Of a pair's begin: whether one may begin while another is open on the thread; `None` where
    /// that is told by the hits.
    pub nests: Option<bool>,
    /// The set of frames of which each entry of the function begins one, unless it lies within
    /// another such function; empty for none.
    pub frames: String,
    /// The file that was probed, as one process saw it.
    pub path: String,
}

/// What a hit of a probe means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeRole {
    /// Something happened.
    #[default]
    Point,
    /// A zone of the pair begins.
    ZoneBegin,
    /// The innermost zone of the pair ends. A pair may have several such probes: the first that is
    /// hit ends it.
    ZoneEnd,
    /// A function is entered: like a zone, but what a longer jump left is told by the stack
    /// pointer.
    FunctionEntry,
    /// It has returned: the stack pointer is 8 more than at its entry.
    FunctionReturn,
    /// It is about to return: the stack pointer is that of its entry.
    FunctionExit,
    /// The zones of an instrumented program that could not share memory: arguments are
    /// name, function, file (texts), line, color.
    ClientZoneBegin,
    /// The end of these: the depth that is left.
    ClientZoneEnd,
    /// A message of such a program: its text, color.
    ClientMessage,
    /// A value of a plot of such a program: name (text), bits of a double.
    ClientPlot,
    /// A frame mark of such a program: the set's name (text).
    ClientFrame,
}

impl ProbeRole {
    /// Whether something ends there that began elsewhere.
    pub fn is_end(self) -> bool {
        use ProbeRole::{ClientZoneEnd, FunctionExit, FunctionReturn, ZoneEnd};
        matches!(self, ZoneEnd | FunctionReturn | FunctionExit | ClientZoneEnd)
    }

    /// Every role.
    pub const ALL: [Self; 11] = [
        Self::Point,
        Self::ZoneBegin,
        Self::ZoneEnd,
        Self::FunctionEntry,
        Self::FunctionReturn,
        Self::FunctionExit,
        Self::ClientZoneBegin,
        Self::ClientZoneEnd,
        Self::ClientMessage,
        Self::ClientPlot,
        Self::ClientFrame,
    ];
}

/// An argument of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeArgument {
    /// Its name: `"arg0"` where nobody gave it one.
    pub name: String,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// It is a signed number.
    pub signed: bool,
    /// It is an IEEE number of `size` bytes.
    pub float: bool,
    /// `Some(true)`: a text. `Some(false)`: a number. `None`: a text where what was read looks like
    /// one.
    pub text: Option<bool>,
}

/// What a lane produced, whether or not it reached the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneEnd {
    /// The machine.
    #[serde(skip_serializing_if = "MachineId::is_first")]
    pub machine: MachineId,
    /// Number of the lane's kind.
    pub kind: u16,
    /// Which of that kind.
    #[serde(rename = "cpu")]
    pub index: u16,
    /// Chunks: the number that the next one would have.
    pub chunks: u64,
    /// Records in them, as far as they were counted.
    pub records: u64,
}

impl UnwoundStack {
    /// The lane of the stack's definition, if its kind is known here.
    pub fn lane(&self) -> Option<Lane> {
        let kind = LaneKind::from_number(self.kind)?;
        Some(Lane { machine: self.machine, kind, index: self.index })
    }
}

impl LaneEnd {
    /// The end of a lane whose last chunk this is.
    pub fn after(header: &ChunkHeader) -> Self {
        Self {
            machine: header.lane.machine,
            kind: header.lane.kind as u16,
            index: header.lane.index,
            chunks: header.sequence.saturating_add(1),
            records: header.records_before.saturating_add(u64::from(header.records)),
        }
    }

    /// The lane, if its kind is known here.
    pub fn lane(&self) -> Option<Lane> {
        let kind = LaneKind::from_number(self.kind)?;
        Some(Lane { machine: self.machine, kind, index: self.index })
    }

    /// Moves the end to where the later of the two lies.
    pub fn extend(&mut self, other: &Self) {
        self.chunks = self.chunks.max(other.chunks);
        self.records = self.records.max(other.records);
    }
}

impl Definition {
    /// The definition in a chunk of the definition lane; `None` for one that a later version added.
    ///
    /// # Errors
    ///
    /// It is of no shape known here.
    pub fn from_json(json: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        match serde_json::from_slice(json) {
            Ok(definition) => Ok(Some(definition)),
            Err(_) if variant(json).is_some_and(|name| !Self::NAMES.contains(&name)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The variant's names in JSON, for telling unknown definitions from broken ones.
    const NAMES: [&str; 12] = [
        "session",
        "processes",
        "mappings",
        "counters",
        "losses",
        "symbols",
        "summary",
        "lanes",
        "clients",
        "probes",
        "tracepoints",
        "unwound",
    ];

    /// Whether that JSON is of the definition of this name, which is told without reading it.
    pub fn is_named(json: &[u8], name: &str) -> bool {
        json.strip_prefix(b"{\"")
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&b'"'))
    }

    /// As chunks, which the writer numbers. Long lists are divided among several of at most 1 MiB;
    /// they add up. What cannot be divided is one chunk, however long.
    pub fn chunks(&self) -> Vec<Chunk> {
        // Definitions are plain data with text keys: JSON can hold all of them.
        let data = serde_json::to_vec(self).unwrap_or_default();
        if data.len() > LIST_BYTES
            && let Some(parts) = self.parts(data.len().div_ceil(LIST_BYTES))
        {
            // Large tables are named where there is little memory.
            drop(data);
            return parts.iter().flat_map(Self::chunks).collect();
        }
        vec![Chunk { header: Self::chunk_header(data.len()), data }]
    }

    /// The same in so many parts, two or more, with as many rows each; `None` for what cannot be
    /// divided.
    fn parts(&self, count: usize) -> Option<Vec<Self>> {
        fn split<T: Clone>(
            list: &[T],
            count: usize,
            whole: impl Fn(Vec<T>) -> Definition,
        ) -> Option<Vec<Definition>> {
            let rows = list.len().div_ceil(count);
            (list.len() > 1).then(|| list.chunks(rows).map(|some| whole(some.to_vec())).collect())
        }
        match self {
            Self::Processes(list) => match list.as_slice() {
                // What is said of one process in several places adds up.
                [process] => split(&process.threads, count, |threads| {
                    Self::Processes(vec![KnownProcess { threads, ..process.clone() }])
                }),
                list => split(list, count, Self::Processes),
            },
            Self::Mappings(list) => split(list, count, Self::Mappings),
            Self::Counters(list) => split(list, count, Self::Counters),
            Self::Clients(list) => split(list, count, Self::Clients),
            Self::Probes(list) => split(list, count, Self::Probes),
            Self::Tracepoints(list) => split(list, count, Self::Tracepoints),
            Self::Unwound(list) => split(list, count, Self::Unwound),
            Self::Files(list) => split(list, count, Self::Files),
            Self::Symbols(table) => split(&table.symbols, count, |symbols| {
                let SymbolTable { path, build_id, memory, note, unfinished, symbols: _ } = table;
                Self::Symbols(SymbolTable {
                    path: path.clone(),
                    build_id: build_id.clone(),
                    memory: *memory,
                    symbols,
                    note: note.clone(),
                    unfinished: *unfinished,
                })
            }),
            Self::Session(_) | Self::Losses(_) | Self::Summary(_) | Self::Lanes(_) => None,
        }
    }
}

/// The id of no stack.
fn is_none(id: &u32) -> bool {
    *id == 0
}

/// A time that was not noted.
fn is_never(time: &Ticks) -> bool {
    *time == Ticks(0)
}

/// A process as read from the kernel when the recording began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownProcess {
    /// Its id in the initial pid namespace.
    pub pid: u32,
    /// Its parent.
    pub parent_pid: u32,
    /// Its arguments; empty for kernel threads.
    pub command_line: Vec<String>,
    /// A kernel thread.
    pub kernel: bool,
    /// The user who runs it: its real id; `None` where that was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Its threads, the main one included.
    pub threads: Vec<KnownThread>,
    /// When it was read; 0 for what was there when the recording began.
    pub noted: Ticks,
    /// When the names of its threads had been read at the latest, for what was
    /// there when the recording began: a thread renamed before that may have
    /// had another name at the beginning.
    pub names_read: Ticks,
    /// When it was read in which state its threads are; 0 where that was not read.
    #[serde(skip_serializing_if = "is_never")]
    pub states_read: Ticks,
}

/// A thread as read from the kernel when the recording began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownThread {
    /// Its id in the initial pid namespace.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// It was asleep; `None` also where that was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asleep: Option<KnownSleep>,
}

/// How a thread slept when its state was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownSleep {
    /// The kind of sleep, a letter as proc_pid_stat(5) has it: `S`, `D`, `I`, `T`, `t` or `P`.
    pub state: char,
    /// The kernel function it slept in, as proc_pid_wchan(5) has it; empty where that is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub blocked_in: String,
    /// It waited for I/O.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub io_wait: bool,
    /// Its user stack and its kernel stack, ids in the lane of stacks [`Lane::SLEEPERS`]; 0 is
    /// none.
    #[serde(skip_serializing_if = "is_none")]
    pub user_stack: u32,
    /// See `user_stack`.
    #[serde(skip_serializing_if = "is_none")]
    pub kernel_stack: u32,
}

/// A polled counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterDefinition {
    /// The number that records carry.
    pub counter: u64,
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit<String>,
    /// Its CPU, if it belongs to one.
    pub cpu: Option<u32>,
    /// The process that had this id when the counter's first record was made, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// Losses of one lane for one cause, over the whole recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneLoss {
    /// What they were lost from.
    #[serde(rename = "lane")]
    pub origin: LossOrigin,
    /// The lane's CPU, if it has one.
    pub cpu: Option<u32>,
    /// The kind of record.
    #[serde(default)]
    pub record: LostRecord,
    /// Why.
    pub cause: LossCause,
    /// Whose program's they were, where that is known: a user's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// How many records.
    pub count: u64,
}

/// The name before the colon of `{"name": ...`.
pub(crate) fn variant(json: &[u8]) -> Option<&str> {
    let text =
        json.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&text[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn definitions_have_the_same_texts_as_ever_and_keep_those_of_later_versions() {
        let counters = json!({"counters": [
            {"counter": 1, "name": "usage", "unit": "%", "cpu": 0},
            {"counter": 2, "name": "noise", "unit": "dB", "cpu": null},
        ]});
        let definition: Definition = from_value(counters.clone()).unwrap();
        let Definition::Counters(rows) = &definition else { panic!("{definition:?}") };
        assert_eq!(rows[0].unit, Unit::Percent);
        assert_eq!(rows[1].unit, Unit::from("dB"));
        assert_eq!(to_value(&definition).unwrap(), counters);

        let symbols = json!({"symbols": {
            "path": "/bin/a", "build_id": "", "note": "", "symbols": [
                {"offset": 17, "start": 16, "size": 8, "frames": [{"function": "main"}]},
                {"offset": 33, "start": 32, "size": 8, "range_only": true,
                 "frames": [{"function": "a+0x20"}]},
            ],
        }});
        let definition: Definition = from_value(symbols.clone()).unwrap();
        let Definition::Symbols(table) = &definition else { panic!("{definition:?}") };
        let range_only: Vec<_> = table.symbols.iter().map(|symbol| symbol.range_only).collect();
        assert_eq!(range_only, [false, true]);
        assert_eq!(to_value(&definition).unwrap(), symbols);

        let clients = json!({"clients": [
            {"client": 1, "pid": 2, "clock": "tsc", "since": 3},
            {"client": 2, "pid": 3, "clock": "sundial", "since": 4},
        ]});
        let definition: Definition = from_value(clients.clone()).unwrap();
        let Definition::Clients(rows) = &definition else { panic!("{definition:?}") };
        assert_eq!(rows[0].clock, ProgramTicks::Tsc);
        assert_eq!(to_value(&definition).unwrap(), clients);
    }
}
