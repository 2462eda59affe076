//! Frames of instrumented programs.

use crate::engine::{Engine, ProgramId, Writer};
use crate::zones::log::Log;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use syscollect_model::{
    Event, Forgotten, ProcessId, Scope, Slice, StringId, Time, Track, TrackId, TrackKind,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_zone_protocol::FramePhase;

/// Frames of a main set that are remembered: an image may come so much later than its frame.
const MOST_REMEMBERED: usize = 1024;

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
#[derive(Clone, Debug)]
struct FrameSet {
    track: TrackId,
    count: u64,
    open: bool,
    /// When its last frames began; of main sets only.
    began: VecDeque<Time>,
}

/// A frame of the main set of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MainFrame {
    /// The set's track.
    pub(crate) track: TrackId,
    /// `None` where the frame is not known (any more).
    pub(crate) found: Option<FoundFrame>,
}

/// Which frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundFrame {
    pub(crate) number: u64,
    pub(crate) began: Time,
}

impl FrameSet {
    /// The frame of that time, or that which came so many before it.
    fn frame_at(&self, time: Time, frames_ago: usize) -> Option<FoundFrame> {
        let until = self.began.partition_point(|began| *began <= time);
        let index = until.checked_sub(1 + frames_ago)?;
        let later = self.began.len() - 1 - index;
        Some(FoundFrame { number: self.count - later as u64, began: self.began[index] })
    }
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
        let frame = self.frame;
        let continuous = phase == FramePhase::Mark;
        let set = self.set(engine, FrameSetKey { program, name, continuous });
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
            if name.is_none() {
                if set.began.len() == MOST_REMEMBERED {
                    set.began.pop_front();
                }
                set.began.push_back(engine.now());
            }
            let slice = Slice { number: Some(set.count), ..Slice::named(frame) };
            engine.emit(&Event::SliceBegin(set.track, slice))?;
        }
        Ok(())
    }

    /// The set, which begins if it is new.
    fn set(&mut self, engine: &mut Engine<'_>, key: FrameSetKey) -> &mut FrameSet {
        let main = self.main;
        self.sets.entry(key).or_insert_with(|| {
            let FrameSetKey { program, name, continuous } = key;
            let scope = Scope::Process(program.process);
            let kind = TrackKind::Frames { continuous, main: name.is_none() };
            let track = Track { scope, name: name.unwrap_or(main), kind };
            let track = engine.track(track, program.client.into());
            FrameSet { track, count: 0, open: false, began: VecDeque::new() }
        })
    }

    /// The frame of the program's main set at that time, or that which came so many before it. Of a
    /// main set whose frames have gaps only where there is no other.
    pub(crate) fn main_frame(
        &mut self,
        engine: &mut Engine<'_>,
        program: ProgramId,
        time: Time,
        frames_ago: u8,
    ) -> MainFrame {
        let key = |continuous| FrameSetKey { program, name: None, continuous };
        let has_only_gaps =
            !self.sets.contains_key(&key(true)) && self.sets.contains_key(&key(false));
        let set = self.set(engine, key(!has_only_gaps));
        MainFrame { track: set.track, found: set.frame_at(time, frames_ago.into()) }
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
