//! Why names are missing, and the way to them.

use super::data::{FunctionRow, UnresolvedRow};
use syscollect_model::ModuleKind;

/// Samples show the interpreter, not what it interprets.
pub(super) const PYTHON: &str = "Functions of Python programs are not shown here, only their \
    interpreter's: that takes unwind tables (`--unwind`) and CPython 3.8 to 3.13 (3.14 untested). \
    Where it was built with probes (`syscollect probes list` with its path says so), \
    `--zone python:function__entry..function__return` shows them, and makes them slower.";
const GENERATED: &str = "Code without a file is made while its program runs (JIT compilers). It \
    has names where the program lists them: node with `--perf-basic-prof`, Java where it is \
    recorded with `--jvm`, .NET with `DOTNET_PerfMapEnabled=1`.";
const STRIPPED: &str = "A file without names was stripped. Where its debug files are there, \
    `syscollect symbolize CAPTURE --symbols DIR` adds their names, and with `--debuginfod` it asks \
    the servers of DEBUGINFOD_URLS for them; else install its debug symbols and look again, or build \
    it with them.";
/// Follows the one above.
const PACKAGES: &str = "The packages in brackets have these symbols. Those in -dbgsym lie in an archive \
    of their own (debian-debug, or Ubuntu's ddebs).";

const CUT_OFF: &str = "This recording was cut off before its end, where names and build ids of \
    what was mapped last are found. A file without a build id gets no names afterwards. Another \
    without names was stripped: where its debug files are there, `syscollect symbolize CAPTURE \
    --symbols DIR` adds their names.";

/// A timer cannot look into code that interrupts are off in.
pub(super) const TIMER: &str = "Samples follow a timer, as `doctor` says: what ran with interrupts \
    off, such as the scheduler, a driver or a wakeup, is counted where they came on again, in \
    `finish_task_switch`, `_raw_spin_unlock_irqrestore` and others like them. Who called these \
    says what it was.";
/// Functions of the kernel at whose ends interrupts come on.
const LATE: [&str; 4] = [
    "finish_task_switch",
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "irqentry_exit_to_user_mode",
];

/// Whether it is a function that samples of a timer are late in.
pub(super) fn is_late(row: &FunctionRow) -> bool {
    let plain = row.function.split('.').next().unwrap_or_default();
    row.kernel && LATE.contains(&plain)
}

/// With fewer samples of it an interpreter may not have come to a program's functions yet.
const FEW: u64 = 10;

/// Whether the heart of CPython is among the functions, and none of a program's own.
pub(super) fn lacks_python(rows: &[FunctionRow]) -> bool {
    rows.iter().any(|row| runs_python(row) && row.total >= FEW)
        && !rows.iter().any(|row| row.module_kind == ModuleKind::Python)
}

fn runs_python(row: &FunctionRow) -> bool {
    row.function.starts_with("_PyEval_EvalFrame")
}

/// What to do about code without names, of a recording that came to its end or not.
pub(super) fn of_unnamed(
    rows: &[UnresolvedRow],
    complete: bool,
) -> impl Iterator<Item = &'static str> {
    let generated = rows.iter().any(is_generated);
    // The kernel and what it maps into programs have no file that could be stripped, and nothing
    // installs symbols for one in memory.
    let stripped = rows.iter().any(|row| !is_generated(row) && row.module_kind.is_file());
    let of_files = if complete { STRIPPED } else { CUT_OFF };
    let packages = rows.iter().any(|row| !row.debug_package.is_empty());
    let hints = [(generated, GENERATED), (stripped, of_files), (packages, PACKAGES)];
    hints.into_iter().filter(|(applies, _)| *applies).map(|(_, hint)| hint)
}

/// Whether a program made it while it ran, as code of no mapping is taken to be.
fn is_generated(row: &UnresolvedRow) -> bool {
    row.module.is_empty() || row.module_kind == ModuleKind::Generated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_code_without_names_has_its_hint_once() {
        fn row(module: &str, module_kind: ModuleKind) -> UnresolvedRow {
            UnresolvedRow { module: module.into(), module_kind, ..Default::default() }
        }
        fn hints(rows: &[UnresolvedRow]) -> Vec<&'static str> {
            of_unnamed(rows, true).collect()
        }
        use ModuleKind::{File, Generated, Kernel, KernelModule, MemoryFile, Vdso};
        assert_eq!(
            hints(&[row("/a", File), row("", File), row("/b", File)]),
            [GENERATED, STRIPPED]
        );
        assert_eq!(hints(&[row("[anonymous]", Generated)]), [GENERATED]);
        assert_eq!(hints(&[row("/a", File)]), [STRIPPED]);
        let cut_off: Vec<_> = of_unnamed(&[row("/a", File)], false).collect();
        assert_eq!(cut_off, [CUT_OFF], "nobody knows whether it was stripped");
        let packaged = UnresolvedRow { debug_package: "c-dbgsym".into(), ..row("/c", File) };
        assert_eq!(hints(&[packaged]), [STRIPPED, PACKAGES]);
        let without = [Vdso, Kernel, KernelModule, MemoryFile];
        assert!(hints(&without.map(|kind| row("/a", kind))).is_empty());
    }

    #[test]
    fn an_interpreter_whose_functions_are_shown_needs_no_hint() {
        let eval = function_row("_PyEval_EvalFrameDefault", ModuleKind::File);
        let own = function_row("load (io.py)", ModuleKind::Python);
        assert!(lacks_python(std::slice::from_ref(&eval)));
        assert!(
            !lacks_python(&[FunctionRow { total: FEW - 1, ..eval.clone() }]),
            "its first moments"
        );
        assert!(!lacks_python(&[eval, own]));
        assert!(!lacks_python(&[function_row("main", ModuleKind::File)]));
    }

    fn function_row(function: &str, module_kind: ModuleKind) -> FunctionRow {
        FunctionRow { function: function.into(), module_kind, total: FEW, ..FunctionRow::default() }
    }
}
