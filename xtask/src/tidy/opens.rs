//! Crates that meet paths of other programs warn of whatever opens a file by its path (clippy's
//! `disallowed_methods`, listed in `clippy.toml`). That is allowed elsewhere, in tests and tools,
//! so a crate has to ask for it: here is seen to it that none forgets.

/// What they say in their roots.
const WARNED: &str = "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]";
/// Folders of crates that such paths get to.
const FOLDERS: [&str; 3] = ["collector/", "symbolize/", "exporters/"];
/// The crate that opens them.
const OPENER: &str = "collector/untrusted-files/";

/// Whether this file is the root of a crate that has to warn, and does not.
pub(super) fn is_missing(name: &str, text: &str) -> bool {
    let is_root = name.ends_with("/src/lib.rs") || name.ends_with("/src/main.rs");
    let meets_paths = FOLDERS.iter().any(|folder| name.starts_with(folder));
    is_root && meets_paths && !name.starts_with(OPENER) && !text.lines().any(|line| line == WARNED)
}

#[cfg(test)]
mod tests {
    use super::{WARNED, is_missing};

    #[test]
    fn a_crate_that_meets_paths_of_programs_warns_of_opening_them() {
        let warns = format!("//! A crate.\n\n{WARNED}\n");
        for root in
            ["collector/new/src/lib.rs", "collector/cli/src/main.rs", "symbolize/src/lib.rs"]
        {
            assert!(is_missing(root, "//! A crate.\n"), "{root}");
            assert!(is_missing(root, &format!("// {WARNED}\n")), "{root}: only a comment");
            assert!(!is_missing(root, &warns), "{root}");
        }
        let others = [
            "collector/cli/src/info.rs",
            "xtask/src/main.rs",
            "collector/untrusted-files/src/lib.rs",
        ];
        for other in others {
            assert!(!is_missing(other, ""), "{other}");
        }
    }
}
