//! Functions, from samples.

use crate::report::data::*;
use crate::report::hints;
use crate::report::text::printer::Printer;
use crate::report::text::words::{grouped, percent, shown, some_of};
use syscollect_model::{ModuleKind, SampleEvent};

/// Modules whose stacks are cut that are told.
const CUTS: usize = 5;

pub(super) fn print_functions(
    functions: &Functions,
    sample_event: &SampleEvent,
    out: &mut Printer,
) {
    let Functions {
        samples,
        kernel_samples,
        idle_samples,
        without_stack,
        truncated,
        truncated_in,
        lacks_python,
        by_self,
        by_total,
    } = functions;
    if samples + idle_samples == 0 {
        return;
    }
    let [samples_text, kernel, idle] =
        [samples, kernel_samples, idle_samples].map(|count| grouped(*count));
    out.title(&format!(
        "Functions: {samples_text} samples, {kernel} of them in the kernel ({idle} of idle \
         CPUs are left out)"
    ));
    if *without_stack > 0 {
        out.line(&format!("  {} have no stack and are in no row", grouped(*without_stack)));
    }
    if *truncated > 0 {
        out.line(&format!(
            "  {} ({} %) have a stack that lacks its outer frames",
            grouped(*truncated),
            percent(*truncated, *samples)
        ));
        print_truncated(&truncated_in.rows, out);
    }
    for (order, Table { total, rows }) in [("self", by_self), ("total", by_total)] {
        if rows.is_empty() {
            continue;
        }
        out.title(&some_of(&format!("Functions by {order} samples"), rows.len(), *total));
        let rows = rows.iter().map(|row| {
            let FunctionRow { self_samples, total, kernel, .. } = *row;
            let place = match row.module_kind {
                _ if kernel => "kernel",
                ModuleKind::Python => "python",
                _ => "user",
            };
            let [own, all] = [self_samples, total].map(grouped);
            [
                own,
                percent(self_samples, *samples),
                all,
                percent(total, *samples),
                place.to_owned(),
                function(row),
            ]
        });
        out.table(["self", "%", "total", "%", "code", "function"], rows);
    }
    if *lacks_python {
        out.note(hints::PYTHON);
    }
    if *sample_event == SampleEvent::CpuClock && by_self.rows.iter().any(hints::is_late) {
        out.note(hints::TIMER);
    }
}

/// Where stacks end that lack their outer frames.
pub(super) fn print_truncated(rows: &[TruncatedRow], out: &mut Printer) {
    for TruncatedRow { reason, module, without_table, count } in rows.iter().take(CUTS) {
        let module = if module.is_empty() { "code of no known file".into() } else { shown(module) };
        let why = match without_table.as_str() {
            "" => String::new(),
            why => format!(" (no unwind table: {})", shown(why)),
        };
        out.line(&format!("  {:>10} {reason}: {module}{why}", grouped(*count)));
    }
    let others = rows.get(CUTS..).unwrap_or_default();
    if !others.is_empty() {
        let count = others.iter().map(|row| row.count).sum();
        out.line(&format!("  {:>10} at {} other places", grouped(count), others.len()));
    }
}

/// The function and the file name of its module, which is in the label of a function without a
/// name.
fn function(row: &FunctionRow) -> String {
    let file = row.module.rsplit(['/', '\\']).next().unwrap_or_default();
    match row.module_kind {
        _ if row.range_only => shown(&row.function),
        _ if file.is_empty() => format!("{} (no file)", shown(&row.function)),
        // All plain kernel code has the same module, and Python's functions.
        ModuleKind::Kernel | ModuleKind::Python => shown(&row.function),
        _ => format!("{} ({})", shown(&row.function), shown(file)),
    }
}
