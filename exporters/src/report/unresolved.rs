//! Code without names, by module.

use super::off_cpu::OffCpuTimes;
use super::samples::Samples;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{FrameId, ModuleId, StackId, Tables};

/// A module's code without names.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    pub(super) addresses: FxHashSet<FrameId>,
    pub(super) samples: u64,
    pub(super) blocked: u64,
}

/// What has no name, but perhaps a range, in the stacks of samples and of blocked threads.
pub(super) fn by_module(
    samples: &Samples,
    off_cpu: &OffCpuTimes,
    tables: &Tables,
) -> FxHashMap<Option<ModuleId>, Unresolved> {
    let mut modules = FxHashMap::default();
    for (stack, count) in samples.stacks() {
        each_module(stack, tables, &mut modules, |module| module.samples += count);
    }
    for ((_, stack), total) in off_cpu.stacks.iter() {
        each_module(*stack, tables, &mut modules, |module| {
            module.blocked = module.blocked.saturating_add(total.sum);
        });
    }
    modules
}

/// Adds the stack's addresses without names, and what the stack stands for once per module.
fn each_module(
    stack: StackId,
    tables: &Tables,
    modules: &mut FxHashMap<Option<ModuleId>, Unresolved>,
    add: impl Fn(&mut Unresolved),
) {
    let frames = tables.stack(stack);
    for (depth, frame) in frames.iter().enumerate() {
        if !tables.frame(*frame).is_unnamed() {
            continue;
        }
        let module = tables.frame(*frame).module;
        let row = modules.entry(module).or_default();
        row.addresses.insert(*frame);
        let is_counted = frames[..depth]
            .iter()
            .map(|before| tables.frame(*before))
            .any(|before| before.is_unnamed() && before.module == module);
        if !is_counted {
            add(row);
        }
    }
}
