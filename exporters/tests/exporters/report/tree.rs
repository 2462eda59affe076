//! Call trees: what has a total, what is its own, what is left out, and what says that it is cut.

use super::*;
use crate::scenario::IDLE;
use proptest::prelude::*;
use syscollect_exporters::report::{CallTree, CallTrees, NodeKind, TreeOptions, TreeOrder};
use syscollect_model::{BuildId, FrameId, Module, ModuleId, ModuleKind, Sample, StackCut};

/// All that there is, in this order.
fn everything(order: TreeOrder) -> TreeOptions {
    TreeOptions { order, least_ppm: 0, ..TreeOptions::default() }
}

fn with_trees(scenario: &Scenario, tree: TreeOptions) -> Report {
    let options = ReportOptions { tree: Some(tree), ..ReportOptions::default() };
    report_with(scenario, options, &session(), &[])
}

fn trees(scenario: &Scenario, tree: TreeOptions) -> CallTrees {
    with_trees(scenario, tree).trees.unwrap()
}

/// The nodes as lines: indented by their depth, with total and self.
fn lines(tree: &CallTree) -> Vec<String> {
    tree.nodes
        .iter()
        .map(|node| format!("{}{} {} {}", " ".repeat(node.depth), node.name, node.total, node.own))
        .collect()
}

/// Two programs, of which code and the kernel's are known.
struct Code {
    scenario: Scenario,
    a: ThreadId,
    b: ThreadId,
}

impl Code {
    fn new() -> Self {
        let (mut scenario, a, b) = two_programs();
        let (program, kernel) = (scenario.name("/bin/a"), scenario.name("[kernel.kallsyms]"));
        let build_id = BuildId::default;
        scenario.tables.modules = vec![
            Module { path: program, build_id: build_id(), kind: ModuleKind::File },
            Module { path: kernel, build_id: build_id(), kind: ModuleKind::Kernel },
        ];
        Self { scenario, a, b }
    }

    /// Functions innermost first; those of the kernel begin with `k:`.
    fn frames(&mut self, functions: &[&str]) -> Vec<FrameId> {
        let mut frames = Vec::new();
        for (offset, name) in functions.iter().enumerate() {
            let (module, name) = match name.strip_prefix("k:") {
                Some(name) => (ModuleId(1), name),
                None => (ModuleId(0), *name),
            };
            frames.push(self.scenario.frame(Some(module), offset as u64, Some(name)));
        }
        frames
    }

    fn stack(&mut self, functions: &[&str]) -> StackId {
        let frames = self.frames(functions);
        self.scenario.tables.intern_stack(&frames)
    }

    /// A stack that lacks its outer frames.
    fn cut_stack(&mut self, functions: &[&str], cut: StackCut) -> StackId {
        let mut frames = self.frames(functions);
        frames.push(self.scenario.tables.truncation(cut));
        self.scenario.tables.intern_stack(&frames)
    }

    fn samples(&mut self, thread: ThreadId, stack: Option<StackId>, times: u64) {
        for _ in 0..times {
            let sample = Sample { cpu: CpuId::new(0), thread, stack, in_kernel: false };
            self.scenario.at(0, Event::Sample(sample));
        }
    }

    /// The thread sleeps so for 10 us, from this microsecond on.
    fn sleeps(&mut self, at: u64, thread: ThreadId, functions: &[&str]) {
        let stack = Some(self.stack(functions));
        let off_cpu = OffCpu { state: SLEEPS, stack, ..off() };
        self.scenario.switches_off(at, 0, thread, off_cpu, IDLE);
        self.scenario.interrupt_wakes(at + 10, 0, IDLE, thread);
        self.scenario.switches(at + 10, 0, IDLE, SleepState::Runnable, thread);
    }
}

/// Samples of two programs: 4 in a leaf, 2 in what calls it, 3 of a cut stack, 1 without any.
fn sampled() -> Code {
    let mut code = Code::new();
    let (leaf, inner) =
        (code.stack(&["leaf", "walk", "walk", "main"]), code.stack(&["walk", "main"]));
    let cut = code.cut_stack(&["leaf", "step"], StackCut::NoTableYet);
    let (a, b) = (code.a, code.b);
    code.samples(a, Some(leaf), 4);
    code.samples(a, Some(inner), 2);
    code.samples(b, Some(cut), 3);
    code.samples(b, None, 1);
    code
}

