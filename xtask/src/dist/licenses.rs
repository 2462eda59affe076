//! The terms of the crates that the program is linked with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, output_of};

use super::program::TARGET;

const HEAD: &str = "\
The program is linked with the crates below, with Rust's standard library (MIT or Apache-2.0), with
the C library musl (MIT, https://git.musl-libc.org/cgit/musl/tree/COPYRIGHT) and with zstd
(BSD-3-Clause). Each text stands once, below the names of those that carry it.
";

/// A crate, as its package says.
struct Crate {
    /// `NAME VERSION (TERMS)`.
    title: String,
    folder: PathBuf,
}

/// One text of all.
pub(super) fn of_dependencies() -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for dependency in dependencies()? {
        let found = texts_in(&dependency.folder)?;
        if found.is_empty() {
            without.push(dependency.title);
            continue;
        }
        for text in found {
            texts.entry(text).or_default().push(dependency.title.clone());
        }
    }
    let mut all = HEAD.to_owned();
    if !without.is_empty() {
        all += &format!("\nThese carry no text:\n{}\n", without.join("\n"));
    }
    let mut texts: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1));
    for (text, titles) in texts {
        let line = "-".repeat(100);
        all += &format!("\n{line}\n{}\n{line}\n\n{text}\n", titles.join("\n"));
    }
    Ok(all)
}

/// What the program is linked with, of other people, by name.
fn dependencies() -> Result<Vec<Crate>> {
    let linked = linked()?;
    let arguments = ["metadata", "--format-version", "1", "--filter-platform", TARGET];
    let output = output_of(cargo().args(arguments))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut crates = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let [name, version, manifest, license] = ["name", "version", "manifest_path", "license"]
            .map(|field| package[field].as_str().unwrap_or_default());
        // Without a source it is ours.
        if package["source"].is_null() {
            continue;
        }
        let name = format!("{name} v{version}");
        if linked.contains(&name) {
            let folder = Path::new(manifest).parent().map(Path::to_path_buf);
            crates.push(Crate {
                title: format!("{name} ({license})"),
                folder: folder.with_context(|| format!("{name} lies nowhere"))?,
            });
        }
    }
    if crates.is_empty() {
        bail!("cargo names no dependency");
    }
    crates.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(crates)
}

/// `NAME vVERSION` of what is linked: neither build scripts nor what they need.
fn linked() -> Result<BTreeSet<String>> {
    let arguments = ["tree", "-p", "syscollect", "--edges", "normal,no-proc-macro"];
    let format = ["--target", TARGET, "--prefix", "none", "--format", "{p}"];
    let output = output_of(cargo().args(arguments).args(format))?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(lines.lines().filter_map(name_and_version).collect())
}

/// `NAME vVERSION` of a line that may say more.
fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    Some(format!("{} {}", words.next()?, words.next()?))
}

/// The texts of terms in a crate's folder.
fn texts_in(folder: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut texts = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_text = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start));
        if is_text && entry.path().is_file() {
            let text = fs::read_to_string(entry.path())
                .with_context(|| format!("cannot read {}", entry.path().display()))?;
            // Line ends of Windows and blanks at the ends make no other text.
            let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
            texts.insert(lines.join("\n"));
        }
    }
    Ok(texts.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::{name_and_version, texts_in};

    #[test]
    fn a_crate_that_is_listed_again_has_the_same_name() {
        let first = name_and_version("libc v0.2.1");
        assert_eq!(first.as_deref(), Some("libc v0.2.1"));
        assert_eq!(name_and_version("libc v0.2.1 (*)"), first);
        assert_eq!(name_and_version(""), None);
    }

    #[test]
    fn texts_of_terms_are_told_from_other_files() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("LICENSE-MIT", "Do what you like \r\n"),
            ("COPYING", "Do what you like\n\n"),
            ("LICENSE.md", "Keep my name"),
            ("README.md", "Read me"),
        ] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let texts = texts_in(folder.path()).expect("texts");
        assert_eq!(texts, ["Do what you like", "Keep my name"]);
    }
}
