//! What happened, as the viewer takes it in, and whether it can have happened.

use super::gpu::{GpuContext, ReceivedGpuJob};
use super::messages::Texts;
use super::stream::Welcome;
use super::{Result, Violation, require};
use std::collections::BTreeMap;

/// A context switch. Thread 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSwitch {
    /// When, as the other side says times.
    pub time: i64,
    /// Where.
    pub cpu: u8,
    /// Who leaves.
    pub old: u32,
    /// Who comes.
    pub new: u32,
    /// How the first left.
    pub state: i8,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedZone {
    /// Whose.
    pub thread: u32,
    /// When it began.
    pub start: i64,
    /// When it ended; `None` while it is open.
    pub end: Option<i64>,
    /// What stands for its source location.
    pub location: u64,
    /// Its own name.
    pub name: Option<String>,
    /// What it says.
    pub text: Option<String>,
    /// Its own colour.
    pub color: Option<u32>,
    /// Where in the code.
    pub stack: Option<Vec<u64>>,
}

/// What a thread said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// When.
    pub time: i64,
    /// Who.
    pub thread: u32,
    /// What.
    pub text: String,
    /// 0xRRGGBB.
    pub color: u32,
    /// 0 to 5.
    pub severity: u8,
    /// It is the recorder's.
    pub own: bool,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedLock {
    /// When.
    pub time: i64,
    /// Which.
    pub lock: u32,
    /// Who.
    pub thread: u32,
    /// 0 waits, 1 obtains, 2 releases; 3 to 5 the same of readers.
    pub kind: u8,
}

/// Memory that was allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMemory {
    /// What stands for its pool; 0 for that without a name.
    pub pool: u64,
    /// Where it lies.
    pub address: u64,
    /// How many bytes.
    pub size: u64,
    /// By whom.
    pub thread: u32,
    /// When.
    pub allocated: i64,
    /// When it was freed.
    pub freed: Option<i64>,
    /// Where in the code.
    pub stack: Option<Vec<u64>>,
}

/// What a thread is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedThread {
    /// With its process.
    pub label: String,
    /// Itself.
    pub name: String,
    /// Its process.
    pub process: String,
}

/// All that the viewer was told.
#[derive(Clone, Debug, Default)]
pub struct ReceivedTimeline {
    /// Context switches.
    pub switches: Vec<ReceivedSwitch>,
    /// Time, thread, CPU.
    pub wakeups: Vec<(i64, u32, u8)>,
    /// Time, thread, stack, and whether it is of a switch.
    pub samples: Vec<(i64, u32, Vec<u64>, bool)>,
    /// Zones, in the order in which they began.
    pub zones: Vec<ReceivedZone>,
    /// Messages.
    pub messages: Vec<ReceivedMessage>,
    /// Time, name, value.
    pub plots: Vec<(i64, u64, f64)>,
    /// How plots are shown.
    pub plot_formats: BTreeMap<u64, u8>,
    /// Time and percent.
    pub load: Vec<(i64, f32)>,
    /// Events of locks.
    pub locks: Vec<ReceivedLock>,
    /// Names of locks.
    pub lock_names: BTreeMap<u32, String>,
    /// Memory, in the order in which it was allocated.
    pub memory: Vec<ReceivedMemory>,
    /// Name, start, end.
    pub frame_times: Vec<(u64, i64, Option<i64>)>,
    /// Jobs of GPUs.
    pub jobs: Vec<ReceivedGpuJob>,
    /// Names of contexts.
    pub contexts: BTreeMap<u8, String>,
    /// The first crash: time, thread, text.
    pub crash: Option<(i64, u32, u64)>,
    /// CPU to package and core.
    pub topology: BTreeMap<u32, (u32, u32)>,
    /// Lines about the recording.
    pub notes: Vec<String>,
    /// Texts.
    pub texts: Texts,
    /// Names of plots.
    pub plot_names: Texts,
    /// Names of sets of frames.
    pub frame_names: Texts,
    /// Names of threads.
    pub threads: BTreeMap<u32, ReceivedThread>,
    /// Process of threads.
    pub pids: BTreeMap<u32, u32>,
    /// Threads that are shown together.
    pub groups: BTreeMap<u32, u32>,
    /// Name, function, file, line, colour.
    pub locations: BTreeMap<u64, (u64, u64, u64, u32, u32)>,
    /// Name, file, line of the functions of an address.
    pub frames: BTreeMap<u64, Vec<(String, String, u32)>>,
}

impl ReceivedTimeline {
    /// The name of a zone: its own, or its location's.
    pub fn zone_name<'a>(&'a self, zone: &'a ReceivedZone) -> &'a str {
        zone.name.as_deref().unwrap_or_else(|| self.location_name(zone.location))
    }

