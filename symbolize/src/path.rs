//! Paths of mappings, as the kernel shows them.

/// Whether `path` can be looked up at all: no anonymous memory, no device.
///
/// Opening a device can do things; a mapping of one holds no functions.
pub(crate) fn names_a_file(path: &str) -> bool {
    let device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    let memory = path.starts_with("/memfd:") || path.starts_with("/SYSV") || path.starts_with("//");
    path.starts_with('/') && !device && !memory
}

/// The path without what the kernel adds to those of deleted files.
pub(crate) fn plain_path(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}
