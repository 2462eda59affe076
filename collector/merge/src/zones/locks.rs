//! What threads do with locks.

use crate::engine::{Engine, Writer};
use crate::zones::log::Log;
use syscollect_model::{Event, Lock, LockAction, LockEvent, LockId};
use syscollect_playback::{EventType, Stopped};
use syscollect_zone_protocol as protocol;

/// What a thread does with a lock.
#[derive(Clone, Copy)]
pub(crate) struct LockUse {
    /// The lock's number.
    pub(crate) lock: u32,
    pub(crate) action: protocol::LockAction,
    /// The number of the location where it does it; 0 for none.
    pub(crate) location: u32,
}

impl LockUse {
    pub(crate) fn emit(
        self,
        engine: &mut Engine<'_>,
        writer: Writer,
        log: &Log,
    ) -> Result<(), Stopped> {
        let Some(lock) = self.lock_row(engine, writer, log) else {
            writer.refuse(engine, 1);
            return Ok(());
        };
        engine.occurred(EventType::Lock);
        let (action, shared) = action_of(self.action);
        let location = log.location(self.location).and_then(|place| place.location);
        engine.emit(&Event::Lock(LockEvent {
            lock,
            thread: writer.thread,
            action,
            shared,
            location,
        }))
    }

    fn lock_row(self, engine: &mut Engine<'_>, writer: Writer, log: &Log) -> Option<LockId> {
        let key = (writer.program, self.lock);
        if let Some(id) = engine.source.new_rows.locks.get(&key) {
            return Some(*id);
        }
        let defined = log.lock(self.lock)?;
        engine.tables.locks.push(Lock {
            process: writer.program.process,
            name: defined.name,
            shared: defined.shared,
            location: defined.location,
        });
        let id = LockId(engine.tables.locks.len() as u32 - 1);
        engine.source.new_rows.locks.insert(key, id);
        Some(id)
    }
}

/// The action, and whether others may hold the lock meanwhile.
fn action_of(action: protocol::LockAction) -> (LockAction, bool) {
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