    /// What zones of a source location are called.
    pub fn location_name(&self, location: u64) -> &str {
        let of_location = || {
            let (name, function, ..) = self.locations.get(&location)?;
            self.texts.get(if *name == 0 { function } else { name })
        };
        of_location().map(String::as_str).unwrap_or_default()
    }
}

/// What came for the next message.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) single: Option<String>,
    pub(super) second: Option<String>,
    pub(super) stack: Option<Vec<u64>>,
    pub(super) serial: Option<Vec<u64>>,
    pub(super) pool: Option<u64>,
    pub(super) frame: Option<(u64, u8)>,
}

/// A time as it came: as it is, or a difference in its family.
pub(super) enum Moment {
    Absolute(i64),
    Cpus(i64),
    Thread(i64),
    Serial(i64),
    Gpu(i64),
}

#[derive(Default)]
struct Lock {
    shared: bool,
    threads: Vec<u32>,
    owner: Option<u32>,
    held: u32,
    waits: [Vec<u32>; 2],
    readers: Vec<u32>,
    last: i64,
}

/// What is told, with what it is checked by.
#[derive(Default)]
pub(super) struct History {
    pub(super) seen: ReceivedTimeline,
    pub(super) pending: Pending,
    pub(super) is_terminated: bool,
    pub(super) zero: i64,
    references: [i64; 4],
    thread: Option<u32>,
    thread_stacks: BTreeMap<u32, Vec<u64>>,
    cpus: BTreeMap<u8, u32>,
    runs: BTreeMap<u32, u8>,
    last_cpus: i64,
    last_samples: BTreeMap<u32, i64>,
    zones: BTreeMap<u32, Vec<usize>>,
    last_zones: BTreeMap<u32, i64>,
    locks: BTreeMap<u32, Lock>,
    allocated: BTreeMap<(u64, u64), usize>,
    last_memory: BTreeMap<u64, i64>,
    open_frames: BTreeMap<u64, usize>,
    pub(super) contexts: BTreeMap<u8, GpuContext>,
}

impl History {
    pub(super) fn begin(&mut self, welcome: &Welcome) {
        self.zero = welcome.zero;
        self.last_cpus = welcome.zero;
    }

    /// The time that a message says.
    pub(super) fn moment(&mut self, moment: Moment) -> Result<i64> {
        let (family, difference) = match moment {
            Moment::Absolute(time) => {
                require!(time >= self.zero, "it is before the zero");
                return Ok(time);
            }
            Moment::Cpus(difference) => (0, difference),
            Moment::Thread(difference) => (1, difference),
            Moment::Serial(difference) => (2, difference),
            Moment::Gpu(difference) => (3, difference),
        };
        let time = self.references[family] + difference;
        self.references[family] = time;
        // Jobs of GPUs may have been handed over before.
        require!(time >= self.zero || family >= 2, "it is before the zero: {time}");
        require!(time - self.zero < 1 << 47, "a time of more than 48 bits");
        Ok(time)
    }

    fn in_order(&mut self, time: i64) -> Result<()> {
        require!(time >= self.last_cpus, "it is before the last, {} and {time}", self.last_cpus);
        self.last_cpus = time;
        Ok(())
    }

    pub(super) fn switch(&mut self, switch: ReceivedSwitch) -> Result<()> {
        self.in_order(switch.time)?;
        let ReceivedSwitch { cpu, old, new, .. } = switch;
        let current = self.cpus.insert(cpu, new).unwrap_or(0);
        require!(current == old, "CPU {cpu} ran {current}, and {old} leaves it");
        require!((old, new) != (0, 0), "nobody comes after nobody");
        self.runs.remove(&old);
        if new != 0 {
            let other = self.runs.insert(new, cpu);
            require!(other.is_none(), "thread {new} runs on CPU {other:?} already");
        }
        self.seen.switches.push(switch);
        Ok(())
    }

    pub(super) fn wakeup(&mut self, time: i64, thread: u32, cpu: u8) -> Result<()> {
        self.in_order(time)?;
        require!(thread != 0, "nobody is woken");
        self.seen.wakeups.push((time, thread, cpu));
        Ok(())
    }

    pub(super) fn sample(&mut self, time: i64, thread: u32, is_switch: bool) -> Result<()> {
        let stack = self.pending.take_stack()?;
        let last = self.last_samples.insert(thread, time);
        require!(last.is_none_or(|last| last < time), "two samples of a thread at one time");
        self.seen.samples.push((time, thread, stack, is_switch));
        Ok(())
    }

