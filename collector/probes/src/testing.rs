//! ELF files made by hand, for tests.

/// The address at which the file's only loaded code begins, which is its byte [`CODE_OFFSET`].
pub(crate) const CODE: u64 = 0x1000;
/// Where the code lies in the file.
pub(crate) const CODE_OFFSET: u64 = 0x400;
/// The address of the data, which holds semaphores.
pub(crate) const DATA: u64 = 0x5000;
/// Where the data lies in the file.
pub(crate) const DATA_OFFSET: u64 = 0x800;
/// Bytes of each.
const SIZE: u64 = 0x400;

/// A section: its name, type, address, link and contents.
pub(crate) type Section = (&'static str, u32, u64, u32, Vec<u8>);

/// An ELF file that is a library for x86-64.
#[derive(Clone, Default)]
pub(crate) struct File {
    pub(crate) sections: Vec<Section>,
    /// Types and contents of segments that are not loaded.
    pub(crate) segments: Vec<(u32, Vec<u8>)>,
}

impl File {
    pub(crate) fn with_notes(notes: Vec<u8>) -> Self {
        Self { sections: vec![(".note.stapsdt", 7, 0, 0, notes)], ..Self::default() }
    }

    /// With a table of symbols for debuggers: name, type, binding, address.
    pub(crate) fn with_symbols(symbols: &[(&str, u8, u8, u64)]) -> Self {
        let (mut table, mut names) = (vec![0; 24], vec![0]);
        for (name, kind, bind, address) in symbols {
            table.extend((names.len() as u32).to_le_bytes());
            table.extend([bind << 4 | kind, 0, 1, 0]);
            table.extend(address.to_le_bytes());
            table.extend(16u64.to_le_bytes());
            names.extend(name.bytes().chain([0]));
        }
        // Section 0 is none, so the names are the third.
        Self {
            sections: vec![(".symtab", 2, 0, 2, table), (".strtab", 3, 0, 0, names)],
            ..Self::default()
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0; (DATA_OFFSET + SIZE) as usize];
        file[CODE_OFFSET as usize..DATA_OFFSET as usize].fill(0x90);
        let mut names = vec![0];
        let mut segments =
            [(1, 5, CODE_OFFSET, CODE, SIZE), (1, 6, DATA_OFFSET, DATA, SIZE)].to_vec();
        for (kind, contents) in &self.segments {
            segments.push((*kind, 4, file.len() as u64, 0, contents.len() as u64));
            file.extend(contents);
        }
        let mut headers = vec![0; 64];
        let names_section = (".shstrtab", 3, 0, 0, Vec::new());
        for (name, kind, address, link, contents) in self.sections.iter().chain([&names_section]) {
            let at = names.len();
            names.extend(name.bytes().chain([0]));
            let contents = if *name == ".shstrtab" { &names } else { contents };
            headers.extend([at as u32, *kind].iter().flat_map(|word| word.to_le_bytes()));
            let words = [0, *address, file.len() as u64, contents.len() as u64];
            headers.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            headers.extend([*link, 0].iter().flat_map(|word| word.to_le_bytes()));
            headers.extend([0u8; 16]);
            file.extend(contents);
        }
        let (sections_at, mut count) = (file.len() as u64, self.sections.len() as u16 + 2);
        if self.sections.is_empty() {
            count = 0;
        }
        file.extend(headers);
        let header = header(segments.len() as u16, sections_at, count);
        file[..64].copy_from_slice(&header);
        for (number, (kind, flags, offset, address, size)) in segments.into_iter().enumerate() {
            let words = [offset, address, address, size, size, 8];
            let segment =
                [u64::from(kind) | flags << 32].into_iter().chain(words).flat_map(u64::to_le_bytes);
            file[64 + 56 * number..][..56].copy_from_slice(&segment.collect::<Vec<u8>>());
        }
        file
    }
}

fn header(segments: u16, sections_at: u64, sections: u16) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    header.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    header.extend([CODE, 64, sections_at].iter().flat_map(|word| word.to_le_bytes()));
    header.extend([0; 4]);
    let names = sections.saturating_sub(1);
    header.extend(
        [64, 56, segments, 64, sections, names].iter().flat_map(|half: &u16| half.to_le_bytes()),
    );
    header
}

/// A note of a probe: its three addresses (site, base, semaphore) and texts.
pub(crate) fn note(addresses: [u64; 3], texts: &[&str]) -> Vec<u8> {
    let mut description: Vec<u8> =
        addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    for text in texts {
        description.extend(text.bytes().chain([0]));
    }
    raw_note(b"stapsdt\0", 3, &description)
}

/// Any note.
pub(crate) fn raw_note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
    let mut note: Vec<u8> = [owner.len() as u32, description.len() as u32, kind]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    note.extend(owner);
    note.resize(note.len().next_multiple_of(4), 0);
    note.extend(description);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}
