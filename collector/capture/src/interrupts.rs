//! Where the kernel counts interrupts, for programs that must tell what a task
//! did from what an interrupt did in its place (`bpf/include/interrupt.h`).

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};

use syscollect_untrusted_files::FixedPath;

use crate::arch::{HOT, PREEMPT_COUNT, PREEMPT_COUNT_IN_HOT};
use crate::hexadecimal::hexadecimal;
use crate::{bpf_attempts, btf};

/// Stands in the programs for the variable's address: `COUNT_MARK` of `bpf/include/interrupt.h`.
const MARK: u64 = 0x5ca1_ab1e_0ddb_a115;
/// The instruction that loads 64 bits (Documentation/bpf/standardization/instruction-set.rst), and
/// what the upper half of its registers' byte says when these are the type number of a variable.
const LOAD_64_BITS: u8 = 0x18;
const VARIABLE: u8 = 3 << 4;

/// How the program reaches this CPU's `preempt_count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreemptCount {
    /// No way is known: everything looks as if a task did it.
    Unknown,
    /// A variable of this type number, and the count that many bytes into it.
    Variable { id: u32, offset: u64 },
    /// The address of the table of the CPUs' memory, and the count's place in each.
    Address { table: u64, offset: u64 },
}

/// Constants of the programs that read the count.
pub(crate) struct CountConstants {
    /// COUNT_WAY
    pub(crate) way: u32,
    /// COUNT_OFFSET
    pub(crate) offset: u64,
    /// CPU_OFFSETS
    pub(crate) table: u64,
}

impl PreemptCount {
    /// The cheapest way that this kernel takes.
    ///
    /// A kernel that describes the variable, but refuses it, does not list where it lies either.
    /// Those of 5.10 describe none; their list of symbols, which is long, has the addresses.
    pub(crate) fn of_this_kernel() -> Self {
        Self::variable(PREEMPT_COUNT, 0)
            .or_else(|| Self::variable(HOT, PREEMPT_COUNT_IN_HOT))
            .or_else(|| addresses(FixedPath::new("/proc/kallsyms").open().ok()?))
            .unwrap_or(Self::Unknown)
    }

    fn variable(name: &str, offset: u64) -> Option<PreemptCount> {
        let id = btf::id_in_kernel(name, btf::VARIABLE).ok()?;
        let accepted = bpf_attempts::load_with_variable(id).is_ok();
        Some(if accepted { Self::Variable { id, offset } } else { Self::Unknown })
    }

    /// What the program's constants are.
    pub(crate) fn constants(self) -> CountConstants {
        match self {
            Self::Unknown => CountConstants { way: 0, offset: 0, table: 0 },
            Self::Variable { offset, .. } => CountConstants { way: 1, offset, table: 0 },
            Self::Address { table, offset } => CountConstants { way: 2, offset, table },
        }
    }

    /// The object whose programs find the variable, if that is the way: its type number takes the
    /// mark's place. aya has no such relocation.
    pub(crate) fn written_into(self, object: &[u8]) -> Cow<'_, [u8]> {
        let Self::Variable { id, .. } = self else { return Cow::Borrowed(object) };
        let (low, high) = (MARK as u32, (MARK >> 32) as u32);
        let mut object = object.to_vec();
        // Sections of instructions begin at multiples of 8.
        for at in (0..object.len().saturating_sub(15)).step_by(8) {
            let instruction = &mut object[at..at + 16];
            if instruction[0] == LOAD_64_BITS
                && instruction[1] >> 4 == 0
                && instruction[4..8] == low.to_le_bytes()
                && instruction[12..16] == high.to_le_bytes()
            {
                instruction[1] |= VARIABLE;
                instruction[4..8].copy_from_slice(&id.to_le_bytes());
                instruction[12..16].fill(0);
            }
        }
        Cow::Owned(object)
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
        let (found, within) = match name {
            "__per_cpu_offset" => (&mut table, 0),
            PREEMPT_COUNT => (&mut offset, 0),
            HOT => (&mut offset, PREEMPT_COUNT_IN_HOT),
            _ => continue,
        };
        let address = hexadecimal(address).filter(|address| *address != 0);
        *found = address.map(|address| address + within);
        if let (Some(table), Some(offset)) = (table, offset) {
            return Some(PreemptCount::Address { table, offset });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committed_object;

    #[test]
    fn the_addresses_are_those_that_the_kernel_shows() {
        let symbols = "000000000001a0c0 A __preempt_count\nffffffff82a0 D __per_cpu_offset_not\n\
                       ffffffff82b0 D __per_cpu_offset\n";
        let expected = PreemptCount::Address { table: 0xffff_ffff_82b0, offset: 0x1a0c0 };
        assert_eq!(addresses(symbols.as_bytes()), Some(expected));
        let hidden = "0000000000000000 A __preempt_count\n0000000000000000 D __per_cpu_offset\n";
        assert_eq!(addresses(hidden.as_bytes()), None, "hidden addresses are none");
    }

    #[test]
    fn the_variable_takes_the_place_of_the_mark_and_of_nothing_else() {
        let object = [load(MARK, 1), load(MARK + 1, 2), load(MARK, 3)].concat();
        let variable = PreemptCount::Variable { id: 77, offset: 8 };
        let expected = [load(77, 0x31), load(MARK + 1, 2), load(77, 0x33)].concat();
        assert_eq!(variable.written_into(&object), expected);
        assert_eq!(PreemptCount::Unknown.written_into(&object), object);
        for ours in [&committed_object::SYSCOLLECT, &committed_object::OLDER] {
            let ours = ours.bytes();
            assert_ne!(variable.written_into(&ours), ours, "the object has the mark");
        }
    }

    fn load(mark: u64, registers: u8) -> Vec<u8> {
        let mut instruction = [LOAD_64_BITS, registers, 0, 0, 0, 0, 0, 0].to_vec();
        instruction[4..].copy_from_slice(&(mark as u32).to_le_bytes());
        instruction.extend([0; 4]);
        instruction.extend(((mark >> 32) as u32).to_le_bytes());
        instruction
    }
}
