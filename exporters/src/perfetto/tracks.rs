//! Tracks of track events: what they are, what they belong to, and events on them.
//!
//! Rules of trace_processor (v55.3) that shape this file:
//! - tracks of one parent and one name are shown as one, unless they have a
//!   merge key: rows of one track of the model share both, and so become one;
//! - the track of a thread itself stands above the thread's states; its zones
//!   belong there;
//! - a descriptor of a thread makes it the thread of its packet sequence, which
//!   then appears in the arguments of other events: descriptors have a sequence
//!   of their own.

use super::context::Context;
use super::details::{Details, Note};
use super::fields::{packet, track, track_event};
use super::intern::WrittenIds;
use super::packets::Sequence;
use super::sched::Scheduling;
use crate::ExportError;
use crate::proto::Message;
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{
    Loss, MachineId, ProcessId, Scope, StringId, Strings, ThreadId, TrackId, TrackKind, TrackRole,
    Unit,
};

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackEventType {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// `CounterDescriptor.Unit`: bytes, which the viewer scales.
const UNIT_BYTES: u64 = 3;
/// `TrackDescriptor.SiblingMergeBehavior`: by the key.
const MERGE_BY_KEY: u64 = 3;
/// What queues of GPUs lie below.
const GPU: &str = "GPU";
/// What frames of the machine lie below: nothing but its displays has such.
const DISPLAYS: &str = "Displays";

/// What a track of the file stands for; each has one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TrackSubject {
    Model(TrackId),
    Thread(ThreadId),
    Process(ProcessId),
    /// The same track of all CPUs.
    Cpus(StringId),
    Losses,
    /// A track that the writer adds to a process or a thread.
    ProcessChild(ProcessId, &'static str),
    ThreadChild(ThreadId, &'static str),
    /// One row of a lock.
    Lock(syscollect_model::LockId, usize),
    /// A pool of memory.
    Pool(ProcessId, Option<StringId>),
    /// What the queues of the machine's GPUs lie below.
    Gpu,
    /// What the frames of its displays lie below.
    Displays,
}

/// What a descriptor says beside its parent and name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Slices,
    /// Slices; rows of the same key are shown as one track, others are not, whatever their names.
    Rows(u64),
    Counter(Unit),
}

/// The tracks written so far.
pub(crate) struct Tracks {
    /// What the next event says.
    pub(crate) details: Details,
    events: Sequence,
    descriptors: Sequence,
    /// Of the machine's tracks: they are numbered from it on.
    first_uuid: u64,
    uuids: FxHashMap<TrackSubject, u64>,
    /// Of tracks of the model, by [`TrackId`], for speed; 0 is none.
    models: Vec<u64>,
    /// Threads whose own track is taken.
    zones: WrittenIds,
}

impl Tracks {
    pub(crate) fn new(machine: MachineId) -> Self {
        Self {
            details: Details::default(),
            events: Sequence::new(machine, 4),
            descriptors: Sequence::new(machine, 8),
            first_uuid: u64::from(machine.0) << 32 | 1,
            uuids: FxHashMap::default(),
            models: Vec::new(),
            zones: WrittenIds::default(),
        }
    }

    /// A counter's value from now on. One that is no finite number is left
    /// out: with an infinite one the UI (v52) draws none of the track.
    pub(crate) fn counter<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sched: &mut Scheduling,
        (id, value): (TrackId, f64),
    ) -> Result<(), ExportError> {
        if !value.is_finite() {
            return Ok(());
        }
        // A CPU's counter in kHz is its frequency; as such it is drawn with the CPU.
        let row = at.tables.track(id);
        if let (Scope::Cpu(cpu), TrackKind::Counter { unit: Unit::Kilohertz }) =
            (row.scope, row.kind)
        {
            return sched.frequency(at.stream, at.time, cpu, value as u64);
        }
        let uuid = self.model(at, id)?;
        self.details.value(value);
        self.event(at, TrackEventType::Counter, uuid)
    }

    /// A loss, where it happened, on a track of its own.
    pub(crate) fn loss<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        loss: &Loss,
    ) -> Result<(), ExportError> {
        let uuid = self.uuid_of(at, TrackSubject::Losses, None, Some("Losses"), Shape::Slices)?;
        let details = &mut self.details;
        details.dynamic_name(&format!("{} lost: {}", loss.count, loss.cause.name()));
        details.note("count", Note::Number(loss.count));
        details.note("cause", Note::Text(loss.cause.name()));
        details.note("lane", Note::Text(loss.origin.name()));
        if let Some(cpu) = loss.cpu {
            details.note("cpu", Note::Number(u64::from(cpu.number)));
        }
        if let Some((from, to)) = loss.between {
            details.note("after_ns", Note::Number(from.0));
            details.note("before_ns", Note::Number(to.0));
        }
        self.event(at, TrackEventType::Instant, uuid)
    }

    /// Writes an event with the details.
    pub(crate) fn event<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        kind: TrackEventType,
        uuid: u64,
    ) -> Result<(), ExportError> {
        let (sequence, time) = (&mut self.events, at.time);
        self.details.take(|fields, interned| {
            at.stream.packet(|message| {
                sequence.head(message, Some(time));
                if !interned.is_empty() {
                    message.bytes(packet::INTERNED_DATA, interned);
                }
                message.message(packet::TRACK_EVENT, |event| {
                    event.uint(track_event::TYPE, kind as u64);
                    event.uint(track_event::TRACK_UUID, uuid);
                    event.encoded(fields);
                });
            })
        })
    }

    /// The id of a track of the model.
    #[inline]
    pub(crate) fn model<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        id: TrackId,
    ) -> Result<u64, ExportError> {
        match self.models.get(id.index()) {
            Some(uuid) if *uuid != 0 => Ok(*uuid),
            _ => self.new_model(at, id),
        }
    }

    #[cold]
    fn new_model<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        id: TrackId,
    ) -> Result<u64, ExportError> {
        let row = at.tables.track(id);
        let strings = &at.tables.strings;
        let (name, cpu);
        let shape = match row.kind {
            TrackKind::Slices(_) | TrackKind::Frames { .. } | TrackKind::GpuQueue => Shape::Slices,
            TrackKind::Counter { unit } => Shape::Counter(unit),
        };
        let parent = match row.scope {
            Scope::Machine(_) if row.kind == TrackKind::GpuQueue => {
                Some(self.uuid_of(at, TrackSubject::Gpu, None, Some(GPU), Shape::Slices)?)
            }
            Scope::Machine(_) if matches!(row.kind, TrackKind::Frames { .. }) => Some(
                self.uuid_of(at, TrackSubject::Displays, None, Some(DISPLAYS), Shape::Slices)?,
            ),
            Scope::Process(process) if row.kind == TrackKind::GpuQueue => {
                Some(self.of_process(at, process, GPU)?)
            }
            Scope::Machine(_) => None,
            Scope::Cpu(_) => Some(self.uuid_of(
                at,
                TrackSubject::Cpus(row.name),
                None,
                Some(strings.get(row.name)),
                Shape::Slices,
            )?),
            Scope::Process(process) => Some(self.process(at, process)?),
            Scope::Thread(thread) => Some(self.thread(at, thread)?),
        };
        let own = match row.scope {
            Scope::Thread(thread) if row.kind == TrackKind::Slices(TrackRole::Zones) => {
                Some(thread)
            }
            _ => None,
        };
        let uuid = match (own, parent) {
            (Some(thread), Some(parent)) if self.zones.insert(thread.0) => parent,
            _ => {
                name = match row.scope {
                    Scope::Cpu(id) => {
                        cpu = format!("CPU {}", id.number);
                        &cpu
                    }
                    _ => strings.get(row.name),
                };
                self.uuid_of(at, TrackSubject::Model(id), parent, Some(name), shape)?
            }
        };
        if id.index() >= self.models.len() {
            self.models.resize(id.index() + 1, 0);
        }
        self.models[id.index()] = uuid;
        Ok(uuid)
    }

    /// The id of a thread's own track.
    pub(crate) fn thread<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        id: ThreadId,
    ) -> Result<u64, ExportError> {
        self.uuid_of(at, TrackSubject::Thread(id), None, None, Shape::Slices)
    }

    /// The id of a process's own track.
    pub(crate) fn process<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        id: ProcessId,
    ) -> Result<u64, ExportError> {
        self.uuid_of(at, TrackSubject::Process(id), None, None, Shape::Slices)
    }

    /// A track of this name below a process.
    pub(crate) fn of_process<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        id: ProcessId,
        name: &'static str,
    ) -> Result<u64, ExportError> {
        let parent = self.process(at, id)?;
        self.uuid_of(
            at,
            TrackSubject::ProcessChild(id, name),
            Some(parent),
            Some(name),
            Shape::Slices,
        )
    }

    /// A track of this name below a thread.
    pub(crate) fn of_thread<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        id: ThreadId,
        name: &'static str,
    ) -> Result<u64, ExportError> {
        let parent = self.thread(at, id)?;
        self.uuid_of(
            at,
            TrackSubject::ThreadChild(id, name),
            Some(parent),
            Some(name),
            Shape::Slices,
        )
    }

    /// The id of a track, described if it is new.
    pub(crate) fn uuid_of<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        subject: TrackSubject,
        parent: Option<u64>,
        name: Option<&str>,
        shape: Shape,
    ) -> Result<u64, ExportError> {
        if let Some(uuid) = self.uuids.get(&subject) {
            return Ok(*uuid);
        }
        let uuid = self.first_uuid + self.uuids.len() as u64;
        self.uuids.insert(subject, uuid);
        let (sequence, time, tables) = (&mut self.descriptors, at.time, at.tables);
        at.stream.packet(|message| {
            sequence.head(message, Some(time));
            message.message(packet::TRACK_DESCRIPTOR, |fields| {
                fields.uint(track::UUID, uuid);
                if let Some(parent) = parent {
                    fields.uint(track::PARENT_UUID, parent);
                }
                if let Some(name) = name {
                    fields.string(track::NAME, name);
                }
                match subject {
                    TrackSubject::Process(id) => fields.message(track::PROCESS, |fields| {
                        fields.uint(track::PROCESS_PID, u64::from(tables.process(id).pid));
                    }),
                    TrackSubject::Thread(id) => fields.message(track::THREAD, |fields| {
                        let row = tables.thread(id);
                        fields.uint(track::THREAD_PID, u64::from(tables.process(row.process).pid));
                        fields.uint(track::THREAD_TID, u64::from(row.tid));
                    }),
                    _ => {}
                }
                write_shape(fields, shape, &tables.strings);
            });
        })?;
        Ok(uuid)
    }
}

fn write_shape(fields: &mut Message<'_>, shape: Shape, strings: &Strings) {
    match shape {
        Shape::Slices => {}
        Shape::Rows(key) => {
            fields.uint(track::SIBLING_MERGE_BEHAVIOR, MERGE_BY_KEY);
            fields.uint(track::SIBLING_MERGE_KEY_INT, key);
        }
        Shape::Counter(unit) => fields.message(track::COUNTER, |counter| match unit {
            Unit::Bytes => counter.uint(track::COUNTER_UNIT, UNIT_BYTES),
            unit => counter.string_if(track::COUNTER_UNIT_NAME, unit.text(strings)),
        }),
    }
}
