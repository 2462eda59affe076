//! Code without names, by module.

use super::data::{Table, UnresolvedRow};
use super::off_cpu::OffCpuTimes;
use super::row_maker::RowMaker;
use super::samples::Samples;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use syscollect_model::{BuildId, FrameId, ModuleId, StackId, Tables};

/// A module's code without names.
#[derive(Debug, Default)]
struct Unresolved {
    addresses: FxHashSet<FrameId>,
    samples: u64,
    blocked: u64,
}

/// The modules of code without names, those with the most samples first.
pub(super) fn rows(
    samples: &Samples,
    off_cpu: &OffCpuTimes,
    maker: RowMaker<'_>,
) -> Table<UnresolvedRow> {
    let modules = by_module(samples, off_cpu, maker.tables);
    let rows = modules.into_iter().map(|(module, found)| UnresolvedRow {
        module: maker.module_path(module),
        module_kind: maker.module_kind(module),
        build_id: module
            .map_or_else(BuildId::default, |id| maker.tables.module(id).build_id.clone())
            .to_string(),
        places: found.addresses.len() as u64,
        samples: found.samples,
        blocked_ns: found.blocked,
        debug_package: String::new(),
    });
    maker.table(rows.collect(), |row| {
        (Reverse((row.samples, row.blocked_ns)), row.module.clone(), row.build_id.clone())
    })
}

/// What has no name, but perhaps a range, in the stacks of samples and of blocked threads.
fn by_module(
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
