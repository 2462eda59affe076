//! Who called functions and hit probes.

use crate::report::data::{CallerRow, CallersRow, Table};
use crate::report::text::printer::Printer;
use crate::report::text::stack::StackText;
use crate::report::text::words::{count, grouped, shown};

pub(super) fn print_callers(callers: &Table<CallersRow>, out: &mut Printer) {
    if callers.rows.is_empty() {
        return;
    }
    out.title_of_rows("Callers of functions and probes, most frequent first", callers);
    for CallersRow { name, count: times, stacks } in &callers.rows {
        let ways = count(stacks.total as u64, "stack");
        out.line(&format!("  {}: {} by {ways}", shown(name), grouped(*times)));
        for CallerRow { count, stack } in &stacks.rows {
            out.line(&format!("  {:>9} {}", grouped(*count), share(*count, *times)));
            StackText::below_a_row(stack).print(out);
        }
    }
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / all.max(1) as f64)
}
