//! Call trees in words.

use super::columns::{duration, grouped, percent, shortened};
use super::data::*;
use super::text::{Text, shown};
use syscollect_model::{ModuleKind, OperatingSystem};

/// Characters that figures take, with the blanks between them.
const FIGURES: usize = 40;
/// Characters that the functions of a line get at least, and each of them at most.
const LEAST_ROOM: usize = 24;
const NAME: usize = 60;
/// Blanks for each line that a line is below, and the part of a line that they may take.
const INDENT: usize = 2;
const INDENT_SHARE: usize = 3;
/// What stands for functions that there is no room for.
const ELLIPSIS: &str = "…";

impl Report {
    /// The call trees as text in lines of `width` characters.
    pub fn tree_text(&self, width: usize) -> String {
        let mut out = Text { text: String::new(), width };
        out.head(self);
        let trees = self.trees.clone().unwrap_or_default();
        let linux = self.recording.os != OperatingSystem::Windows;
        out.tree(&trees.cpu, &CPU_SAMPLES, linux);
        out.tree(&trees.off_cpu, &OFF_CPU_TIME, linux);
        if trees.off_cpu.nodes.is_empty()
            && let Some(asleep) = self.off_cpu.asleep_throughout.pointer()
        {
            let but = if trees.off_cpu.idle > 0 { " but idle ones" } else { "" };
            out.paragraph(&format!("No thread{but} blocked and woke in this time; {asleep}"));
        }
        out.text
    }
}

/// How a kind of tree is called.
struct TreeWords {
    title: &'static str,
    /// When there is nothing of it.
    nothing: &'static str,
    /// The order from the inside.
    callers: &'static str,
    /// When none of it has a stack, of a recording of this program's.
    without_stacks: &'static str,
    /// What a node has.
    figure: &'static str,
    shown: fn(u64) -> String,
}

const CPU_SAMPLES: TreeWords = TreeWords {
    title: "CPU samples",
    nothing: "No CPU samples: `--freq` of `record` says how many a second are taken",
    callers: "from the functions that were hit to who called them",
    without_stacks: "None of them has a stack: `--stacks samples` of `record` takes them",
    figure: "samples",
    shown: grouped,
};

const OFF_CPU_TIME: TreeWords = TreeWords {
    title: "Off-CPU time",
    nothing: "No time off the CPU",
    callers: "from what was waited for to who waited",
    without_stacks: "None of it has a stack: `--stacks off-cpu` of `record` takes them",
    figure: "time",
    shown: duration,
};

/// A line of the tree: a function, and those below it as long as each calls only the next, but for
/// less than what is left out.
struct Chain<'a> {
    nodes: &'a [TreeNode],
    order: TreeOrder,
    /// Lines that it is below.
    level: usize,
    /// The module of the node above it.
    module: &'a str,
}

impl Text {
    fn tree(&mut self, tree: &CallTree, words: &TreeWords, linux: bool) {
        let idle = match tree.idle {
            0 => String::new(),
            idle => format!(", without {} of idle threads (--idle)", duration(idle)),
        };
        if tree.nodes.is_empty() {
            return self.title(&format!("{}{idle}", words.nothing));
        }
        let order = match tree.order {
            TreeOrder::Callees => "from each thread's start to what it calls",
            TreeOrder::Callers => words.callers,
        };
        let total = (words.shown)(tree.total);
        self.title(&format!("{}, {order}: {total}{idle}", words.title));
        let mut left_out = format!("Less than {} is left out", (words.shown)(tree.least));
        if tree.is_cut {
            left_out.push_str("; so is more than that, for want of rows or depth");
        }
        self.line(&format!("  {left_out}"));
        let has_stack =
            |node: &TreeNode| matches!(node.kind, NodeKind::Function | NodeKind::Truncated);
        if linux && !tree.nodes.iter().any(has_stack) {
            self.line(&format!("  {}", words.without_stacks));
        }
        let share = |part| percent(part, tree.total);
        let width = self.width;
        let rows = chains(tree).into_iter().map(|chain| {
            let (total, own) = chain.figures();
            let [total_text, own_text] = [total, own].map(words.shown);
            [total_text, share(total), own_text, share(own), chain.text(width)]
        });
        match tree.order {
            TreeOrder::Callees => self.table([words.figure, "%", "self", "%", "function"], rows),
            // What ends in a caller is no more than where its thread began.
            TreeOrder::Callers => {
                let rows = rows.map(|[total, share, _, _, name]| [total, share, name]);
                self.table([words.figure, "%", "function"], rows);
            }
        }
    }
}

