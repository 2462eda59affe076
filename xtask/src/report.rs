//! One line per step, and a count at the end.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

/// How a step that did not fail ended; the text says what was measured, or why it was skipped.
pub(crate) enum Outcome {
    /// It held.
    Passed(String),
    /// It could not be tried here.
    Skipped(String),
    /// This kernel, or this user's rights, do not offer what it needs.
    NotOffered(String),
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Passed(String::new())
    }
}

impl From<String> for Outcome {
    fn from(detail: String) -> Self {
        Self::Passed(detail)
    }
}

/// Runs steps and counts how they end.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    skipped: Vec<String>,
    /// Name of each that failed, and why.
    failed: Vec<(String, String)>,
    /// Where each step's result goes as a line of JSON.
    lines: Option<File>,
}

impl Report {
    /// A report that also adds a line of JSON for each step to a file.
    pub(crate) fn also_to(path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { lines: Some(file), ..Self::default() })
    }

    /// Runs a step; a failure is printed and remembered, and the next step runs all the same.
    pub(crate) fn step<O: Into<Outcome>>(&mut self, name: &str, work: impl FnOnce() -> Result<O>) {
        print!("{name:<38} ");
        // A step's line shows while it runs; a closed output changes nothing about the checks.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let result = work().map(Into::into);
        let time = start.elapsed();
        let (verdict, detail) = match result {
            Ok(Outcome::Passed(detail)) => {
                self.passed += 1;
                ("ok", detail)
            }
            Ok(Outcome::Skipped(reason)) => {
                self.skipped.push(name.to_owned());
                ("SKIPPED", reason)
            }
            Ok(Outcome::NotOffered(reason)) => {
                self.skipped.push(name.to_owned());
                ("not offered", reason)
            }
            Err(error) => {
                let reason = format!("{error:#}");
                self.failed.push((name.to_owned(), reason.clone()));
                ("FAILED", reason)
            }
        };
        line(verdict, time, &detail);
        self.remember(name, verdict, &detail, time);
    }

    /// A line that cannot be written is missed by whoever reads the file, and changes nothing here.
    fn remember(&mut self, name: &str, verdict: &str, detail: &str, time: Duration) {
        let Some(file) = &mut self.lines else { return };
        let line = json!({"test": name, "verdict": verdict, "detail": detail, "seconds": time.as_secs_f64()});
        let _ = writeln!(file, "{line}");
    }

    /// Prints the counts, and each failure once more: of a long run often the end alone is kept.
    /// Fails if any step did.
    pub(crate) fn finish(self, what: &str) -> Result<()> {
        let skipped = if self.skipped.is_empty() {
            String::new()
        } else {
            format!(", {} skipped ({})", self.skipped.len(), self.skipped.join(", "))
        };
        for (name, reason) in &self.failed {
            println!("{name} FAILED\n    {}", reason.replace('\n', "\n    "));
        }
        println!("{what}: {} passed, {} failed{skipped}", self.passed, self.failed.len());
        if !self.failed.is_empty() {
            let names: Vec<_> = self.failed.iter().map(|(name, _)| name.as_str()).collect();
            bail!("{what}: failed: {}", names.join(", "));
        }
        Ok(())
    }
}

fn line(verdict: &str, time: Duration, detail: &str) {
    let seconds = time.as_secs_f64();
    if verdict == "FAILED" {
        println!("{verdict:<12}{seconds:>6.1} s\n    {}", detail.replace('\n', "\n    "));
    } else {
        println!("{verdict:<12}{seconds:>6.1} s  {detail}");
    }
}
