//! Whose code a function is: the program's own, or what every program has around its own.
//!
//! Where there is no room for all functions of a stack, the program's own say most: the C library's
//! way to wait for a lock is the same in all programs, and who called it is what its author can
//! change. No list of libraries is whole, so what is known to be around is told by name, and the
//! rest of an executable is its program's.

use super::wait_for::of_user_function;
use std::path::Path;
use syscollect_model::{FrameId, ModuleKind, Tables};

/// Whose code it is, in the order in which it tells something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    /// The kernel's, of the C library, of a language's runtime or of its interpreter.
    Runtime,
    /// Of a library, of the interpreted language's own, too.
    Library,
    /// The program's.
    Program,
}

/// How files are called, but for their folders, that have the C library, its threads and loader,
/// and the runtimes of C++ and of compilers; up to a dot or a dash.
const RUNTIME_LIBRARIES: &[&str] = &[
    "libc",
    "libpthread",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgcc_s",
    "libm",
    "librt",
    "libdl",
    "ld",
    "ntdll",
    "kernel32",
    "kernelbase",
    "ucrtbase",
    "msvcp140",
    "vcruntime140",
];
/// Interpreters of which the functions are recorded that they run.
const INTERPRETERS: &[&str] = &["python", "libpython"];

/// How functions of languages' own libraries begin, which are in the executable of the program.
const LANGUAGE: &[&str] = &[
    "std::",
    "core::",
    "alloc::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "__gthread_",
    "std[",
    "core[",
    "alloc[",
    "rust_",
    "__rust_",
    "__rustc",
    // Go
    "runtime.",
    "runtime/",
    "internal/",
    "sync.",
    "sync/",
    "syscall.",
];
/// Folders of languages' own libraries. Of a function that was inlined debug information has the
/// name alone, without what it is in, but it has the file.
const LANGUAGE_FOLDERS: &[&str] =
    &["/library/core/src/", "/library/alloc/src/", "/library/std/src/", "/include/c++/"];
/// The C library's, which are in an executable that is linked with it statically, and the
/// compiler's.
const C_LIBRARY: &[&str] = &[
    "start_thread",
    "clone",
    "clone3",
    "syscall",
    "libc_start_main",
    "libc_start_call_main",
    "libc_start_main_impl",
    "libc_start_main_stage2",
    "libc_csu_init",
    "futex_abstimed_wait_common",
    "futex_abstimed_wait_common64",
    "futex_abstimed_wait_cancelable64",
    "futex_wait_common",
    "futex_wait",
    "futex_lock_pi64",
    "internal_syscall_cancel",
    "syscall_cancel",
    "syscall_cancel_arch",
    "syscall_cp_c",
    "timedwait",
    "timedwait_cp",
    "clock_nanosleep",
    "nanosleep",
];
/// Crates that run a program's own functions, or wait for them.
const CRATES: &[&str] = &[
    "tokio::",
    "futures_",
    "rayon::",
    "rayon_core::",
    "crossbeam_",
    "crossbeam::",
    "parking_lot::",
    "parking_lot_core::",
    "lock_api::",
    "async_std::",
    "async_executor::",
    "mio::",
    "hashbrown::",
];
/// Files of Python's own library that wait for others or call a program's functions, for where only
/// the file's name is known.
const PYTHON_LIBRARY: &[&str] = &[
    "threading.py",
    "queue.py",
    "_base.py",
    "selectors.py",
    "socket.py",
    "socketserver.py",
    "subprocess.py",
    "runpy.py",
    "base_events.py",
    "contextlib.py",
    "ssl.py",
];

/// Whose code a frame is; nobody's where it is a remark on the stack.
pub(super) fn of_frame(frame: FrameId, tables: &Tables) -> Code {
    if tables.is_truncation(frame) {
        return Code::Runtime;
    }
    let row = tables.frame(frame);
    let name = row.function.map_or("", |name| tables.strings.get(name));
    let Some(module) = row.module.map(|module| tables.module(module)) else {
        return of_function(name, "", ModuleKind::Generated);
    };
    match (module.kind, row.file) {
        (ModuleKind::Python, Some(file)) => of_python(tables.strings.get(file)),
        (_, Some(file)) if row.inlined && is_language_file(tables.strings.get(file)) => {
            Code::Runtime
        }
        _ => of_function(name, tables.strings.get(module.path), module.kind),
    }
}

