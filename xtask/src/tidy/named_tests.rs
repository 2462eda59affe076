//! The page of the trace buffer tells each guarantee with the test that shows it: a test that was
//! renamed, moved or removed takes its guarantee with it.

use std::collections::{BTreeMap, BTreeSet};

/// The page, and where the tests are.
pub(super) const PAGE: &str = "docs/trace-buffer.md";
pub(super) const FOLDER: &str = "collector/trace-buffer/";
/// Names of tests have as many words at least; what has fewer is something else in quotes.
const WORDS: usize = 3;

/// Tests by their names, each in the files, by name, that have one called so.
#[derive(Debug, Default)]
pub(super) struct KnownTests(BTreeMap<String, BTreeSet<String>>);

impl KnownTests {
    /// Adds the tests of a file.
    pub(super) fn add(&mut self, path: &str, text: &str) {
        let file = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let (true, Some(name)) = (is_test, name) {
                self.0.entry(name.to_owned()).or_default().insert(file.to_owned());
            }
            is_test = line == "#[test]" || is_test && line.starts_with("#[");
        }
    }

    /// What the page names in its tables and is not there, with its line. A name without a file is
    /// of the one before it in its row.
    pub(super) fn missing_of(&self, page: &str) -> Vec<(usize, String)> {
        let mut missing = Vec::new();
        for (line, row) in (1..).zip(page.lines()).filter(|(_, row)| row.starts_with('|')) {
            let mut file = None;
            for quoted in row.split('`').skip(1).step_by(2) {
                let name = match quoted.split_once("::") {
                    Some((of, name)) => {
                        file = Some(of);
                        name
                    }
                    None if quoted.split('_').count() < WORDS => continue,
                    None => quoted,
                };
                let is_there = self.0.get(name).is_some_and(|files| {
                    file.is_none_or(|file| files.iter().any(|known| known == file))
                });
                if !is_there {
                    missing.push((line, quoted.to_owned()));
                }
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::KnownTests;

    #[test]
    fn a_test_that_is_named_and_not_there_is_found() {
        let mut known = KnownTests::default();
        known.add(
            "a/tests/reading.rs",
            "#[test]\nfn packets_come_out() {}\nfn no_test_at_all() {}\n",
        );
        known.add("a/src/block.rs", "#[test]\n#[cfg(x)]\n    fn a_copy_is_one() {}\n");
        let page = "no row: `a_test_of_none`\n\
                    | `reading::packets_come_out`, `GB_s`, `Block::approach` |\n\
                    | x | `block::a_copy_is_one`, `packets_come_out`, `no_test_at_all` |\n\
                    | `packets_come_out`, `block::packets_come_out` |\n";
        let found: Vec<_> = known.missing_of(page).into_iter().map(|(line, _)| line).collect();
        assert_eq!(found, [2, 3, 3, 4], "approach is no test, and others lie elsewhere");
    }
}
