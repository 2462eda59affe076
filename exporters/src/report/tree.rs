//! Stacks added up to call trees.
//!
//! A tree grows where it has most: of all nodes that could come next, the one with the most is
//! added, and the stacks that pass through it are told apart by what comes next in each. So a tree
//! of so many nodes has those with the most, whatever was recorded, and what is left out takes
//! neither time nor memory. A function that calls itself is one node.

use super::data::{CallTree, NodeKind, TreeNode, TreeOrder};
use super::samples::{Function, UNNAMED, function};
use super::wait_for::{WaitFor, redundant_frames};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use syscollect_model::{FrameId, ProcessId, StackId, Tables};

/// How a tree is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// From where it grows.
    pub order: TreeOrder,
    /// What has a smaller share of all is left out: millionths.
    pub least_ppm: u32,
    /// Nodes from a root down, at most.
    pub depth: usize,
    /// Nodes, at most: those with the most.
    pub nodes: usize,
    /// Time off the CPU of threads that had nothing to do is in it, too.
    pub idle: bool,
}

/// Nodes from a root down that there can be: more than stacks have frames.
pub const MAX_TREE_DEPTH: usize = 1 << 12;

impl Default for TreeOptions {
    fn default() -> Self {
        let (least_ppm, depth) = (10_000, MAX_TREE_DEPTH);
        Self { order: TreeOrder::Callees, least_ppm, depth, nodes: 1000, idle: false }
    }
}

/// A stack of the processes of a name, and how much it stands for.
struct WeighedStack {
    /// Of [`TreeBuilder::processes`].
    process: u32,
    frames: Option<StackId>,
    /// Of these, the innermost that are left out.
    left_out: usize,
    /// What was waited for; `None` is a sample.
    wait: Option<WaitFor>,
    weight: u64,
}

/// What makes nodes with the same node above them one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NodeKey {
    Process(u32),
    Function(Function),
    Truncated(FrameId),
    Wait(WaitFor),
    NoStack,
}

/// A stack on its way through the tree.
#[derive(Clone, Copy)]
struct StackCursor {
    /// Of [`TreeBuilder::stacks`].
    stack: u32,
    /// What comes next in it: 0 is where it begins.
    next: u32,
}

/// The stacks that pass through a node that may be added.
struct Branch {
    key: NodeKey,
    above: Option<usize>,
    depth: usize,
    total: u64,
    stacks: Vec<StackCursor>,
}

/// What a stack passes, from the process to what was waited for.
struct StackPath<'a> {
    stack: &'a WeighedStack,
    /// Innermost first.
    frames: &'a [FrameId],
}

impl StackPath<'_> {
    /// How many nodes it is.
    fn len(&self) -> usize {
        let frames = self.frames.len().max(usize::from(self.stack.frames.is_none()));
        1 + frames + usize::from(self.stack.wait.is_some())
    }

    /// The node at this place of the order that is wanted; `None` behind its end.
    fn key(&self, next: u32, builder: &TreeBuilder<'_>) -> Option<NodeKey> {
        let (next, length) = (next as usize, self.len());
        let from_outside = match builder.options.order {
            TreeOrder::Callees => next,
            TreeOrder::Callers => length.checked_sub(next + 1)?,
        };
        if from_outside >= length {
            return None;
        }
        if from_outside == 0 {
            return Some(NodeKey::Process(self.stack.process));
        }
        let innermost = self.stack.wait.filter(|_| from_outside + 1 == length);
        let frame = self.frames.len().checked_sub(from_outside);
        Some(match (innermost, frame) {
            (Some(wait), _) => NodeKey::Wait(wait),
            (None, Some(index)) => builder.frame_key(self.frames[index]),
            (None, None) => NodeKey::NoStack,
        })
    }
}

/// A node that was added.
struct Grown {
    key: NodeKey,
    depth: usize,
    total: u64,
    own: u64,
    below: Vec<usize>,
}

