//! Call trees in words.

use crate::report::data::*;
use crate::report::own_code::{self, Code};
use crate::report::text::printer::Printer;
use crate::report::text::words::{duration, grouped, percent, shortened, shown};
use std::collections::BTreeSet;
use syscollect_model::ModuleKind;

/// Characters that figures take, with the blanks between them: of callees, and of callers, which
/// have no share of their own.
const FIGURES: usize = 40;
const FIGURES_OF_CALLERS: usize = 24;
/// Characters that the functions of a line get at least, and each of them at most.
const LEAST_ROOM: usize = 24;
const NAME: usize = 60;
/// Blanks for each line that a line is below, and the part of a line that they may take.
const INDENT: usize = 2;
const INDENT_SHARE: usize = 3;
/// What stands for functions that there is no room for.
const ELLIPSIS: &str = "…";

/// How a kind of tree is called.
pub(super) struct TreeWords {
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

pub(super) const CPU_SAMPLES: TreeWords = TreeWords {
    title: "CPU samples",
    nothing: "No CPU samples: `--freq` of `record` says how many a second are taken",
    callers: "from the functions that were hit to who called them",
    without_stacks: "None of them has a stack: `--stacks samples` of `record` takes them",
    figure: "samples",
    shown: grouped,
};

pub(super) const OFF_CPU_TIME: TreeWords = TreeWords {
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

pub(super) fn print_tree(tree: &CallTree, words: &TreeWords, linux: bool, out: &mut Printer) {
    let idle = match tree.idle {
        0 => String::new(),
        idle => format!(", without {} of idle threads (--idle)", duration(idle)),
    };
    if tree.nodes.is_empty() {
        return out.title(&format!("{}{idle}", words.nothing));
    }
    let order = match tree.order {
        TreeOrder::Callees => "from each thread's start to what it calls",
        TreeOrder::Callers => words.callers,
    };
    let total = (words.shown)(tree.total);
    out.title(&format!("{}, {order}: {total}{idle}", words.title));
    let mut left_out = format!("Less than {} is left out", (words.shown)(tree.least));
    if tree.is_cut {
        left_out.push_str("; so is more than that, for want of rows or depth");
    }
    out.line(&format!("  {left_out}"));
    // Where all that is deeper is left out nothing is known of it.
    if linux
        && !tree.is_cut
        && !tree
            .nodes
            .iter()
            .any(|node| matches!(node.kind, NodeKind::Function | NodeKind::Truncated))
    {
        out.line(&format!("  {}", words.without_stacks));
    }
    let width = out.width();
    let rows = chains(tree).into_iter().map(|chain| {
        let (total, own) = chain.figures();
        let [total_text, own_text] = [total, own].map(words.shown);
        let [total, own] = [total, own].map(|part| percent(part, tree.total));
        [total_text, total, own_text, own, chain.text(width)]
    });
    match tree.order {
        TreeOrder::Callees => out.table([words.figure, "%", "self", "%", "function"], rows),
        // What ends in a caller is no more than where its thread began.
        TreeOrder::Callers => {
            let rows = rows.map(|[total, share, _, _, name]| [total, share, name]);
            out.table([words.figure, "%", "function"], rows);
        }
    }
}

/// Who slept all the time, where nothing else is to be told of time off the CPU.
pub(super) fn print_who_slept_instead(
    off_cpu: &CallTree,
    asleep: &AsleepThroughout,
    out: &mut Printer,
) {
    if off_cpu.nodes.is_empty()
        && let Some(asleep) = asleep.pointer()
    {
        let but = if off_cpu.idle > 0 { " but idle ones" } else { "" };
        out.paragraph(&format!("No thread{but} blocked and woke in this time; {asleep}"));
    }
}

/// What is between a function and the next.
fn separator(order: TreeOrder) -> &'static str {
    match order {
        TreeOrder::Callees => " > ",
        TreeOrder::Callers => " < ",
    }
}

/// A function of a line.
#[derive(Clone, Debug)]
struct Link<'a> {
    name: String,
    module: &'a str,
    /// The name begins with the module.
    says_module: bool,
    code: Code,
}

/// What a line has room for.
struct Shortening<'a> {
    links: &'a [Link<'a>],
    /// The module of the node above the line.
    module: &'a str,
    separator: &'static str,
    order: TreeOrder,
    /// The first is where a thread began, which is the same for most.
    first_is_start: bool,
    room: usize,
}

