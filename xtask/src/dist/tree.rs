//! The files of a package, in the folders where systems look for them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::root;

use super::client::ClientLibraries;
use super::licenses;
use super::program::Program;

/// What differs between systems in where files go.
pub(super) struct Layout {
    /// The completions of zsh.
    zsh: &'static str,
    /// Units of systemd, where the program lies where they look for it.
    units: Option<&'static str>,
}

impl Layout {
    /// What most systems, and /usr/local, look at.
    pub(super) const ARCHIVE: Self = Self { zsh: "share/zsh/site-functions", units: None };
    /// Debian keeps `site-functions` of /usr for nobody.
    pub(super) const DEBIAN: Self =
        Self { zsh: "share/zsh/vendor-completions", units: Some("lib/systemd/system") };
}

const DOCUMENTS: &str = "share/doc/syscollect";
const MANUAL: &str = "share/man/man1";
const FLIGHT_SERVICE: &str = include_str!("syscollect-flight.service");

/// Puts everything below `prefix`; returns how many bytes that is.
pub(super) fn fill(
    prefix: &Path,
    layout: &Layout,
    program: &Program,
    client: &ClientLibraries,
) -> Result<u64> {
    let executable = add_file(&program.path, &prefix.join("bin/syscollect"), 0o755)?;
    let bytes = executable + client.install(prefix)?;
    let mut files = Files { prefix, bytes };
    for page in pages(program)? {
        files.add(&format!("{MANUAL}/{}.1", page.name), &page.text)?;
    }
    let completions = [
        ("bash", "share/bash-completion/completions/syscollect".to_owned()),
        ("zsh", format!("{}/_syscollect", layout.zsh)),
        ("fish", "share/fish/vendor_completions.d/syscollect.fish".to_owned()),
    ];
    for (shell, path) in completions {
        files.add(&path, &program.run(&["completions", shell])?)?;
    }
    if let Some(units) = layout.units {
        files.add(&format!("{units}/syscollect-flight.service"), FLIGHT_SERVICE)?;
    }
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        let text =
            fs::read_to_string(root().join(name)).with_context(|| format!("cannot read {name}"))?;
        files.add(&format!("{DOCUMENTS}/{name}"), &text)?;
    }
    files.add(&format!("{DOCUMENTS}/copyright"), COPYRIGHT)?;
    files.add(&format!("{DOCUMENTS}/THIRD-PARTY-LICENSES"), &licenses::of_dependencies()?)?;
    Ok(files.bytes)
}

/// Under what terms the package is; Debian wants it in a file of this name and form.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: syscollect
Source: https://github.com/syscollect/syscollect

Files: *
Copyright: The syscollect authors
License: Expat or Apache-2.0
Comment:
 The texts are in LICENSE-MIT and LICENSE-APACHE, and those of the crates that the
 program is linked with in THIRD-PARTY-LICENSES.

Files: bpf/*
Copyright: The syscollect authors
License: Expat or GPL-2.0
Comment:
 The kernel programs, which the program carries with it.
";

/// A manual page.
struct Page {
    name: String,
    text: String,
}

/// The page of the program, and those of its sub-commands.
fn pages(program: &Program) -> Result<Vec<Page>> {
    let first = Page { name: "syscollect".to_owned(), text: program.run(&["man"])? };
    let commands: Vec<String> = sub_commands(&first.text).map(ToOwned::to_owned).collect();
    let mut pages = vec![first];
    for command in commands {
        let text = program.run(&["man", &command])?;
        pages.push(Page { name: format!("syscollect-{command}"), text });
    }
    Ok(pages)
}

/// The names in the section of sub-commands, each written `syscollect\-NAME(1)`.
fn sub_commands(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.strip_prefix("syscollect\\-")?.strip_suffix("(1)"))
}

/// Files that are written, and how large they are.
struct Files<'a> {
    prefix: &'a Path,
    bytes: u64,
}

impl Files<'_> {
    fn add(&mut self, path: &str, text: &str) -> Result<()> {
        self.bytes += text.len() as u64;
        write(&self.prefix.join(path), text)
    }
}

/// Copies a file, with the folders above it; returns how large it is.
pub(super) fn add_file(from: &Path, to: &Path, mode: u32) -> Result<u64> {
    make_parents(to)?;
    let size = fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    set_mode(to, mode)?;
    Ok(size)
}

/// Writes a file that all may read, with the folders above it.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    make_parents(path)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    set_mode(path, 0o644)
}

/// The folders above a file; who may enter them depends on nobody's umask.
fn make_parents(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    make_parents(folder)?;
    fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    set_mode(folder, 0o755)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::sub_commands;

    #[test]
    fn a_page_names_the_commands_that_have_pages_of_their_own() {
        let page =
            ".SH SUBCOMMANDS\n.TP\nsyscollect\\-record(1)\nRecord\n.TP\nsyscollect\\-info(1)\n";
        assert_eq!(sub_commands(page).collect::<Vec<_>>(), ["record", "info"]);
    }
}
