//! Call trees, from what was summed up.

use crate::report::ReportExporter;
use crate::report::data::{CallTrees, WaitClass};
use crate::report::tree::{TreeBuilder, TreeOptions};
use crate::report::wait_for::WaitsFor;
use syscollect_model::Tables;

impl ReportExporter {
    /// The trees that were asked for.
    pub(in crate::report) fn trees(&self, tables: &Tables) -> Option<CallTrees> {
        let options = self.options.tree?;
        let (cpu, off_cpu) = (self.sample_tree(options, tables), self.wait_tree(options, tables));
        Some(CallTrees { cpu: cpu.finish(), off_cpu: off_cpu.finish() })
    }

    fn sample_tree<'a>(&self, options: TreeOptions, tables: &'a Tables) -> TreeBuilder<'a> {
        let mut tree = TreeBuilder::new(tables, options);
        let mut stacks: Vec<_> = self.samples.by_process.iter().collect();
        stacks.sort_unstable_by_key(|(key, _)| **key);
        for ((process, stack), samples) in stacks {
            tree.add(*process, *stack, None, *samples);
        }
        tree.add_left_out(*self.samples.by_process.left_out());
        tree
    }

    fn wait_tree<'a>(&self, options: TreeOptions, tables: &'a Tables) -> TreeBuilder<'a> {
        let mut tree = TreeBuilder::new(tables, options);
        let mut waits_for = WaitsFor::new(tables);
        let mut waits: Vec<_> = self
            .scheduling
            .off_cpu
            .waits
            .iter()
            .map(|(key, total)| {
                let wait = waits_for.of(key.process, key.stack, key.reason);
                (key.process, key.stack, wait, total.sum)
            })
            .collect();
        waits.sort_unstable();
        for (process, stack, wait, nanoseconds) in waits {
            match wait.class() {
                WaitClass::Idle if !options.idle => tree.add_idle(nanoseconds),
                _ => tree.add(process, stack, Some(wait), nanoseconds),
            }
        }
        tree.add_left_out(self.scheduling.off_cpu.waits.left_out().sum);
        tree
    }
}
