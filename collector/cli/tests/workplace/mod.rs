//! A folder in which the program is run. No root needed.

// Not every test file runs the program in every way.
#![allow(dead_code)]

use crate::fake;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output};
use syscollect_model::StopReason;
use syscollect_store::LaneLoss;

pub(crate) struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_syscollect"));
        // Whoever runs the tests through sudo is not part of them.
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs what must fail, and gives its message.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{message}");
        message
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {message}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), message)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn capture(&self, name: &str, losses: &[LaneLoss]) -> PathBuf {
        let path = self.path(name);
        fake::write_capture(
            File::create(&path).unwrap(),
            losses,
            Some(fake::summary(StopReason::Duration)),
        );
        path
    }
}