    pub(super) fn load(&mut self, time: i64, percent: f32) -> Result<()> {
        require!((0.0..=100.0).contains(&percent), "a load of {percent} %");
        let last = self.seen.load.last().map_or(time, |(last, _)| *last);
        require!(last <= time, "a load before the last");
        self.seen.load.push((time, percent));
        Ok(())
    }

    pub(super) fn thread(&mut self, thread: u32) {
        self.thread = Some(thread);
        self.references[1] = 0;
    }

    fn current(&self) -> Result<u32> {
        self.thread.ok_or_else(|| Violation("it is of no thread".into()))
    }

    pub(super) fn stack_of_thread(&mut self) -> Result<()> {
        let (thread, stack) = (self.current()?, self.pending.take_stack()?);
        let before = self.thread_stacks.insert(thread, stack);
        require!(before.is_none(), "a stack comes before the last was used");
        Ok(())
    }

    fn take_stack(&mut self) -> Result<Vec<u64>> {
        let thread = self.current()?;
        let stack = self.thread_stacks.remove(&thread);
        stack.ok_or_else(|| Violation("its stack is missing".into()))
    }

    pub(super) fn zone_begin(&mut self, time: i64, location: u64, has_stack: bool) -> Result<()> {
        let thread = self.current()?;
        let stack = if has_stack { Some(self.take_stack()?) } else { None };
        let last = self.last_zones.insert(thread, time);
        require!(last.is_none_or(|last| last <= time), "a zone begins before the last");
        let open = self.zones.entry(thread).or_default();
        open.push(self.seen.zones.len());
        require!(open.len() < 255, "zones nest too deep");
        self.seen.zones.push(ReceivedZone {
            thread,
            start: time,
            end: None,
            location,
            name: None,
            text: None,
            color: None,
            stack,
        });
        Ok(())
    }

    fn innermost(&mut self) -> Result<&mut ReceivedZone> {
        let thread = self.current()?;
        let zone = self.zones.get(&thread).and_then(|open| open.last());
        let zone = zone.ok_or_else(|| Violation("the thread has no open zone".into()))?;
        Ok(&mut self.seen.zones[*zone])
    }

    pub(super) fn zone_text(&mut self) -> Result<()> {
        let text = self.pending.take_single()?;
        let zone = self.innermost()?;
        require!(zone.text.is_none(), "a zone has two texts");
        zone.text = Some(text);
        Ok(())
    }

    pub(super) fn zone_name(&mut self) -> Result<()> {
        let name = self.pending.take_single()?;
        self.innermost()?.name = Some(name);
        Ok(())
    }

    pub(super) fn zone_colour(&mut self, colour: u32) -> Result<()> {
        self.innermost()?.color = Some(colour);
        Ok(())
    }

    pub(super) fn zone_end(&mut self, time: i64) -> Result<()> {
        let thread = self.current()?;
        let zone = self.innermost()?;
        require!(zone.start <= time, "a zone ends before it begins");
        zone.end = Some(time);
        let last = self.last_zones.insert(thread, time);
        require!(last.is_none_or(|last| last <= time), "a zone ends before the last");
        self.zones.entry(thread).or_default().pop();
        Ok(())
    }

    pub(super) fn message(
        &mut self,
        time: i64,
        color: u32,
        metadata: u8,
        has_stack: bool,
    ) -> Result<()> {
        let (thread, text) = (self.current()?, self.pending.take_single()?);
        if has_stack {
            self.take_stack()?;
        }
        let (severity, own) = (metadata >> 4, metadata & 15 == 1);
        self.seen.messages.push(ReceivedMessage { time, thread, text, color, severity, own });
        Ok(())
    }

    pub(super) fn plot(&mut self, time: i64, name: u64, value: f64) -> Result<()> {
        require!(value.is_finite(), "a value that is none");
        require!(self.seen.plot_formats.contains_key(&name), "a plot without a format");
        self.seen.plots.push((time, name, value));
        Ok(())
    }

    pub(super) fn crash(&mut self, time: i64, text: u64) -> Result<()> {
        let thread = self.current()?;
        require!(self.seen.crash.is_none(), "a second crash");
        self.seen.crash = Some((time, thread, text));
        Ok(())
    }

