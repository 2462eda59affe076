//! Files with debug information that others lead to: by build id, by debug link, by alternate link.
//!
//! What a file's sections say is anybody's: a name is taken only if it is a file's name and nothing
//! more, it is looked for only where debug files lie, and what is found must be what is meant, by
//! its build id or its sum.

use crate::elf::{DEBUG_ALT_LINK, DEBUG_LINK, Layout, build_id_in};
use crate::link_sections::section;
use crate::path::plain_path;
use crate::{Options, SymbolFiles};
use std::io::Read;
use std::path::{Path, PathBuf};
use syscollect_model::BuildId;
use syscollect_untrusted_files::{FileLocation, OpenedFile, Owner, open};

/// No file system has longer names.
const NAME_MAX: usize = 255;
/// Bytes that are summed up at once.
const BLOCK: usize = 1 << 20;

/// What files are looked for in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    /// Where separate debug files lie.
    pub(crate) debug_dirs: &'a [PathBuf],
    /// Files that the user named.
    pub(crate) symbol_files: &'a SymbolFiles,
    /// The path of the file that leads to others.
    pub(crate) path: &'a Path,
    /// No larger file is summed up, in bytes.
    pub(crate) summed_max: u64,
}

/// A debug file that was found.
#[derive(Debug)]
pub(crate) struct DebugFile {
    /// What it is called, for notes.
    pub(crate) path: PathBuf,
    pub(crate) opened: OpenedFile,
}

impl<'a> Search<'a> {
    /// For the file of the module that has this path.
    pub(crate) fn of(options: &'a Options, path: &'a str) -> Self {
        let Options { debug_dirs, symbol_files, debug_bytes_max, .. } = options;
        Self {
            debug_dirs,
            symbol_files,
            path: Path::new(plain_path(path)),
            summed_max: debug_bytes_max.saturating_mul(2),
        }
    }

    /// The debug information that distributions keep apart, by build id.
    pub(crate) fn by_build_id(&self, build_id: &BuildId) -> Option<DebugFile> {
        let digits = build_id.to_string();
        let (first, rest) = digits.split_at_checked(2).filter(|(_, rest)| rest.len() >= 2)?;
        let path = PathBuf::from(format!(".build-id/{first}/{rest}.debug"));
        let found = self.debug_dirs.iter().filter_map(|folder| below(folder, &path));
        found.into_iter().find(|file| build_id_in(file.opened.reader()).as_ref() == Some(build_id))
    }

    /// What the debug link of `from` leads to; the error says why it is not followed.
    pub(crate) fn by_link(
        &self,
        from: &OpenedFile,
        layout: &Layout,
    ) -> Result<Option<DebugFile>, String> {
        let Some(section) = section(from, layout, DEBUG_LINK) else { return Ok(None) };
        let Some((name, sum)) = link(&section) else {
            return Err("its debug link is damaged".into());
        };
        let Some(name) = plain_name(name) else {
            return Err("its debug link is a path, not a name: not followed".into());
        };
        let own = build_id_in(from.reader());
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        // What lies beside it is its owner's: it is looked at as they could.
        let owner = Owner::of_file(from.file());
        let beside =
            [name.to_owned(), Path::new(".debug").join(name)].into_iter().filter_map(|path| {
                let opened =
                    open(&FileLocation::Beside { folder, path: &path }, owner.as_ref()).ok()?;
                Some(DebugFile { path: folder.join(path), opened })
            });
        let kept = self
            .debug_dirs
            .iter()
            .flat_map(|dir| [(dir, inside.join(name)), (dir, name.to_owned())]);
        Ok(beside.chain(kept.filter_map(|(dir, path)| below(dir, &path))).find(|file| {
            let itself = file.opened.data().inode == from.data().inode
                && file.opened.data().device == from.data().device;
            !itself
                && match (&own, build_id_in(file.opened.reader())) {
                    (Some(own), Some(other)) => *own == other,
                    _ => self.sum(&file.opened) == Some(sum),
                }
        }))
    }

