//! Sections with links to files of debug information.

use crate::elf::{DEBUG_ALT_LINK, Layout};
use std::io::{Read, Seek, SeekFrom};
use syscollect_elf::BUILD_ID_MAX;
use syscollect_model::BuildId;
use syscollect_untrusted_files::OpenedFile;

/// Longer sections with a link are none.
const LINK_MAX: u64 = 8 << 10;

/// The build id of the file that the alternate link of `from` leads to.
pub(crate) fn alt_build_id(from: &OpenedFile, layout: &Layout) -> Option<BuildId> {
    let section = section(from, layout, DEBUG_ALT_LINK)?;
    let end = section.iter().position(|byte| *byte == 0)?;
    let id = &section[end + 1..];
    (1..=BUILD_ID_MAX).contains(&id.len()).then(|| BuildId::from_bytes(id))
}

/// The bytes of a section with a link.
pub(crate) fn section(file: &OpenedFile, layout: &Layout, name: &[u8]) -> Option<Vec<u8>> {
    let range = &layout.sections.iter().find(|section| section.name == name)?.bytes;
    let length = (range.end - range.start).min(LINK_MAX);
    let (mut reader, mut bytes) = (file.reader(), vec![0; length as usize]);
    reader.seek(SeekFrom::Start(range.start)).ok()?;
    reader.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
