//! The tree against a list of all stacks.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Stacks = Vec<(Vec<u8>, StackWeight)>;

fn stacks() -> impl Strategy<Value = Stacks> {
    let weight = (0..4_u64, 0..4_u64);
    let weight = weight.prop_map(|(samples, blocked)| StackWeight { samples, blocked });
    // Keys from 0 to 5; 0 is no function. Few, so that stacks recur and functions call themselves.
    prop::collection::vec((prop::collection::vec(0..6_u8, 0..7), weight), 0..40)
}

fn tree(stacks: &Stacks, most: usize) -> CallTree<u8> {
    let mut builder = CallTreeBuilder::new(most);
    stacks.iter().for_each(|(path, weight)| _ = builder.add(path, *weight));
    builder.finish()
}

/// Keys 1 and 2 are one function.
fn function_of(key: u8) -> Option<u8> {
    match key {
        0 => None,
        2 => Some(1),
        key => Some(key),
    }
}

fn rank(function: u8) -> u8 {
    function % 3
}

fn functions_of(path: &[u8]) -> Vec<u8> {
    path.iter().filter_map(|key| function_of(*key)).collect()
}

/// What each function has: own and all, stack by stack.
fn model(stacks: &Stacks) -> BTreeMap<u8, (StackWeight, StackWeight)> {
    let mut sums = BTreeMap::<u8, (StackWeight, StackWeight)>::new();
    for (path, weight) in stacks.iter().filter(|(_, weight)| !weight.is_nothing()) {
        let functions = functions_of(path);
        let mut distinct = functions.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for function in distinct {
            sums.entry(function).or_default().1.add(*weight);
        }
        // What ends in no function is nobody's own.
        let Some(innermost) = path.last().and_then(|key| function_of(*key)) else { continue };
        let ran = StackWeight { blocked: 0, ..*weight };
        sums.entry(innermost).or_default().0.add(ran);
        let highest = functions.iter().map(|function| rank(*function)).max();
        let waits = functions.iter().rev().find(|function| Some(rank(**function)) == highest);
        let blocked = StackWeight { samples: 0, ..*weight };
        sums.entry(*waits.unwrap()).or_default().0.add(blocked);
    }
    sums
}

fn sums(tree: &CallTree<u8>) -> BTreeMap<u8, (StackWeight, StackWeight)> {
    let functions = tree.functions(function_of, rank);
    functions.into_iter().map(|of| (of.function, (of.own, of.all))).collect()
}

/// All paths from the function's first place in a stack on, inwards or outwards.
fn paths(stacks: &Stacks, function: u8, inwards: bool) -> BTreeMap<Vec<u8>, StackWeight> {
    let mut paths = BTreeMap::<Vec<u8>, StackWeight>::new();
    for (path, weight) in stacks.iter().filter(|(_, weight)| !weight.is_nothing()) {
        let functions = functions_of(path);
        let Some(place) = functions.iter().position(|of| *of == function) else { continue };
        let from: Vec<u8> = match inwards {
            true => functions[place + 1..].to_vec(),
            false => functions[..place].iter().rev().copied().collect(),
        };
        (1..=from.len()).for_each(|length| {
            paths.entry(from[..length].to_vec()).or_default().add(*weight);
        });
    }
    paths
}

/// The same out of lines.
fn paths_of(lines: &[UnfoldedCall<u8>]) -> BTreeMap<Vec<u8>, StackWeight> {
    let mut path = Vec::new();
    let mut paths = BTreeMap::new();
    for line in lines {
        path.truncate(line.depth - 1);
        path.push(line.function);
        assert_eq!(paths.insert(path.clone(), line.weight), None, "no path comes twice");
    }
    paths
}

proptest! {
    #[test]
    fn a_tree_says_what_the_list_of_all_stacks_says(stacks in stacks()) {
        let tree = tree(&stacks, usize::MAX);
        prop_assert_eq!(sums(&tree), model(&stacks));
        for function in [1, 3, 4, 5] {
            let order = |weight: StackWeight| weight.samples;
            let unfolded = tree.unfold(function, function_of, order);
            let all = model(&stacks).get(&function).map_or(StackWeight::default(), |of| of.1);
            prop_assert_eq!(unfolded.all, all);
            prop_assert_eq!(paths_of(&unfolded.callees), paths(&stacks, function, true));
            prop_assert_eq!(paths_of(&unfolded.callers), paths(&stacks, function, false));
        }
    }

    #[test]
    fn whatever_comes_it_has_no_more_places_and_all_that_came_is_counted(
        stacks in stacks(),
        most in 0..20_usize,
    ) {
        let tree = tree(&stacks, most);
        prop_assert!(tree.nodes.len() <= most);
        let mut all = StackWeight::default();
        stacks.iter().for_each(|(_, weight)| all.add(*weight));
        prop_assert_eq!(tree.sum(), all);
        let exact = model(&stacks);
        for (function, (own, of_all)) in sums(&tree) {
            let (exact_own, exact_all) = exact[&function];
            prop_assert!(own.samples <= exact_own.samples && own.blocked <= exact_own.blocked);
            prop_assert!(of_all.samples <= exact_all.samples);
        }
    }
}

#[test]
fn lines_with_most_come_first_and_beneath_what_called_them() {
    let ran = |samples| StackWeight { samples, blocked: 0 };
    let stacks = vec![
        (vec![5, 1, 3], ran(2)),
        (vec![5, 1, 4], ran(7)),
        (vec![5, 1, 4, 3], ran(1)),
        (vec![3, 1], ran(4)),
    ];
    let unfolded = tree(&stacks, 100).unfold(1, function_of, |weight| weight.samples);
    let shown = |lines: &[UnfoldedCall<u8>]| -> Vec<(usize, u8, u64)> {
        lines.iter().map(|line| (line.depth, line.function, line.weight.samples)).collect()
    };
    assert_eq!(unfolded.all.samples, 14);
    assert_eq!(shown(&unfolded.callees), [(1, 4, 8), (2, 3, 1), (1, 3, 2)]);
    assert_eq!(shown(&unfolded.callers), [(1, 5, 10), (1, 3, 4)]);
}
