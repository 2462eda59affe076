//! Tracks of the model: slices, instants and counters as track events.

use super::fields::{interned, packet, track, track_event};
use super::intern::{Written, interned_string, string_iid};
use super::packets::Sequence;
use super::sched::Scheduling;
use super::stream::Stream;
use crate::ExportError;
use crate::proto::Message;
use std::io::Write;
use syscollect_model::{Loss, ProcessId, Scope, StringId, Tables, ThreadId, Time, TrackId, TrackKind};

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// `CounterDescriptor.Unit`: bytes, which the viewer scales.
const UNIT_BYTES: u64 = 3;

// Ids of tracks are any numbers that differ; each kind has its own range.
fn track_uuid(id: TrackId) -> u64 {
    1 << 32 | u64::from(id.0)
}
fn thread_uuid(id: ThreadId) -> u64 {
    2 << 32 | u64::from(id.0)
}
fn process_uuid(id: ProcessId) -> u64 {
    3 << 32 | u64::from(id.0)
}
fn group_uuid(name: StringId) -> u64 {
    4 << 32 | u64::from(name.0)
}
const LOSSES_UUID: u64 = 5 << 32;

/// The tracks written so far.
pub(crate) struct Tracks {
    sequence: Sequence,
    tracks: Written,
    threads: Written,
    processes: Written,
    groups: Written,
    names: Written,
    losses: bool,
    interned: Vec<u8>,
}

impl Tracks {
    pub(crate) fn new(sequence: Sequence) -> Self {
        Self {
            sequence,
            tracks: Written::default(),
            threads: Written::default(),
            processes: Written::default(),
            groups: Written::default(),
            names: Written::default(),
            losses: false,
            interned: Vec::new(),
        }
    }

