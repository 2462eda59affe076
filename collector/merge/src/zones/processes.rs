//! Items that belong to the process: plots, frames, locks, memory, and its crash.

use crate::engine::{Engine, Writer};
use crate::zones::attributes::{About, Attributes};
use crate::zones::state::{FrameSet, Zones};
use syscollect_model::{
    Crash, Event, LockAction, LockEvent, LockId, MemoryEvent, ProcessId, Scope, Slice, StringId,
    Track, TrackId, TrackKind,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_zone_protocol::{self as protocol, FramePhase};

/// What a thread does with a lock.
#[derive(Clone, Copy)]
pub(crate) struct LockUse {
    /// The lock's number.
    pub(crate) lock: u32,
    pub(crate) action: protocol::LockAction,
    /// The number of the location where it does it; 0 for none.
    pub(crate) location: u32,
}

/// Memory of a program's heap that is taken or given back.
#[derive(Clone, Copy)]
pub(crate) struct HeapChange {
    pub(crate) address: u64,
    /// Bytes that are taken; `None` where it is given back.
    pub(crate) allocated: Option<u64>,
    /// The number of its pool's name; 0 for the heap itself.
    pub(crate) pool: u32,
}

/// How a program crashed.
#[derive(Clone, Copy)]
pub(crate) struct CrashSite {
    /// The signal's number.
    pub(crate) signal: u32,
    /// What it could not reach.
    pub(crate) address: u64,
    /// Where its code was.
    pub(crate) instruction: u64,
}

impl Zones {
    pub(crate) fn plot(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        plot: u32,
        value: protocol::Value,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let value = match value {
            protocol::Value::Unsigned(value) => value as f64,
            protocol::Value::Signed(value) => value as f64,
            protocol::Value::Float(value) => value,
            protocol::Value::String(_) => f64::NAN,
        };
        match self.plot_track(engine, writer, plot).filter(|_| value.is_finite()) {
            Some(track) => {
                engine.occurred(EventType::Plot);
                engine.emit(&Event::Counter(track, value))?;
            }
            None => engine.source.losses.undecodable(writer.lane, 1),
        }
        self.update_open(engine, writer, attribute_words)
    }

    fn plot_track(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        plot: u32,
    ) -> Option<TrackId> {
        let known = self.program(writer.process, writer.client).plots.get(&plot);
        if let Some(track) = known {
            return Some(*track);
        }
        let (name, unit) = self.known.logs.get(writer.client).plot(plot)?;
        let track = engine.track(
            Track {
                scope: Scope::Process(writer.process),
                name,
                kind: TrackKind::Counter { unit },
            },
            0,
        );
        self.program(writer.process, writer.client).plots.insert(plot, track);
        Some(track)
    }

    pub(crate) fn frame_item(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        set: u32,
        phase: FramePhase,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let name = self.known.logs.get(writer.client).string(set);
        match name {
            None if set != 0 => engine.source.losses.undecodable(writer.lane, 1),
            name => {
                let name = name.filter(|_| set != 0);
                self.frame(engine, writer.process, writer.client, name, phase)?;
            }
        }
        self.update_open(engine, writer, attribute_words)
    }

    /// A frame of the set with that name, or of the main one, begins, ends, or both. The first mark
    /// of a set that is continuous begins its first frame.
    pub(crate) fn frame(
        &mut self,
        engine: &mut Engine<'_>,
        process: ProcessId,
        client: u32,
        set_name: Option<StringId>,
        phase: FramePhase,
    ) -> Result<(), Stopped> {
        let continuous = phase == FramePhase::Mark;
        let known = self.program(process, client).frames.get(&(set_name, continuous)).copied();
        let mut set = known.unwrap_or_else(|| {
            let name = set_name.unwrap_or(self.words.frames);
            let kind = TrackKind::Frames { continuous, main: set_name.is_none() };
            FrameSet {
                track: engine
                    .track(Track { scope: Scope::Process(process), name, kind }, client.into()),
                count: 0,
                open: false,
            }
        });
        if set.open {
            match phase {
                // It was never ended.
                FramePhase::Begin => engine.unfinished(set.track, 1)?,
                FramePhase::Mark | FramePhase::End => engine.emit(&Event::SliceEnd(set.track))?,
            }
        }
        set.open = phase != FramePhase::End;
        if set.open {
            engine.occurred(EventType::Frame);
            set.count += 1;
            let slice = Slice { number: Some(set.count), ..Slice::named(self.words.frame) };
            engine.emit(&Event::SliceBegin(set.track, slice))?;
        }
        self.program(process, client).frames.insert((set_name, continuous), set);
        Ok(())
    }

    /// More of the innermost slice of a track, if anything is said.
    pub(crate) fn emit_update(
        &mut self,
        engine: &mut Engine<'_>,
        track: TrackId,
        attributes: Attributes,
    ) -> Result<(), Stopped> {
        if attributes.is_empty() {
            return Ok(());
        }
        let update = self.slice_update(engine, attributes);
        engine.emit(&Event::SliceUpdate(track, update))
    }

    pub(crate) fn lock(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        LockUse { lock, action, location }: LockUse,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        match self.lock_row(engine, writer, lock) {
            Some(lock) => {
                engine.occurred(EventType::Lock);
                let (action, shared) = lock_action(action);
                let location = self
                    .known
                    .logs
                    .get(writer.client)
                    .location(location)
                    .and_then(|place| place.location);
                engine.emit(&Event::Lock(LockEvent {
                    lock,
                    thread: writer.thread,
                    action,
                    shared,
                    location,
                }))?;
            }
            None => engine.source.losses.undecodable(writer.lane, 1),
        }
        self.update_open(engine, writer, attribute_words)
    }

    fn lock_row(&mut self, engine: &mut Engine<'_>, writer: Writer, lock: u32) -> Option<LockId> {
        let key = (writer.process, writer.client, lock);
        if let Some(id) = engine.source.new_rows.locks.get(&key) {
            return Some(*id);
        }
        let defined = self.known.logs.get(writer.client).lock(lock)?;
        let (process, name, shared) = (writer.process, defined.name, defined.shared);
        engine.tables.locks.push(syscollect_model::Lock {
            process,
            name,
            shared,
            location: defined.location,
        });
        let id = LockId(engine.tables.locks.len() as u32 - 1);
        engine.source.new_rows.locks.insert(key, id);
        Some(id)
    }

    pub(crate) fn memory(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        HeapChange { address, allocated, pool }: HeapChange,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes = self.decode_attributes(engine, writer, attribute_words, About::Other)?;
        let name = self.known.logs.get(writer.client).string(pool);
        if pool != 0 && name.is_none() {
            engine.source.losses.undecodable(writer.lane, 1);
            return Ok(());
        }
        engine.occurred(if allocated.is_some() { EventType::Allocation } else { EventType::Free });
        let stack = self.zone_stack(engine, writer, engine.present.ticks(), None, attributes.stack);
        engine.emit(&Event::Memory(MemoryEvent {
            thread: writer.thread,
            pool: name,
            address,
            allocated,
            stack,
        }))
    }

    pub(crate) fn crash(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        CrashSite { signal, address, instruction }: CrashSite,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let attributes = self.decode_attributes(engine, writer, attribute_words, About::Other)?;
        engine.occurred(EventType::Crash);
        let signal = engine.tables.strings.intern(&signal_name(signal));
        let stack = self.zone_stack(
            engine,
            writer,
            engine.present.ticks(),
            Some(instruction),
            attributes.stack,
        );
        engine.emit(&Event::Crash(Crash { thread: writer.thread, signal, address, stack }))
    }

    /// The process is over, or runs another program: closes what belongs to no
    /// thread. Without a process: those of all.
    pub(crate) fn close_programs(
        &mut self,
        engine: &mut Engine<'_>,
        process: Option<ProcessId>,
    ) -> Result<(), Stopped> {
        let mut tracks = Vec::new();
        for ((of, _), marks) in &mut self.programs {
            if process.is_some_and(|process| process != *of) {
                continue;
            }
            tracks.extend(marks.frames.values_mut().filter(|set| set.open).map(|set| {
                set.open = false;
                set.track
            }));
            tracks.extend(marks.async_zones.drain().map(|(_, zone)| zone.track));
            marks.rows.clear();
        }
        tracks.sort_unstable();
        tracks.into_iter().try_for_each(|track| engine.unfinished(track, 1))
    }
}

fn lock_action(action: protocol::LockAction) -> (LockAction, bool) {
    match action {
        protocol::LockAction::Wait => (LockAction::Wait, false),
        protocol::LockAction::Obtain => (LockAction::Obtain, false),
        protocol::LockAction::Release => (LockAction::Release, false),
        protocol::LockAction::WaitShared => (LockAction::Wait, true),
        protocol::LockAction::ObtainShared => (LockAction::Obtain, true),
        protocol::LockAction::ReleaseShared => (LockAction::Release, true),
        protocol::LockAction::GiveUp => (LockAction::GiveUp, false),
    }
}

/// The signal's name as `kill -l` has it, on x86-64.
fn signal_name(number: u32) -> String {
    match number {
        3 => "SIGQUIT".into(),
        4 => "SIGILL".into(),
        5 => "SIGTRAP".into(),
        6 => "SIGABRT".into(),
        7 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        11 => "SIGSEGV".into(),
        13 => "SIGPIPE".into(),
        15 => "SIGTERM".into(),
        31 => "SIGSYS".into(),
        other => format!("signal {other}"),
    }
}
