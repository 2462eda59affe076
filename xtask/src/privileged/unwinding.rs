//! User stacks of a program whose chain of calls is known, and in which rbp leads nowhere.

use std::fmt::Write as _;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};

use super::chains::stacks::{Chain, KnownStacks, ProgramStacks, RecordedStacks, StackKind};
use super::context::{Context, number};

/// For so long from its first stack on, tables are made of the code that was not walked before, and
/// stacks are unwound when the recording has stopped; and where all is emulated, and slow.
pub(super) const TABLES_MADE_NS: u64 = 2_000_000_000;
const TABLES_MADE_EMULATED_NS: u64 = 5_000_000_000;
/// Of 1,000 stacks so many are whole.
pub(super) const WHOLE: u64 = 995;
/// And of the first ones: this load's are longer than what is sent of a stack, so that those are
/// cut which come before the tables of its outer functions, more on a busy machine.
const WHOLE_EARLY: u64 = 900;

/// Samples and off-CPU stacks reach `main` through functions without frame pointers, one that
/// aligns its stack, a callback from the C library and a signal handler; and none of them leaves a
/// frame out.
pub(crate) fn unwinding(context: &Context) -> Result<String> {
    let capture = context.path("unwinding.syscap");
    let options = ["--freq", "999", "--stacks", "samples,off-cpu", "--unwind", "tables"];
    let lines = context.record(&capture, &options, &["unwound", "8"])?;
    let line = lines.first().context("the load printed nothing")?;
    let early_ns = if context.is_emulated() { TABLES_MADE_EMULATED_NS } else { TABLES_MADE_NS };
    let program = ProgramStacks::new(number(line, "pid")? as u32, known());
    let recorded = RecordedStacks::read(&capture, early_ns, vec![program])?;
    let program = &recorded.programs[0];
    program.ensure_none_wrong()?;
    let mut summary = String::new();
    for (kind, least) in [(StackKind::Sample, 2_000), (StackKind::OffCpu, 300)] {
        let counts = program.of(kind);
        let least = if context.is_emulated() { least / 10 } else { least };
        write!(summary, "{}{kind}: {counts}", if summary.is_empty() { "" } else { "; " })?;
        // Without CAP_SYS_NICE whoever opens files waits for the load, and an emulated machine is
        // so slow that the load has ended by then.
        if context.is_emulated() && !super::is_root() {
            continue;
        }
        ensure!(counts.all() >= least, "too few {kind}: {counts}");
        ensure!(counts.are_whole(WHOLE), "{kind} that are not whole: {counts}");
        // What an emulated machine takes so long for that its programs send more than is held is
        // another question.
        ensure!(
            context.is_emulated() || counts.early_whole * 1000 >= counts.early * WHOLE_EARLY,
            "{kind} that are not whole before tables were made: {counts}"
        );
    }
    Ok(summary)
}

/// The chain; what its innermost function calls varies.
pub(super) fn known() -> KnownStacks {
    let aligned = std::iter::once("unwound_aligned".to_owned());
    let functions = numbered(0..12).chain(aligned).chain(numbered(12..20)).collect();
    let chain = Chain { functions, called_by: "" };
    KnownStacks {
        chains: vec![chain],
        // The loader runs what libraries begin with before the program's own first function. What
        // is cut in the C library's part below `main` lacks nothing that anybody looks for, and is
        // said to be whole: so end some of those stacks that came before its table.
        roots: &[
            "_start",
            "_dl_start_user",
            "__libc_start_main_impl",
            "__libc_start_call_main",
            "clone",
            "clone3",
        ],
        ..KnownStacks::default()
    }
}

fn numbered(numbers: Range<u32>) -> impl Iterator<Item = String> {
    numbers.map(|number| format!("unwound_{number:02}"))
}
