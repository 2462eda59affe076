//! Items that belong to the process: plots, frames, locks, memory, and its crash.

use crate::play::Player;
use crate::zones::attributes::{About, Attributes};
use crate::zones::state::{FrameSet, Mark, Writer};
use syscollect_model::{
    Crash, Event, LockAction, LockEvent, LockId, MemoryEvent, ProcessId, Scope, Slice, StringId,
    TrackId, TrackKind,
};
use syscollect_playback::Stopped;
use syscollect_zone_protocol::{self as protocol, FramePhase};

impl Player<'_> {
    pub(crate) fn plot(
        &mut self,
        lane: usize,
        writer: Writer,
        plot: u32,
        value: protocol::Value,
        more: &[u64],
    ) -> Result<(), Stopped> {
        let value = match value {
            protocol::Value::Unsigned(value) => value as f64,
            protocol::Value::Signed(value) => value as f64,
            protocol::Value::Float(value) => value,
            protocol::Value::String(_) => f64::NAN,
        };
        match self.plot_track(writer, plot).filter(|_| value.is_finite()) {
            Some(track) => {
                self.mark(Mark::Plot);
                self.emit(&Event::Counter(track, value))?;
            }
            None => self.unknown(lane),
        }
        self.more(lane, writer, more)
    }

    fn plot_track(&mut self, writer: Writer, plot: u32) -> Option<TrackId> {
        let known = self.marks.program(writer.process, writer.client).plots.get(&plot);
        if let Some(track) = known {
            return Some(*track);
        }
        let (name, unit) = self.marked.logs.get(writer.client).plot(plot)?;
        let track =
            self.track(Scope::Process(writer.process), name, TrackKind::Counter { unit }, 0);
        self.marks.program(writer.process, writer.client).plots.insert(plot, track);
        Some(track)
    }

    pub(crate) fn frame_item(
        &mut self,
        lane: usize,
        writer: Writer,
        set: u32,
        phase: FramePhase,
        more: &[u64],
    ) -> Result<(), Stopped> {
        let name = match set {
            0 => Some(self.marks.words.frames),
            set => self.marked.logs.get(writer.client).string(set),
        };
        match name {
            Some(name) => self.frame(writer.process, writer.client, name, phase)?,
            None => self.unknown(lane),
        }
        self.more(lane, writer, more)
    }

    /// A frame of the set begins, ends, or both. The first mark of a set that
    /// is continuous begins its first frame.
    pub(crate) fn frame(
        &mut self,
        process: ProcessId,
        client: u32,
        name: StringId,
        phase: FramePhase,
    ) -> Result<(), Stopped> {
        let continuous = phase == FramePhase::Mark;
        let known = self.marks.program(process, client).frames.get(&(name, continuous)).copied();
        let mut set = known.unwrap_or_else(|| {
            let kind = TrackKind::Frames { continuous };
            FrameSet {
                track: self.track(Scope::Process(process), name, kind, client.into()),
                count: 0,
                open: false,
            }
        });
        if set.open {
            match phase {
                // It was never ended.
                FramePhase::Begin => self.unfinished(set.track, 1)?,
                FramePhase::Mark | FramePhase::End => self.emit(&Event::SliceEnd(set.track))?,
            }
        }
        set.open = phase != FramePhase::End;
        if set.open {
            self.mark(Mark::Frame);
            set.count += 1;
            let slice = Slice { number: Some(set.count), ..Slice::named(self.marks.words.frame) };
            self.emit(&Event::SliceBegin(set.track, slice))?;
        }
        self.marks.program(process, client).frames.insert((name, continuous), set);
        Ok(())
    }

    /// More of the innermost slice of a track, if anything is said.
    pub(crate) fn say_more(
        &mut self,
        track: TrackId,
        attributes: Attributes,
    ) -> Result<(), Stopped> {
        if attributes.is_empty() {
            return Ok(());
        }
        let more = self.slice_more(attributes);
        self.emit(&Event::SliceUpdate(track, more))
    }

    pub(crate) fn lock(
        &mut self,
        lane: usize,
        writer: Writer,
        (lock, action, location): (u32, protocol::LockAction, u32),
        more: &[u64],
    ) -> Result<(), Stopped> {
        match self.lock_row(writer, lock) {
            Some(lock) => {
                self.mark(Mark::Lock);
                let (action, shared) = lock_action(action);
                let location = self
                    .marked
                    .logs
                    .get(writer.client)
                    .location(location)
                    .and_then(|place| place.location);
                self.emit(&Event::Lock(LockEvent {
                    lock,
                    thread: writer.thread,
                    action,
                    shared,
                    location,
                }))?;
            }
            None => self.unknown(lane),
        }
        self.more(lane, writer, more)
    }

    fn lock_row(&mut self, writer: Writer, lock: u32) -> Option<LockId> {
        let key = (writer.process, writer.client, lock);
        if let Some(id) = self.found.locks.get(&key) {
            return Some(*id);
        }
        let defined = self.marked.logs.get(writer.client).lock(lock)?;
        let (process, name, shared) = (writer.process, defined.name, defined.shared);
        self.tables.locks.push(syscollect_model::Lock {
            process,
            name,
            shared,
            location: defined.location,
        });
        let id = LockId(self.tables.locks.len() as u32 - 1);
        self.found.locks.insert(key, id);
        Some(id)
    }

    pub(crate) fn memory(
        &mut self,
        lane: usize,
        writer: Writer,
        (address, allocated, pool): (u64, Option<u64>, u32),
        more: &[u64],
    ) -> Result<(), Stopped> {
        let attributes = self.decode_attributes(lane, writer, more, About::Other)?;
        let name = self.marked.logs.get(writer.client).string(pool);
        if pool != 0 && name.is_none() {
            self.unknown(lane);
            return Ok(());
        }
        self.mark(if allocated.is_some() { Mark::Allocation } else { Mark::Free });
        let stack = self.zone_stack(writer, self.ticks, None, attributes.stack);
        self.emit(&Event::Memory(MemoryEvent {
            thread: writer.thread,
            pool: name,
            address,
            allocated,
            stack,
        }))
    }

    pub(crate) fn crash(
        &mut self,
        lane: usize,
        writer: Writer,
        (signal, address, instruction): (u32, u64, u64),
        more: &[u64],
    ) -> Result<(), Stopped> {
        let attributes = self.decode_attributes(lane, writer, more, About::Other)?;
        self.mark(Mark::Crash);
        let signal = self.tables.strings.intern(&signal_name(signal));
        let stack = self.zone_stack(writer, self.ticks, Some(instruction), attributes.stack);
        self.emit(&Event::Crash(Crash { thread: writer.thread, signal, address, stack }))
    }

    /// The process is over, or runs another program: closes what belongs to no
    /// thread. Without a process: those of all.
    pub(crate) fn close_programs(&mut self, process: Option<ProcessId>) -> Result<(), Stopped> {
        let mut tracks = Vec::new();
        let over = |(of, _): &(ProcessId, u32)| process.is_none_or(|process| process == *of);
        for (_, marks) in self.marks.programs.iter_mut().filter(|(key, _)| over(key)) {
            tracks.extend(marks.frames.values_mut().filter(|set| set.open).map(|set| {
                set.open = false;
                set.track
            }));
            tracks.extend(marks.async_zones.drain().map(|(_, zone)| zone.track));
            marks.rows.clear();
        }
        tracks.sort_unstable();
        tracks.into_iter().try_for_each(|track| self.unfinished(track, 1))
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
