//! What one viewer is told, and what it knows already.
//!
//! The viewer checks little of what comes and ends itself where it finds a contradiction. So
//! everything here is told in the order that it expects; what makes a history that can have
//! happened out of what was recorded is [`Picture`](crate::picture::Picture).

use crate::catalogue::{
    Catalogue, EndedRow, LocationId, LockId, PlotId, SetId, StackId, TextId, ThreadRow,
};
use crate::event::{Memory, Message, ZoneWords};
use crate::gpu_contexts::GpuContexts;
use crate::lz4::MOST_RAW;
use crate::version::{Kind, Version};
use crate::wire::{Family, SAMPLE, SWITCH_SAMPLE, Writer, ZONE_BEGIN, ZONE_BEGIN_STACK, ZONE_END};
use rustc_hash::{FxHashMap, FxHashSet};

/// The viewer keeps the threads of a lock in 64 bits.
const MOST_LOCK_THREADS: usize = 64;
/// Addresses of one stack that are told.
const MOST_ADDRESSES: usize = 1_000;
/// Reasons of switches that the viewer takes for those of Linux.
const REASON: u8 = 100;
/// Source locations of a viewer, whose index has 16 bits and a sign.
const MOST_LOCATIONS: usize = 32_000;
/// What stands for all others; no row has it.
pub(crate) const OTHER_LOCATIONS: u64 = u64::MAX >> 16;
/// Sizes have 48 bits.
const MOST_SIZE: u64 = (1 << 47) - 1;
/// Messages that are ours and no program's.
const OWN: u8 = 1;
const GREY: u32 = 0xaa_aaaa;
/// Of 0xRRGGBB: what the viewer should not overlook.
const RED: u32 = 0xff_5555;
/// Severity of a warning.
const WARNING: u8 = 3;

/// One viewer.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) writer: Writer,
    /// Up to where the stream may be cut into frames.
    cuts: Vec<usize>,
    /// Threads that were told of.
    threads: FxHashSet<u32>,
    /// Locks, with the threads of each.
    locks: FxHashMap<LockId, Vec<u32>>,
    plots: FxHashSet<PlotId>,
    pub(crate) contexts: GpuContexts,
    /// Source locations that were told of, as many as the viewer takes.
    locations: FxHashSet<LocationId>,
    /// When the last sample of a thread was: the viewer would make one of two at one time.
    last_samples: FxHashMap<u32, i64>,
    /// When the last event of a row was that the viewer wants in order.
    last_times: FxHashMap<OrderedRow, i64>,
    /// Events that were told later than they were, because their rows were further.
    moved: u64,
    has_crash: bool,
    pub(crate) own: OwnRow,
}

/// What the viewer wants the events of in order. Of messages and plots it takes any order; all of
/// the kernel's events come in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OrderedRow {
    Zones(u32),
    Lock(LockId),
    Set(SetId),
    /// One, or that of what has none.
    Pool(Option<TextId>),
}

/// What a viewer was welcomed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRow {
    /// The thread that our own messages are of.
    pub(crate) thread: u32,
    /// Its first time.
    pub(crate) zero: i64,
}

/// Where in a stream of events something is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) time: i64,
    pub(crate) catalogue: &'a Catalogue,
}

/// What happens to a lock, as the viewer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockStep {
    pub(crate) lock: LockId,
    pub(crate) thread: u32,
    pub(crate) kind: LockStepKind,
}

/// The same, told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockStepKind {
    Wait,
    Obtain,
    Release,
    WaitShared,
    ObtainShared,
    ReleaseShared,
}

/// Who leaves a CPU and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchStep {
    pub(crate) cpu: u8,
    pub(crate) old: u32,
    pub(crate) new: u32,
    pub(crate) state: i8,
    pub(crate) priorities: [i8; 2],
}

impl Viewer {
    pub(crate) fn new(version: &'static Version, own: OwnRow) -> Self {
        Self {
            writer: Writer::new(version),
            cuts: Vec::new(),
            threads: FxHashSet::default(),
            locks: FxHashMap::default(),
            plots: FxHashSet::default(),
            contexts: GpuContexts::default(),
            locations: FxHashSet::default(),
            last_samples: FxHashMap::default(),
            last_times: FxHashMap::default(),
            moved: 0,
            has_crash: false,
            own,
        }
    }

    /// What belongs together was written: the stream may be cut here.
    pub(crate) fn cut(&mut self) {
        let length = self.writer.bytes().len();
        let last = self.cuts.last().copied().unwrap_or(0);
        if length - last >= MOST_RAW / 2 {
            self.cuts.push(length);
        }
    }

