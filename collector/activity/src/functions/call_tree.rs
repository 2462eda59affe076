//! Stacks with what is counted of them, as a tree of bounded size: who called whom, and how much of
//! it was in whom.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::hash::Hash;

/// What is counted of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackWeight {
    /// Samples: it ran.
    pub samples: u64,
    /// Ticks: it was blocked.
    pub blocked: u64,
}

impl StackWeight {
    fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.blocked = self.blocked.saturating_add(other.blocked);
    }

    /// Whether there is nothing of either.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A place in a tree: something that was called from its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node<K> {
    key: K,
    /// `u32::MAX` of a root. A parent stands before its children.
    parent: u32,
    /// Of stacks that end here.
    own: StackWeight,
}

/// Stacks, each from its outermost frame on, with those that begin alike together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTree<K> {
    nodes: Vec<Node<K>>,
    /// Of stacks for which there was no room.
    others: StackWeight,
    other_stacks: u64,
}

/// Makes a tree of so many places at most.
#[derive(Debug)]
pub struct CallTreeBuilder<K> {
    tree: CallTree<K>,
    children: FxHashMap<(u32, K), u32>,
    most: usize,
}

impl<K: Copy + Eq + Hash> CallTreeBuilder<K> {
    /// Of so many places at most.
    pub fn new(most: usize) -> Self {
        let tree = CallTree { nodes: Vec::new(), others: StackWeight::default(), other_stacks: 0 };
        Self { tree, children: FxHashMap::default(), most }
    }

    /// Adds a stack, outermost first, and says at which place it ends. One for which there is no
    /// room is counted among the others: those with most should come first.
    pub fn add(&mut self, path: &[K], weight: StackWeight) -> Option<u32> {
        let Self { tree, children, most } = self;
        let mut at = u32::MAX;
        let mut known = 0;
        while let Some(child) = path.get(known).and_then(|key| children.get(&(at, *key))) {
            at = *child;
            known += 1;
        }
        let new = &path[known..];
        if path.is_empty() || tree.nodes.len() + new.len() > *most {
            tree.others.add(weight);
            tree.other_stacks += 1;
            return None;
        }
        for key in new {
            let number = tree.nodes.len() as u32;
            tree.nodes.push(Node { key: *key, parent: at, own: StackWeight::default() });
            children.insert((at, *key), number);
            at = number;
        }
        tree.nodes[at as usize].own.add(weight);
        Some(at)
    }

    /// The tree.
    pub fn finish(self) -> CallTree<K> {
        let mut tree = self.tree;
        tree.nodes.shrink_to_fit();
        tree
    }
}

/// What there is of a function in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionWeight<F> {
    /// The function.
    pub function: F,
    /// Of the function itself.
    pub own: StackWeight,
    /// With all that it called; once, however often it stands in a stack.
    pub all: StackWeight,
}

/// A line of an unfolded tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfoldedCall<F> {
    /// How far it is from the function that is unfolded, from 1.
    pub depth: usize,
    /// The function.
    pub function: F,
    /// Of what the unfolded function has, what goes through here.
    pub weight: StackWeight,
}

impl<K: Copy + Eq + Hash> CallTree<K> {
    /// What there was no room for, and how many stacks that was.
    pub fn others(&self) -> (StackWeight, u64) {
        (self.others, self.other_stacks)
    }

