//! A reader of Tracy's files, layouts 0.11.0, 0.13.0 and 0.14.0, as strict as the viewer is not: a
//! viewer that was built for release checks nothing, and follows any index.
//!
//! Whatever [`read`] accepts has every section, nothing behind them, no index
//! that leads nowhere, and times in the order that the viewer relies on.
//! Sections that syscollect does not write (sections of time) must be empty.

mod code;
mod container;
mod cursor;
mod gpu;
mod head;
mod locks;
mod memory;
mod sched;
mod threads;
mod zones;

pub use code::{Frame, FrameLine, Symbol};
pub use container::Compression;
pub use gpu::{GpuContext, GpuZone};
pub use head::{Crash, FrameImage, FrameSet, Header};
pub use locks::{Lock, LockChange, LockEvent};
pub use memory::{Piece, Pool};
pub use sched::{CpuTime, Switch, Totals};
pub use threads::{Message, Plot, Sample, Thread};
pub use zones::{SourceLocation, Zone};

use cursor::{Cursor, StringRef};
use std::collections::BTreeMap;

/// Why a file cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(pub String);

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damage {}

/// What a file holds. Times are nanoseconds since the file's zero; -1 is never.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracyFile {
    /// How the container is compressed.
    pub compression: Compression,
    /// Streams of the container.
    pub streams: u8,
    /// What stands before the events.
    pub header: Header,
    /// Names of threads.
    pub thread_names: BTreeMap<u64, String>,
    /// Names of the processes and threads that CPUs ran.
    pub external_names: BTreeMap<u64, (String, String)>,
    /// What took a process down.
    pub crash: Option<Crash>,
    /// The frame sets; the main one comes first, and its first frame is what was before.
    pub frame_sets: Vec<FrameSet>,
    /// Images of the main set's frames.
    pub frame_images: Vec<FrameImage>,
    /// The locks.
    pub locks: Vec<Lock>,
    /// All messages, in the order of time.
    pub messages: Vec<Message>,
    /// The threads, in the order of the file.
    pub threads: Vec<Thread>,
    /// The plots.
    pub plots: Vec<Plot>,
    /// The queues of GPUs.
    pub gpus: Vec<GpuContext>,
    /// The memory.
    pub pools: Vec<Pool>,
    /// Call stacks; the first has index 1.
    pub callstacks: Vec<Vec<u64>>,
    /// Frames by id.
    pub frames: BTreeMap<u64, Frame>,
    /// Lines on the program.
    pub app_info: Vec<String>,
    /// Context switches by thread.
    pub switches: BTreeMap<u64, Vec<Switch>>,
    /// What each of the 256 CPUs ran.
    pub cpus: Vec<Vec<CpuTime>>,
    /// Process ids of threads.
    pub pids: BTreeMap<u64, u64>,
    /// Sums by thread.
    pub totals: BTreeMap<u64, Totals>,
    /// Symbols by address.
    pub symbols: BTreeMap<u64, Symbol>,
}

/// The strings by index and by pointer.
#[derive(Default)]
struct Strings {
    data: Vec<String>,
    pointers: BTreeMap<u64, usize>,
    ids: BTreeMap<u64, u64>,
}

impl Strings {
    fn index(&self, cursor: &Cursor<'_>, index: Option<u32>) -> Result<String, Damage> {
        let index = index.ok_or_else(|| cursor.damage("a string is missing"))?;
        self.data
            .get(index as usize)
            .cloned()
            .ok_or_else(|| cursor.damage(format!("there is no string {index}")))
    }

    fn pointer(&self, cursor: &Cursor<'_>, pointer: u64) -> Result<String, Damage> {
        let index = self.pointers.get(&pointer);
        let index =
            index.ok_or_else(|| cursor.damage(format!("no string lies at {pointer:#x}")))?;
        Ok(self.data[*index].clone())
    }

    /// A pointer of the profiled program, as names of plots are.
    fn id(&self, cursor: &Cursor<'_>, id: u64) -> Result<String, Damage> {
        let pointer = self
            .ids
            .get(&id)
            .ok_or_else(|| cursor.damage(format!("no string has the id {id:#x}")))?;
        self.pointer(cursor, *pointer)
    }