    /// When an event of a row is told: what programs wrote may come late, and then it has its own
    /// time, unless something of the row was told that is later.
    fn in_order(&mut self, row: OrderedRow, at: Moment<'_>) -> i64 {
        let last = self.last_times.entry(row).or_insert(self.own.zero);
        let time = at.time.max(*last);
        self.moved += u64::from(time > at.time);
        *last = time;
        time
    }

    /// How many events were told later than they were since this was asked last.
    pub(crate) fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    /// Whether there is enough for a frame.
    pub(crate) fn is_full(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Gives what was written, in pieces for frames.
    pub(crate) fn take(&mut self, mut pack: impl FnMut(&[u8])) {
        let length = self.writer.bytes().len();
        let mut start = 0;
        for end in self.cuts.drain(..).chain([length]) {
            if end > start {
                pack(&self.writer.bytes()[start..end]);
            }
            start = end;
        }
        self.writer.taken(length);
    }

    /// What stands for a source location: all that find no room have one.
    pub(crate) fn place(&mut self, location: LocationId) -> u64 {
        let has_room = self.locations.len() < MOST_LOCATIONS;
        if self.locations.contains(&location) || (has_room && self.locations.insert(location)) {
            return location.pointer();
        }
        OTHER_LOCATIONS
    }

    /// Nothing is told of a row any more.
    pub(crate) fn forget(&mut self, row: EndedRow) {
        match row {
            EndedRow::Thread(thread) => {
                self.threads.remove(&thread);
                self.last_samples.remove(&thread);
                self.last_times.remove(&OrderedRow::Zones(thread));
            }
            EndedRow::Plot(plot) => drop(self.plots.remove(&plot)),
            EndedRow::Lock(lock) => {
                self.locks.remove(&lock);
                self.last_times.remove(&OrderedRow::Lock(lock));
            }
            EndedRow::Set(set) => drop(self.last_times.remove(&OrderedRow::Set(set))),
            EndedRow::Pool(pool) => drop(self.last_times.remove(&OrderedRow::Pool(Some(pool)))),
            // The viewer keeps them, and there is a bound for them.
            EndedRow::Location(_) => {}
            EndedRow::Context(context) => self.contexts.forget(context),
        }
    }

    /// The machine, the contexts of its GPUs, and lines about the recording.
    pub(crate) fn machine(&mut self, at: Moment<'_>) {
        for cpu in &at.catalogue.cpus {
            // Which die it is on is not known.
            let topology = self.writer.begin(Kind::CpuTopology).u32(cpu.package).u32(0);
            drop(topology.u32(cpu.core).u32(cpu.cpu));
        }
        for note in &at.catalogue.notes {
            self.writer.single(note);
            drop(self.writer.begin(Kind::MessageAppInfo).i64(at.time));
            self.cut();
        }
        for context in at.catalogue.contexts.keys() {
            self.context(*context, at);
        }
    }

    /// Whether the viewer knows a thread.
    pub(crate) fn is_shown(&self, thread: u32) -> bool {
        self.threads.contains(&thread)
    }

    /// Tells of a thread, before anything that is of it. A thread that only switches would not be
    /// shown: it gets a message.
    pub(crate) fn thread(&mut self, thread: u32, at: Moment<'_>) {
        if thread == 0 || !self.threads.insert(thread) {
            return;
        }
        let row = at.catalogue.threads.get(&thread);
        if let Some(ThreadRow { pid, .. }) = row.filter(|row| row.pid != 0) {
            drop(self.writer.begin(Kind::TidToPid).u64(thread.into()).u64((*pid).into()));
        }
        if row.is_some_and(|row| row.is_quiet) {
            return;
        }
        self.message(
            &Message {
                thread,
                text: "first seen by this viewer".into(),
                color: Some(GREY),
                severity: 0,
                own: true,
                stack: None,
            },
            at,
        );
    }

    pub(crate) fn switch(&mut self, step: SwitchStep, at: Moment<'_>) {
        self.thread(step.new, at);
        let SwitchStep { cpu, old, new, state, priorities: [coming, leaving] } = step;
        let time = self.writer.difference(Family::Cpus, at.time);
        let switch = self.writer.begin(Kind::ContextSwitch).i64(time).u32(old).u32(new).u8(cpu);
        let switch = switch.u8(REASON).i8(state).u8(0);
        drop(switch.i8(coming).i8(leaving));
    }

    pub(crate) fn wakeup(&mut self, cpu: u8, thread: u32, at: Moment<'_>) {
        let time = self.writer.difference(Family::Cpus, at.time);
        drop(self.writer.begin(Kind::ThreadWakeup).i64(time).u32(thread).u8(cpu).i8(0).i8(0));
    }

    /// A stack for what comes next; whether there is one.
    fn stack(&mut self, stack: Option<StackId>, at: Moment<'_>) -> bool {
        let Some(stack) = stack else { return false };
        let addresses = at.catalogue.addresses(stack);
        if addresses.len() == 0 {
            return false;
        }
        self.writer.callstack(addresses.take(MOST_ADDRESSES));
        true
    }

    /// A sample; `leaving` where it is of a thread that left its CPU.
    pub(crate) fn sample(&mut self, thread: u32, stack: StackId, leaving: bool, at: Moment<'_>) {
        self.thread(thread, at);
        if !self.stack(Some(stack), at) {
            return;
        }
        let last = self.last_samples.entry(thread).or_insert(i64::MIN);
        let time = at.time.max(last.saturating_add(1));
        *last = time;
        let forms = if leaving { SWITCH_SAMPLE } else { SAMPLE };
        self.writer.timed_behind(forms, thread, time);
    }

    pub(crate) fn zone_begin(
        &mut self,
        thread: u32,
        location: LocationId,
        stack: Option<StackId>,
        at: Moment<'_>,
    ) {
        self.thread(thread, at);
        self.writer.thread(thread);
        let forms = if self.stack(stack, at) {
            self.writer.plain(Kind::Callstack);
            ZONE_BEGIN_STACK
        } else {
            ZONE_BEGIN
        };
        let location = self.place(location);
        let time = self.in_order(OrderedRow::Zones(thread), at);
        drop(self.writer.timed(forms, Family::Thread, time).u64(location));
    }

    pub(crate) fn zone_end(&mut self, thread: u32, said: Option<&ZoneWords>, at: Moment<'_>) {
        self.writer.thread(thread);
        if let Some(ZoneWords { name, text, color }) = said {
            for (text, kind) in [(text, Kind::ZoneText), (name, Kind::ZoneName)] {
                if let Some(text) = text {
                    self.writer.single(text);
                    self.writer.plain(kind);
                }
            }
            if let Some(color) = color {
                let [_, red, green, blue] = color.to_be_bytes();
                drop(self.writer.begin(Kind::ZoneColor).u8(blue).u8(green).u8(red));
            }
        }
        let time = self.in_order(OrderedRow::Zones(thread), at);
        drop(self.writer.timed(ZONE_END, Family::Thread, time));
    }

    pub(crate) fn message(&mut self, message: &Message, at: Moment<'_>) {
        let Message { thread, text, color, severity, own, stack } = message;
        self.thread(*thread, at);
        self.writer.thread(*thread);
        let [_, red, green, blue] = color.unwrap_or(0xff_ffff).to_be_bytes();
        let kind = if self.stack(*stack, at) {
            self.writer.plain(Kind::Callstack);
            Kind::MessageColorCallstack
        } else {
            Kind::MessageColor
        };
        self.writer.single(text);
        let message = self.writer.begin(kind).i64(at.time).u8(blue).u8(green).u8(red);
        drop(message.u8(severity << 4 | if *own { OWN } else { 0 }));
    }

    /// Something that is missing, as our own message.
    pub(crate) fn warn(&mut self, text: String, at: Moment<'_>) {
        let (thread, text, color) = (self.own.thread, text.into(), Some(RED));
        let (severity, own, stack) = (WARNING, true, None);
        self.message(&Message { thread, text, color, severity, own, stack }, at);
    }

    pub(crate) fn plot(&mut self, plot: PlotId, value: f64, at: Moment<'_>) {
        let Some(row) = at.catalogue.plot(plot) else { return };
        if self.plots.insert(plot) {
            let config = self.writer.begin(Kind::PlotConfig).u64(row.name.pointer());
            drop(config.u8(row.format).u8(row.is_step.into()).u8(1).u32(0));
        }
        let time = self.writer.difference(Family::Thread, at.time);
        let value_of = self.writer.begin(Kind::PlotDataDouble).u64(row.name.pointer());
        drop(value_of.i64(time).f64(value));
    }

    pub(crate) fn load(&mut self, percent: f32, at: Moment<'_>) {
        drop(self.writer.begin(Kind::SysTimeReport).i64(at.time).f32(percent));
    }

    /// Tells of a lock, before anything that happens to it.
    fn lock(&mut self, lock: LockId, at: Moment<'_>) {
        if self.locks.contains_key(&lock) {
            return;
        }
        let Some(row) = at.catalogue.lock(lock) else { return };
        self.locks.insert(lock, Vec::new());
        let location = self.place(row.location);
        let announced = self.writer.begin(Kind::LockAnnounce).u32(lock.0).i64(at.time);
        drop(announced.u64(location).u8(row.shared.into()));
        if let Some(name) = row.name {
            self.writer.single(at.catalogue.get_text(name));
            drop(self.writer.begin(Kind::LockName).u32(lock.0));
        }
    }

    pub(crate) fn lock_step(
        &mut self,
        step: LockStep,
        location: Option<LocationId>,
        at: Moment<'_>,
    ) {
        let LockStep { lock, thread, kind } = step;
        self.lock(lock, at);
        let Some(threads) = self.locks.get_mut(&lock) else { return };
        if !threads.contains(&thread) {
            // A thread that finds no room is told of with nothing: so nothing of it is missing.
            if threads.len() >= MOST_LOCK_THREADS {
                return;
            }
            threads.push(thread);
        }
        self.thread(thread, at);
        let time = self.in_order(OrderedRow::Lock(lock), at);
        let time = self.writer.difference(Family::Serial, time);
        match kind {
            LockStepKind::Release => {
                drop(self.writer.begin(Kind::LockRelease).u32(lock.0).i64(time));
            }
            LockStepKind::ReleaseShared => {
                let released = self.writer.begin(Kind::LockSharedRelease).u32(lock.0);
                drop(released.i64(time).u32(thread));
            }
            LockStepKind::Wait
            | LockStepKind::Obtain
            | LockStepKind::WaitShared
            | LockStepKind::ObtainShared => {
                let kind = match kind {
                    LockStepKind::Wait => Kind::LockWait,
                    LockStepKind::Obtain => Kind::LockObtain,
                    LockStepKind::WaitShared => Kind::LockSharedWait,
                    _ => Kind::LockSharedObtain,
                };
                drop(self.writer.begin(kind).u32(thread).u32(lock.0).i64(time));
                if let Some(location) = location {
                    let location = self.place(location);
                    let mark = self.writer.begin(Kind::LockMark).u32(thread).u32(lock.0);
                    drop(mark.u64(location));
                }
            }
        }
    }

    pub(crate) fn memory(&mut self, event: &Memory, at: Moment<'_>) {
        let Memory { thread, pool, address, allocated, stack } = *event;
        self.thread(thread, at);
        let has_stack = self.stack(stack, at);
        if has_stack {
            self.writer.plain(Kind::CallstackSerial);
        }
        if let Some(pool) = pool {
            drop(self.writer.begin(Kind::MemNamePayload).u64(pool.pointer()));
        }
        let time = self.in_order(OrderedRow::Pool(pool), at);
        let time = self.writer.difference(Family::Serial, time);
        let kind = match (allocated.is_some(), pool.is_some(), has_stack) {
            (true, false, false) => Kind::MemAlloc,
            (true, true, false) => Kind::MemAllocNamed,
            (true, false, true) => Kind::MemAllocCallstack,
            (true, true, true) => Kind::MemAllocCallstackNamed,
            (false, false, false) => Kind::MemFree,
            (false, true, false) => Kind::MemFreeNamed,
            (false, false, true) => Kind::MemFreeCallstack,
            (false, true, true) => Kind::MemFreeCallstackNamed,
        };
        let message = self.writer.begin(kind).i64(time).u32(thread).u64(address);
        match allocated {
            Some(size) => drop(message.low_bytes(size.min(MOST_SIZE), 6)),
            None => drop(message),
        }
    }

    pub(crate) fn frame(&mut self, set: SetId, begins: bool, at: Moment<'_>) {
        let Some(row) = at.catalogue.set(set) else { return };
        let kind = match (row.continuous, begins) {
            (true, true) => Kind::FrameMark,
            // It ends where the next begins.
            (true, false) => return,
            (false, true) => Kind::FrameMarkStart,
            (false, false) => Kind::FrameMarkEnd,
        };
        let name = row.name.map_or(0, TextId::pointer);
        let time = self.in_order(OrderedRow::Set(set), at);
        drop(self.writer.begin(kind).i64(time).u64(name));
    }

    /// The viewer has room for one crash.
    pub(crate) fn crash(&mut self, thread: u32, text: TextId, at: Moment<'_>) {
        if std::mem::replace(&mut self.has_crash, true) {
            return;
        }
        self.thread(thread, at);
        self.writer.thread(thread);
        drop(self.writer.begin(Kind::CrashReport).i64(at.time).u64(text.pointer()));
    }
}