/// Whose code a function is, by its name and its module.
pub(super) fn of_function(name: &str, module: &str, kind: ModuleKind) -> Code {
    match kind {
        ModuleKind::Kernel | ModuleKind::KernelModule | ModuleKind::Vdso => Code::Runtime,
        ModuleKind::Python => {
            let file = name.rsplit_once(" (").and_then(|(_, file)| file.strip_suffix(')'));
            of_python(file.unwrap_or_default())
        }
        ModuleKind::Generated | ModuleKind::DotNet => Code::Program,
        ModuleKind::File | ModuleKind::MemoryFile => {
            of_file(module.rsplit(['/', '\\']).next().unwrap_or_default(), name)
        }
    }
}

fn of_file(file: &str, function: &str) -> Code {
    let lower = file.to_ascii_lowercase();
    let interprets = INTERPRETERS.iter().any(|known| lower.starts_with(known));
    if interprets
        || RUNTIME_LIBRARIES.iter().any(|known| {
            let rest = lower.strip_prefix(*known);
            rest.is_some_and(|rest| rest.starts_with(['.', '-']) && is_library(&lower))
        })
    {
        return Code::Runtime;
    }
    match is_runtime_function(function) {
        true => Code::Runtime,
        false if is_library(&lower) => Code::Library,
        false if CRATES.iter().any(|begin| path_of(function).starts_with(begin)) => Code::Library,
        false => Code::Program,
    }
}

fn is_library(file: &str) -> bool {
    file.ends_with(".so") || file.contains(".so.") || file.ends_with(".dll")
}

fn of_python(file: &str) -> Code {
    let path = Path::new(file);
    let folders: Vec<_> = path.parent().into_iter().flatten().filter_map(|f| f.to_str()).collect();
    // A folder that is called so has the library, if it lies in one for libraries.
    let mut pairs = folders.iter().zip(folders.iter().skip(1));
    let is_library = file.starts_with('<')
        || pairs.any(|(outer, inner)| outer.starts_with("lib") && is_python_library(inner))
        || folders.is_empty() && PYTHON_LIBRARY.contains(&file);
    if is_library { Code::Library } else { Code::Program }
}