    pub(super) fn frame(&mut self, kind: u8, time: i64, name: u64) -> Result<()> {
        let same = self.seen.frame_times.iter().rev().find(|(other, ..)| *other == name);
        let last = same.map_or(time, |(_, start, end)| end.unwrap_or(*start));
        require!(last <= time, "a frame before the last");
        match kind {
            0 => self.seen.frame_times.push((name, time, None)),
            1 => {
                let before = self.open_frames.insert(name, self.seen.frame_times.len());
                require!(before.is_none(), "a frame begins before the last ended");
                self.seen.frame_times.push((name, time, None));
            }
            _ => {
                let open = self.open_frames.remove(&name);
                let open = open.ok_or_else(|| Violation("a frame ends that is none".into()))?;
                self.seen.frame_times[open].2 = Some(time);
            }
        }
        Ok(())
    }

    pub(super) fn lock_announced(&mut self, lock: u32, shared: bool) -> Result<()> {
        let before = self.locks.insert(lock, Lock { shared, ..Lock::default() });
        require!(before.is_none(), "lock {lock} is told of twice");
        Ok(())
    }

    pub(super) fn lock_named(&mut self, lock: u32) -> Result<()> {
        require!(self.locks.contains_key(&lock), "nobody told of lock {lock}");
        let name = self.pending.take_single()?;
        self.seen.lock_names.insert(lock, name);
        Ok(())
    }

    pub(super) fn lock_marked(&mut self, lock: u32, thread: u32) -> Result<()> {
        let threads = self.locks.get(&lock).map(|lock| &lock.threads);
        let is_known = threads.is_some_and(|threads| threads.contains(&thread));
        require!(is_known, "a place of lock {lock}, which thread {thread} never met");
        Ok(())
    }

    pub(super) fn lock_event(
        &mut self,
        number: u8,
        time: i64,
        id: u32,
        thread: Option<u32>,
    ) -> Result<()> {
        let lock = self.locks.get_mut(&id);
        let lock = lock.ok_or_else(|| Violation(format!("nobody told of lock {id}")))?;
        require!(lock.last <= time, "an event of lock {id} before the last");
        lock.last = time;
        let kind = number - 28;
        require!(kind < 3 || lock.shared, "readers of a lock that has none");
        let thread = match thread.or(lock.owner) {
            Some(thread) => thread,
            None => return Err(Violation(format!("lock {id} is released, and nobody held it"))),
        };
        if !lock.threads.contains(&thread) {
            lock.threads.push(thread);
            require!(lock.threads.len() <= 64, "lock {id} has too many threads");
        }
        let remove = |list: &mut Vec<u32>| {
            let at = list.iter().position(|other| *other == thread);
            at.map(|at| list.remove(at)).is_some()
        };
        match kind {
            0 | 3 => {
                let waits = &mut lock.waits[usize::from(kind == 3)];
                if !waits.contains(&thread) {
                    waits.push(thread);
                }
            }
            1 => {
                require!(remove(&mut lock.waits[0]), "{thread} has lock {id} without waiting");
                let is_free = lock.held == 0 || lock.owner == Some(thread);
                require!(is_free, "{thread} has lock {id}, which {:?} holds", lock.owner);
                lock.owner = Some(thread);
                lock.held += 1;
                require!(lock.held < 255, "lock {id} is held too often");
            }
            2 => {
                require!(lock.held > 0, "lock {id} is released, and nobody held it");
                lock.held -= 1;
            }
            4 => {
                require!(remove(&mut lock.waits[1]), "{thread} reads lock {id} without waiting");
                lock.readers.push(thread);
            }
            _ => require!(remove(&mut lock.readers), "{thread} does not read lock {id}"),
        }
        self.seen.locks.push(ReceivedLock { time, lock: id, thread, kind });
        Ok(())
    }

    pub(super) fn freed(&mut self, time: i64, pool: u64, address: u64) {
        if let Some(before) = self.allocated.remove(&(pool, address)) {
            self.seen.memory[before].freed = Some(time);
        }
    }

    pub(super) fn allocated(&mut self, memory: ReceivedMemory) -> Result<()> {
        let ReceivedMemory { pool, address, allocated: time, .. } = memory;
        self.freed(time, pool, address);
        let last = self.last_memory.insert(pool, time);
        require!(last.is_none_or(|last| last <= time), "memory is allocated before the last");
        self.allocated.insert((pool, address), self.seen.memory.len());
        self.seen.memory.push(memory);
        Ok(())
    }

    pub(super) fn terminate(&mut self) -> Result<()> {
        require!(!self.is_terminated, "it ends twice");
        let open = self.zones.values().filter(|open| !open.is_empty()).count();
        require!(open == 0, "{open} threads have open zones at the end");
        let unanswered = self.contexts.values().filter(|context| context.is_open()).count();
        require!(unanswered == 0, "{unanswered} contexts of GPUs have open jobs at the end");
        self.is_terminated = true;
        Ok(())
    }
}
