//! Where the kernel counts interrupts, for a program that must tell what a task
//! did from what an interrupt did in its place.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::support::btf;

/// Stands in the program for the variable's address: `COUNT_MARK` of bpf/src/tracepoints.bpf.c.
const MARK: u64 = 0x5ca1_ab1e_0ddb_a115;
/// Where `preempt_count` lies in `struct pcpu_hot` (arch/x86/include/asm/current.h of 6.2 to 6.14).
const OFFSET_IN_HOT: u64 = 8;

/// How the program reaches this CPU's `preempt_count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreemptCount {
    /// No way is known: everything looks as if a task did it.
    Unknown,
    /// A variable of this type number, and the count that many bytes into it.
    Variable { id: u32, offset: u64 },
    /// The address of the table of the CPUs' memory, and the count's place in each.
    Address { table: u64, offset: u64 },
}

impl PreemptCount {
    /// The ways that may work here, the cheapest first; the last always works.
    ///
    /// Kernels of 5.10 do not describe variables of CPUs, so they are found by their addresses.
    pub(super) fn ways() -> Vec<Self> {
        let variable = |name: &str, offset| {
            let id = btf::id_in_kernel(name, btf::VARIABLE).ok()?;
            Some(Self::Variable { id, offset })
        };
        let described =
            variable("__preempt_count", 0).or_else(|| variable("pcpu_hot", OFFSET_IN_HOT));
        let mut ways: Vec<Self> = described.into_iter().collect();
        ways.extend(File::open("/proc/kallsyms").ok().and_then(addresses));
        ways.push(Self::Unknown);
        ways
    }

    /// What the program's constants COUNT_WAY, COUNT_OFFSET and CPU_OFFSETS are.
    pub(super) fn constants(self) -> (u32, u64, u64) {
        match self {
            Self::Unknown => (0, 0, 0),
            Self::Variable { offset, .. } => (1, offset, 0),
            Self::Address { table, offset } => (2, offset, table),
        }
    }

    /// What stands for the variable in the program, and its type number.
    pub(super) fn variable(self) -> Option<(u64, u32)> {
        match self {
            Self::Variable { id, .. } => Some((MARK, id)),
            Self::Unknown | Self::Address { .. } => None,
        }
    }
}

/// Whether the kernel's list of symbols shows where it counts interrupts.
pub(crate) fn shows_count(symbols: impl Read) -> bool {
    addresses(symbols).is_some()
}

/// Both addresses, if the kernel shows them.
fn addresses(symbols: impl Read) -> Option<PreemptCount> {
    let (mut table, mut offset) = (None, None);
    for line in BufReader::new(symbols).lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let (Some(address), Some(name)) = (words.next(), words.nth(1)) else { continue };
        let found = match name {
            "__per_cpu_offset" => &mut table,
            "__preempt_count" => &mut offset,
            _ => continue,
        };
        *found = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0);
        if let (Some(table), Some(offset)) = (table, offset) {
            return Some(PreemptCount::Address { table, offset });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_those_that_the_kernel_shows() {
        let symbols = "000000000001a0c0 A __preempt_count\nffffffff82a0 D __per_cpu_offset_not\nffffffff82b0 D __per_cpu_offset\n";
        let expected = PreemptCount::Address { table: 0xffff_ffff_82b0, offset: 0x1a0c0 };
        assert_eq!(addresses(symbols.as_bytes()), Some(expected));
        let hidden = "0000000000000000 A __preempt_count\n0000000000000000 D __per_cpu_offset\n";
        assert_eq!(addresses(hidden.as_bytes()), None, "hidden addresses are none");
        assert_eq!(PreemptCount::ways().last(), Some(&PreemptCount::Unknown));
    }
}
