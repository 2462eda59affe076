//! Programs that the machine's compilers make.
// Each test program uses a part; helpers of tests fail as tests do.
#![allow(dead_code, clippy::unwrap_used)]

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use syscollect_usdt_client::testing::Drain;
use syscollect_zone_protocol::arena::ARENA_NAME;

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
