//! The code that the reference machine runs: functions, their stacks, their samples.

use crate::{FakeMachine, Stacks};
use syscollect_model::{Symbol, SymbolFrame, SymbolTable};

/// Functions, and how many samples hit each of them.
///
/// The first of the two of the kernel is reached by a system call, so its
/// samples have two stacks; `hash` is inlined into `insert`.
pub const FUNCTIONS: [(&str, u64); 12] = [
    ("parse", 58),
    ("hash", 52),
    ("copy_page", 47),
    ("lookup", 43),
    ("compress", 39),
    ("sort::merge", 34),
    ("render_text", 31),
    ("sys_read", 27),
    ("encode", 23),
    ("crc32", 19),
    ("trim", 15),
    ("flush", 12),
];
/// How many of the [`FUNCTIONS`] are compared by name.
pub const TOP: usize = 10;

/// Samples of threads; the figures above add up to as many.
const SAMPLES: u64 = 400;
/// Shares no factor with [`SAMPLES`], so that stepping by it reaches every sample once.
const STEP: u64 = 7;

/// Each function has that many bytes.
const FUNCTION_BYTES: u64 = 0x100;
/// Where a process has the library's code.
const LIBRARY: u64 = 0x7f00_0000_0000;
/// Where each program has its own.
const PROGRAM: u64 = 0x40_0000;
const KERNEL: u64 = 0xffff_ffff_8100_0000;
const LIBRARY_PATH: &str = "/usr/lib/libwork.so";
const KERNEL_PATH: &str = "[kernel.kallsyms]";
/// Offset of `main`, and where a call of it returns to.
const MAIN: u64 = 0x100;
const RETURNS: u64 = MAIN + 0x50;
/// Kernel functions that the samples do not hit, behind those that they do.
const SCHEDULE: u64 = 20;
const IDLE_LOOP: u64 = 21;

/// Numbers of the stacks.
pub(super) struct Code {
    /// By CPU and function.
    samples: [Vec<Stacks>; 2],
    /// Where the worker blocks.
    pub(super) blocks: Stacks,
    idles: u32,
}

fn in_kernel(function: usize) -> bool {
    matches!(FUNCTIONS[function].0, "copy_page" | "sys_read")
}

/// Where a function begins in its module, a place for `main` left before the first.
fn start(function: u64) -> u64 {
    (function + 2) * FUNCTION_BYTES
}

impl Code {
    /// Tells the machine which code there is.
    pub(super) fn new(machine: &mut FakeMachine) -> Self {
        define(machine);
        let processes = [super::SERVER[0], super::BUILD[0]];
        let samples = [0, 1].map(|cpu: u16| {
            let pid = processes[usize::from(cpu)];
            (0..FUNCTIONS.len()).map(|function| sample_stack(machine, cpu, pid, function)).collect()
        });
        let user = machine.sched_stack(
            0,
            1,
            super::SERVER[0],
            &[LIBRARY + start(3) + 8, PROGRAM + RETURNS],
        );
        let kernel =
            machine.sched_stack(0, 1, 0, &[KERNEL + start(SCHEDULE) + 4, KERNEL + start(7) + 0x21]);
        let idles = machine.sample_stack(0, 1, 0, &[KERNEL + start(IDLE_LOOP) + 4]);
        Self { samples, blocks: Stacks { user, kernel }, idles }
    }

    /// The sample of that number, 0 to 399, of a thread.
    pub(super) fn sample(
        &self,
        machine: &mut FakeMachine,
        cpu: u16,
        us: u64,
        tid: u32,
        number: u64,
    ) {
        let function = function_of(number * STEP % SAMPLES);
        machine.sample(cpu, us, tid, self.samples[usize::from(cpu)][function], 0);
    }

    /// A sample of the first CPU while it idles.
    pub(super) fn idle_sample(&self, machine: &mut FakeMachine, us: u64) {
        machine.sample(0, us, super::IDLE, Stacks { user: 0, kernel: self.idles }, 0);
    }
}

