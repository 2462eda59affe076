//! Files that programs write: recordings, exports, what was built. They are large, and those of
//! real machines name other people's processes.

use std::path::Path;

/// Endings of recordings and of what is exported from them.
const ENDINGS: [&str; 11] = [
    ".syscap", ".partial", ".pftrace", ".tracy", ".etl", ".json.gz", ".pb.gz", ".perf", ".lttng",
    ".profraw", ".gcda",
];
/// Files by their whole names.
const NAMES: [&str; 4] = ["perf.data", "perf.data.old", "core", "flamegraph.svg"];
/// Folders of what was built or measured, wherever they lie.
const FOLDERS: [&str; 4] = ["target", "__pycache__", "bench-results", "node_modules"];
/// Parts of recordings of GPUs, cut to some records (CONTRIBUTING.md).
const KEPT: &str = "tests/golden/gpu/";

/// Why a file of this name is not to be committed, if so.
pub(super) fn why_not(name: &str) -> Option<&'static str> {
    let path = Path::new(name);
    let file = path.file_name()?.to_str()?;
    if path
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .any(|folder| FOLDERS.iter().any(|built| folder.as_os_str() == *built))
    {
        return Some("it lies in a folder of what was built or measured");
    }
    let is_kept = name.starts_with(KEPT) && name.ends_with(".syscap");
    let is_written = NAMES.contains(&file) || ENDINGS.iter().any(|ending| file.ends_with(ending));
    (is_written && !is_kept).then_some("it is a recording, or was made of one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_write_is_found_and_what_people_write_is_not() {
        for written in [
            "x.syscap",
            "docs/x.syscap.partial",
            "x.pftrace",
            "tests/golden/x.syscap",
            "xtask/perf.data",
            "usdt-client/comparisons/target/release/x",
            "a.etl",
            "b/c.tracy",
        ] {
            assert!(why_not(written).is_some(), "{written}");
        }
        for ours in [
            "tests/golden/gpu/amdgpu.syscap",
            "bpf/probes.bpf.o",
            "collector/core/src/lib.rs",
            "collector/etl/src/lib.rs",
            "tests/golden/zones.txt",
            "exporters/src/tracy/target.rs",
        ] {
            assert_eq!(why_not(ours), None, "{ours}");
        }
    }
}
