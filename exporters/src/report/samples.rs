//! Samples by stack while they come, and by function once they are all there.

use super::account::ThreadAccount;
use super::capped::Capped;
use rustc_hash::FxHashMap;
use syscollect_model::{FrameId, ModuleId, ProcessId, Sample, StackCut, StackId, StringId, Tables};

/// What stands for code of which not even the function is known.
pub(super) const UNNAMED: &str = "[unnamed]";
/// Stacks of processes that are kept.
const MAX_STACKS: usize = 1 << 19;

/// Samples, counted.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) all: u64,
    pub(super) in_kernel: u64,
    pub(super) idle: u64,
    pub(super) without_stack: u64,
    /// By [`StackId`].
    stacks: Vec<u64>,
    /// Stacks are counted by process, too.
    counts_processes: bool,
    /// By process and stack, if they are.
    pub(super) by_process: Capped<(ProcessId, Option<StackId>), u64>,
}

impl Samples {
    /// None yet; with the process of each, if `counts_processes`.
    pub(super) fn new(counts_processes: bool) -> Self {
        Self {
            all: 0,
            in_kernel: 0,
            idle: 0,
            without_stack: 0,
            stacks: Vec::new(),
            counts_processes,
            by_process: Capped::new(MAX_STACKS),
        }
    }

    /// Counts a sample of a thread.
    pub(super) fn add(&mut self, sample: &Sample, account: &mut ThreadAccount) {
        account.counts.samples += 1;
        if !account.chosen {
            return;
        }
        self.all += 1;
        self.in_kernel += u64::from(sample.in_kernel);
        if self.counts_processes {
            *self.by_process.row((account.process, sample.stack)) += 1;
        }
        let Some(StackId(stack)) = sample.stack else {
            self.without_stack += 1;
            return;
        };
        let index = stack as usize;
        if index >= self.stacks.len() {
            self.stacks.resize(index + 1, 0);
        }
        self.stacks[index] += 1;
    }

    /// The stacks that were sampled and how often.
    pub(super) fn stacks(&self) -> impl Iterator<Item = (StackId, u64)> {
        (0..).map(StackId).zip(self.stacks.iter().copied()).filter(|(_, count)| *count > 0)
    }
}

/// How many of the stacks, each so many times, lack their outer frames, by why and by the module of
/// the last frame there is.
pub(super) fn truncated(
    stacks: impl Iterator<Item = (StackId, u64)>,
    tables: &Tables,
) -> FxHashMap<(StackCut, Option<ModuleId>), u64> {
    let mut truncated = FxHashMap::default();
    for (stack, count) in stacks {
        let frames = tables.stack(stack);
        let cut = frames
            .iter()
            .enumerate()
            .find_map(|(depth, frame)| Some((depth, tables.truncated_by(*frame)?)));
        let Some((depth, cut)) = cut else { continue };
        let last = depth.checked_sub(1).map(|depth| tables.frame(frames[depth]).module);
        *truncated.entry((cut, last.flatten())).or_insert(0) += count;
    }
    truncated
}

/// What makes places in code one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) module: Option<ModuleId>,
    /// `None` is all code of the module of which not even the functions are known.
    pub(super) name: Option<StringId>,
    /// The name is that of a range alone.
    pub(super) range_only: bool,
}

/// Samples of a function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    pub(super) own: u64,
    pub(super) total: u64,
    /// The last stack counted in `total`, so that recursion counts once.
    last: Option<StackId>,
}

/// The samples of each function.
pub(super) fn by_function(samples: &Samples, tables: &Tables) -> FxHashMap<Function, Hits> {
    let mut functions = FxHashMap::<Function, Hits>::default();
    for (stack, count) in samples.stacks() {
        let frames = tables
            .stack(stack)
            .iter()
            .enumerate()
            .filter(|(_, frame)| !tables.is_truncation(**frame));
        for (depth, frame) in frames {
            let hits = functions.entry(function(*frame, tables)).or_default();
            hits.own += if depth == 0 { count } else { 0 };
            if hits.last != Some(stack) {
                hits.total += count;
                hits.last = Some(stack);
            }
        }
    }
    functions
}

/// The function of a frame.
pub(super) fn function(frame: FrameId, tables: &Tables) -> Function {
    let row = tables.frame(frame);
    Function { module: row.module, name: row.function, range_only: row.range_only }
}