#[test]
fn a_tree_from_the_threads_start_has_what_each_function_calls() {
    let cpu = trees(&sampled().scenario, everything(TreeOrder::Callees)).cpu;
    let expected = [
        "a 6 0",
        " main 6 0",
        // It calls itself, which makes it no second node.
        "  walk 6 2",
        "   leaf 4 4",
        "b 4 0",
        " [truncated: no unwind table yet] 3 0",
        "  step 3 0",
        "   leaf 3 3",
        " [no stack] 1 1",
    ];
    assert_eq!(
        (lines(&cpu), cpu.total, cpu.is_cut),
        (expected.map(str::to_owned).into(), 10, false)
    );
    let kinds: Vec<_> = cpu.nodes.iter().map(|node| node.kind).collect();
    assert_eq!((kinds[0], kinds[5]), (NodeKind::Process, NodeKind::Truncated));
}

#[test]
fn a_tree_from_the_functions_that_were_hit_has_who_called_them() {
    let cpu = trees(&sampled().scenario, everything(TreeOrder::Callers)).cpu;
    let expected = [
        "leaf 7 0",
        " walk 4 0",
        "  main 4 0",
        "   a 4 4",
        " step 3 0",
        "  [truncated: no unwind table yet] 3 0",
        "   b 3 3",
        "walk 2 0",
        " main 2 0",
        "  a 2 2",
        "[no stack] 1 0",
        " b 1 1",
    ];
    assert_eq!(lines(&cpu), expected);
}

#[test]
fn what_is_small_or_deep_or_beyond_the_rows_is_left_out() {
    let large = cpu_tree(TreeOptions { least_ppm: 400_000, ..TreeOptions::default() });
    assert_eq!(lines(&large), ["a 6 0", " main 6 0", "  walk 6 2", "   leaf 4 4", "b 4 0"]);
    assert_eq!((large.least, large.is_cut), (4, false), "as was asked for");
    let flat = cpu_tree(TreeOptions { depth: 1, ..everything(TreeOrder::Callees) });
    assert_eq!((lines(&flat), flat.is_cut), (vec!["a 6 0".to_owned(), "b 4 0".to_owned()], true));
    let few = cpu_tree(TreeOptions { nodes: 4, ..everything(TreeOrder::Callees) });
    assert_eq!(lines(&few), ["a 6 0", " main 6 0", "  walk 6 2", "b 4 0"], "those with the most");
    assert!(few.is_cut);
}

fn cpu_tree(options: TreeOptions) -> CallTree {
    trees(&sampled().scenario, options).cpu
}

#[test]
fn time_off_the_cpu_ends_in_what_was_waited_for() {
    let mut code = Code::new();
    let (a, b) = (code.a, code.b);
    let futex = ["k:schedule", "k:futex_do_wait", "k:do_syscall_64"];
    code.scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    code.sleeps(10, a, &[&futex[..], &["pthread_mutex_lock", "main"]].concat());
    code.sleeps(20, a, &["k:io_schedule", "k:ext4_read", "main"]);
    code.sleeps(30, a, &["k:schedule", "k:ep_poll", "epoll_wait", "main"]);
    code.sleeps(40, b, &["k:schedule", "k:worker_thread", "k:kthread"]);
    let off_cpu = trees(&code.scenario, everything(TreeOrder::Callees)).off_cpu;
    let expected = [
        "a 20000 0",
        " main 20000 0",
        // What the kernel does for a lock says no more than that it is one.
        "  pthread_mutex_lock 10000 0",
        "   lock 10000 10000",
        "  ext4_read 10000 0",
        "   io_schedule 10000 0",
        "    I/O 10000 10000",
    ];
    assert_eq!(
        (lines(&off_cpu), off_cpu.total, off_cpu.idle),
        (expected.map(str::to_owned).into(), 20_000, 20_000)
    );
    let all = TreeOptions { idle: true, ..everything(TreeOrder::Callers) };
    let all = trees(&code.scenario, all).off_cpu;
    let roots: Vec<_> = all.nodes.iter().filter(|node| node.depth == 0).collect();
    let names: Vec<_> = roots.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["lock", "I/O", "events (epoll, poll, select)", "kernel work"]);
    assert_eq!((all.total, all.idle), (40_000, 0));
}

