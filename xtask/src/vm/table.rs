//! What came of the tests on each kernel, as one table.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::privileged::tests_of_kernels;

/// Who ran the tests, and the file where the results lie.
const USERS: [(&str, &str); 2] = [("root", "root.jsonl"), ("CAP_BPF + CAP_PERFMON", "user.jsonl")];

/// Kernel and user by test.
#[derive(Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
}

struct Column {
    kernel: String,
    user: &'static str,
    cells: BTreeMap<String, Cell>,
}

struct Cell {
    verdict: String,
    detail: String,
}

impl Table {
    /// Adds what a machine wrote; fails where it wrote nothing.
    pub(crate) fn add(&mut self, kernel: &str, results: &Path) -> Result<()> {
        for (user, file) in USERS {
            let path = results.join(file);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("{kernel} wrote no results as {user}; its log says:\n{}", log(results)))?;
            let mut cells = BTreeMap::new();
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).with_context(|| format!("{kernel} wrote {line}"))?;
                let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
                cells.insert(text("test"), Cell { verdict: text("verdict"), detail: text("detail") });
            }
            self.columns.push(Column { kernel: kernel.to_owned(), user, cells });
        }
        Ok(())
    }

    /// What came of each test on the kernel that was added last.
    pub(crate) fn last(&self) -> String {
        let mut lines = String::new();
        for column in &self.columns[self.columns.len().saturating_sub(USERS.len())..] {
            for (test, Cell { verdict, detail }) in &column.cells {
                lines.push_str(&format!("  {test}, {}: {verdict}: {detail}\n", column.user));
            }
        }
        lines
    }

    /// Tests that failed.
    pub(crate) fn failures(&self) -> usize {
        self.count("FAILED")
    }

    /// How many passed and were not offered.
    pub(crate) fn counts(&self) -> String {
        let kernels = self.columns.len() / USERS.len();
        format!("{kernels} kernels: {} passed, {} not offered", self.count("ok"), self.count("not offered"))
    }

    fn count(&self, verdict: &str) -> usize {
        self.columns.iter().flat_map(|column| column.cells.values()).filter(|cell| cell.verdict == verdict).count()
    }
}

/// The end of what the machine's tests printed.
fn log(results: &Path) -> String {
    let text = fs::read(results.join("log.txt")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

impl fmt::Display for Table {
    /// Markdown, then the reasons, each with the cells that have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings = self.columns.iter().map(|column| format!(" {}, {} |", column.kernel, column.user));
        writeln!(f, "| test |{}", headings.collect::<String>())?;
        writeln!(f, "|---|{}", "---|".repeat(self.columns.len()))?;
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for test in tests_of_kernels().filter(|test| self.columns.iter().any(|column| column.cells.contains_key(*test)))
        {
            write!(f, "| {test} |")?;
            for column in &self.columns {
                let cell = column.cells.get(test);
                write!(f, " {} |", cell.map_or("", |cell| cell.verdict.as_str()))?;
                if let Some(cell) = cell.filter(|cell| cell.verdict != "ok") {
                    let place = format!("{test} on {} as {}", column.kernel, column.user);
                    reasons.entry(&cell.detail).or_default().push(place);
                }
            }
            writeln!(f)?;
        }
        for (reason, places) in reasons {
            write!(f, "\n- {reason}\n  ({})", places.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_passed_and_why_the_rest_did_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = r#"{"test":"count","verdict":"ok","detail":"10 of 10","seconds":1.0}"#;
        let user = r#"{"test":"count","verdict":"not offered","detail":"cap_bpf: no","seconds":0.0}"#;
        fs::write(folder.path().join("root.jsonl"), root).unwrap();
        fs::write(folder.path().join("user.jsonl"), user).unwrap();
        let mut table = Table::default();
        table.add("6.1.0", folder.path()).unwrap();
        let text = table.to_string();
        assert!(text.contains("| count | ok | not offered |"), "{text}");
        assert!(text.contains("- cap_bpf: no\n  (count on 6.1.0 as CAP_BPF + CAP_PERFMON)"), "{text}");
        assert_eq!((table.failures(), table.counts().as_str()), (0, "1 kernels: 1 passed, 1 not offered"));
    }

    #[test]
    fn a_machine_that_wrote_nothing_is_an_error_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("log.txt"), "cannot load the kernel programs\n").unwrap();
        let error = Table::default().add("6.1.0", folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("cannot load the kernel programs"), "{error:#}");
    }
}