    /// A counter's value from now on.
    pub(crate) fn counter<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        sched: &mut Scheduling,
        time: Time,
        (id, value): (TrackId, f64),
        tables: &Tables,
    ) -> Result<(), ExportError> {
        // A CPU's counter in kHz is its frequency; as such it is drawn with the CPU.
        let row = tables.track(id);
        if let (Scope::Cpu(cpu), TrackKind::Counter { unit }) = (row.scope, row.kind)
            && tables.strings.get(unit) == "kHz"
        {
            return sched.frequency(stream, time, cpu, value as u64);
        }
        self.describe(stream, time, id, tables)?;
        self.event(stream, time, Kind::Counter, track_uuid(id), |event| {
            event.double(track_event::DOUBLE_COUNTER_VALUE, value);
        })
    }

    /// The beginning of a slice, its end (without a name), or an instant.
    pub(crate) fn slice<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        kind: Kind,
        (id, name): (TrackId, Option<StringId>),
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.describe(stream, time, id, tables)?;
        self.interned.clear();
        if let Some(name) = name
            && self.names.insert(name.0)
        {
            let text = tables.strings.get(name).as_bytes();
            interned_string(&mut self.interned, interned::EVENT_NAMES, string_iid(name), text);
        }
        self.event(stream, time, kind, track_uuid(id), |event| {
            if let Some(name) = name {
                event.uint(track_event::NAME_IID, string_iid(name));
            }
        })
    }

    /// A loss, where it happened, on a track of its own.
    pub(crate) fn loss<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        loss: &Loss,
    ) -> Result<(), ExportError> {
        if !self.losses {
            self.losses = true;
            self.descriptor(stream, time, LOSSES_UUID, |fields| fields.string(track::NAME, "Losses"))?;
        }
        self.interned.clear();
        self.event(stream, time, Kind::Instant, LOSSES_UUID, |event| {
            event.string(track_event::NAME, &format!("{} lost: {}", loss.count, loss.cause.name()));
            annotate(event, "count", &Value::Number(loss.count));
            annotate(event, "cause", &Value::Text(loss.cause.name()));
            annotate(event, "lane", &Value::Text(&loss.lane));
            if let Some(cpu) = loss.cpu {
                annotate(event, "cpu", &Value::Number(u64::from(cpu)));
            }
            if let Some((from, to)) = loss.between {
                annotate(event, "after_ns", &Value::Number(from.0));
                annotate(event, "before_ns", &Value::Number(to.0));
            }
        })
    }

    fn event<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        kind: Kind,
        uuid: u64,
        fill: impl FnOnce(&mut Message<'_>),
    ) -> Result<(), ExportError> {
        stream.packet(|message| {
            self.sequence.head(message, Some(time));
            if !self.interned.is_empty() {
                message.bytes(packet::INTERNED_DATA, &self.interned);
                self.interned.clear();
            }
            message.message(packet::TRACK_EVENT, |event| {
                event.uint(track_event::TYPE, kind as u64);
                event.uint(track_event::TRACK_UUID, uuid);
                fill(event);
            });
        })
    }

    fn descriptor<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        uuid: u64,
        fill: impl FnOnce(&mut Message<'_>),
    ) -> Result<(), ExportError> {
        stream.packet(|message| {
            self.sequence.head(message, Some(time));
            message.message(packet::TRACK_DESCRIPTOR, |fields| {
                fields.uint(track::UUID, uuid);
                fill(fields);
            });
        })
    }

    /// Describes a track before its first event, and what it belongs to before that.
    #[inline]
    fn describe<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        id: TrackId,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        if !self.tracks.insert(id.0) {
            return Ok(());
        }
        let row = tables.track(id);
        let parent = self.describe_parent(stream, time, id, tables)?;
        self.descriptor(stream, time, track_uuid(id), |fields| {
            if let Some(parent) = parent {
                fields.uint(track::PARENT_UUID, parent);
            }
            match row.scope {
                Scope::Cpu(cpu) => fields.string(track::NAME, &format!("CPU {cpu}")),
                _ => fields.string(track::NAME, tables.strings.get(row.name)),
            }
            if let TrackKind::Counter { unit } = row.kind {
                fields.message(track::COUNTER, |counter| match tables.strings.get(unit) {
                    "bytes" => counter.uint(track::COUNTER_UNIT, UNIT_BYTES),
                    other => counter.string_if(track::COUNTER_UNIT_NAME, other),
                });
            }
        })
    }

    /// The track above: of the process or thread, or one that holds the same track of all CPUs.
    fn describe_parent<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        id: TrackId,
        tables: &Tables,
    ) -> Result<Option<u64>, ExportError> {
        let row = tables.track(id);
        match row.scope {
            Scope::Machine => Ok(None),
            Scope::Cpu(_) => {
                if self.groups.insert(row.name.0) {
                    let name = tables.strings.get(row.name);
                    self.descriptor(stream, time, group_uuid(row.name), |fields| fields.string(track::NAME, name))?;
                }
                Ok(Some(group_uuid(row.name)))
            }
            Scope::Process(process) => {
                if self.processes.insert(process.0) {
                    let pid = u64::from(tables.process(process).pid);
                    self.descriptor(stream, time, process_uuid(process), |fields| {
                        fields.message(track::PROCESS, |fields| fields.uint(track::PROCESS_PID, pid));
                    })?;
                }
                Ok(Some(process_uuid(process)))
            }
            Scope::Thread(thread) => {
                if self.threads.insert(thread.0) {
                    let row = tables.thread(thread);
                    let pid = u64::from(tables.process(row.process).pid);
                    self.descriptor(stream, time, thread_uuid(thread), |fields| {
                        fields.message(track::THREAD, |fields| {
                            fields.uint(track::THREAD_PID, pid);
                            fields.uint(track::THREAD_TID, u64::from(row.tid));
                        });
                    })?;
                }
                Ok(Some(thread_uuid(thread)))
            }
        }
    }
}

enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

fn annotate(event: &mut Message<'_>, name: &str, value: &Value<'_>) {
    event.message(track_event::DEBUG_ANNOTATIONS, |annotation| {
        annotation.string(track_event::ANNOTATION_NAME, name);
        match value {
            Value::Number(number) => annotation.uint(track_event::ANNOTATION_UINT, *number),
            Value::Text(text) => annotation.string(track_event::ANNOTATION_STRING, text),
        }
    });
}
