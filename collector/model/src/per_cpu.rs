//! Something for each CPU.

use crate::lane::{CpuId, MachineId};

/// Linux knows no more CPUs (NR_CPUS at its largest): a larger number is damage, counts as this
/// one, and takes no memory.
pub const MOST_CPUS: u32 = 8192;

/// Something for each CPU that was asked for, and for those of its machine below it.
#[derive(Debug)]
pub struct PerCpu<T> {
    machines: Vec<Vec<T>>,
}

impl<T> Default for PerCpu<T> {
    fn default() -> Self {
        Self { machines: Vec::new() }
    }
}

impl<T> PerCpu<T> {
    /// What there is of a CPU.
    #[inline]
    pub fn get(&self, cpu: CpuId) -> Option<&T> {
        self.machines.get(usize::from(cpu.machine.0))?.get(index(cpu))
    }

    /// What there is of a CPU, made with those below it if it is new.
    #[inline]
    pub fn get_or(&mut self, cpu: CpuId, new: impl Fn() -> T) -> &mut T {
        let (machine, index) = (usize::from(cpu.machine.0), index(cpu));
        if machine >= self.machines.len() {
            self.machines.resize_with(machine + 1, Vec::new);
        }
        let cpus = &mut self.machines[machine];
        if index >= cpus.len() {
            cpus.resize_with(index + 1, new);
        }
        &mut cpus[index]
    }

    /// Those there are, in the order of machines and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &T)> {
        let machines = (0..).map(MachineId).zip(&self.machines);
        machines.flat_map(|(machine, cpus)| {
            (0..).map(move |number| CpuId { machine, number }).zip(cpus)
        })
    }

    /// Those there are, in the order of machines and numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (CpuId, &mut T)> {
        let machines = (0..).map(MachineId).zip(&mut self.machines);
        machines.flat_map(|(machine, cpus)| {
            (0..).map(move |number| CpuId { machine, number }).zip(cpus)
        })
    }
}

#[inline]
fn index(cpu: CpuId) -> usize {
    cpu.number.min(MOST_CPUS - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_one_number_on_two_machines_are_two_and_a_damaged_number_takes_no_memory() {
        let mut counts = PerCpu::default();
        let other = CpuId { machine: MachineId(1), number: 1 };
        for cpu in [CpuId::new(1), other, other, CpuId::new(u32::MAX)] {
            *counts.get_or(cpu, || 0) += 1;
        }
        assert_eq!((counts.get(CpuId::new(1)), counts.get(other)), (Some(&1), Some(&2)));
        assert_eq!(counts.iter().count(), 8192 + 2);
        assert_eq!(counts.get(CpuId { machine: MachineId(2), number: 0 }), None);
    }
}
