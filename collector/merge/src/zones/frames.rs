//! Frames of instrumented programs.

use crate::engine::{Engine, ProgramId, Writer};
use crate::zones::log::Log;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Event, Forgotten, ProcessId, Scope, Slice, StringId, Track, TrackId, TrackKind,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_zone_protocol::FramePhase;

/// What tells a set of frames from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FrameSetKey {
    program: ProgramId,
    /// `None` of the main one.
    name: Option<StringId>,
    /// Its frames follow each other without gaps.
    continuous: bool,
}

/// A set of frames.
#[derive(Clone, Copy, Debug)]
struct FrameSet {
    track: TrackId,
    count: u64,
    open: bool,
}

/// The sets of all programs.
#[derive(Debug)]
pub(crate) struct FrameSets {
    sets: FxHashMap<FrameSetKey, FrameSet>,
    /// What the main set is called.
    main: StringId,
    /// What each frame is called.
    frame: StringId,
}

impl FrameSets {
    pub(crate) fn new(main: StringId, frame: StringId) -> Self {
        Self { sets: FxHashMap::default(), main, frame }
    }

    /// An item of a frame of the set whose name has that number in the log, 0 of the main one.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        log: &Log,
        set: u32,
        phase: FramePhase,
    ) -> Result<(), Stopped> {
        match log.string(set) {
            None if set != 0 => {
                writer.refuse(engine, 1);
                Ok(())
            }
            name => self.frame(engine, writer.program, name.filter(|_| set != 0), phase),
        }
    }

    /// A frame of the set with that name, or of the main one, begins, ends, or both. The first mark
    /// of a set that is continuous begins its first frame.
    pub(crate) fn frame(
        &mut self,
        engine: &mut Engine<'_>,
        program: ProgramId,
        name: Option<StringId>,
        phase: FramePhase,
    ) -> Result<(), Stopped> {
        let (main, frame) = (self.main, self.frame);
        let continuous = phase == FramePhase::Mark;
        let key = FrameSetKey { program, name, continuous };
        let set = self.sets.entry(key).or_insert_with(|| {
            let scope = Scope::Process(program.process);
            let kind = TrackKind::Frames { continuous, main: name.is_none() };
            let track = Track { scope, name: name.unwrap_or(main), kind };
            FrameSet { track: engine.track(track, program.client.into()), count: 0, open: false }
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
            let slice = Slice { number: Some(set.count), ..Slice::named(frame) };
            engine.emit(&Event::SliceBegin(set.track, slice))?;
        }
        Ok(())
    }

    /// Forgets sets of processes that are gone, and needs the names of the others.
    pub(crate) fn forget(&mut self, forgotten: &mut Forgotten) {
        self.sets.retain(|key, _| !forgotten.processes.contains(&key.program.process));
        self.sets.keys().filter_map(|key| key.name).for_each(|name| forgotten.uses(name));
    }

    /// The process is over, without one all are: the tracks of frames that were open.
    pub(crate) fn close(&mut self, process: Option<ProcessId>) -> Vec<TrackId> {
        let sets = self.sets.iter_mut().filter(|(key, set)| set.open && key.program.is_of(process));
        sets.map(|(_, set)| {
            set.open = false;
            set.track
        })
        .collect()
    }
}
