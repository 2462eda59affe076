//! The programs of known chains: how each is made with what is on the machine, and what is known of
//! its stacks.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::stacks::{Chain, KnownStacks};
use crate::process::root;

/// What most stacks of C programs end in, those of the loader before, and those of their threads.
/// The C library gives a thread's stack back before the thread ends, and with it what leads from
/// `start_thread` to `clone3`.
const ROOTS: &[&str] = &["_start", "_dl_start_user", "clone", "clone3", "start_thread"];

/// A program to be made and run.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Command lines that make it, in its folder; `SRC` is the folder of the sources.
    make: &'static [&'static str],
    /// The command line that runs it there, for `SECONDS`.
    run: String,
    /// What it needs beyond what makes it, where the machine lacks that.
    missing: Option<&'static str>,
    pub(super) known: KnownStacks,
    /// Of 1,000 of its stacks of a kind so many are whole.
    pub(super) whole_of_1000: u64,
    /// Its chain waits in the heap, and not on a thread that blocks.
    pub(super) waits_in_heap: bool,
}

impl Program {
    fn new(name: &'static str, make: &'static [&'static str]) -> Self {
        let known = KnownStacks {
            chains: vec![Chain::numbered('f', "main")],
            roots: ROOTS,
            ..KnownStacks::default()
        };
        let run = "./program SECONDS".to_owned();
        Self { name, make, run, missing: None, known, whole_of_1000: 995, waits_in_heap: false }
    }

    fn running(self, run: impl Into<String>) -> Self {
        Self { run: run.into(), ..self }
    }

    fn promising(self, whole_of_1000: u64) -> Self {
        Self { whole_of_1000, ..self }
    }

    fn with_roots(mut self, roots: &'static [&'static str]) -> Self {
        self.known.roots = roots;
        self
    }

    /// What these functions are called by, nothing tells.
    fn entered_by(mut self, entries: &'static [&'static str]) -> Self {
        self.known.entries = entries;
        self
    }

    fn without_tables(mut self) -> Self {
        self.known.has_no_tables = true;
        self
    }

    fn with_chains(mut self, chains: &[Chain]) -> Self {
        self.known.chains = chains.to_vec();
        self
    }

    fn calling_others(mut self) -> Self {
        self.known.calls_others = true;
        self
    }

    /// Makes it in `folder`; the reason where what makes it is not on the machine.
    pub(super) fn make(&self, folder: &Path) -> Result<Option<String>> {
        if let Some(missing) = self.missing {
            return Ok(Some(missing.to_owned()));
        }
        std::fs::create_dir_all(folder).context("cannot create a folder")?;
        for line in self.make {
            if let Some(missing) = made(line, folder).with_context(|| self.name)? {
                return Ok(Some(missing));
            }
        }
        Ok(None)
    }

    /// The command that runs it for so many seconds.
    pub(super) fn command(&self, folder: &Path, seconds: u64) -> Command {
        let line = self.run.replace("SECONDS", &seconds.to_string());
        command(&line, folder)
    }
}

fn made(line: &str, folder: &Path) -> Result<Option<String>> {
    let mut command = command(line, folder);
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let program = line.split(' ').next().unwrap_or_default();
            return Ok(Some(format!("there is no {program}")));
        }
        output => output.with_context(|| format!("cannot start `{line}`"))?,
    };
    if !output.status.success() {
        bail!("`{line}` failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(None)
}

fn command(line: &str, folder: &Path) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let sources: PathBuf = root().join("xtask/workloads/chains");
    let words = words.map(|word| word.replace("SRC", &sources.to_string_lossy()));
    command.args(words).current_dir(folder);
    command
}

/// Those of C, C++ and Rust, as far as this CPU runs them.
pub(super) fn compiled() -> Vec<Program> {
    let mut all = native();
    all.extend(libraries());
    all.extend(interrupted());
    all.retain(|program| program.name != VECTORS || is_x86_feature_detected!("avx2"));
    all
}

