//! What takes time and is told at its end: DPCs, interrupts, disk I/O, hard faults.

use super::delay::PUSHED;
use super::play::{Pending, Player, Target};
use super::recent::ANY_THREAD;
use crate::Record;
use crate::payload::{DiskIo, DiskIoKind, Dpc, HardFault, Isr};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Field, Fields, Scope, Slice, StringId, Strings, Time, Value};
use syscollect_playback::{EventType, Rows};

/// Rows of one track at most: more overlap only in a damaged file, or not for long.
const MOST_ROWS: usize = 32;

/// Names, and which rows are taken.
#[derive(Debug)]
pub(super) struct Intervals {
    rows: FxHashMap<(Scope, StringId), Rows<Time>>,
    /// Names of routines by address and epoch of the kernel's images.
    routines: FxHashMap<(u64, u32), (StringId, StringId)>,
    dpc: StringId,
    isr: StringId,
    disks: FxHashMap<u32, StringId>,
    faults: StringId,
    read: StringId,
    write: StringId,
    flush: StringId,
    io: StringId,
    fault: StringId,
    routine: StringId,
    vector: StringId,
    claimed: StringId,
    bytes: StringId,
    offset: StringId,
    file: StringId,
    address: StringId,
    duration: StringId,
}

impl Intervals {
    pub(super) fn new(strings: &mut Strings) -> Self {
        Self {
            rows: FxHashMap::default(),
            routines: FxHashMap::default(),
            dpc: strings.intern("DPC"),
            isr: strings.intern("ISR"),
            disks: FxHashMap::default(),
            faults: strings.intern("Hard faults"),
            read: strings.intern("Read"),
            write: strings.intern("Write"),
            flush: strings.intern("Flush"),
            io: strings.intern("Disk I/O"),
            fault: strings.intern("Hard fault"),
            routine: strings.intern("routine"),
            vector: strings.intern("vector"),
            claimed: strings.intern("claimed"),
            bytes: strings.intern("bytes"),
            offset: strings.intern("offset"),
            file: strings.intern("file"),
            address: strings.intern("address"),
            duration: strings.intern("duration"),
        }
    }
}

/// Something that took time.
struct Interval {
    kind: EventType,
    scope: Scope,
    track: StringId,
    began: Time,
    slice: Slice,
}

impl Player<'_> {
    pub(super) fn dpc(&mut self, record: &Record<'_>, dpc: &Dpc) -> (u32, Target) {
        let fields = Fields::new();
        self.interrupt(EventType::Dpc, record, (dpc.start, dpc.routine), fields)
    }

    pub(super) fn isr(&mut self, record: &Record<'_>, isr: &Isr) -> (u32, Target) {
        let words = &self.intervals;
        let fields = vec![
            Field::named(words.vector, Value::Unsigned(isr.vector.into())),
            Field::named(words.claimed, Value::Unsigned(u64::from(isr.was_claimed))),
        ];
        self.interrupt(EventType::Isr, record, (isr.start, isr.routine), fields)
    }

    /// A routine that ran over whatever was running on the CPU.
    fn interrupt(
        &mut self,
        kind: EventType,
        record: &Record<'_>,
        (start, routine): (u64, u64),
        fields: Fields,
    ) -> (u32, Target) {
        let (name, address) = self.routine(routine);
        let track = if kind == EventType::Dpc { self.intervals.dpc } else { self.intervals.isr };
        let mut slice = Slice { fields, ..Slice::named(name) };
        if name != address {
            slice.fields.push(Field::named(self.intervals.routine, Value::String(address)));
        }
        let (scope, began) = (Scope::Cpu(record.cpu.into()), self.time(start));
        self.interval(Interval { kind, scope, track, began, slice });
        (self.tid(record), Target::Nothing)
    }

    /// A routine's name, and its address in its image.
    fn routine(&mut self, address: u64) -> (StringId, StringId) {
        let epoch = self.code.images.epoch(super::images::KERNEL_SPACE, self.at);
        if let Some(names) = self.intervals.routines.get(&(address, epoch)) {
            return *names;
        }
        let (name, place) = self.code.labels(0, self.at, address, self.tables);
        let names = (self.tables.strings.intern(&name), self.tables.strings.intern(&place));
        self.intervals.routines.insert((address, epoch), names);
        names
    }

    pub(super) fn disk_io(&mut self, record: &Record<'_>, io: &DiskIo) -> (u32, Target) {
        let file = self.file(io.file);
        let words = &mut self.intervals;
        let strings = &mut self.tables.strings;
        let track = *words
            .disks
            .entry(io.disk)
            .or_insert_with(|| strings.intern(&format!("Disk {}", io.disk)));
        let fields = match io.kind {
            DiskIoKind::Flush => Fields::new(),
            _ => vec![
                Field::named(words.bytes, Value::Bytes(io.size.into())),
                Field::named(words.offset, Value::Address(io.offset)),
                Field::named(words.file, file),
            ],
        };
        let name = match io.kind {
            DiskIoKind::Read => words.read,
            DiskIoKind::Write => words.write,
            DiskIoKind::Flush => words.flush,
        };
        let began = self.time(record.timestamp.saturating_sub(io.duration));
        let slice = Slice { category: Some(self.intervals.io), fields, ..Slice::named(name) };
        self.interval(Interval {
            kind: EventType::DiskIo,
            scope: Scope::Machine,
            track,
            began,
            slice,
        });
        (io.tid.unwrap_or(ANY_THREAD), Target::Nothing)
    }

    /// A file by its name, or by its key where nothing names it.
    fn file(&mut self, file: u64) -> Value {
        match self.files.get(file, self.at) {
            Some(path) => Value::String(self.tables.strings.intern(path)),
            None => Value::Address(file),
        }
    }

    /// A page that had to be read. Its stack names the time alone.
    pub(super) fn hard_fault(&mut self, fault: &HardFault) -> (u32, Target) {
        let file = self.file(fault.file);
        let words = &self.intervals;
        let fields = vec![
            Field::named(words.address, Value::Address(fault.address)),
            Field::named(words.file, file),
            Field::named(words.offset, Value::Address(fault.offset)),
            Field::named(words.bytes, Value::Bytes(fault.size.into())),
        ];
        let slice = Slice { fields, ..Slice::named(words.fault) };
        let (track, thread) = (words.faults, self.thread(fault.tid));
        let began = self.time(fault.start);
        let scope = Scope::Thread(thread);
        self.interval(Interval { kind: EventType::HardFault, scope, track, began, slice });
        (ANY_THREAD, Target::Nothing)
    }

    /// Tells an interval that ends now, on a row of its track where nothing else is.
    /// What began before everything that waits begins there, and says how long it took.
    fn interval(&mut self, interval: Interval) {
        let Interval { kind, scope, track, began, mut slice } = interval;
        let began = began.min(self.now);
        let visible = began.max(Time(self.delay.earliest()));
        let rows =
            self.intervals.rows.entry((scope, track)).or_insert_with(|| Rows::new(MOST_ROWS));
        let placed = rows.place(visible, self.now);
        let begin = placed.begin.min(self.now);
        if begin > began {
            slice
                .fields
                .push(Field::named(self.intervals.duration, Value::Duration(self.now.0 - began.0)));
        }
        let track = self.track(scope, track, placed.row as u64);
        // At one moment, what ends makes room for what begins; what takes no time begins before it
        // ends.
        let rank = if begin == self.now { PUSHED } else { PUSHED + 1 };
        self.insert(Some(kind), begin, rank, Event::SliceBegin(track, slice));
        self.push(None, Pending::Event(Box::new(Event::SliceEnd(track))), 0, 0);
    }
}