/// Collects stacks and makes a tree of them.
pub(super) struct TreeBuilder<'a> {
    tables: &'a Tables,
    options: TreeOptions,
    processes: Vec<String>,
    process_ids: FxHashMap<String, u32>,
    stack_ids: FxHashMap<(u32, Option<StackId>, Option<WaitFor>), usize>,
    stacks: Vec<WeighedStack>,
    total: u64,
    idle: u64,
}

impl<'a> TreeBuilder<'a> {
    pub(super) fn new(tables: &'a Tables, options: TreeOptions) -> Self {
        Self {
            tables,
            options,
            processes: Vec::new(),
            process_ids: FxHashMap::default(),
            stack_ids: FxHashMap::default(),
            stacks: Vec::new(),
            total: 0,
            idle: 0,
        }
    }

    /// Time that is left out because nobody was held up.
    pub(super) fn add_idle(&mut self, nanoseconds: u64) {
        self.idle = self.idle.saturating_add(nanoseconds);
    }

    pub(super) fn add(
        &mut self,
        process: ProcessId,
        frames: Option<StackId>,
        wait: Option<WaitFor>,
        weight: u64,
    ) {
        let tables = self.tables;
        let process = self.process(&tables.process_name(process));
        self.total = self.total.saturating_add(weight);
        let stacks = &mut self.stacks;
        let index = *self.stack_ids.entry((process, frames, wait)).or_insert_with(|| {
            let left_out = match (frames, wait) {
                (Some(stack), Some(wait)) => redundant_frames(wait, tables.stack(stack), tables),
                _ => 0,
            };
            stacks.push(WeighedStack { process, frames, left_out, wait, weight: 0 });
            stacks.len() - 1
        });
        let stack = &mut self.stacks[index];
        stack.weight = stack.weight.saturating_add(weight);
    }

    /// What there was no room for.
    pub(super) fn add_left_out(&mut self, weight: u64) {
        if weight > 0 {
            let process = self.process("[more stacks than a report keeps]");
            self.total = self.total.saturating_add(weight);
            let (frames, left_out, wait) = (None, 0, None);
            self.stacks.push(WeighedStack { process, frames, left_out, wait, weight });
        }
    }

    fn process(&mut self, name: &str) -> u32 {
        if let Some(id) = self.process_ids.get(name) {
            return *id;
        }
        let id = self.processes.len() as u32;
        self.processes.push(name.to_owned());
        self.process_ids.insert(name.to_owned(), id);
        id
    }

    /// The tree of what was added.
    pub(super) fn finish(self) -> CallTree {
        let share = u128::from(self.total) * u128::from(self.options.least_ppm);
        let least = u64::try_from(share.div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1);
        let (grown, is_cut) = self.grow(least);
        CallTree {
            order: self.options.order,
            total: self.total,
            idle: self.idle,
            least,
            is_cut,
            nodes: self.in_order(&grown),
        }
    }

    /// The nodes, each behind the one above it, and whether some with as much as `least` lack.
    fn grow(&self, least: u64) -> (Vec<Grown>, bool) {
        let (mut grown, mut is_cut) = (Vec::<Grown>::new(), false);
        let mut waiting = WaitingBranches::default();
        let all = 0..self.stacks.len() as u32;
        let all: Vec<_> = all.map(|stack| StackCursor { stack, next: 0 }).collect();
        let (roots, _) = self.branches(&all, None, 0);
        waiting.add(roots, least);
        while let Some(branch) = waiting.next() {
            if grown.len() >= self.options.nodes {
                is_cut = true;
                break;
            }
            let index = grown.len();
            let (below, own) = self.branches(&branch.stacks, Some(index), branch.depth + 1);
            let Branch { key, above, depth, total, .. } = branch;
            grown.push(Grown { key, depth, total, own, below: Vec::new() });
            if let Some(above) = above {
                grown[above].below.push(index);
            }
            if depth + 1 < self.options.depth {
                waiting.add(below, least);
            } else {
                is_cut |= below.iter().any(|branch| branch.total >= least);
            }
        }
        (grown, is_cut)
    }

