//! Stack definitions, and the stacks that events refer to.

use crate::kernel_functions::{blocking_frame, tracing_frames};
use rustc_hash::FxHashMap;
use syscollect_model::{FrameId, SessionInfo, StackId, StringId, SymbolTable, Tables, Ticks};
use syscollect_playback::{Framer, Locator, Names, PlaceId, Places};
use syscollect_records::{StackHeader, stack_id, stack_space};
use syscollect_store::{Lane, LaneKind};

/// Where a stack's places lie in [`Stacks::pool`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defined {
    start: u32,
    count: u32,
    kernel: bool,
    /// Outer frames are missing.
    truncated: bool,
}

/// The stacks of one lane, by id.
type LaneStacks = FxHashMap<u32, Defined>;

/// Every stack that was sent, as places.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    lanes: FxHashMap<Lane, LaneStacks>,
    pool: Vec<PlaceId>,
    pub(crate) places: Places,
}

/// What came of reading a chunk of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadStacks {
    pub(crate) stacks: u64,
    /// The chunk ended inside a record.
    pub(crate) cut: bool,
}

/// Adds the stacks of chunks.
pub(crate) struct StackReader<'a> {
    lanes: &'a mut FxHashMap<Lane, LaneStacks>,
    pool: &'a mut Vec<PlaceId>,
    locator: Locator<'a>,
}

impl Stacks {
    /// A reader that knows what lay where.
    pub(crate) fn reader<'a>(
        &'a mut self,
        spaces: &'a syscollect_model::AddressSpaces,
    ) -> StackReader<'a> {
        StackReader {
            lanes: &mut self.lanes,
            pool: &mut self.pool,
            locator: Locator::new(spaces, &mut self.places),
        }
    }

    fn places_of(&self, defined: Defined) -> &[PlaceId] {
        &self.pool[defined.start as usize..][..defined.count as usize]
    }
}

impl StackReader<'_> {
    /// Reads a chunk's records; `first` are its first ticks.
    pub(crate) fn read(&mut self, lane: Lane, first: Ticks, mut data: &[u8]) -> ReadStacks {
        let mut result = ReadStacks::default();
        while !data.is_empty() {
            let Some(header) = StackHeader::from_bytes(data) else {
                result.cut = true;
                break;
            };
            let addresses =
                data.get(StackHeader::SIZE..StackHeader::SIZE + usize::from(header.frames) * 8);
            let Some(addresses) = addresses else {
                result.cut = true;
                break;
            };
            data = &data[StackHeader::SIZE + addresses.len()..];
            self.define(lane, Ticks(header.stamp.ticks_near(first.0)), &header, addresses);
            result.stacks += 1;
        }
        result
    }

    /// Locates the addresses. All but the innermost are return addresses, which
    /// may already lie behind the end of the calling function or line: they
    /// are looked up one byte earlier, inside the call. The innermost is where
    /// the CPU stood, or, of user code below a system call, where it entered
    /// the kernel: both exact.
    fn define(&mut self, lane: Lane, at: Ticks, header: &StackHeader, addresses: &[u8]) {
        let start = self.pool.len() as u32;
        let kernel = header.space == stack_space::KERNEL;
        let epoch = self.locator.epoch(header.tgid, at);
        let (words, _) = addresses.as_chunks::<8>();
        for address in
            words.iter().map(|bytes| u64::from_ne_bytes(*bytes)).filter(|address| *address != 0)
        {
            let exact = self.pool.len() as u32 == start;
            let address = if exact { address } else { address - 1 };
            let place = match kernel {
                true => self.locator.kernel(address),
                false => self.locator.user(header.tgid, at, epoch, address),
            };
            self.pool.push(place);
        }
        let cut = !kernel && self.end_at_no_code(start, header.tgid, at);
        let count = self.pool.len() as u32 - start;
        let truncated = cut || header.truncated != 0;
        // An id is given out once; a second definition could only be damage.
        self.lanes.entry(lane).or_default().entry(header.id).or_insert(Defined {
            start,
            count,
            kernel,
            truncated,
        });
    }

    /// Ends the stack that begins at `start` before its first frame outside of
    /// all code; whether there was one.
    ///
    /// A walk by frame pointers that meets a function which uses that register
    /// for something else takes data for a return address, and all further ones
    /// from there. The innermost frame is where the CPU stood: where even that
    /// lies in no known mapping, the mappings are what is missing.
    fn end_at_no_code(&mut self, start: u32, pid: u32, at: Ticks) -> bool {
        let has_code = |place: &PlaceId| self.locator.places.get(*place).module.is_some();
        let stack = &self.pool[start as usize..];
        let Some(end) = stack.iter().position(|place| !has_code(place)) else { return false };
        if end == 0 || !self.locator.knows_all(pid, at) {
            return false;
        }
        self.pool.truncate(start as usize + end);
        true
    }

    /// Locates return addresses of a process, innermost first.
    pub(crate) fn return_addresses(&mut self, pid: u32, at: Ticks, addresses: &[u64]) -> Defined {
        let start = self.pool.len() as u32;
        let epoch = self.locator.epoch(pid, at);
        for address in addresses.iter().filter(|address| **address != 0) {
            let place = self.locator.user(pid, at, epoch, address - 1);
            self.pool.push(place);
        }
        let truncated = self.end_at_no_code(start, pid, at);
        Defined { start, count: self.pool.len() as u32 - start, kernel: false, truncated }
    }
}

