//! The streams of a PDB, as far as they are needed to damage it on purpose.

/// Where the bytes of a stream lie in the file, in order.
pub fn places(file: &[u8], stream: u32) -> Vec<usize> {
    let page = word(file, 32) as usize;
    let pages = |length: u32| (length as usize).div_ceil(page);
    let (directory_length, map) = (word(file, 44), word(file, 52) as usize * page);
    let directory: Vec<usize> = (0..pages(directory_length))
        .flat_map(|index| bytes_of(word(file, map + 4 * index), page))
        .collect();
    let entry = |index: usize| word(file, directory[4 * index]);
    let length = |stream: u32| {
        Some(entry(1 + stream as usize)).filter(|length| *length != u32::MAX).unwrap_or(0)
    };
    let before: usize = (0..stream).map(|stream| pages(length(stream))).sum();
    let first = 1 + entry(0) as usize + before;
    let all = (first..first + pages(length(stream))).flat_map(|index| bytes_of(entry(index), page));
    all.take(length(stream) as usize).collect()
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
pub fn records(file: &[u8], places: &[usize], first: usize) -> Vec<(usize, u16)> {
    let mut found = Vec::new();
    let mut at = first;
    while let (Some(length @ 2..), Some(kind)) =
        (half_in(file, places, at), half_in(file, places, at + 2))
    {
        found.push((at, kind));
        at += 2 + usize::from(length);
    }
    found
}

fn half_in(file: &[u8], places: &[usize], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([file[*places.get(at)?], file[*places.get(at + 1)?]]))
}

fn word_in(file: &[u8], places: &[usize], at: usize) -> usize {
    let word: Vec<u8> = places[at..at + 4].iter().map(|place| file[*place]).collect();
    u32::from_le_bytes(word.try_into().unwrap()) as usize
}

/// Writes a number into a stream.
pub fn write(file: &mut [u8], places: &[usize], at: usize, number: u32) {
    for (offset, byte) in number.to_le_bytes().into_iter().enumerate() {
        file[places[at + offset]] = byte;
    }
}

/// The symbol file without the stream of section headers, as those of precompiled .NET images are.
pub fn without_section_headers(mut file: Vec<u8>) -> Vec<u8> {
    const DEBUG_INFORMATION: u32 = 3;
    const HEADER: usize = 64;
    let bytes = places(&file, DEBUG_INFORMATION);
    // Modules, contributions, map of sections, files, types; the further numbers of streams lie
    // behind one more part.
    let before: usize = (0..5).map(|part| word_in(&file, &bytes, 24 + 4 * part)).sum::<usize>()
        + word_in(&file, &bytes, 52);
    let number = HEADER + before + 2 * 5;
    bytes[number..number + 2].iter().for_each(|place| file[*place] = 0xff);
    file
}