#[test]
fn trees_are_of_the_processes_that_were_asked_for() {
    let process = Some("b".parse().unwrap());
    let tree = Some(everything(TreeOrder::Callees));
    let options = ReportOptions { process, tree, ..ReportOptions::default() };
    let report = report_with(&sampled().scenario, options, &session(), &[]);
    let cpu = report.trees.unwrap().cpu;
    assert_eq!((cpu.total, cpu.nodes[0].name.as_str()), (4, "b"));
}

#[test]
fn lines_fold_what_calls_one_function_alone() {
    let report = with_trees(&sampled().scenario, TreeOptions::default());
    let text = report.tree_text(100);
    let tree = text.split("CPU samples").nth(1).unwrap();
    let expected = ", from each thread's start to what it calls: 10
  Less than 1 is left out
  samples     %  self     %  function
        6  60.0     0   0.0  a
        6  60.0     2  20.0    main (a) > walk
        4  40.0     4  40.0      leaf
        4  40.0     0   0.0  b
        3  30.0     3  30.0    [truncated: no unwind table yet] > step (a) > leaf
        1  10.0     1  10.0    [no stack]

No time off the CPU
";
    assert_eq!(tree, expected);
    let callers = with_trees(&sampled().scenario, everything(TreeOrder::Callers)).tree_text(100);
    assert!(callers.contains("  4  40.0    walk < main < a (process)\n"), "{callers}");
}

#[test]
fn a_recording_without_stacks_says_so_and_how_to_take_them() {
    let mut code = Code::new();
    let a = code.a;
    code.samples(a, None, 3);
    let text = with_trees(&code.scenario, TreeOptions::default()).tree_text(100);
    let reported = "None of them has a stack: `--stacks samples` of `record` takes them\n";
    assert!(text.contains(reported), "{text}");
    let text = with_trees(&sampled().scenario, TreeOptions::default()).tree_text(100);
    assert!(!text.contains("has a stack"), "some have: {text}");
    let flat = TreeOptions { depth: 1, ..TreeOptions::default() };
    let text = with_trees(&sampled().scenario, flat).tree_text(100);
    assert!(!text.contains("has a stack"), "they are deeper: {text}");
}

#[test]
fn code_that_is_called_by_its_module_does_not_name_it_twice() {
    let mut code = Code::new();
    let (a, stack) = (code.a, code.stack(&["leaf", "a+0x1230"]));
    code.samples(a, Some(stack), 1);
    let text = with_trees(&code.scenario, TreeOptions::default()).tree_text(100);
    assert!(text.contains("    a+0x1230 > leaf\n"), "{text}");
}

/// A thread that waits for a lock, in functions of the program that are between others.
const LOCKED: [&str; 12] = [
    "k:__schedule",
    "k:schedule",
    "k:futex_do_wait",
    "k:do_futex",
    "__GI___lll_lock_wait",
    "___pthread_mutex_lock",
    "std::mutex::lock()",
    "update_table(int)",
    "worker(int)",
    "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(int), int> > >::_M_run()",
    "start_thread",
    "clone3",
];