    /// The stacks by what comes next in them, and the weight of those that have ended.
    fn branches(
        &self,
        stacks: &[StackCursor],
        above: Option<usize>,
        depth: usize,
    ) -> (Vec<Branch>, u64) {
        let (mut branches, mut own) = (Vec::<Branch>::new(), 0u64);
        let mut ids = FxHashMap::<NodeKey, usize>::default();
        for StackCursor { stack: index, next } in stacks.iter().copied() {
            let stack = &self.stacks[index as usize];
            let path = self.path(stack);
            let Some(key) = path.key(next, self) else {
                own = own.saturating_add(stack.weight);
                continue;
            };
            let again = (next + 1..).take_while(|next| path.key(*next, self) == Some(key)).count();
            let id = *ids.entry(key).or_insert_with(|| {
                branches.push(Branch { key, above, depth, total: 0, stacks: Vec::new() });
                branches.len() - 1
            });
            let branch = &mut branches[id];
            branch.total = branch.total.saturating_add(stack.weight);
            branch.stacks.push(StackCursor { stack: index, next: next + 1 + again as u32 });
        }
        (branches, own)
    }

    fn path<'b>(&'b self, stack: &'b WeighedStack) -> StackPath<'b> {
        let frames = stack.frames.map_or(&[][..], |id| &self.tables.stack(id)[stack.left_out..]);
        StackPath { stack, frames }
    }

    fn frame_key(&self, frame: FrameId) -> NodeKey {
        match self.tables.is_truncation(frame) {
            true => NodeKey::Truncated(frame),
            false => NodeKey::Function(function(frame, self.tables)),
        }
    }

    /// The nodes with what is below each behind it. A tree may be too deep for recursion.
    fn in_order(&self, grown: &[Grown]) -> Vec<TreeNode> {
        // Nodes were added by their totals, the largest first: so those below one are in order.
        let mut next: Vec<usize> =
            (0..grown.len()).filter(|index| grown[*index].depth == 0).rev().collect();
        let mut nodes = Vec::with_capacity(grown.len());
        while let Some(index) = next.pop() {
            nodes.push(self.node(&grown[index]));
            next.extend(grown[index].below.iter().rev());
        }
        nodes
    }

    fn node(&self, grown: &Grown) -> TreeNode {
        let Grown { key, depth, total, own, .. } = *grown;
        let tables = self.tables;
        let mut node = TreeNode { depth, total, own, ..TreeNode::default() };
        (node.kind, node.name) = match key {
            NodeKey::Process(id) => (NodeKind::Process, self.processes[id as usize].to_owned()),
            NodeKey::Truncated(frame) => (NodeKind::Truncated, tables.frame_label(frame)),
            NodeKey::Wait(wait) => (NodeKind::Wait, wait.name().to_owned()),
            NodeKey::NoStack => (NodeKind::Unknown, "[no stack]".to_owned()),
            NodeKey::Function(Function { module, name, .. }) => {
                if let Some(module) = module.map(|module| tables.module(module)) {
                    node.module = tables.strings.get(module.path).to_owned();
                    node.kernel = module.kind.is_kernel();
                    node.module_kind = module.kind;
                }
                let name = name.map_or(UNNAMED, |name| tables.strings.get(name));
                (NodeKind::Function, name.to_owned())
            }
        };
        node
    }
}

/// Branches that may be added, the one with the most first, of equals the one that came first.
#[derive(Default)]
struct WaitingBranches {
    order: BinaryHeap<(u64, Reverse<usize>)>,
    branches: Vec<Option<Branch>>,
}

impl WaitingBranches {
    /// Adds those with as much as `least`.
    fn add(&mut self, branches: Vec<Branch>, least: u64) {
        for branch in branches.into_iter().filter(|branch| branch.total >= least) {
            self.order.push((branch.total, Reverse(self.branches.len())));
            self.branches.push(Some(branch));
        }
    }

    fn next(&mut self) -> Option<Branch> {
        let (_, Reverse(index)) = self.order.pop()?;
        self.branches[index].take()
    }
}
