//! The scheduling events of one CPU until they are written as one bundle.

use super::fields::{bundle, compact_sched as compact, ftrace, packet};
use super::packets::Sequence;
use super::stream::Stream;
use crate::ExportError;
use crate::proto::{Message, push_varint};
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{CpuId, StringId, Strings, ThreadId, Time};

/// Events in a bundle: many, so that its fixed part and its table of names weigh little.
const BUNDLE_EVENTS: usize = 4096;
/// Bytes of full events in a bundle, so that its packet stays well under Perfetto's 512 KB.
const BUNDLE_BYTES: usize = 128 << 10;

/// Packed times: each is written as the distance to the one before.
#[derive(Debug, Default)]
struct Times {
    column: Vec<u8>,
    last: u64,
}

impl Times {
    #[inline]
    fn push(&mut self, time: Time) {
        // Times never decrease by contract; a distance cannot be negative, so one that did would
        // stand still.
        push_varint(&mut self.column, time.0.saturating_sub(self.last));
        self.last = self.last.max(time.0);
    }

    fn clear(&mut self) {
        self.column.clear();
        self.last = 0;
    }
}

/// A switch from what ran to `tid`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactSwitch {
    pub(crate) time: Time,
    pub(crate) previous_state: u64,
    pub(crate) tid: u32,
    pub(crate) priority: i32,
    pub(crate) name: StringId,
}

/// A wakeup of `tid` by what runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactWaking {
    pub(crate) time: Time,
    pub(crate) tid: u32,
    pub(crate) target_cpu: u32,
    pub(crate) priority: i32,
    pub(crate) name: StringId,
    pub(crate) flags: u64,
}

/// Columns of switches.
#[derive(Debug, Default)]
struct SwitchColumns {
    times: Times,
    states: Vec<u8>,
    tids: Vec<u8>,
    priorities: Vec<u8>,
    names: Vec<u8>,
}

impl SwitchColumns {
    #[inline]
    fn push(&mut self, time: Time, switch: &CompactSwitch, name: u64) {
        self.times.push(time);
        push_varint(&mut self.states, switch.previous_state);
        push_varint(&mut self.tids, u64::from(switch.tid));
        push_varint(&mut self.priorities, i64::from(switch.priority) as u64);
        push_varint(&mut self.names, name);
    }

    fn fields(&self) -> [(u32, &Vec<u8>); 5] {
        [
            (compact::SWITCH_TIMESTAMP, &self.times.column),
            (compact::SWITCH_PREV_STATE, &self.states),
            (compact::SWITCH_NEXT_PID, &self.tids),
            (compact::SWITCH_NEXT_PRIO, &self.priorities),
            (compact::SWITCH_NEXT_COMM_INDEX, &self.names),
        ]
    }

    fn clear(&mut self) {
        let Self { times, states, tids, priorities, names } = self;
        times.clear();
        [states, tids, priorities, names].into_iter().for_each(Vec::clear);
    }
}

/// Columns of wakeups.
#[derive(Debug, Default)]
struct WakingColumns {
    times: Times,
    tids: Vec<u8>,
    cpus: Vec<u8>,
    priorities: Vec<u8>,
    names: Vec<u8>,
    flags: Vec<u8>,
}

impl WakingColumns {
    #[inline]
    fn push(&mut self, waking: &CompactWaking, name: u64) {
        self.times.push(waking.time);
        push_varint(&mut self.tids, u64::from(waking.tid));
        push_varint(&mut self.cpus, u64::from(waking.target_cpu));
        push_varint(&mut self.priorities, i64::from(waking.priority) as u64);
        push_varint(&mut self.names, name);
        push_varint(&mut self.flags, waking.flags);
    }

    fn fields(&self) -> [(u32, &Vec<u8>); 6] {
        [
            (compact::WAKING_TIMESTAMP, &self.times.column),
            (compact::WAKING_PID, &self.tids),
            (compact::WAKING_TARGET_CPU, &self.cpus),
            (compact::WAKING_PRIO, &self.priorities),
            (compact::WAKING_COMM_INDEX, &self.names),
            (compact::WAKING_COMMON_FLAGS, &self.flags),
        ]
    }

    fn clear(&mut self) {
        let Self { times, tids, cpus, priorities, names, flags } = self;
        times.clear();
        [tids, cpus, priorities, names, flags].into_iter().for_each(Vec::clear);
    }
}

/// Names of tasks in a bundle.
#[derive(Debug, Default)]
struct Names {
    indexes: FxHashMap<StringId, u32>,
    /// By index, as fields of the compact part.
    fields: Vec<u8>,
}

