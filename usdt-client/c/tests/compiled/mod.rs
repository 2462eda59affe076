//! Programs that the machine's compilers make.
// Each test program uses a part; helpers of tests fail as tests do.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use syscollect_usdt_client::testing::Drain;
use syscollect_zone_protocol::arena::ARENA_NAME;
use tempfile::TempDir;

#[derive(Clone, Copy)]
pub(crate) enum Language {
    C,
    Cpp,
}

impl Language {
    /// The compiler, and what says that files are of this language; nothing if there is none.
    pub(crate) fn compiler(self) -> Option<(String, &'static [&'static str])> {
        let (compiler, language): (_, &[&str]) = match self {
            Self::C => (variable("CC", "cc"), &["-x", "c"]),
            Self::Cpp => (variable("CXX", "c++"), &["-x", "c++"]),
        };
        if Command::new(&compiler).arg("--version").output().is_err() {
            println!(
                "skipped: {compiler} is not there; install a C and C++ compiler, or set CC and CXX"
            );
            return None;
        }
        Some((compiler, language))
    }

    /// Builds a program of files of this crate by the standard; nothing if there is no compiler.
    pub(crate) fn build(self, folder: &Path, options: &[&str], files: &[&str]) -> Option<PathBuf> {
        let standard: &[&str] = match self {
            Self::C => &["-std=c99", "-D_POSIX_C_SOURCE=200809L"],
            Self::Cpp => &["-std=c++11"],
        };
        let options = [&["-O1", "-Wpedantic"], standard, options].concat();
        self.build_as(folder, &options, files)
    }

    /// The same by these options alone.
    pub(crate) fn build_as(
        self,
        folder: &Path,
        options: &[&str],
        files: &[&str],
    ) -> Option<PathBuf> {
        let (compiler, language) = self.compiler()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = folder.join("program");
        let output = Command::new(&compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("../include"))
            .args(options)
            .args(language)
            .args(files.iter().map(|file| root.join(file)))
            .args(["-x", "none", "-o"])
            .arg(&program)
            .arg(library())
            .args(["-lpthread", "-ldl", "-lm"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(program)
    }
}

/// A program that believes that it is recorded, and has done its work.
pub(crate) struct Recorded {
    child: Child,
    /// The first that it printed.
    pub(crate) line: String,
    _folder: TempDir,
    _output: BufReader<ChildStdout>,
}

impl Recorded {
    /// Builds and runs a program whose main is in one of these files.
    pub(crate) fn run(language: Language, options: &[&str], files: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = [&["-Dmain=example_main"], options].concat();
        let program =
            language.build(folder.path(), &options, &[files, &["tests/recorded.c"]].concat())?;
        hide_from_recorders(&program);
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Some(Self { child, line, _folder: folder, _output: output })
    }

    /// What each of its threads has written, as a collector finds it.
    pub(crate) fn scenarios(
        &self,
        shown: fn(&[Vec<u64>], &[u8]) -> Vec<String>,
    ) -> Vec<Vec<String>> {
        let mut drain = arena_of(&self.child);
        (0..drain.rings())
            .map(|ring| {
                let items = drain.take(ring);
                shown(&items, drain.log())
            })
            .collect()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Takes the notes of its probes out of a program, by which a recorder that runs on this machine
/// would find it. Without `objcopy` they stay.
pub(crate) fn hide_from_recorders(program: &Path) {
    let mut objcopy = Command::new("objcopy");
    let _ = objcopy.args(["--remove-section", ".note.stapsdt"]).arg(program).output();
}

/// libsyscollect_client.a lies beside the test.
pub(crate) fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libsyscollect_client.a");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// The arena of a program that runs, as a collector finds it.
pub(crate) fn arena_of(child: &Child) -> Drain {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let name = format!("/memfd:{ARENA_NAME} (deleted)");
    let arena = descriptors
        .map(|entry| entry.unwrap().path())
        .find(|path| std::fs::read_link(path).is_ok_and(|link| link.as_os_str() == name.as_str()))
        .expect("the program has an arena");
    let file = std::fs::File::options().read(true).write(true).open(arena).unwrap();
    Drain::of(file.as_raw_fd()).unwrap()
}