const VECTORS: &str = "C, AVX";
const SHARED_LAZY: &[&str] = &[
    "cc -O2 -shared -fPIC -Wl,-z,lazy -o libchain.so SRC/shared_library.c",
    "cc -O2 -Wl,-z,lazy -rdynamic -o program SRC/shared.c -L. -lchain -Wl,-rpath,$ORIGIN -pthread",
];
const SHARED_NOW: &[&str] = &[
    "cc -O2 -shared -fPIC -Wl,-z,now -o libchain.so SRC/shared_library.c",
    "cc -O2 -Wl,-z,now -rdynamic -o program SRC/shared.c -L. -lchain -Wl,-rpath,$ORIGIN -pthread",
];

fn plain() -> Program {
    Program::new("C", &["cc -O2 -o program SRC/plain.c -pthread"])
}

/// A program of a known chain, and one that changes its mappings all the time.
pub(super) fn beside_storm() -> [Program; 2] {
    [plain(), Program::new("storm", &["cc -O2 -o program SRC/storm.c -pthread"])]
}

fn native() -> Vec<Program> {
    vec![
        plain(),
        Program::new("C, static-pie", &["cc -O2 -static-pie -o program SRC/plain.c -pthread"]),
        Program::new("C, clang", &["clang-19 -O2 -o program SRC/plain.c -pthread"]),
        // Its own functions have tables; musl's have none, nor frame pointers.
        Program::new("C, musl", &["musl-gcc -static -O2 -o program SRC/plain.c"])
            .entered_by(&["main"]),
        // Its library is stripped as a rule: what leads from it to the program's beginning is read
        // from code that has no names.
        Program::new("C, musl, dynamic", &["musl-gcc -O2 -o program SRC/plain.c"])
            .with_roots(&["_start", "libc"]),
        Program::new(
            "C without tables",
            &["cc -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables -fomit-frame-pointer \
               -o program SRC/plain.c -pthread"],
        ),
        Program::new("C, frames", &["cc -O2 -o program SRC/frames.c -pthread"]),
        trampolines(),
        Program::new(VECTORS, &["cc -O2 -mavx2 -o program SRC/vectors.c -pthread"]),
        Program::new("C++", &["c++ -O2 -o program SRC/objects.cc -pthread"])
            .with_chains(&[Chain::numbered('f', "")])
            .calling_others(),
        Program::new("C++ exceptions", &["c++ -O2 -o program SRC/exceptions.cc -pthread"])
            .calling_others(),
        Program::new("Rust", &["rustc -C opt-level=3 -C debuginfo=0 -o program SRC/rust.rs"])
            .with_chains(&[Chain::numbered('f', "")])
            .calling_others(),
    ]
}

/// Between its functions is code that no file has.
fn trampolines() -> Program {
    let make: &[&str] = &["cc -O2 -o program SRC/trampolines.c -pthread"];
    let mut program = Program::new("trampolines", make).calling_others();
    program.known.between = "[anonymous]";
    program
}

fn libraries() -> Vec<Program> {
    vec![
        // A stub of the linkage table is called by any function.
        Program::new("shared library, lazy", SHARED_LAZY).calling_others(),
        Program::new("shared library, bound", SHARED_NOW).calling_others(),
        replaced_libraries(),
    ]
}

/// A program that loads one of two libraries where the other lay, again and again.
pub(super) fn replaced_libraries() -> Program {
    Program::new(
        "replaced libraries",
        &[
            "cc -O2 -shared -fPIC -Wl,-Bsymbolic -DLIBRARY_A -o liba.so SRC/replaced_library.c",
            "cc -O2 -shared -fPIC -Wl,-Bsymbolic -o libb.so SRC/replaced_library.c",
            "cc -O2 -o program SRC/replaced.c -pthread",
        ],
    )
    .with_chains(&[Chain::numbered('a', "begin"), Chain::numbered('b', "begin")])
    .running("./program SECONDS ./liba.so ./libb.so")
    // Each time a library is loaded its `_init` runs first, and waits for its page: that is the
    // C compiler's `crti.o`, which has no unwind information. 0 to 5 of 740 samples are in it.
    .promising(985)
}

