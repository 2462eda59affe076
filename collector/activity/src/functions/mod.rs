//! In which functions threads ran and were blocked, second by second: by the stacks of samples and
//! of switches. It is followed from when it is [asked for](crate::Activity::follow_functions) on.

mod call_tree;
mod code;
mod memory;
mod sent;

pub use call_tree::{
    CallTree, CallTreeBuilder, FunctionWeight, StackWeight, UnfoldedCall, UnfoldedCalls,
};
pub use code::{CodeFunction, UnnamedAddresses};

use code::{Code, MOST_ADDRESSES};
use memory::LiveMemory;
use rustc_hash::FxHashMap;
use sent::{EventStack, SentStacks};
use std::cmp::Reverse;
use std::sync::Arc;
use syscollect_merge::{MemoryChange, each_memory_change};
use syscollect_model::{BuildId, ClockMap, Lane, Mapping, SymbolTable, Ticks};
use syscollect_store::Chunk;

/// Places of the tree of a second.
const MOST_NODES: usize = 8192;
/// What is known of stacks begins anew not more often than after so many seconds: as many as are
/// kept.
const LEAST_SECONDS: u64 = 300;
/// Chunks of mappings that wait for a clock, and changes of memory that wait for their time.
const MOST_WAITING: usize = 1 << 16;

/// Something that a stack leads through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackFrame {
    /// Whose it is: the outermost of each stack.
    Process(u32),
    /// A place in code, of those that [`Functions`] knows.
    Code(u32),
}

/// A thread, and the number of a stack of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackOfThread {
    pub(crate) tid: u32,
    pub(crate) stack: u32,
}

/// In which functions threads ran and were blocked in a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionActivity {
    /// Stacks of which it is known where they lead.
    pub tree: CallTree<StackFrame>,
    /// What is counted of stacks that are not known: they were sent before anybody asked, or are
    /// beyond what is kept.
    pub unknown: StackWeight,
    /// Stacks for which there was no room.
    pub beyond: u64,
    /// Something is missing.
    pub is_incomplete: bool,
    /// Ticks that a sample stands for; 0 where nothing is sampled.
    pub sample_ticks: u64,
    /// Threads that were blocked when the second ended, by their numbers.
    blocked: Vec<BlockedThread>,
    /// Which code its places are of.
    epoch: u64,
}

/// A thread that is blocked, and the place of the tree at which its stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockedThread {
    tid: u32,
    place: u32,
}

impl FunctionActivity {
    /// What it takes, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let blocked = self.blocked.capacity() * size_of::<BlockedThread>();
        size_of::<Self>() + self.tree.heap_bytes() + blocked
    }

    /// Ticks on a CPU, of samples.
    pub fn ran(&self, weight: StackWeight) -> u64 {
        weight.samples.saturating_mul(self.sample_ticks)
    }
}