fn is_python_library(folder: &str) -> bool {
    let version = folder.strip_prefix("python").or_else(|| folder.strip_prefix("Python"));
    version.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_language_file(file: &str) -> bool {
    LANGUAGE_FOLDERS.iter().any(|folder| file.contains(folder))
}

fn is_runtime_function(function: &str) -> bool {
    let plain = function.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    let plain = plain.split(['@', '.']).next().unwrap_or(plain);
    matches!(function, "_start" | "_start_c")
        || C_LIBRARY.contains(&plain)
        || of_user_function(function).is_some()
        || is_of_language(function)
        || function.starts_with("operator new")
        || function.starts_with("operator delete")
}

fn is_of_language(function: &str) -> bool {
    match function.strip_prefix('<') {
        // `<type as trait>::function`, and `<type>::function`: who implements its own trait, or
        // something for its own type, is no library. Parameters (`T`) and `[T]` say nothing.
        Some(inside) => {
            let inside = within_brackets(inside);
            let (of, by) = inside.split_once(" as ").unwrap_or((inside, inside));
            let [of, by] = [of, by].map(plain_type);
            match (is_silent(of), is_silent(by)) {
                (true, true) => false,
                _ => [of, by].iter().all(|path| is_silent(path) || begins_so(path)),
            }
        }
        None => begins_so(path_of(function)),
    }
}

fn is_silent(path: &str) -> bool {
    !path.contains("::") && !path.contains('[')
}

fn begins_so(path: &str) -> bool {
    LANGUAGE.iter().any(|begin| path.starts_with(begin))
}

/// A type without what points to it.
fn plain_type(path: &str) -> &str {
    let mut path = path.trim();
    for before in ["&", "mut ", "*const ", "*mut ", "dyn ", "("] {
        path = path.strip_prefix(before).unwrap_or(path);
    }
    path
}

/// What stands before the bracket that closes the one before it.
fn within_brackets(text: &str) -> &str {
    let mut depth = 0usize;
    for (place, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // `->` is none.
            '>' if text[..place].ends_with('-') => {}
            '>' if depth == 0 => return &text[..place],
            '>' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The path of a function without parameters and without what C++ says that it returns: templates
/// have it before their names.
fn path_of(function: &str) -> &str {
    let (mut depth, mut begin) = (0usize, 0);
    for (place, c) in function.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !function[..place].ends_with('-') => depth = depth.saturating_sub(1),
            // `(anonymous namespace)::f` has none yet.
            '(' if depth == 0 && place > begin => break,
            ' ' if depth == 0 => begin = place + 1,
            _ => {}
        }
    }
    function.get(begin..).unwrap_or(function)
}

#[cfg(test)]
mod tests {
    use super::Code::*;
    use super::*;

    #[test]
    fn the_programs_own_functions_are_told_from_those_around() {
        let program = "/home/me/target/debug/prog";
        let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        for (name, module, code) in [
            ("update_table", program, Program),
            ("update_table(int)", program, Program),
            ("main", program, Program),
            ("worker", program, Program),
            ("", program, Program),
            ("clone3", libc, Runtime),
            ("__futex_abstimed_wait_common64", libc, Runtime),
            ("wait", "/lib64/ld-linux-x86-64.so.2", Runtime),
            ("png_read_row", "/usr/lib/libpng16.so.16", Library),
            ("sqlite3_step", "/usr/lib/libcrypto.so", Library),
            ("compute", "/usr/bin/ld", Program),
            // Linked statically.
            ("__pthread_mutex_lock", program, Runtime),
            ("__GI___lll_lock_wait", program, Runtime),
            ("start_thread", program, Runtime),
            ("_start", program, Runtime),
            ("__libc_start_call_main", program, Runtime),
            // C++
            ("std::mutex::lock()", program, Runtime),
            (
                "void std::__invoke_impl<void, void (*)(int), int>(std::__invoke_other, void \
                 (*&&)(int), int&&)",
                program,
                Runtime,
            ),
            (
                "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(int), int> > \
                 >::_M_run()",
                program,
                Runtime,
            ),
            ("void mine::apply<std::vector<int>>(std::vector<int>&)", program, Program),
            ("(anonymous namespace)::run()", program, Program),
            // Rust
            ("std::sync::mpmc::array::Channel<T>::send::{{closure}}", program, Runtime),
            ("<std::sync::mpmc::array::Channel<u64>>::send", program, Runtime),
            ("core::ops::function::FnOnce::call_once{{vtable.shim}}", program, Runtime),
            (
                "<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once",
                program,
                Runtime,
            ),
            ("<T as core::convert::Into<U>>::into", program, Runtime),
            ("<prog::Table as core::fmt::Debug>::fmt", program, Program),
            ("<alloc::vec::Vec<T> as prog::Sum>::sum", program, Program),
            ("prog::produce", program, Program),
            ("prog::main::{{closure}}", program, Program),
            ("<prog::Table>::update::<std::fs::File>", program, Program),
            ("tokio::runtime::task::harness::Harness<T,S>::poll", program, Library),
            ("runtime.gopark", program, Runtime),
            // Python
            ("_PyEval_EvalFrameDefault", "/usr/bin/python3.11", Runtime),
            ("take_gil", "/usr/lib/libpython3.12.so.1.0", Runtime),
            ("ndarray_add", "/usr/lib/numpy/_core.so", Library),
        ] {
            assert_eq!(of_function(name, module, ModuleKind::File), code, "{name} of {module}");
        }
        for (name, code) in
            [("update_table (q.py)", Program), ("Thread.run (threading.py)", Library)]
        {
            assert_eq!(of_function(name, "[python]", ModuleKind::Python), code);
        }
        assert_eq!(of_function("f", "[anonymous]", ModuleKind::Generated), Program);
        assert_eq!(of_function("main", "[kernel.kallsyms]", ModuleKind::Kernel), Runtime);
    }

    #[test]
    fn inlined_functions_of_a_languages_library_lie_in_its_folder() {
        for file in [
            "/rustc/0f1a2b/library/core/src/num/uint_macros.rs",
            "/usr/lib/rustlib/src/rust/library/std/src/sync/poison/mutex.rs",
            "/usr/include/c++/12/bits/stl_vector.h",
        ] {
            assert!(is_language_file(file), "{file}");
        }
        for file in ["src/library/core.rs", "/home/me/library/core/lib.rs", "src/main.rs"] {
            assert!(!is_language_file(file), "{file}");
        }
    }

    #[test]
    fn files_of_pythons_library_lie_in_its_folder() {
        for (file, code) in [
            ("/usr/lib/python3.11/threading.py", Library),
            ("/home/me/.pyenv/versions/3.11/lib/python3.11/queue.py", Library),
            ("/home/me/threading.py", Program),
            ("/home/me/python3/q.py", Program),
            ("<frozen importlib._bootstrap>", Library),
            ("q.py", Program),
        ] {
            assert_eq!(of_python(file), code, "{file}");
        }
    }
}
