//! Paths that lead out of the repository: whoever clones it has nothing else.

use std::path::Path;

/// The only files that know of folders beside the checkout: the one place where tests and checks
/// ask for them, the script that runs before anything is built, and this file's examples.
const EXCEPTIONS: [&str; 3] =
    ["tests/fixtures/src/folders.rs", ".ci/run", "xtask/src/tidy/outside.rs"];

/// What a literal in a source file is relative to, and how deep that lies in the repository.
struct Depths {
    /// The folder of the file: of `include_bytes!`, `#[path]` and dependencies.
    file: usize,
    /// The folder of the package: of what is joined to `CARGO_MANIFEST_DIR`; 0 where a
    /// command of `cargo xtask` asks for the repository's own folder. `None` where a file asks for
    /// neither.
    package: Option<usize>,
}

/// The lines of a file that lead out, with their numbers. `package` is the folder of its package.
pub(super) fn lines<'a>(name: &str, package: &Path, text: &'a str) -> Vec<(usize, &'a str)> {
    if EXCEPTIONS.contains(&name) {
        return Vec::new();
    }
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let asked = if name.starts_with("xtask/") && text.contains("root()") {
        Some(0)
    } else {
        text.contains("CARGO_MANIFEST_DIR").then(|| package.components().count())
    };
    let depths = Depths { file: folder.components().count(), package: asked };
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| leads_out(name, line, &depths)).collect()
}

fn leads_out(name: &str, line: &str, depths: &Depths) -> bool {
    if line.trim_start().starts_with("//") {
        return false;
    }
    // Scripts run in the repository's folder.
    if !name.ends_with(".rs") && !name.ends_with(".toml") {
        let mut words =
            line.split(|letter: char| letter.is_whitespace() || "\"'=:-".contains(letter));
        return words.any(|word| word.starts_with("../"));
    }
    let of_file = name.ends_with(".toml") || line.contains("include") || line.contains("#[path");
    let Some(depth) = (if of_file { Some(depths.file) } else { depths.package }) else {
        return false;
    };
    line.split('"').skip(1).step_by(2).any(|literal| climbs(literal) > depth)
}

/// How many folders a path goes up at its beginning.
fn climbs(path: &str) -> usize {
    path.trim_start_matches('/').split('/').take_while(|part| *part == "..").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(name: &str, package: &str, text: &str) -> bool {
        !lines(name, Path::new(package), text).is_empty()
    }

    #[test]
    fn what_is_joined_to_a_packages_folder_stays_in_the_repository() {
        let file = "collector/etl/src/a.rs";
        assert!(is_found(file, "collector/etl", &joined("/../../../shared/x")));
        assert!(!is_found(file, "collector/etl", &joined("/../../bpf/x")));
        assert!(is_found("tests/tests/a.rs", "tests", &joined("/../../x")));
        assert!(is_found("xtask/src/a.rs", "xtask", "root().join(\"../tools/x\")\n"));
        assert!(!is_found(file, "collector/etl", "symlink(\"../../../bus/pci\", to)\n"));
    }

    fn joined(path: &str) -> String {
        format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), \"{path}\")\n")
    }

    #[test]
    fn what_is_included_stays_in_the_repository() {
        let file = "collector/capture/src/a.rs";
        assert!(!is_found(file, "collector/capture", &included("../../../bpf/x.o")));
        assert!(is_found(file, "collector/capture", &included("../../../../x.o")));
        let manifest = "fuzz/Cargo.toml";
        assert!(!is_found(manifest, "fuzz", "etl = { path = \"../collector/etl\" }\n"));
        assert!(is_found(manifest, "fuzz", "etl = { path = \"../../etl\" }\n"));
    }

    fn included(path: &str) -> String {
        format!("include_bytes!(\"{path}\")\n")
    }

    #[test]
    fn scripts_stay_in_the_repository() {
        assert!(is_found("xtask/src/vm/guest.sh", "xtask", "cp ../shared/x .\n"));
        assert!(!is_found("xtask/src/vm/guest.sh", "xtask", "cd \"$(dirname \"$0\")/..\"\n"));
        assert!(!is_found(".ci/run", "", "[ -x ../shared/tools/x ]\n"), "it asks before a build");
    }
}
