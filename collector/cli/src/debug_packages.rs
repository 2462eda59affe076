//! Which package of this machine's distribution has the names that a module lacks: dpkg's own lists
//! say whose file it is, and Debian's naming does the rest.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use syscollect_exporters::report::UnresolvedRow;
use syscollect_symbolize::build_id_in;
use syscollect_untrusted_files::{FileLocation, open};

/// A list of paths for each package that is installed.
const LISTS: &str = "/var/lib/dpkg/info";
/// More would be no list of a package's files.
const LIST_MAX: u64 = 64 << 20;

/// Fills in the packages, of modules that lie here as they were recorded.
pub(crate) fn fill_in(rows: &mut [UnresolvedRow]) {
    // A regular file, whatever lies there now; packages have links.
    let is_this_build = |path: &str, row: &UnresolvedRow| {
        let file = open(&FileLocation::Said(Path::new(path)), None).ok();
        let found = file.and_then(|file| build_id_in(file.reader()));
        found.is_some_and(|build_id| build_id.to_string() == row.build_id)
    };
    fill_in_from(Path::new(LISTS), rows, is_this_build);
}

#[expect(clippy::disallowed_methods, reason = "dpkg's lists, which nobody but root writes")]
fn fill_in_from(
    lists: &Path,
    rows: &mut [UnresolvedRow],
    is_this_build: impl Fn(&str, &UnresolvedRow) -> bool,
) {
    let files = rows.iter_mut().filter(|row| row.module_kind.is_file() && !row.build_id.is_empty());
    // A package may say `/lib` of what lies in `/usr/lib`.
    let mut wanted: HashMap<String, Vec<&mut UnresolvedRow>> = HashMap::new();
    for row in files {
        wanted.entry(without_usr(&row.module).to_owned()).or_default().push(row);
    }
    if wanted.is_empty() {
        return;
    }
    for entry in fs::read_dir(lists).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(package) = name.to_str().and_then(|name| name.strip_suffix(".list")) else {
            continue;
        };
        if entry.metadata().map_or(true, |list| list.len() > LIST_MAX) {
            continue;
        }
        let Ok(paths) = fs::read_to_string(entry.path()) else { continue };
        for path in paths.lines() {
            // What a package owns is opened, whatever a capture names.
            for row in wanted.get_mut(without_usr(path)).into_iter().flatten() {
                if is_this_build(path, row) {
                    row.debug_package = debug_package(package);
                }
            }
        }
    }
}

fn without_usr(path: &str) -> &str {
    path.strip_prefix("/usr").unwrap_or(path)
}

/// By Debian's naming, which Ubuntu shares: most come from another archive, two from the usual one.
fn debug_package(package: &str) -> String {
    let package = package.split(':').next().unwrap_or(package);
    let python = package.strip_prefix("lib").unwrap_or(package);
    let python = python.split('-').next().unwrap_or(python);
    match package {
        "libc6" => "libc6-dbg".to_owned(),
        _ if python.starts_with("python3.") => format!("{python}-dbg"),
        _ => format!("{package}-dbgsym"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::ModuleKind;

    fn row(module: &str) -> UnresolvedRow {
        UnresolvedRow { module: module.into(), build_id: "ab".into(), ..UnresolvedRow::default() }
    }

    #[test]
    fn a_module_is_named_with_the_package_that_has_its_symbols() {
        let lists = tempfile::tempdir().unwrap();
        let list = |name: &str, text: &str| fs::write(lists.path().join(name), text).unwrap();
        list("libc6:amd64.list", "/.\n/lib\n/lib/x86_64-linux-gnu/libc.so.6\n");
        list("python3.11-minimal.list", "/usr/bin/python3.11\n");
        list("postgresql-15.list", "/usr/lib/postgresql/15/bin/postgres\n/opt/changed\n");
        list("libc6:amd64.md5sums", "/opt/other\n");
        let mut rows = [
            row("/usr/lib/x86_64-linux-gnu/libc.so.6"),
            row("/usr/bin/python3.11"),
            row("/usr/lib/postgresql/15/bin/postgres"),
            row("/opt/other"),
            row("/opt/changed"),
            UnresolvedRow { module_kind: ModuleKind::Generated, ..row("/usr/bin/python3.11") },
        ];
        fill_in_from(lists.path(), &mut rows, |path, _| path != "/opt/changed");
        let packages = rows.map(|row| row.debug_package);
        assert_eq!(
            packages,
            ["libc6-dbg", "python3.11-dbg", "postgresql-15-dbgsym", "", "", ""],
            "of nobody's file, of another build and of generated code there is none"
        );
    }

    #[test]
    fn the_interpreters_library_is_in_its_package() {
        assert_eq!(debug_package("libpython3.11-stdlib:amd64"), "python3.11-dbg");
        assert_eq!(debug_package("zlib1g:amd64"), "zlib1g-dbgsym");
        assert_eq!(debug_package("python3-numpy"), "python3-numpy-dbgsym");
    }

    #[test]
    fn without_dpkg_nothing_is_known() {
        let mut rows = [row("/usr/bin/cc")];
        fill_in_from(Path::new("/nowhere"), &mut rows, |_, _| true);
        assert_eq!(rows[0].debug_package, "");
    }
}
