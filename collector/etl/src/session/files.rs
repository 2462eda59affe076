//! Names of files that transfers name by a key.

use rustc_hash::{FxHashMap, FxHashSet};

/// What is told of a file's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// From now on it means the file.
    Created,
    /// It means the file.
    There,
    /// It meant the file.
    Deleted,
}

/// Names of the files that something is told of.
///
/// Most names are told at the end, of every file that is open then. Only those
/// are kept whose keys have been seen; of files that are opened, the last ones.
#[derive(Debug, Default)]
pub(super) struct Files {
    referenced: FxHashSet<u64>,
    names: FxHashMap<u64, Vec<FileName>>,
}

#[derive(Clone, Debug)]
struct FileName {
    at: u64,
    change: FileChange,
    path: Box<str>,
}

/// Files that are opened and of which nothing else was told yet.
const MOST_UNREFERENCED: usize = 1 << 16;
/// Files that one key meant, one after the other.
const MOST_NAMES: usize = 256;

impl Files {
    /// Something was told of the file.
    pub(super) fn reference(&mut self, file: u64) {
        self.referenced.insert(file);
    }

    /// Whether the name is worth to be read.
    pub(super) fn wants(&self, file: u64, change: FileChange) -> bool {
        self.referenced.contains(&file)
            || (change == FileChange::Created
                && self.names.len() < self.referenced.len() + MOST_UNREFERENCED)
    }

    /// The file's name at raw time `at`.
    pub(super) fn name(&mut self, file: u64, at: u64, change: FileChange, path: String) {
        let names = self.names.entry(file).or_default();
        if names.len() < MOST_NAMES {
            names.push(FileName { at, change, path: path.into() });
        }
    }

    /// Forgets what nothing refers to; to be called before the first look-up.
    pub(super) fn seal(&mut self, mut readable: impl FnMut(&mut String)) {
        let Self { referenced, names } = self;
        names.retain(|file, _| referenced.contains(file));
        for named in names.values_mut() {
            named.sort_by_key(|name| name.at);
            for name in named {
                let mut path = std::mem::take(&mut name.path).into_string();
                readable(&mut path);
                name.path = path.into();
            }
        }
        *referenced = FxHashSet::default();
    }

    /// The path of the file that the key meant at raw time `at`.
    pub(super) fn get(&self, file: u64, at: u64) -> Option<&str> {
        let names = self.names.get(&file)?;
        let (before, after) = names.split_at(names.partition_point(|name| name.at <= at));
        let before = before.last().filter(|name| name.change != FileChange::Deleted);
        let after = after.first().filter(|name| name.change != FileChange::Created);
        before.or(after).map(|name| &*name.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_means_the_file_of_its_time() {
        let mut files = Files::default();
        files.reference(7);
        files.name(7, 40, FileChange::Created, "second".into());
        files.name(7, 20, FileChange::Deleted, "first".into());
        files.seal(|path| path.insert(0, '/'));
        // It was deleted before the next was there.
        let names = [10, 19, 20, 39, 40, 99].map(|at| files.get(7, at));
        let [first, second] = [Some("/first"), Some("/second")];
        assert_eq!(names, [first, first, None, None, second, second]);
    }

    #[test]
    fn what_is_told_at_the_end_was_so_all_the_time() {
        let mut files = Files::default();
        files.reference(7);
        assert!(files.wants(7, FileChange::There) && !files.wants(8, FileChange::There));
        files.name(7, 90, FileChange::There, "open".into());
        files.seal(|_| {});
        assert_eq!((files.get(7, 0), files.get(8, 0)), (Some("open"), None));
    }
}