    /// What it takes beyond itself, bytes.
    pub fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<K>>()
    }

    /// Places that stacks lead through.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.nodes.iter().map(|node| node.key)
    }

    /// The tree without the roots that are not `wanted`, and what is called from them.
    pub fn within(&self, wanted: impl Fn(K) -> bool) -> Self {
        let mut numbers = vec![u32::MAX; self.nodes.len()];
        let mut nodes: Vec<Node<K>> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = match numbers.get(node.parent as usize) {
                Some(&u32::MAX) => continue,
                Some(parent) => *parent,
                None if wanted(node.key) => u32::MAX,
                None => continue,
            };
            numbers[index] = nodes.len() as u32;
            nodes.push(Node { parent, ..*node });
        }
        Self { nodes, others: StackWeight::default(), other_stacks: 0 }
    }

    /// All together.
    pub fn sum(&self) -> StackWeight {
        let mut sum = self.others;
        self.nodes.iter().for_each(|node| sum.add(node.own));
        sum
    }

    /// Of each place what it has with all that stands behind it.
    fn totals(&self) -> Vec<StackWeight> {
        let mut totals: Vec<StackWeight> = self.nodes.iter().map(|node| node.own).collect();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let total = totals[index];
            if let Some(parent) = totals.get_mut(node.parent as usize) {
                parent.add(total);
            }
        }
        totals
    }

    /// A place and what it was called from, innermost first.
    fn outwards(&self, from: usize) -> impl Iterator<Item = usize> {
        let parent = |at: &usize| {
            let parent = self.nodes[*at].parent as usize;
            (parent < self.nodes.len()).then_some(parent)
        };
        std::iter::successors(Some(from), parent)
    }

    /// In which function a stack that ends at a place is blocked: the innermost one of the highest
    /// rank.
    pub fn blocked_in<F: Copy>(
        &self,
        place: u32,
        function_of: impl Fn(K) -> Option<F>,
        rank: impl Fn(F) -> u8,
    ) -> Option<F> {
        self.nodes.get(place as usize)?;
        let frames = self.outwards(place as usize);
        innermost(frames.filter_map(|at| function_of(self.nodes[at].key)), rank)
    }

    /// What there is of each function, in no order. What is called by no function (`None`) is none:
    /// a process, say.
    ///
    /// What ran counts as the innermost function's own. What was blocked counts as that of the
    /// innermost one of the highest `rank`: all that blocks stands in the scheduler.
    pub fn functions<F: Copy + Eq + Hash>(
        &self,
        function_of: impl Fn(K) -> Option<F>,
        rank: impl Fn(F) -> u8,
    ) -> Vec<FunctionWeight<F>> {
        let named: Vec<Option<F>> = self.nodes.iter().map(|node| function_of(node.key)).collect();
        let mut sums = FxHashMap::<F, FunctionWeight<F>>::default();
        let of = |function| FunctionWeight {
            function,
            own: StackWeight::default(),
            all: StackWeight::default(),
        };
        for (index, total) in self.totals().into_iter().enumerate() {
            let own = self.nodes[index].own;
            let Some(function) = named[index] else { continue };
            let is_outermost =
                self.outwards(index).skip(1).all(|outer| named[outer] != Some(function));
            if is_outermost && !total.is_nothing() {
                sums.entry(function).or_insert_with(|| of(function)).all.add(total);
            }
            if own.samples > 0 {
                let ran = StackWeight { blocked: 0, ..own };
                sums.entry(function).or_insert_with(|| of(function)).own.add(ran);
            }
            if own.blocked > 0 {
                let frames = self.outwards(index).filter_map(|at| named[at]);
                let best = innermost(frames, &rank).unwrap_or(function);
                let blocked = StackWeight { samples: 0, ..own };
                sums.entry(best).or_insert_with(|| of(best)).own.add(blocked);
            }
        }
        sums.into_values().collect()
    }

    /// Who called a function, and what it called: each as lines of a tree, those with most first by
    /// `order`.
    pub fn unfold<F: Copy + Eq + Hash>(
        &self,
        function: F,
        function_of: impl Fn(K) -> Option<F>,
        order: impl Fn(StackWeight) -> u64,
    ) -> UnfoldedCalls<F> {
        let named: Vec<Option<F>> = self.nodes.iter().map(|node| function_of(node.key)).collect();
        let [mut callers, mut callees] =
            [(); 2].map(|()| CallTreeBuilder::<F>::new(self.nodes.len().max(1)));
        let mut all = StackWeight::default();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, n)| !n.own.is_nothing()) {
            let path: Vec<usize> = self.outwards(index).collect();
            // A function that calls itself is unfolded once, from where it was called first.
            let Some(place) = path.iter().rposition(|at| named[*at] == Some(function)) else {
                continue;
            };
            all.add(node.own);
            let inner: Vec<F> = path[..place].iter().rev().filter_map(|at| named[*at]).collect();
            let outer: Vec<F> = path[place + 1..].iter().filter_map(|at| named[*at]).collect();
            if !inner.is_empty() {
                callees.add(&inner, node.own);
            }
            if !outer.is_empty() {
                callers.add(&outer, node.own);
            }
        }
        let [callers, callees] = [callers, callees].map(|tree| tree.finish().lines(&order));
        UnfoldedCalls { all, callers, callees }
    }

    /// As lines, from the roots on, those with most first.
    fn lines(&self, order: &impl Fn(StackWeight) -> u64) -> Vec<UnfoldedCall<K>> {
        let totals = self.totals();
        let mut children = vec![Vec::new(); self.nodes.len() + 1];
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = (node.parent as usize).min(self.nodes.len());
            children[parent].push(index);
        }
        // Those with most are taken off last, so they are put there first.
        let sorted = |mut of: Vec<usize>| {
            of.sort_by_key(|index| (order(totals[*index]), Reverse(*index)));
            of
        };
        let roots = std::mem::take(&mut children[self.nodes.len()]);
        let mut waiting: Vec<_> = sorted(roots).into_iter().map(|index| (1, index)).collect();
        let mut lines = Vec::new();
        while let Some((depth, index)) = waiting.pop() {
            let (function, weight) = (self.nodes[index].key, totals[index]);
            lines.push(UnfoldedCall { depth, function, weight });
            let of = sorted(std::mem::take(&mut children[index]));
            waiting.extend(of.into_iter().map(|index| (depth + 1, index)));
        }
        lines
    }
}

/// Of functions from the innermost on the first of the highest rank.
fn innermost<F: Copy>(frames: impl Iterator<Item = F>, rank: impl Fn(F) -> u8) -> Option<F> {
    let mut best = None;
    for function in frames {
        let rank = rank(function);
        if best.is_none_or(|(_, highest)| rank > highest) {
            best = Some((function, rank));
        }
    }
    best.map(|(function, _)| function)
}

/// A function, with who called it and what it called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldedCalls<F> {
    /// What it has with all that it called.
    pub all: StackWeight,
    /// Who called it, who called these, and so on.
    pub callers: Vec<UnfoldedCall<F>>,
    /// What it called, and what that called.
    pub callees: Vec<UnfoldedCall<F>>,
}

#[cfg(test)]
#[path = "call_tree_tests.rs"]
mod tests;
