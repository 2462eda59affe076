//! Locks: who holds each, on tracks of the process; who waits, below the threads.
//!
//! Each lock is a track below the process's track "Locks", with a slice for
//! each time that a thread holds it; readers that hold it together lie on rows
//! of it. A flow leads from a holder for whom others wait to the next one.

use super::context::Context;
use super::details::Note;
use super::tracks::{Shape, TrackEventType, TrackSubject, Tracks};
use crate::ExportError;
use crate::locks::{LockTransition, Locks};
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{LocationId, LockEvent, LockId, Tables, ThreadId};

/// The locks of all processes.
#[derive(Debug, Default)]
pub(crate) struct LockTracks {
    locks: Locks,
    /// Flows that lead to the next holder.
    flows: FxHashMap<LockId, u64>,
    flow_count: u64,
}

impl LockTracks {
    pub(crate) fn event<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        event: &LockEvent,
    ) -> Result<(), ExportError> {
        let Self { locks, flows, flow_count } = self;
        for step in locks.event(at.time, event) {
            match *step {
                LockTransition::HoldEnds { lock, awaited: true, .. } => {
                    *flow_count += 1;
                    flows.insert(lock, *flow_count);
                    tracks.details.flow(*flow_count);
                }
                LockTransition::HoldBegins { lock, .. } => {
                    if let Some(flow) = flows.remove(&lock) {
                        tracks.details.flow_ends(flow);
                    }
                }
                _ => {}
            }
            write(tracks, at, step, event.location)?;
        }
        Ok(())
    }

    /// A thread has ended: it waits no more.
    pub(crate) fn thread_ended<W: Write>(
        &mut self,
        tracks: &mut Tracks,
        at: &mut Context<'_, W>,
        thread: ThreadId,
    ) -> Result<(), ExportError> {
        self.locks.thread_ended(thread).iter().try_for_each(|step| write(tracks, at, step, None))
    }
}

fn write<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    step: &LockTransition,
    location: Option<LocationId>,
) -> Result<(), ExportError> {
    let tables = at.tables;
    let (kind, uuid) = match *step {
        LockTransition::WaitBegins { lock, thread, holder } => {
            let name = tables.strings.get(tables.lock(lock).name);
            tracks.details.dynamic_name(&format!("waiting for {name}"));
            if let Some(holder) = holder {
                tracks.details.note("held by", Note::Text(&thread_name(holder, tables)));
            }
            (TrackEventType::Begin, tracks.of_thread(at, thread, "Waiting for locks")?)
        }
        LockTransition::WaitEnds { thread, obtained, .. } => {
            if !obtained {
                tracks.details.note("gave up", Note::Yes);
            }
            (TrackEventType::End, tracks.of_thread(at, thread, "Waiting for locks")?)
        }
        LockTransition::HoldBegins { lock, thread, row, shared } => {
            tracks.details.dynamic_name(&thread_name(thread, tables));
            if shared {
                tracks.details.note("shared", Note::Yes);
            }
            (TrackEventType::Begin, row_of(tracks, at, lock, row)?)
        }
        LockTransition::HoldEnds { lock, row, .. } => {
            (TrackEventType::End, row_of(tracks, at, lock, row)?)
        }
    };
    if let (TrackEventType::Begin, Some(location)) = (kind, location) {
        tracks.details.location(location, tables);
    }
    tracks.event(at, kind, uuid)
}

/// The track of a row of a lock.
fn row_of<W: Write>(
    tracks: &mut Tracks,
    at: &mut Context<'_, W>,
    lock: LockId,
    row: usize,
) -> Result<u64, ExportError> {
    let tables = at.tables;
    let group = tracks.of_process(at, tables.lock(lock).process, "Locks")?;
    let name = tables.strings.get(tables.lock(lock).name);
    tracks.uuid_of(
        at,
        TrackSubject::Lock(lock, row),
        Some(group),
        Some(name),
        Shape::Rows(u64::from(lock.0)),
    )
}

fn thread_name(thread: ThreadId, tables: &Tables) -> String {
    let row = tables.thread(thread);
    format!("{} ({})", tables.strings.get(row.name), row.tid)
}
