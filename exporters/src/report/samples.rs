//! Samples by stack while they come, and by function once they are all there.

use super::account::ThreadAccount;
use super::capped::Capped;
use super::data::{CallTree, FunctionRow, Functions};
use super::hints;
use super::row_maker::RowMaker;
use super::tree::{TreeBuilder, TreeOptions};
use super::truncated::TruncatedStacks;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{FrameId, ModuleId, ProcessId, Sample, StackId, StringId, Tables};

/// What stands for code of which not even the function is known.
pub(super) const UNNAMED: &str = "[unnamed]";
/// Stacks of processes that are kept.
const MAX_STACKS: usize = 1 << 19;

/// Samples, counted.
#[derive(Debug)]
pub(super) struct Samples {
    all: u64,
    in_kernel: u64,
    idle: u64,
    without_stack: u64,
    /// By [`StackId`].
    stacks: Vec<u64>,
    /// Stacks are counted by process, too.
    counts_processes: bool,
    /// By process and stack, if they are.
    by_process: Capped<(ProcessId, Option<StackId>), u64>,
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

    /// A sample of the thread of these books.
    pub(super) fn add(&mut self, sample: &Sample, account: &mut ThreadAccount) {
        if sample.thread == Tables::IDLE_THREAD {
            self.idle += 1;
            return;
        }
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

    pub(super) fn functions(&self, maker: RowMaker<'_>) -> Functions {
        let functions = self.by_function(maker.tables).into_iter();
        let rows: Vec<_> = functions.map(|(function, hits)| hits.row(function, maker)).collect();
        let hit = rows.iter().filter(|row| row.self_samples > 0).cloned().collect();
        let truncated = TruncatedStacks::among(self.stacks(), maker);
        Functions {
            samples: self.all,
            kernel_samples: self.in_kernel,
            idle_samples: self.idle,
            without_stack: self.without_stack,
            truncated: truncated.count,
            truncated_in: truncated.rows,
            lacks_python: hints::lacks_python(&rows),
            by_self: maker
                .table(hit, |row| (Reverse((row.self_samples, row.total)), function_key(row))),
            by_total: maker
                .table(rows, |row| (Reverse((row.total, row.self_samples)), function_key(row))),
        }
    }

    /// The samples of each function.
    fn by_function(&self, tables: &Tables) -> FxHashMap<Function, Hits> {
        let mut functions = FxHashMap::<Function, Hits>::default();
        for (stack, count) in self.stacks() {
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

    pub(super) fn tree(&self, options: TreeOptions, tables: &Tables) -> CallTree {
        let mut tree = TreeBuilder::new(tables, options);
        let mut stacks: Vec<_> = self.by_process.iter().collect();
        stacks.sort_unstable_by_key(|(key, _)| **key);
        for ((process, stack), samples) in stacks {
            tree.add(*process, *stack, None, *samples);
        }
        tree.add_left_out(*self.by_process.left_out());
        tree.finish()
    }
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
struct Hits {
    own: u64,
    total: u64,
    /// The last stack counted in `total`, so that recursion counts once.
    last: Option<StackId>,
}

impl Hits {
    fn row(self, function: Function, maker: RowMaker<'_>) -> FunctionRow {
        let Function { module, name, range_only } = function;
        let module_kind = maker.module_kind(module);
        FunctionRow {
            function: name.map_or_else(|| UNNAMED.to_owned(), |name| maker.string(name)),
            range_only,
            module: maker.module_path(module),
            kernel: module_kind.is_kernel(),
            module_kind,
            self_samples: self.own,
            total: self.total,
        }
    }
}

fn function_key(row: &FunctionRow) -> (String, String) {
    (row.function.clone(), row.module.clone())
}

/// The function of a frame.
pub(super) fn function(frame: FrameId, tables: &Tables) -> Function {
    let row = tables.frame(frame);
    Function { module: row.module, name: row.function, range_only: row.range_only }
}