/// Which function a place in the row of all samples belongs to.
fn function_of(place: u64) -> usize {
    let mut left = place;
    for (function, (_, samples)) in FUNCTIONS.iter().enumerate() {
        if left < *samples {
            return function;
        }
        left -= samples;
    }
    unreachable!("the samples of all functions are {SAMPLES}")
}

fn sample_stack(machine: &mut FakeMachine, cpu: u16, pid: u32, function: usize) -> Stacks {
    let hit = start(function as u64) + 0x10;
    let caller = PROGRAM + RETURNS;
    if in_kernel(function) {
        let kernel = machine.sample_stack(cpu, 1, 0, &[KERNEL + hit, KERNEL + start(7) + 0x21]);
        let user = machine.sample_stack(cpu, 1, pid, &[LIBRARY + start(3) + 8, caller]);
        return Stacks { user, kernel };
    }
    Stacks { user: machine.sample_stack(cpu, 1, pid, &[LIBRARY + hit, caller]), kernel: 0 }
}

fn define(machine: &mut FakeMachine) {
    for (pid, path) in [(super::SERVER[0], "/usr/bin/server"), (super::BUILD[0], "/usr/bin/build")]
    {
        machine.mapping(pid, PROGRAM, PROGRAM + 0x10_0000, 0, path);
        machine.mapping(pid, LIBRARY, LIBRARY + 0x10_0000, 0, LIBRARY_PATH);
        let symbols = vec![symbol(RETURNS - 1, MAIN, &["main"])];
        machine.symbols(SymbolTable { path: path.into(), symbols, ..SymbolTable::default() });
    }
    let user = (0..FUNCTIONS.len()).filter(|function| !in_kernel(*function));
    let mut library: Vec<Symbol> = user.map(|function| hit(0, function)).collect();
    library.push(symbol(start(3) + 8, start(3), &["lookup"]));
    library.sort_by_key(|symbol| symbol.offset);
    machine.symbols(SymbolTable {
        path: LIBRARY_PATH.into(),
        symbols: library,
        ..SymbolTable::default()
    });
    let of_kernel = (0..FUNCTIONS.len()).filter(|function| in_kernel(*function));
    let mut kernel: Vec<Symbol> = of_kernel.map(|function| hit(KERNEL, function)).collect();
    kernel.push(symbol(KERNEL + start(7) + 0x20, KERNEL + start(7), &["sys_read"]));
    for (function, name) in [(SCHEDULE, "schedule"), (IDLE_LOOP, "idle_loop")] {
        kernel.push(symbol(KERNEL + start(function) + 4, KERNEL + start(function), &[name]));
    }
    kernel.sort_by_key(|symbol| symbol.offset);
    machine.symbols(SymbolTable {
        path: KERNEL_PATH.into(),
        symbols: kernel,
        ..SymbolTable::default()
    });
}

fn hit(base: u64, function: usize) -> Symbol {
    let (name, start) = (FUNCTIONS[function].0, base + start(function as u64));
    let names: &[&str] = if name == "hash" { &["hash", "insert"] } else { &[name] };
    symbol(start + 0x10, start, names)
}

fn symbol(offset: u64, start: u64, names: &[&str]) -> Symbol {
    let frames = names
        .iter()
        .map(|name| SymbolFrame {
            function: (*name).into(),
            file: format!("src/{name}.rs"),
            line: 7,
        })
        .collect();
    Symbol { offset, start, size: FUNCTION_BYTES, frames, ..Symbol::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_of_one_function() {
        let mut dealt = [0; FUNCTIONS.len()];
        (0..SAMPLES).for_each(|number| dealt[function_of(number * STEP % SAMPLES)] += 1);
        assert_eq!(dealt, FUNCTIONS.map(|(_, samples)| samples));
    }
}
