//! What is missing: names of code, and records that were lost.

use crate::report::data::*;
use crate::report::hints;
use crate::report::text::printer::Printer;
use crate::report::text::words::{count, duration, grouped, shown};
use syscollect_model::{CpuId, LossCause, OperatingSystem, own_items_text};

pub(super) fn print_unresolved(
    unresolved: &Table<UnresolvedRow>,
    recording: &Recording,
    out: &mut Printer,
) {
    if unresolved.rows.is_empty() {
        return;
    }
    out.title_of_rows("Code without names, by module", unresolved);
    let rows = unresolved.rows.iter().map(|row| {
        let module = if row.module.is_empty() {
            "[no file: generated, or its mapping is missing]".into()
        } else {
            shown(&row.module)
        };
        let module = match row.debug_package.as_str() {
            "" => module,
            package => format!("{module} ({})", shown(package)),
        };
        [grouped(row.samples), duration(row.blocked_ns), grouped(row.places), module]
    });
    out.table(["samples", "asleep", "places", "module"], rows);
    if recording.os != OperatingSystem::Windows {
        let complete = recording.complete;
        hints::of_unnamed(&unresolved.rows, complete).for_each(|hint| out.note(hint));
    }
    recording.refused_lists.iter().for_each(|refused| out.note(&shown(refused)));
}

/// What was lost, in words, if something was: what programs wrote wrong is nobody else's loss.
pub(super) fn lost_text(report: &Report) -> String {
    let own = report.lost_of_own_programs;
    match (report.lost.saturating_sub(own), own) {
        (others, 0) => count(others, "record"),
        (0, own) => own_items_text(own),
        (others, own) => format!("{} and {}", count(others, "record"), own_items_text(own)),
    }
}

pub(super) fn print_losses(report: &Report, out: &mut Printer) {
    if report.lost == 0 {
        return;
    }
    out.title(&format!("Lost: {}", lost_text(report)));
    let rows = report
        .losses
        .iter()
        .filter(|loss| loss.count > 0 && loss.cause != LossCause::Overwritten)
        .map(|loss| {
            let cpu = loss.cpu.map(|number| CpuId { machine: loss.machine, number });
            let cpu = cpu.map_or_else(String::new, |cpu| format!(" of {cpu}"));
            let user = loss.user.map(|user| format!(" of user {user}'s programs"));
            let whose = cpu + &user.unwrap_or_default();
            [
                grouped(loss.count),
                format!("{}{whose}: {}", shown(loss.origin.name()), loss.cause.name()),
            ]
        });
    out.table(["records", "from"], rows);
}