/// A stack of a process: files and offsets in them, outermost first, and what is counted.
type KnownStack<'a> = (u32, &'a [(&'a str, u64)], StackWeight);

/// What happened to processes' memory, to be applied at its time.
enum Pending {
    Mapped(Mapping),
    Exec(u32),
    Fork(u32, u32),
    End(u32),
}

/// Functions that stacks lead through, and what is known of stacks.
#[derive(Default)]
pub struct Functions {
    is_followed: bool,
    memory: LiveMemory,
    pending: Vec<(u64, Pending)>,
    /// Chunks of mappings from before the clock was known.
    early: Vec<Chunk>,
    stacks: SentStacks,
    code: Code,
    epoch: u64,
    /// Code of the epoch before, for seconds of that time.
    before: Option<Code>,
    /// Samples in this second, by the numbers of their stacks.
    samples: Vec<u32>,
    is_incomplete: bool,
    sample_ticks: u64,
    /// Seconds since the epoch began.
    seconds: u64,
    /// The programs should send all stacks again.
    wants_anew: bool,
}

impl Functions {
    /// A second with these stacks of processes, each of files and offsets from the outermost frame
    /// on; a tick is a microsecond, and a sample stands for a hundredth of a second. A process's
    /// first thread is blocked in the last stack of it that is. For tests of what shows it.
    #[doc(hidden)]
    pub fn of_stacks(stacks: &[KnownStack<'_>]) -> (Self, FunctionActivity) {
        let mut functions = Self::default();
        let mut builder = CallTreeBuilder::new(MOST_NODES);
        let mut blocked = Vec::new();
        for (pid, frames, weight) in stacks {
            let mut path = vec![StackFrame::Process(*pid)];
            for (file, offset) in *frames {
                let place = match *file {
                    "kernel" => functions.code.kernel_place(*offset),
                    path => {
                        let path = path.to_owned();
                        let mapping = Mapping {
                            pid: *pid,
                            start: 0,
                            end: u64::MAX,
                            file_offset: 0,
                            path,
                            build_id: BuildId::default(),
                            since: Ticks(0),
                        };
                        let module = functions.code.module_of(&mapping);
                        functions.code.place(*pid, module, *offset)
                    }
                };
                path.push(StackFrame::Code(place));
            }
            let place = builder.add(&path, *weight).filter(|_| weight.blocked > 0);
            blocked.extend(place.map(|place| BlockedThread { tid: *pid, place }));
        }
        blocked.reverse();
        blocked.sort_by_key(|thread| thread.tid);
        let second = FunctionActivity {
            tree: builder.finish(),
            unknown: StackWeight::default(),
            beyond: 0,
            is_incomplete: false,
            sample_ticks: 10_000,
            blocked,
            epoch: 0,
        };
        (functions, second)
    }

    /// Whether it is followed.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    pub(crate) fn follow(&mut self) {
        if !std::mem::replace(&mut self.is_followed, true) {
            self.wants_anew = true;
        }
    }

    pub(crate) fn set_sample_ticks(&mut self, ticks: u64) {
        self.sample_ticks = ticks;
    }

    /// Whether all stacks should be sent again: who shows functions asks the recording for that.
    pub fn take_wants_anew(&mut self) -> bool {
        std::mem::take(&mut self.wants_anew)
    }

    pub(crate) fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    pub(crate) fn list(&mut self, mappings: Vec<Mapping>) {
        let mappings = mappings.into_iter();
        mappings.for_each(|mapping| self.wait(mapping.since.0, Pending::Mapped(mapping)));
    }

    fn wait(&mut self, at: u64, change: Pending) {
        if self.pending.len() < MOST_WAITING {
            self.pending.push((at, change));
        } else {
            self.is_incomplete = true;
        }
    }

    pub(crate) fn feed_mappings(&mut self, chunk: Chunk, clock: Option<&ClockMap>) {
        let Some(clock) = clock else {
            if self.early.len() < MOST_WAITING {
                self.early.push(chunk);
            }
            return;
        };
        for chunk in std::mem::take(&mut self.early).into_iter().chain([chunk]) {
            each_memory_change(&chunk.data, clock, |change| match change {
                MemoryChange::Mapped(mapping) => {
                    self.wait(mapping.since.0, Pending::Mapped(mapping));
                }
                MemoryChange::Exec { pid, at } => self.wait(at.0, Pending::Exec(pid)),
            });
        }
    }

    pub(crate) fn feed_stacks(&mut self, chunk: &Chunk) {
        if self.is_followed {
            self.stacks.feed(chunk.header.lane, chunk.header.first, &chunk.data);
        }
    }

    pub(crate) fn forks(&mut self, at: u64, parent: u32, child: u32) {
        self.wait(at, Pending::Fork(parent, child));
    }

    pub(crate) fn ends(&mut self, at: u64, pid: u32) {
        self.wait(at, Pending::End(pid));
    }

    /// What came of before then is all there is: stacks find their places.
    pub(crate) fn locate(&mut self, until: u64) {
        let Self { memory, pending, stacks, code, .. } = self;
        pending.sort_by_key(|(at, _)| *at);
        stacks.sort_raw();
        let count = pending.partition_point(|(at, _)| *at < until);
        for (at, change) in pending.drain(..count) {
            stacks.locate_before(at, memory, code);
            match change {
                Pending::Mapped(mapping) => {
                    let module = code.module_of(&mapping);
                    memory.map(&mapping, module);
                }
                Pending::Exec(pid) => memory.exec(pid, at),
                Pending::Fork(parent, child) => memory.fork(parent, child, at),
                Pending::End(pid) => memory.end(pid),
            }
        }
        stacks.locate_before(until, memory, code);
    }

    /// The number of an event's stack; 0 where that is not known, or nobody asks.
    #[inline]
    pub(crate) fn stack(
        &mut self,
        lane: Lane,
        [user, kernel]: [u32; 2],
        pid_of: impl FnOnce() -> u32,
    ) -> u32 {
        if !self.is_followed {
            return 0;
        }
        self.stacks.number(EventStack { lane, user, kernel }, pid_of)
    }

    /// A sample of a thread with that stack.
    pub(crate) fn sample(&mut self, stack: u32) {
        let stack = stack as usize;
        if stack >= self.samples.len() {
            self.samples.resize(stack + 1, 0);
        }
        self.samples[stack] += 1;
    }

    /// Ends the second: `blocked` are ticks by the numbers of stacks, and `threads` are blocked now.
    pub(crate) fn close(
        &mut self,
        blocked: &[u64],
        threads: impl Iterator<Item = StackOfThread>,
    ) -> Option<Arc<FunctionActivity>> {
        if !self.is_followed {
            return None;
        }
        let weight = |number: usize| StackWeight {
            samples: self.samples.get(number).copied().unwrap_or(0).into(),
            blocked: blocked.get(number).copied().unwrap_or(0),
        };
        let numbers = 1..self.stacks.numbers();
        let mut weights: Vec<(u32, StackWeight)> =
            numbers.map(|number| (number as u32, weight(number))).collect();
        weights.retain(|(_, weight)| !weight.is_nothing());
        let size = |weight: &StackWeight| {
            weight.blocked.saturating_add(weight.samples.saturating_mul(self.sample_ticks.max(1)))
        };
        weights.sort_by_key(|(number, weight)| (Reverse(size(weight)), *number));
        let mut builder = CallTreeBuilder::new(MOST_NODES);
        let mut unknown = weight(0);
        let mut path = Vec::new();
        let mut places = FxHashMap::default();
        for (number, weight) in weights {
            let Some((pid, parts)) = self.stacks.get(number) else {
                unknown.samples += weight.samples;
                unknown.blocked += weight.blocked;
                continue;
            };
            path.clear();
            path.push(StackFrame::Process(pid));
            path.extend(parts.into_iter().flatten().map(|place| StackFrame::Code(*place)));
            if let Some(place) = builder.add(&path, weight) {
                places.insert(number, place);
            }
        }
        let threads = threads.filter_map(|StackOfThread { tid, stack }| {
            Some(BlockedThread { tid, place: *places.get(&stack)? })
        });
        let mut blocked: Vec<BlockedThread> = threads.collect();
        blocked.sort_unstable_by_key(|thread| thread.tid);
        blocked.shrink_to_fit();
        self.samples.clear();
        let beyond = self.stacks.take_beyond();
        self.seconds += 1;
        Some(Arc::new(FunctionActivity {
            tree: builder.finish(),
            unknown,
            beyond,
            is_incomplete: std::mem::take(&mut self.is_incomplete),
            sample_ticks: self.sample_ticks,
            blocked,
            epoch: self.epoch,
        }))
    }

    /// Where little room is left for stacks or code, what is known of them begins anew, and is to
    /// be sent again; whether it does.
    pub(crate) fn begin_anew(&mut self) -> bool {
        let is_full = self.stacks.is_nearly_full() || self.code.len() > MOST_ADDRESSES / 4 * 3;
        if !is_full || self.seconds < LEAST_SECONDS {
            return false;
        }
        // Numbers of modules hold on: memory refers to them.
        let next = self.code.without_places();
        self.before = Some(std::mem::replace(&mut self.code, next));
        self.stacks = SentStacks::default();
        self.epoch += 1;
        self.seconds = 0;
        self.wants_anew = true;
        true
    }

    fn code_of(&self, second: &FunctionActivity) -> Option<&Code> {
        match self.epoch.checked_sub(second.epoch)? {
            0 => Some(&self.code),
            1 => self.before.as_ref(),
            _ => None,
        }
    }

    /// What there was of each function in a second, of one process if that is given; in no order.
    pub fn sums(
        &self,
        second: &FunctionActivity,
        process: Option<u32>,
    ) -> Vec<FunctionWeight<CodeFunction>> {
        let Some(code) = self.code_of(second) else { return Vec::new() };
        let tree = &second.tree;
        let of_process = |pid| process.is_none_or(|process| process == pid);
        tree.within(|frame| !matches!(frame, StackFrame::Process(pid) if !of_process(pid)))
            .functions(|frame| function_of(code, frame), |function| code.rank(function))
    }

    /// In which function a thread was blocked when a second ended, if it was and that is known.
    pub fn blocked_in(&self, second: &FunctionActivity, tid: u32) -> Option<CodeFunction> {
        let code = self.code_of(second)?;
        let index = second.blocked.binary_search_by_key(&tid, |thread| thread.tid).ok()?;
        let place = second.blocked[index].place;
        let function = |frame| function_of(code, frame);
        second.tree.blocked_in(place, function, |function| code.rank(function))
    }

    /// Who called a function in a second, and what it called.
    pub fn unfold(
        &self,
        second: &FunctionActivity,
        process: Option<u32>,
        function: CodeFunction,
        order: impl Fn(StackWeight) -> u64,
    ) -> Option<UnfoldedCalls<CodeFunction>> {
        let code = self.code_of(second)?;
        let of_process = |pid| process.is_none_or(|process| process == pid);
        let tree = second
            .tree
            .within(|frame| !matches!(frame, StackFrame::Process(pid) if !of_process(pid)));
        Some(tree.unfold(function, |frame| function_of(code, frame), order))
    }

    /// What a function is called: of any kind, whoever shows it has to escape what a terminal
    /// obeys.
    pub fn name(&self, second: &FunctionActivity, function: CodeFunction) -> String {
        self.code_of(second).map_or_else(String::new, |code| code.name(function))
    }

    /// The file that a function is in, or `kernel`.
    pub fn module(&self, second: &FunctionActivity, function: CodeFunction) -> String {
        self.code_of(second).map_or_else(String::new, |code| code.module(function))
    }

    /// Code of a second that nobody was asked to name, of no more than so many places: whoever asks
    /// for it finds the names, and [adds](Self::add_names) them.
    pub fn ask(&mut self, second: &FunctionActivity, most: usize) -> Vec<UnnamedAddresses> {
        if second.epoch != self.epoch {
            return Vec::new();
        }
        let places = second.tree.keys().filter_map(|frame| match frame {
            StackFrame::Code(place) => Some(place),
            StackFrame::Process(_) => None,
        });
        self.code.ask(places, most)
    }

    /// Names that were found.
    pub fn add_names(&mut self, tables: &[SymbolTable]) {
        tables.iter().for_each(|table| self.code.add_names(table));
    }
}

fn function_of(code: &Code, frame: StackFrame) -> Option<CodeFunction> {
    match frame {
        StackFrame::Process(_) => None,
        StackFrame::Code(place) => code.function(place),
    }
}
