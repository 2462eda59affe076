//! Why names are missing, and the way to them.

use super::data::{FunctionRow, UnresolvedRow};
use syscollect_model::Module;

/// Samples show the interpreter, not what it interprets.
pub(super) const PYTHON: &str = "Functions of Python programs are not shown here, only their \
    interpreter's: that takes Linux 6.1, unwind tables (`--unwind`) and CPython 3.8 to 3.14. Where it \
    was built with probes (`syscollect probes list` with its path says so), \
    `--zone python:function__entry..function__return` shows them, and makes them slower.";
const GENERATED: &str = "Code without a file is made while its program runs (JIT compilers). It has \
    names where the program lists them: node with `--perf-basic-prof`, Java after \
    `jcmd PID Compiler.perfmap` before the recording ends, .NET with `DOTNET_PerfMapEnabled=1`.";
/// What memory for code without a file is called.
const ANONYMOUS: &str = "[anonymous]";
const STRIPPED: &str = "A file without names was stripped. Where its debug files are there, \
    `syscollect symbolize CAPTURE --symbols DIR` adds their names; else install its debug symbols \
    and look again, or build it with them.";

/// A timer cannot look into code that interrupts are off in.
pub(super) const TIMER: &str = "Samples follow a timer, as `doctor` says: what ran with interrupts \
    off, such as the scheduler, a driver or a wakeup, is counted where they came on again, in \
    `finish_task_switch`, `_raw_spin_unlock_irqrestore` and others like them. Who called these says \
    what it was.";
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

/// Whether the heart of CPython is among the functions, and none of a program's own.
pub(super) fn lacks_python<'a>(rows: impl Iterator<Item = &'a FunctionRow> + Clone) -> bool {
    rows.clone().any(|row| row.function.starts_with("_PyEval_EvalFrame"))
        && !rows.clone().any(|row| row.module == Module::PYTHON)
}

/// What to do about code without names.
pub(super) fn of_unnamed(rows: &[UnresolvedRow]) -> impl Iterator<Item = &'static str> {
    let generated = rows.iter().any(|row| ["", ANONYMOUS].contains(&&*row.module));
    // The kernel and what it maps into programs have no file that could be stripped.
    let stripped = rows.iter().any(|row| is_installed(&row.module));
    let hints = [(generated, GENERATED), (stripped, STRIPPED)];
    hints.into_iter().filter(|(applies, _)| *applies).map(|(_, hint)| hint)
}

/// Whether it is a file that symbols can be installed for, and not one in memory.
fn is_installed(module: &str) -> bool {
    module.starts_with('/') && !module.starts_with("/memfd:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_code_without_names_has_its_hint_once() {
        let row = |module: &str| UnresolvedRow { module: module.into(), ..Default::default() };
        let hints = |modules: &[&str]| -> Vec<&str> {
            of_unnamed(&modules.iter().map(|module| row(module)).collect::<Vec<_>>()).collect()
        };
        assert_eq!(hints(&["/a", "", "/b"]), [GENERATED, STRIPPED]);
        assert_eq!(hints(&["[anonymous]"]), [GENERATED]);
        assert_eq!(hints(&["/a"]), [STRIPPED]);
        assert!(hints(&["[vdso]", "[kernel.kallsyms]"]).is_empty());
    }

    #[test]
    fn an_interpreter_whose_functions_are_shown_needs_no_hint() {
        let row = |function: &str, module: &str| FunctionRow {
            function: function.into(),
            module: module.into(),
            ..FunctionRow::default()
        };
        let eval = row("_PyEval_EvalFrameDefault", "/usr/bin/python3.11");
        let own = row("load (io.py)", Module::PYTHON);
        assert!(lacks_python([&eval].into_iter()));
        assert!(!lacks_python([&eval, &own].into_iter()));
        assert!(!lacks_python([&row("main", "/bin/a")].into_iter()));
    }
}