fn interrupted() -> Vec<Program> {
    let coroutines = [
        Chain::numbered('a', "coroutine_a"),
        Chain::numbered('b', "coroutine_b"),
        Chain::numbered('c', "coroutine_c"),
    ];
    let handler = [
        Chain::numbered('f', "main"),
        Chain::numbered('q', "main"),
        Chain::numbered('h', "handler"),
    ];
    let mut signals = Program::new("signal handler", &["cc -O2 -o program SRC/signals.c -pthread"])
        .with_chains(&handler);
    signals.known.handler = "handler";
    vec![
        signals,
        Program::new("vfork", &["cc -O2 -o program SRC/vfork.c -pthread"]),
        Program::new("coroutines", &["cc -O2 -o program SRC/coroutines.c -pthread"])
            .with_chains(&coroutines)
            .entered_by(&["coroutine_a", "coroutine_b", "coroutine_c"]),
    ]
}

/// Those of Go, Java and JavaScript.
pub(super) fn of_runtimes() -> Vec<Program> {
    let mut go = Program::new("Go", &["go build -o program SRC/go.go"])
        .with_roots(&["goexit", "_start", "clone", "mstart", "rt0_go", "mcall", "morestack"])
        .calling_others()
        .without_tables();
    go.known.does_others = true;
    vec![
        go,
        java(
            "Java with frame pointers",
            "java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit -XX:CompileCommand=quiet \
             -XX:CompileCommand=dontinline,Chain.* Chain SECONDS",
        ),
        java(
            "Java",
            "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit \
             -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Chain.* Chain SECONDS",
        ),
        java(
            "Java, first compiler",
            "java -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit \
             -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Chain.* Chain SECONDS",
        ),
        java_with_virtual_threads(),
        Program::new("Node", &["node --version"])
            .with_chains(&[Chain::numbered('f', "")])
            .calling_others()
            .without_tables()
            .running(
                "node --perf-basic-prof --interpreted-frames-native-stack \
                 --max-inlined-bytecode-size=0 SRC/chain.js SECONDS",
            ),
    ]
}

/// The chain in a virtual thread, whose outer frames wait in the heap whenever it has slept.
fn java_with_virtual_threads() -> Program {
    let newer = newer_java();
    let java_21 = newer.as_deref().unwrap_or(Path::new("java"));
    let mut program = java(
        "Java, virtual threads",
        &format!(
            "{} -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:CompileCommand=quiet \
             -XX:CompileCommand=dontinline,Chain.* Chain SECONDS virtual",
            java_21.display()
        ),
    );
    program.waits_in_heap = true;
    // While frames are brought back from the heap there is no more than a stub's that calls for them.
    program.whole_of_1000 = 960;
    program.missing = newer.is_none().then_some("there is no Java 21 or newer in /usr/lib/jvm");
    program
}

/// The launcher of a Java that has virtual threads.
fn newer_java() -> Option<PathBuf> {
    let machines = std::fs::read_dir("/usr/lib/jvm").ok()?.flatten();
    let mut launchers = machines.map(|machine| machine.path().join("bin/java"));
    launchers.find(|launcher| {
        let version = Command::new(launcher).arg("--version").output();
        let text = version.map(|output| output.stdout).unwrap_or_default();
        let number = String::from_utf8_lossy(&text);
        let number = number.split(' ').nth(1).and_then(|number| number.split('.').next());
        number.and_then(|number| number.parse().ok()).is_some_and(|number: u32| number >= 21)
    })
}

fn java(name: &'static str, run: &str) -> Program {
    let mut program = Program::new(name, &["javac -d . SRC/Chain.java"])
        .with_chains(&[Chain::numbered('f', "")])
        .calling_others()
        // Its launcher is stripped.
        .with_roots(&["_start", "_dl_start_user", "clone", "clone3", "start_thread", "java"])
        .running(run);
    program.known.stand_in = "Interpreter";
    program
}