/// What an event's two stack ids come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) stack: Option<StackId>,
    /// The first kernel function outside the scheduler.
    pub(crate) blocked_in: Option<StringId>,
    /// An id has no definition: it was lost or damaged.
    pub(crate) missing: bool,
}

/// Turns stack ids into stacks of named frames.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) stacks: Stacks,
    names: Names,
    framer: Framer,
    frames: Vec<FrameId>,
}

/// The answers for one lane, so that an event costs one look-up.
#[derive(Debug, Default)]
pub(crate) struct StackCache {
    known: FxHashMap<(u32, u32), Resolved>,
}

impl Resolver {
    pub(crate) fn new(info: &SessionInfo, stacks: Stacks) -> Self {
        Self { stacks, names: Names::default(), framer: Framer::new(info), frames: Vec::new() }
    }

    pub(crate) fn add_names(&mut self, tables: Vec<SymbolTable>) {
        self.names.add(tables);
        self.framer.renew();
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
        user: u32,
        kernel: u32,
        tables: &mut Tables,
    ) -> Resolved {
        if user == stack_id::NONE && kernel == stack_id::NONE {
            return Resolved::default();
        }
        if let Some(resolved) = cache.known.get(&(user, kernel)) {
            return *resolved;
        }
        let resolved = self.resolve_new(lane, user, kernel, tables);
        cache.known.insert((user, kernel), resolved);
        resolved
    }

    #[cold]
    fn resolve_new(&mut self, lane: Lane, user: u32, kernel: u32, tables: &mut Tables) -> Resolved {
        let kind = if lane.kind == LaneKind::Sample {
            LaneKind::SampleStack
        } else {
            LaneKind::SchedStack
        };
        let defined = self.stacks.lanes.get(&Lane { kind, cpu: lane.cpu });
        let find = |id: u32, in_kernel: bool| {
            let found = defined
                .and_then(|stacks| stacks.get(&id))
                .filter(|stack| stack.kernel == in_kernel);
            (found.copied(), id != stack_id::NONE && found.is_none())
        };
        let ((user, user_missing), (kernel, kernel_missing)) =
            (find(user, false), find(kernel, true));
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let mut blocked_in = None;
        if let Some(kernel) = kernel {
            self.push_frames(kernel, &mut frames, tables);
            if lane.kind == LaneKind::Sched {
                // A sample may well show the recording itself, a blocked task
                // shows it always.
                frames.drain(..tracing_frames(functions(&frames, tables)));
            }
            let function = blocking_frame(functions(&frames, tables));
            blocked_in = function.and_then(|index| tables.frame(frames[index]).function);
        }
        if let Some(user) = user {
            self.push_frames(user, &mut frames, tables);
        }
        let missing = user_missing || kernel_missing;
        let stack = (!missing && !frames.is_empty()).then(|| tables.intern_stack(&frames));
        self.frames = frames;
        Resolved { stack, blocked_in, missing }
    }

    /// The stack at these places, outside of any lane; `None` if it has no frames.
    pub(crate) fn stack_at(&mut self, stack: Defined, tables: &mut Tables) -> Option<StackId> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        self.push_frames(stack, &mut frames, tables);
        let id = (!frames.is_empty()).then(|| tables.intern_stack(&frames));
        self.frames = frames;
        id
    }

    fn push_frames(&mut self, stack: Defined, into: &mut Vec<FrameId>, tables: &mut Tables) {
        for place in self.stacks.places_of(stack) {
            into.extend(self.framer.frames(*place, &self.stacks.places, &self.names, tables));
        }
        if stack.truncated && !into.last().is_some_and(|frame| begins_stacks(*frame, tables)) {
            into.push(tables.truncation());
        }
    }
}

/// Whether a frame is the first of its thread in every program: whatever the
/// walk met beyond it, nothing is missing that anybody looks for.
///
/// glibc and musl keep no frame pointers, so that a walk from a program that
/// does ends in these with whatever lies in the register.
fn begins_stacks(frame: FrameId, tables: &Tables) -> bool {
    const FIRST: [&str; 9] = [
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "libc_start_main_stage2",
        "start_thread",
        "clone",
        "__clone",
        "clone3",
    ];
    tables.frame(frame).function.is_some_and(|name| FIRST.contains(&tables.strings.get(name)))
}

fn functions<'a>(
    frames: &'a [FrameId],
    tables: &'a Tables,
) -> impl Iterator<Item = Option<&'a str>> {
    frames.iter().map(|frame| tables.frame(*frame).function.map(|name| tables.strings.get(name)))
}
