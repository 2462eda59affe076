//! Paths of mappings, as the kernel shows them.

/// Whether `path` can be looked up at all: no anonymous memory, no device.
///
/// Opening a device can do things; a mapping of one holds no functions.
pub(crate) fn names_a_file(path: &str) -> bool {
    is_of_file(path) && !names_a_memory_file(path)
}

/// Whether there is a file behind a mapping of this path, though it may have no name that anybody
/// could look up.
pub(crate) fn is_of_file(path: &str) -> bool {
    let device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    let memory = path.starts_with("/SYSV") || path.starts_with("//");
    path.starts_with('/') && !device && !memory
}

/// Whether that file lies in memory alone (`memfd_create`): only mappings and descriptors lead to
/// it.
pub(crate) fn names_a_memory_file(path: &str) -> bool {
    path.starts_with("/memfd:")
}

/// The path without what the kernel adds to those of deleted files.
pub(crate) fn plain_path(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}
