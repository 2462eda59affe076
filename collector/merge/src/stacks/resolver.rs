//! Stacks of named frames, at the times of the events that refer to them.

use super::{StackRange, Stacks};
use crate::first_functions::{begins_stacks, leaves_stack};
use crate::kernel_functions::{blocking_frame, tracing_frames};
use crate::stack_shares::STACK;
use rustc_hash::FxHashMap;
use syscollect_model::{
    FrameId, Lane, LaneKind, SessionInfo, StackCut, StackId, StringId, SymbolTable, Tables, Ticks,
};
use syscollect_playback::{Framer, Names, Validity};
use syscollect_records::stack_id;

/// Answers that one lane's cache remembers.
const RESOLVED_MAX: usize = 1 << 18;

/// What an event's two stack ids come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) stack: Option<StackId>,
    /// The first kernel function outside the scheduler.
    pub(crate) blocked_in: Option<StringId>,
    /// An id has no definition: it was lost or damaged. `stack` has the other part, if there is
    /// one.
    pub(crate) missing: bool,
}

/// Turns stack ids into stacks of named frames.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    pub(crate) stacks: Stacks,
    names: Names,
    framer: Framer,
    frames: Vec<FrameId>,
}

/// The answers for one lane, and when they are right, so that an event costs one look-up.
#[derive(Debug, Default)]
pub(crate) struct StackCache {
    known: FxHashMap<(u32, u32), (Resolved, Validity)>,
}

impl StackCache {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Forgets answers, which are found again.
    pub(crate) fn forget(&mut self) {
        self.known = FxHashMap::default();
    }
}

/// The two stacks of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventStacks {
    pub(crate) user: u32,
    pub(crate) kernel: u32,
    /// When it was.
    pub(crate) at: Ticks,
}

impl Resolver {
    pub(crate) fn new(info: &SessionInfo, stacks: Stacks) -> Self {
        Self { stacks, names: Names::default(), framer: Framer::new(info), frames: Vec::new() }
    }

    pub(crate) fn add_names(&mut self, tables: Vec<SymbolTable>) {
        self.names.add(tables);
        self.framer.renew();
    }

    /// Frames and stacks are gone from the tables, and code addresses have other numbers.
    pub(crate) fn forget_code(&mut self) {
        self.framer.forget();
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The stack of an event of `lane`, remembered in the lane's cache.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        cache: &mut StackCache,
        lane: Lane,
        stacks: EventStacks,
        tables: &mut Tables,
    ) -> Resolved {
        let EventStacks { user, kernel, at } = stacks;
        if user == stack_id::NONE && kernel == stack_id::NONE {
            return Resolved::default();
        }
        if let Some((resolved, holds)) = cache.known.get(&(user, kernel))
            && holds.at(at)
        {
            return *resolved;
        }
        let (resolved, holds) = self.resolve_new(lane, stacks, tables);
        if cache.known.len() >= RESOLVED_MAX {
            cache.known.clear();
        }
        cache.known.insert((user, kernel), (resolved, holds));
        resolved
    }

    #[cold]
    fn resolve_new(
        &mut self,
        lane: Lane,
        EventStacks { user, kernel, at }: EventStacks,
        tables: &mut Tables,
    ) -> (Resolved, Validity) {
        let defined = lane.stacks().and_then(|stacks| self.stacks.lanes.get(&stacks));
        let [(user, user_missing), (kernel, kernel_missing)] =
            [(user, false), (kernel, true)].map(|(id, in_kernel)| {
                let found = defined
                    .and_then(|stacks| stacks.get(&id))
                    .filter(|stack| stack.kernel == in_kernel);
                (found.copied(), id != stack_id::NONE && found.is_none())
            });
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let mut blocked_in = None;
        if kernel_missing {
            frames.push(tables.truncation(StackCut::Lost));
        }
        if let Some(kernel) = kernel {
            self.push_frames((kernel, at), &mut frames, tables);
            if lane.kind == LaneKind::Sched {
                // A sample may well show the recording itself, a blocked task
                // shows it always.
                frames.drain(..tracing_frames(functions(&frames, tables)));
            }
            let function = blocking_frame(functions(&frames, tables));
            blocked_in = function.and_then(|index| tables.frame(frames[index]).function);
        }
        let mut holds = Validity::ALWAYS;
        if let Some(user) = user {
            holds = self.push_frames((user, at), &mut frames, tables);
        }
        if user_missing {
            frames.push(tables.truncation(StackCut::Lost));
        }
        let mut missing = user_missing || kernel_missing;
        let mut stack = None;
        // Where neither part is there, that is not a stack.
        if let Some(known) = user.or(kernel)
            && !frames.is_empty()
        {
            stack = self.intern(known.pid, &frames, tables);
            missing |= stack.is_none();
        }
        self.frames = frames;
        (Resolved { stack, blocked_in, missing }, holds)
    }

    /// The stack at these code addresses at a time, outside of any lane, if it has frames; and from
    /// when until when it is that.
    pub(crate) fn stack_at(
        &mut self,
        stack: StackRange,
        at: Ticks,
        tables: &mut Tables,
    ) -> (Option<StackId>, Validity) {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let holds = self.push_frames((stack, at), &mut frames, tables);
        let id = (!frames.is_empty()).then(|| self.intern(stack.pid, &frames, tables)).flatten();
        self.frames = frames;
        (id, holds)
    }

    /// The stack with these frames; `None` if it is new and the process has had its share.
    fn intern(&mut self, pid: u32, frames: &[FrameId], tables: &mut Tables) -> Option<StackId> {
        tables.find_stack(frames).or_else(|| {
            self.stacks
                .shares
                .shown
                .take(pid, frames.len() as u64 + STACK)
                .then(|| tables.intern_stack(frames))
        })
    }

    /// Adds the frames of a stack at a time; from when until when it has these.
    fn push_frames(
        &mut self,
        (stack, at): (StackRange, Ticks),
        into: &mut Vec<FrameId>,
        tables: &mut Tables,
    ) -> Validity {
        let mut all_hold = Validity::ALWAYS;
        // Functions of Python stand behind the interpreter's loop, and before what is inlined in
        // it.
        let mut of_python = Vec::new();
        let mut truncated = stack.truncated;
        for located in self.stacks.code_of(stack) {
            let code = self.stacks.code();
            let (frames, holds) = self.framer.frames((*located, at), code, &self.names, tables);
            all_hold = all_hold.and(holds);
            if code.is_python(*located) {
                of_python.extend(frames);
            } else {
                into.extend(frames);
                let own = into.len().saturating_sub(1);
                into.splice(own..own, of_python.drain(..));
                if into.last().is_some_and(|frame| leaves_stack(*frame, tables)) {
                    truncated = None;
                    break;
                }
            }
        }
        into.append(&mut of_python);
        if let Some(cut) = truncated
            && !into.last().is_some_and(|frame| begins_stacks(*frame, tables))
        {
            into.push(tables.truncation(cut));
        }
        all_hold
    }
}

fn functions<'a>(
    frames: &'a [FrameId],
    tables: &'a Tables,
) -> impl Iterator<Item = Option<&'a str>> {
    frames.iter().map(|frame| tables.frame(*frame).function.map(|name| tables.strings.get(name)))
}
