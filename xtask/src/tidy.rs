//! `cargo xtask tidy`: habits that no other tool checks.

mod circles;
mod generated;
mod named_tests;
mod opens;
mod outside;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use self::named_tests::KnownTests;
use crate::process::{output_of, root};

/// Lines of code and comments in one file; longer ones hide several subjects.
const LONGEST_FILE: usize = 700;
/// Columns that `rustfmt.toml` asks for. rustfmt leaves alone what it cannot break (strings, macros,
/// tables in comments), and all else in an expression that has such a part.
const WIDTH: usize = 100;
/// Of how many lines of Rust one may be wider than [`WIDTH`]: rows of tables, mostly.
const LINES_PER_WIDE_LINE: usize = 1000;
/// Marks of unfinished work. Written in two parts, so that this file does not find itself.
const UNFINISHED: [&str; 4] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("db", "g!("),
];

/// Looks at every tracked or new source file.
pub(crate) fn run() -> Result<()> {
    let listed = output_of(Command::new("git").current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.rs",
        "*.c",
        "*.h",
        "*.toml",
        "*.md",
        "*.sh",
        ".ci/run",
    ]))?;
    let mut found = Vec::new();
    let mut width = Width::default();
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            check_file(name, &text, &mut found);
            if name.ends_with(".rs") {
                width.add(name, &text);
            }
            if !name.ends_with(".md") {
                find_outside(name, &text, &mut found);
            }
        }
    }
    found.extend(width.too_many());
    find_generated(&mut found)?;
    find_circles(&String::from_utf8_lossy(&listed.stdout), &mut found);
    find_named_tests(&String::from_utf8_lossy(&listed.stdout), &mut found)?;
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

/// Lines of Rust, and those of them that are too wide.
#[derive(Default)]
struct Width {
    lines: usize,
    /// Where each of them is.
    wide: Vec<String>,
}

impl Width {
    fn add(&mut self, name: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            self.lines += 1;
            if line.chars().count() > WIDTH {
                self.wide.push(format!("{name}:{}", index + 1));
            }
        }
    }

    /// Says so where there are more of them than may be.
    fn too_many(&self) -> Option<String> {
        let most = self.lines / LINES_PER_WIDE_LINE;
        (self.wide.len() > most).then(|| {
            format!(
                "{} lines of Rust have more than {WIDTH} columns, and at most {most} of {} may: {}",
                self.wide.len(),
                self.lines,
                self.wide.join(", ")
            )
        })
    }
}

/// Finds what programs wrote among all files that are tracked, or would be: an entry of
/// `.gitignore` alone keeps nobody from adding one.
fn find_generated(found: &mut Vec<String>) -> Result<()> {
    let all = output_of(Command::new("git").current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let all = String::from_utf8_lossy(&all.stdout);
    let names = all.lines().filter_map(|name| Some((name, generated::why_not(name)?)));
    found.extend(names.map(|(name, why)| format!("{name}: {why}; it is not to be committed")));
    Ok(())
}

/// Finds guarantees of the trace buffer whose test is not there.
fn find_named_tests(listed: &str, found: &mut Vec<String>) -> Result<()> {
    let mut known = KnownTests::default();
    let ours = |name: &&str| name.starts_with(named_tests::FOLDER) && name.ends_with(".rs");
    for name in listed.lines().filter(ours) {
        known.add(name, &fs::read_to_string(root().join(name))?);
    }
    let page = fs::read_to_string(root().join(named_tests::PAGE))?;
    let missing = known.missing_of(&page).into_iter();
    found.extend(
        missing
            .map(|(line, name)| format!("{}:{line}: there is no test {name}", named_tests::PAGE)),
    );
    Ok(())
}

/// Finds modules that use one another, in each crate.
fn find_circles(listed: &str, found: &mut Vec<String>) {
    let mut crates = BTreeMap::<&str, Vec<(&str, String)>>::new();
    for name in listed.lines().filter(|name| name.ends_with(".rs")) {
        let Some((folder, file)) = name.split_once("/src/") else { continue };
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            crates.entry(folder).or_default().push((file, text));
        }
    }
    for (folder, files) in crates {
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        found.extend(circles::of_crate(folder, &files));
    }
}

/// Finds paths that lead out of the repository.
fn find_outside(name: &str, text: &str, found: &mut Vec<String>) {
    for (line, _) in outside::lines(name, &package_of(name), text) {
        found.push(format!("{name}:{line}: a path that leads out of the repository"));
    }
}

/// The folder of a file's package, within the repository.
fn package_of(name: &str) -> PathBuf {
    let folders = Path::new(name).ancestors().skip(1);
    let mut packages = folders.filter(|folder| root().join(folder).join("Cargo.toml").is_file());
    packages.next().unwrap_or(Path::new("")).to_path_buf()
}

fn check_file(name: &str, text: &str, found: &mut Vec<String>) {
    let extension =
        Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or("");
    let lines = text.lines().count();
    if matches!(extension, "rs" | "c") && lines > LONGEST_FILE {
        found.push(format!(
            "{name}: {lines} lines; split it by subject (the limit is {LONGEST_FILE})"
        ));
    }
    if opens::is_missing(name, text) {
        found.push(format!("{name}: it does not warn of files that are opened by their paths"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found.push(format!("{name}: the last line has no end"));
    }
    for (index, line) in text.lines().enumerate() {
        let at = format!("{name}:{}", index + 1);
        if line.ends_with([' ', '\t']) && extension != "md" {
            found.push(format!("{at}: blanks at the end"));
        }
        if let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(**mark)) {
            found.push(format!("{at}: {mark}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINES_PER_WIDE_LINE, LONGEST_FILE, WIDTH, Width, check_file};

    #[test]
    fn unfinished_work_and_long_files_are_found() {
        let mut found = Vec::new();
        check_file("a.rs", "fn a() {}\n", &mut found);
        assert_eq!(found, Vec::<String>::new());
        check_file("a.rs", concat!("fn a() { to", "do!() } \n"), &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        found.clear();
        check_file("long.rs", &"//\n".repeat(LONGEST_FILE + 1), &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn one_wide_line_in_a_thousand_is_let_be_and_two_are_named() {
        let (wide, short) = (format!("// {}\n", "é".repeat(WIDTH)), "\n");
        let mut width = Width::default();
        width.add("a.rs", &format!("{}{wide}", short.repeat(LINES_PER_WIDE_LINE - 1)));
        assert_eq!(width.too_many(), None);
        width.add("b.rs", &format!("{short}{wide}"));
        let reported = width.too_many().unwrap();
        assert!(reported.ends_with(": a.rs:1000, b.rs:2"), "{reported}");
    }
}