    /// What the alternate link of `from` leads to, with the build id that says so.
    pub(crate) fn by_alt_link(
        &self,
        from: &OpenedFile,
        layout: &Layout,
    ) -> Option<(DebugFile, Vec<u8>)> {
        let section = section(from, layout, DEBUG_ALT_LINK)?;
        let end = section.iter().position(|byte| *byte == 0)?;
        let (path, id) = (&section[..end], &section[end + 1..]);
        let build_id = BuildId::from_bytes(id);
        let is_it =
            |file: &DebugFile| build_id_in(file.opened.reader()).as_ref() == Some(&build_id);
        let named = self.symbol_files.symbols_of(&build_id);
        let named = named.map(|(path, opened)| DebugFile { path, opened });
        let found = named.or_else(|| self.by_build_id(&build_id)).or_else(|| {
            // Distributions keep them in a folder of their own, which links name in several ways.
            let text = Path::new(std::str::from_utf8(path).ok()?);
            let names: Vec<_> = text.components().collect();
            let kept = names.iter().rposition(|part| part.as_os_str() == ".dwz");
            let inside: PathBuf =
                names[kept.unwrap_or(names.len().saturating_sub(1))..].iter().collect();
            let mut found = self.debug_dirs.iter().filter_map(|dir| below(dir, &inside));
            found.find(is_it).or_else(|| {
                let (name, folder) = (plain_name(path)?, self.path.parent()?);
                let opened = open(
                    &FileLocation::Beside { folder, path: name },
                    Owner::of_file(from.file()).as_ref(),
                )
                .ok()?;
                Some(DebugFile { path: folder.join(name), opened }).filter(is_it)
            })
        })?;
        Some((found, id.to_vec()))
    }

    /// The sum that debug links have of the file that they mean.
    fn sum(&self, file: &OpenedFile) -> Option<u32> {
        let mut reader = file.reader();
        if reader.length() > self.summed_max {
            return None;
        }
        let (mut sum, mut block) = (crc32fast::Hasher::new(), vec![0; BLOCK]);
        loop {
            match reader.read(&mut block).ok()? {
                0 => return Some(sum.finalize()),
                read => sum.update(&block[..read]),
            }
        }
    }
}

fn below(folder: &Path, path: &Path) -> Option<DebugFile> {
    let opened = open(&FileLocation::Below { folder, path }, None).ok()?;
    Some(DebugFile { path: folder.join(path), opened })
}

/// A debug link's name, and the sum of what it means.
fn link(section: &[u8]) -> Option<(&[u8], u32)> {
    let end = section.iter().position(|byte| *byte == 0)?;
    let sum = section.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
    Some((&section[..end], u32::from_le_bytes(*sum)))
}

/// A file's name and nothing more.
fn plain_name(name: &[u8]) -> Option<&Path> {
    let plain = !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains(&b'/')
        && name != b"."
        && name != b"..";
    std::str::from_utf8(name).ok().filter(|_| plain).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_a_name_and_a_sum() {
        assert_eq!(link(b"x.debug\0\x01\x02\0\0"), Some((b"x.debug".as_slice(), 0x201)));
        assert_eq!(link(b"xy\0\0\x01\0\0\x80"), Some((b"xy".as_slice(), 0x8000_0001)));
        for damaged in [b"".as_slice(), b"x", b"x\0", b"x.debug\0\x01\x02\0", b"x\0\0"] {
            assert_eq!(link(damaged), None);
        }
    }

    #[test]
    fn only_names_are_names() {
        assert_eq!(plain_name(b"x.debug"), Some(Path::new("x.debug")));
        assert_eq!(plain_name(b"..x"), Some(Path::new("..x")));
        let long = [b'x'; 256];
        for other in [b"".as_slice(), b".", b"..", b"/etc/passwd", b"../x", b"a/b", b"a/", &long] {
            assert_eq!(plain_name(other), None);
        }
    }
}