impl Names {
    #[inline]
    fn index(&mut self, name: StringId, strings: &Strings) -> u64 {
        let next = self.indexes.len() as u32;
        let fields = &mut self.fields;
        u64::from(*self.indexes.entry(name).or_insert_with(|| {
            Message::new(fields).string(compact::INTERN_TABLE, strings.get(name));
            next
        }))
    }

    fn clear(&mut self) {
        self.indexes.clear();
        self.fields.clear();
    }
}

/// One CPU.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// What a reader of the file believes to run; `None` before the first switch.
    pub(crate) current: Option<ThreadId>,
    /// The last switch.
    pub(crate) last_switch: Time,
    /// The last switch of each form, as written: see [`Lane::full_time`].
    last_compact: Time,
    last_full: Time,
    /// Records of this CPU have been lost since then, from this time on.
    pub(crate) gap: Option<Time>,
    switches: SwitchColumns,
    wakings: WakingColumns,
    names: Names,
    /// Full events, as fields of the bundle.
    events: Vec<u8>,
    count: usize,
}

impl Lane {
    /// Whether `thread` is what a compact event would be taken to come from.
    #[inline]
    pub(crate) fn runs(&self, thread: Option<ThreadId>) -> bool {
        self.current.is_some() && self.current == thread
    }

    /// Switches from then on may be missing.
    pub(crate) fn note_gap(&mut self, since: Time) {
        self.gap.get_or_insert(since.max(self.last_switch));
    }

    /// The time to write for a full switch at `time`.
    ///
    /// A reader (trace_processor v55.3) takes compact and full events of one
    /// nanosecond in any order. No CPU switches twice in one, but a coarse clock
    /// can say so; then the later one is written a nanosecond later.
    pub(crate) fn full_time(&mut self, time: Time) -> Time {
        self.last_full = self.last_full.max(time).max(Time(self.last_compact.0.saturating_add(1)));
        self.last_full
    }

    /// The time to write for a compact switch at `time`, likewise.
    #[inline]
    fn compact_time(&mut self, time: Time) -> Time {
        self.last_compact =
            self.last_compact.max(time).max(Time(self.last_full.0.saturating_add(1)));
        self.last_compact
    }

    /// Adds a switch away from [`Self::current`].
    #[inline]
    pub(crate) fn push_switch(&mut self, switch: CompactSwitch, strings: &Strings) {
        let name = self.names.index(switch.name, strings);
        let time = self.compact_time(switch.time);
        self.switches.push(time, &switch, name);
        self.count += 1;
    }

    /// Adds a wakeup by [`Self::current`].
    #[inline]
    pub(crate) fn push_waking(&mut self, waking: CompactWaking, strings: &Strings) {
        let name = self.names.index(waking.name, strings);
        self.wakings.push(&waking, name);
        self.count += 1;
    }

    /// Adds a full event: `tid` was current, `fill` adds the event itself.
    #[inline]
    pub(crate) fn push_event(&mut self, time: Time, tid: u32, fill: impl FnOnce(&mut Message<'_>)) {
        Message::new(&mut self.events).message(bundle::EVENT, |event| {
            event.uint(ftrace::TIMESTAMP, time.0);
            event.uint(ftrace::PID, u64::from(tid));
            fill(event);
        });
        self.count += 1;
    }

    /// Whether it is time to write the bundle.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count >= BUNDLE_EVENTS
            || self.events.len() >= BUNDLE_BYTES
            || self.names.fields.len() >= BUNDLE_BYTES
    }

    /// Writes the bundle of CPU `cpu`, with `interned` beside it, and begins a new one.
    #[cold]
    pub(crate) fn flush<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        sequence: &mut Sequence,
        cpu: CpuId,
        interned: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        if self.count == 0 {
            return Ok(());
        }
        stream.packet(|message| {
            sequence.head(message, None);
            if !interned.is_empty() {
                message.bytes(packet::INTERNED_DATA, interned);
            }
            message.message(packet::FTRACE_EVENTS, |message| {
                message.uint(bundle::CPU, u64::from(cpu.number));
                message.message(bundle::COMPACT_SCHED, |message| self.write_columns(message));
                message.encoded(&self.events);
            });
        })?;
        interned.clear();
        self.clear();
        Ok(())
    }

    fn write_columns(&self, message: &mut Message<'_>) {
        message.encoded(&self.names.fields);
        let columns = self.switches.fields().into_iter().chain(self.wakings.fields());
        for (field, column) in columns {
            if !column.is_empty() {
                message.bytes(field, column);
            }
        }
    }

    fn clear(&mut self) {
        self.switches.clear();
        self.wakings.clear();
        self.names.clear();
        self.events.clear();
        self.count = 0;
    }
}
