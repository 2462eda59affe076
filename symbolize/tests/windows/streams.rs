//! The streams of a PDB, as far as they are needed to damage it on purpose.

/// Where the bytes of a stream lie in the file, in order.
pub fn offsets(file: &[u8], stream: u32) -> Vec<usize> {
    let page = word(file, 32) as usize;
    let (directory_length, map) = (word(file, 44) as usize, word(file, 52) as usize * page);
    let directory = (0..directory_length.div_ceil(page))
        .flat_map(|index| bytes_of(word(file, map + 4 * index), page));
    // How many streams there are, how long each is, and which pages they have.
    let entries: Vec<u32> =
        directory.take(directory_length).step_by(4).map(|at| word(file, at)).collect();
    let lengths: Vec<usize> = entries[1..=entries[0] as usize]
        .iter()
        .map(|length| if *length == u32::MAX { 0 } else { *length as usize })
        .collect();
    let (before, from) = lengths.split_at(stream as usize);
    let before: usize = before.iter().map(|length| length.div_ceil(page)).sum();
    let first = 1 + lengths.len() + before;
    let pages = &entries[first..][..from[0].div_ceil(page)];
    pages.iter().flat_map(|number| bytes_of(*number, page)).take(from[0]).collect()
}

/// How many streams there are.
pub fn count(file: &[u8]) -> u32 {
    let page = word(file, 32) as usize;
    word(file, word(file, word(file, 52) as usize * page) as usize * page)
}

fn bytes_of(number: u32, page: usize) -> std::ops::Range<usize> {
    let start = number as usize * page;
    start..start + page
}

fn word(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
}

/// Records of a stream from `first` on: where each begins in the stream, and its kind.
pub fn records(file: &[u8], offsets: &[usize], first: usize) -> Vec<(usize, u16)> {
    let mut found = Vec::new();
    let mut at = first;
    while let (Some(length @ 2..), Some(kind)) =
        (half_in(file, offsets, at), half_in(file, offsets, at + 2))
    {
        found.push((at, kind));
        at += 2 + usize::from(length);
    }
    found
}

fn half_in(file: &[u8], offsets: &[usize], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([file[*offsets.get(at)?], file[*offsets.get(at + 1)?]]))
}

fn word_in(file: &[u8], offsets: &[usize], at: usize) -> usize {
    let word: Vec<u8> = offsets[at..at + 4].iter().map(|offset| file[*offset]).collect();
    u32::from_le_bytes(word.try_into().unwrap()) as usize
}

/// Writes a number into a stream.
pub fn write(file: &mut [u8], offsets: &[usize], at: usize, number: u32) {
    for (offset, byte) in number.to_le_bytes().into_iter().enumerate() {
        file[offsets[at + offset]] = byte;
    }
}

/// The symbol file without the stream of section headers, as those of precompiled .NET images are.
pub fn without_section_headers(mut file: Vec<u8>) -> Vec<u8> {
    const DEBUG_INFORMATION: u32 = 3;
    const HEADER: usize = 64;
    let bytes = offsets(&file, DEBUG_INFORMATION);
    // Modules, contributions, map of sections, files, types; the further numbers of streams lie
    // behind one more part.
    let before: usize = (0..5).map(|part| word_in(&file, &bytes, 24 + 4 * part)).sum::<usize>()
        + word_in(&file, &bytes, 52);
    let number = HEADER + before + 2 * 5;
    bytes[number..number + 2].iter().for_each(|offset| file[*offset] = 0xff);
    file
}