#[test]
fn of_lines_that_are_too_long_the_programs_own_functions_are_left() {
    let mut code = Code::new();
    let a = code.a;
    code.sleeps(0, a, &LOCKED);
    let report = with_trees(&code.scenario, everything(TreeOrder::Callees));
    let callees = line_of_lock(&report, 110);
    let shown = "  … > worker(int) (a) > update_table(int) > … > [waits: lock]";
    assert!(callees.ends_with(shown), "{callees}");
    let report = with_trees(&code.scenario, everything(TreeOrder::Callers));
    let callers = line_of_lock(&report, 110);
    let shown = "[waits: lock] < … < update_table(int) (a) < worker(int) < … < a (process)";
    assert!(callers.ends_with(shown), "{callers}");
    for order in [TreeOrder::Callees, TreeOrder::Callers] {
        let report = with_trees(&code.scenario, everything(order));
        let [narrow, wide, widest] = [90, 200, 500].map(|width| line_of_lock(&report, width));
        assert!(narrow.contains("update_table(int)"), "{narrow}");
        assert!(wide.contains("___pthread_mutex_lock"), "{wide}");
        assert!(!widest.contains(" … "), "{widest}");
    }
}

/// What the tree has of a wait for a lock, without its share.
fn line_of_lock(report: &Report, width: usize) -> String {
    let text = report.tree_text(width);
    let line = text.lines().find(|line| line.contains("[waits: lock]")).unwrap();
    line.split_once('%').map_or(line, |(_, line)| line).to_owned()
}

#[test]
fn deep_trees_and_long_names_keep_to_the_width() {
    let mut code = Code::new();
    let names: Vec<String> =
        (0..60).map(|number| format!("{number}{}\u{1b}", "long ".repeat(9))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let a = code.a;
    for depth in 1..=names.len() {
        let stack = code.stack(&names[names.len() - depth..]);
        code.samples(a, Some(stack), 1);
    }
    for order in [TreeOrder::Callees, TreeOrder::Callers] {
        let report = with_trees(&code.scenario, everything(order));
        for width in [60, 100, 200] {
            let text = report.tree_text(width);
            let trees = text.split("CPU samples").nth(1).unwrap();
            let wide: Vec<_> = trees.lines().filter(|line| line.chars().count() > width).collect();
            assert!(wide.is_empty() && !text.contains('\u{1b}'), "wider than {width}: {wide:#?}");
        }
    }
}

proptest! {
    #[test]
    fn a_node_has_its_own_and_what_is_below_it(
        stacks in prop::collection::vec((prop::collection::vec(0..4usize, 0..8), 1..5u64), 1..20),
        callers in any::<bool>(),
        nodes in 1..40usize,
    ) {
        let mut code = Code::new();
        let (a, b) = (code.a, code.b);
        let mut all = 0;
        for (index, (functions, times)) in stacks.iter().enumerate() {
            let names: Vec<&str> =
                functions.iter().map(|number| ["f", "g", "h", "k:i"][*number]).collect();
            let stack = (!names.is_empty()).then(|| code.stack(&names));
            code.samples([a, b][index % 2], stack, *times);
            all += times;
        }
        let order = if callers { TreeOrder::Callers } else { TreeOrder::Callees };
        let whole = trees(&code.scenario, everything(order)).cpu;
        prop_assert!(!whole.is_cut && whole.total == all);
        let mut below = vec![0; whole.nodes.len()];
        let (mut path, mut roots) = (Vec::new(), 0);
        for (index, node) in whole.nodes.iter().enumerate() {
            path.truncate(node.depth);
            prop_assert_eq!(path.len(), node.depth, "a node comes behind the one above it");
            match path.last() {
                Some(above) => below[*above] += node.total,
                None => roots += node.total,
            }
            path.push(index);
        }
        prop_assert_eq!(roots, all);
        for (node, below) in whole.nodes.iter().zip(below) {
            prop_assert_eq!(node.total, node.own + below);
        }
        // Of fewer nodes there are those with the most.
        let options = TreeOptions { nodes, ..everything(order) };
        let few = trees(&code.scenario, options).cpu;
        prop_assert_eq!(few.nodes.len(), nodes.min(whole.nodes.len()));
        prop_assert_eq!(few.is_cut, nodes < whole.nodes.len());
        let mut totals: Vec<_> = whole.nodes.iter().map(|node| node.total).collect();
        totals.sort_unstable_by(|one, other| other.cmp(one));
        let least = few.nodes.iter().map(|node| node.total).min();
        prop_assert_eq!(least, totals.get(few.nodes.len() - 1).copied());
    }
}