    fn reference(
        &self,
        cursor: &Cursor<'_>,
        reference: StringRef,
    ) -> Result<Option<String>, Damage> {
        match reference {
            StringRef::None => Ok(None),
            StringRef::Index(index) => self.index(cursor, u32::try_from(index).ok()).map(Some),
            StringRef::Pointer(id) => self.id(cursor, id).map(Some),
        }
    }
}

/// Reads a file.
///
/// # Errors
///
/// [`Damage`] at the first thing that the format does not allow.
pub fn read(file: &[u8]) -> Result<TracyFile, Damage> {
    let (payload, compression, streams) = container::payload(file)?;
    let cursor = &mut Cursor::new(&payload);
    let mut trace =
        TracyFile { compression, streams, header: head::header(cursor)?, ..TracyFile::default() };
    let crash = head::crash(cursor)?;
    let frame_sets = head::frame_sets(cursor)?;
    head::sections(cursor)?;
    let strings = head::strings(cursor)?;
    trace.crash = crash.map(|crash| crash.named(cursor, &strings)).transpose()?;
    trace.frame_sets = head::named_frame_sets(cursor, frame_sets, &strings)?;
    let tables = threads::tables(cursor, &strings, &mut trace)?;
    let locations = zones::locations(cursor, &strings)?;
    trace.locks = locks::locks(cursor, &strings, &locations)?;
    let keys = threads::messages(cursor, &strings, &mut trace)?;
    let extras = zones::extras(cursor, &strings)?;
    threads::threads(cursor, (&tables, &locations, &extras, &keys), &mut trace)?;
    trace.gpus = gpu::contexts(cursor, &tables.local, &locations, &strings)?;
    threads::plots(cursor, &strings, &mut trace)?;
    trace.pools = memory::pools(cursor, &strings, &tables.local)?;
    code::callstacks(cursor, &strings, &mut trace)?;
    cursor.section("application information");
    trace.app_info = cursor.list(9, |cursor| {
        let reference = cursor.string_ref()?;
        Ok(strings.reference(cursor, reference)?.unwrap_or_default())
    })?;
    trace.frame_images = head::frame_images(cursor, &trace.frame_sets)?;
    sched::switches(cursor, &mut trace)?;
    sched::cpus(cursor, &tables.external, &mut trace)?;
    sched::sums(cursor, &mut trace)?;
    code::symbols(cursor, &strings, &mut trace)?;
    (0..4).try_for_each(|_| cursor.nothing())?;
    cursor.end()?;
    code::check_stacks(&trace, extras.iter().map(|extra| extra.callstack))?;
    sched::check_times(&trace)?;
    check_threads(&trace)?;
    Ok(trace)
}

/// Locks and crashes are of threads that are there.
fn check_threads(trace: &TracyFile) -> Result<(), Damage> {
    let of_locks = trace.locks.iter().flat_map(|lock| &lock.threads);
    let mut used = of_locks.chain(trace.crash.iter().map(|crash| &crash.thread));
    match used.find(|id| !trace.threads.iter().any(|thread| thread.id == **id)) {
        Some(id) => Err(Damage(format!("a lock or crash is of thread {id}, which is not there"))),
        None => Ok(()),
    }
}

impl TracyFile {
    /// The frames of a call stack as names, innermost first, inlined ones too.
    ///
    /// # Panics
    ///
    /// When `index` is none of the file's.
    pub fn stack_names(&self, index: u32) -> Vec<&str> {
        let frames =
            self.callstacks[index as usize - 1].iter().flat_map(|id| &self.frames[id].lines);
        frames.map(|line| line.name.as_str()).collect()
    }

    /// The thread with that name.
    pub fn thread(&self, name: &str) -> Option<&Thread> {
        self.threads
            .iter()
            .find(|thread| self.thread_names.get(&thread.id).is_some_and(|own| own == name))
    }

    /// Samples of CPUs of all threads: those that are none of a switch.
    pub fn cpu_samples(&self) -> usize {
        self.threads.iter().map(|thread| thread.samples.len() - thread.switch_samples.len()).sum()
    }

    /// Samples of switches of all threads.
    pub fn switch_samples(&self) -> usize {
        self.threads.iter().map(|thread| thread.switch_samples.len()).sum()
    }
}
