//! What came of the tests on each kernel, as one table.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::privileged::tests_of_kernels;

/// Who ran the tests, and the file where the results lie.
const USERS: [(&str, &str); 2] = [("root", "root.jsonl"), ("two capabilities", "user.jsonl")];

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
            let text = fs::read_to_string(&path).with_context(|| {
                format!("{kernel} wrote no results as {user}; its log says:\n{}", log(results))
            })?;
            let mut cells = BTreeMap::new();
            for line in text.lines() {
                let line: Value =
                    serde_json::from_str(line).with_context(|| format!("{kernel} wrote {line}"))?;
                cells.insert(
                    text_of(&line, "test"),
                    Cell { verdict: text_of(&line, "verdict"), detail: text_of(&line, "detail") },
                );
            }
            self.columns.push(Column { kernel: kernel.to_owned(), user, cells });
        }
        Ok(())
    }

    /// Adds a machine of which nothing came: each test that was wanted failed.
    pub(crate) fn add_broken(&mut self, kernel: &str, tests: &[String], why: &str) {
        self.columns.retain(|column| column.kernel != kernel);
        for (user, _) in USERS {
            let wanted = tests_of_kernels()
                .filter(|test| tests.is_empty() || tests.iter().any(|one| one == test));
            let cells = wanted.map(|test| {
                (test.to_owned(), Cell { verdict: "FAILED".to_owned(), detail: why.to_owned() })
            });
            self.columns.push(Column { kernel: kernel.to_owned(), user, cells: cells.collect() });
        }
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
        format!(
            "{kernels} kernels: {} passed, {} not offered",
            self.count("ok"),
            self.count("not offered")
        )
    }

    fn count(&self, verdict: &str) -> usize {
        self.columns
            .iter()
            .flat_map(|column| column.cells.values())
            .filter(|cell| cell.verdict == verdict)
            .count()
    }
}

fn text_of(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

/// The end of what the machine's tests printed.
fn log(results: &Path) -> String {
    let text = fs::read(results.join("log.txt")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

impl fmt::Display for Table {
    /// Markdown: a row for each test, and the reasons of all cells that are not ok, by the numbers
    /// that stand there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings = self
            .columns
            .iter()
            .map(|column| format!(" {}, {} |", short(&column.kernel), column.user));
        writeln!(f, "| test |{}", headings.collect::<String>())?;
        writeln!(f, "|---|{}", "---|".repeat(self.columns.len()))?;
        let mut reasons: Vec<&str> = Vec::new();
        for test in tests_of_kernels()
            .filter(|test| self.columns.iter().any(|column| column.cells.contains_key(*test)))
        {
            write!(f, "| {test} |")?;
            for column in &self.columns {
                match column.cells.get(test) {
                    None => write!(f, " |")?,
                    Some(cell) if cell.verdict == "ok" => write!(f, " ok |")?,
                    Some(cell) => write!(
                        f,
                        " {} ({}) |",
                        cell.verdict,
                        number_of(&mut reasons, &cell.detail)
                    )?,
                }
            }
            writeln!(f)?;
        }
        if !reasons.is_empty() {
            writeln!(f)?;
        }
        for (number, reason) in (1..).zip(reasons) {
            writeln!(f, "{number}. {}", reason.trim().replace('\n', "\n   "))?;
        }
        Ok(())
    }
}

/// A kernel's version without what all of them have.
fn short(kernel: &str) -> &str {
    let kernel = kernel.strip_suffix("-amd64").unwrap_or(kernel);
    kernel.split_once('+').map_or(kernel, |(version, _)| version)
}

/// The number of a reason, which is added if it is new.
fn number_of<'a>(reasons: &mut Vec<&'a str>, reason: &'a str) -> usize {
    let known = reasons.iter().position(|known| *known == reason);
    1 + known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_passed_and_why_the_rest_did_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = r#"{"test":"count","verdict":"ok","detail":"10 of 10","seconds":1.0}"#;
        let user =
            r#"{"test":"count","verdict":"not offered","detail":"cap_bpf: no","seconds":0.0}"#;
        fs::write(folder.path().join("root.jsonl"), root).unwrap();
        fs::write(folder.path().join("user.jsonl"), user).unwrap();
        let mut table = Table::default();
        table.add("6.1.0-50-amd64", folder.path()).unwrap();
        let text = table.to_string();
        assert!(
            text.starts_with(
                "| test | 6.1.0-50, root | 6.1.0-50, two capabilities |\n|---|---|---|\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("| count | ok | not offered (1) |\n\n1. cap_bpf: no\n"), "{text}");
        assert_eq!(
            (table.failures(), table.counts().as_str()),
            (0, "1 kernels: 1 passed, 1 not offered")
        );
        table.add_broken("7.2.13+deb14-amd64", &["count".to_owned()], "the guest did not finish");
        let text = table.to_string();
        assert!(
            text.contains("7.2.13, root") && text.contains("| FAILED (2) | FAILED (2) |"),
            "{text}"
        );
        assert!(
            text.contains("\n2. the guest did not finish\n") && table.failures() == 2,
            "{text}"
        );
    }

    #[test]
    fn a_machine_that_wrote_nothing_is_an_error_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("log.txt"), "cannot load the kernel programs\n").unwrap();
        let error = Table::default().add("6.1.0", folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("cannot load the kernel programs"), "{error:#}");
    }
}
