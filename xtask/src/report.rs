//! One line per step, and a count at the end.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How a step that did not fail ended; the text says what was measured, or why it was skipped.
pub(crate) enum Outcome {
    /// It held.
    Passed(String),
    /// It could not be tried here.
    Skipped(String),
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
    failed: Vec<String>,
}

impl Report {
    /// Runs a step; a failure is printed and remembered, and the next step runs all the same.
    pub(crate) fn step<O: Into<Outcome>>(&mut self, name: &str, work: impl FnOnce() -> Result<O>) {
        print!("{name:<28}");
        // A step's line shows while it runs; a closed output changes nothing about the checks.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let result = work().map(Into::into);
        let time = start.elapsed();
        match result {
            Ok(Outcome::Passed(detail)) => {
                self.passed += 1;
                line("ok", time, &detail);
            }
            Ok(Outcome::Skipped(reason)) => {
                self.skipped.push(name.to_owned());
                line("SKIPPED", time, &reason);
            }
            Err(error) => {
                self.failed.push(name.to_owned());
                line("FAILED", time, "");
                println!("    {}", format!("{error:#}").replace('\n', "\n    "));
            }
        }
    }

    /// Prints the counts; fails if any step did.
    pub(crate) fn finish(self, what: &str) -> Result<()> {
        let skipped = if self.skipped.is_empty() {
            String::new()
        } else {
            format!(", {} skipped ({})", self.skipped.len(), self.skipped.join(", "))
        };
        println!("{what}: {} passed, {} failed{skipped}", self.passed, self.failed.len());
        if !self.failed.is_empty() {
            bail!("{what}: failed: {}", self.failed.join(", "));
        }
        Ok(())
    }
}

fn line(verdict: &str, time: Duration, detail: &str) {
    println!("{verdict:<8}{:>7.1} s  {detail}", time.as_secs_f64());
}