/// What is between a function and the next.
fn separator(order: TreeOrder) -> &'static str {
    match order {
        TreeOrder::Callees => " > ",
        TreeOrder::Callers => " < ",
    }
}

/// Names in so many characters: where there is no room for all, the first and the last ones.
fn joined(names: &[String], separator: &str, room: usize) -> String {
    let whole = names.join(separator);
    let Some((first, others)) = names.split_first() else { return whole };
    if whole.chars().count() <= room || others.is_empty() {
        return shortened(&whole, room);
    }
    let first = shortened(first, room / 2);
    let gap = separator.len() + ELLIPSIS.chars().count() + separator.len();
    let mut left = room.saturating_sub(first.chars().count() + gap);
    let mut last: Vec<String> = Vec::new();
    for name in others.iter().rev() {
        let length = name.chars().count();
        if length > left && !last.is_empty() {
            break;
        }
        last.insert(0, shortened(name, left));
        left = left.saturating_sub(length + separator.len());
    }
    let left_out = if last.len() < others.len() { Some(ELLIPSIS.to_owned()) } else { None };
    std::iter::once(first).chain(left_out).chain(last).collect::<Vec<_>>().join(separator)
}

/// The lines, in the order of the nodes.
fn chains(tree: &CallTree) -> Vec<Chain<'_>> {
    let mut chains = Vec::new();
    // For each depth, the line of its last node and that node's module.
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut rest = &tree.nodes[..];
    while let Some(first) = rest.first() {
        let only = rest.windows(2).take_while(|pair| {
            let lost = first.total.saturating_sub(pair[1].total);
            // Nothing that is shown can be beside it then.
            lost < tree.least
                && pair[1].depth == pair[0].depth + 1
                && pair[0].kind != NodeKind::Process
        });
        let length = 1 + only.count();
        let (chain, behind) = rest.split_at(length);
        above.truncate(first.depth);
        let (level, module) = above.last().map_or((0, ""), |(level, module)| (level + 1, module));
        chains.push(Chain { nodes: chain, level, module, order: tree.order });
        above.extend(chain.iter().map(|node| (level, module_of(node))));
        rest = behind;
    }
    chains
}

fn module_of(node: &TreeNode) -> &str {
    match node.module_kind {
        _ if node.kind != NodeKind::Function => "",
        ModuleKind::KernelModule => &node.module,
        ModuleKind::Kernel => "kernel",
        // The function says which file it is of.
        ModuleKind::Python => "",
        _ => node.module.rsplit(['/', '\\']).next().unwrap_or_default(),
    }
}

impl Chain<'_> {
    /// With and without what is below.
    fn figures(&self) -> (u64, u64) {
        let ends = (self.nodes.first(), self.nodes.last());
        (ends.0.map_or(0, |node| node.total), ends.1.map_or(0, |node| node.own))
    }

    /// The functions, indented; where there is no room for all, the first and the last ones.
    fn text(&self, width: usize) -> String {
        let room = width.saturating_sub(FIGURES).max(LEAST_ROOM);
        let most = room / INDENT_SHARE;
        let mut text = " ".repeat((self.level * INDENT).min(most));
        // Deeper lines are told apart by a number.
        if self.level * INDENT > most {
            text.push_str(&format!("[{}] ", self.level));
        }
        let room = room.saturating_sub(text.chars().count());
        text + &joined(&self.names(), separator(self.order), room)
    }

    /// What its nodes are called, with their modules where these change.
    fn names(&self) -> Vec<String> {
        let mut before = self.module;
        let name = |node: &TreeNode| match node.kind {
            NodeKind::Wait => format!("[waits: {}]", node.name),
            NodeKind::Process if self.order == TreeOrder::Callers => {
                format!("{} (process)", shortened(&shown(&node.name), NAME))
            }
            _ => shortened(&shown(&node.name), NAME),
        };
        let named = |node| {
            let module = module_of(node);
            // Code without a name is called by its module already.
            let says_it =
                node.name.strip_prefix(module).is_some_and(|rest| rest.starts_with("+0x"));
            let is_same = module.is_empty() || module == before || says_it;
            before = if module.is_empty() { before } else { module };
            match is_same {
                true => name(node),
                false => format!("{} ({})", name(node), shortened(&shown(module), NAME / 2)),
            }
        };
        self.nodes.iter().map(named).collect()
    }
}