impl Shortening<'_> {
    /// The functions in so many characters. Where there is no room for all, the first and the last
    /// ones, which are what the line hangs on and what hangs on it, and the innermost of the
    /// program's own; then others of it, then of its libraries, then the last ones.
    fn text(&self) -> String {
        let all: Vec<usize> = (0..self.links.len()).collect();
        let whole = self.joined(&all, usize::MAX);
        if whole.chars().count() <= self.room || all.len() < 2 {
            return shortened(&whole, self.room);
        }
        let own = self.innermost_own();
        let is_start = self.first_is_start && self.links[0].code == Code::Runtime;
        let first = Some(0).filter(|_| !is_start || own.is_none());
        let mut kept: BTreeSet<usize> =
            [first, own, all.last().copied()].into_iter().flatten().collect();
        if !self.fits(&kept) {
            let kept: Vec<usize> = kept.into_iter().collect();
            return self.squeezed(&kept);
        }
        for code in [Code::Program, Code::Library, Code::Runtime] {
            for place in self.innermost_first().filter(|place| self.links[*place].code == code) {
                let mut more = kept.clone();
                more.insert(place);
                if self.fits(&more) {
                    kept = more;
                } else if code == Code::Runtime {
                    break;
                }
            }
        }
        self.joined(&kept.into_iter().collect::<Vec<_>>(), usize::MAX)
    }

    fn fits(&self, kept: &BTreeSet<usize>) -> bool {
        let kept: Vec<usize> = kept.iter().copied().collect();
        self.joined(&kept, usize::MAX).chars().count() <= self.room
    }

    /// Functions that are too long even alone: the longest are shortened.
    fn squeezed(&self, kept: &[usize]) -> String {
        let lengths = (1..=self.room).rev();
        let mut lines = lengths.map(|longest| self.joined(kept, longest));
        let line = lines.find(|line| line.chars().count() <= self.room);
        line.unwrap_or_else(|| shortened(&self.joined(kept, 1), self.room))
    }

    fn innermost_own(&self) -> Option<usize> {
        let best = self.links.iter().map(|link| link.code).max()?;
        let mut indices = self.innermost_first();
        indices.find(|index| best > Code::Runtime && self.links[*index].code == best)
    }

    fn innermost_first(&self) -> Box<dyn Iterator<Item = usize>> {
        let indices = 0..self.links.len();
        match self.order {
            TreeOrder::Callees => Box::new(indices.rev()),
            TreeOrder::Callers => Box::new(indices),
        }
    }

    /// These, with what is left out between them, each name in so many characters, with their
    /// modules where these change.
    fn joined(&self, kept: &[usize], longest: usize) -> String {
        let mut words = Vec::with_capacity(kept.len());
        let (mut next, mut before) = (0, self.module);
        for place in kept {
            if *place > next {
                words.push(ELLIPSIS.to_owned());
            }
            next = place + 1;
            let Link { name, module, says_module, .. } = &self.links[*place];
            let is_same = module.is_empty() || *module == before || *says_module;
            before = if module.is_empty() { before } else { module };
            words.push(match is_same {
                true => shortened(name, longest),
                false => {
                    let module = shortened(&shown(module), NAME / 2);
                    shortened(&format!("{name} ({module})"), longest)
                }
            });
        }
        words.join(self.separator)
    }
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

fn code_of(node: &TreeNode) -> Code {
    match node.kind {
        NodeKind::Function => own_code::of_function(&node.name, &node.module, node.module_kind),
        _ => Code::Runtime,
    }
}

impl Chain<'_> {
    /// With and without what is below.
    fn figures(&self) -> (u64, u64) {
        let ends = (self.nodes.first(), self.nodes.last());
        (ends.0.map_or(0, |node| node.total), ends.1.map_or(0, |node| node.own))
    }

    /// The functions, indented.
    fn text(&self, width: usize) -> String {
        let figures = match self.order {
            TreeOrder::Callees => FIGURES,
            TreeOrder::Callers => FIGURES_OF_CALLERS,
        };
        let room = width.saturating_sub(figures).max(LEAST_ROOM);
        let most = room / INDENT_SHARE;
        let mut text = " ".repeat((self.level * INDENT).min(most));
        // Deeper lines are told apart by a number.
        if self.level * INDENT > most {
            text.push_str(&format!("[{}] ", self.level));
        }
        let room = room.saturating_sub(text.chars().count());
        let shortening = Shortening {
            links: &self.links(),
            module: self.module,
            separator: separator(self.order),
            order: self.order,
            first_is_start: self.order == TreeOrder::Callees && self.level <= 1,
            room,
        };
        text + &shortening.text()
    }

    /// What its nodes are called.
    fn links(&self) -> Vec<Link<'_>> {
        self.nodes
            .iter()
            .map(|node| {
                let module = module_of(node);
                // Code without a name is called by its module already.
                let says_module =
                    node.name.strip_prefix(module).is_some_and(|rest| rest.starts_with("+0x"));
                Link { name: self.name_of(node), module, says_module, code: code_of(node) }
            })
            .collect()
    }

    fn name_of(&self, node: &TreeNode) -> String {
        match node.kind {
            NodeKind::Wait => format!("[waits: {}]", node.name),
            NodeKind::Process if self.order == TreeOrder::Callers => {
                format!("{} (process)", shortened(&shown(&node.name), NAME))
            }
            _ => shortened(&shown(&node.name), NAME),
        }
    }
}
