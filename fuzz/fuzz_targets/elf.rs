//! Whatever an ELF file holds, what can be asked of it has an answer or an error, and nothing that
//! is said to lie in the file lies outside of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_elf::{Elf, FrameIndex, Sections, SymbolLimits, abi};

const PART_MAX: u64 = 1 << 20;
const LIMITS: SymbolLimits = SymbolLimits { table: PART_MAX, names: PART_MAX };

// First the class, then the file behind its first 16 bytes: a search from nothing does not get
// there.
fuzz_target!(|bytes: &[u8]| {
    let Some((class, rest)) = bytes.split_first() else { return };
    let file = [b"\x7fELF", &[1 + class % 2, 1, 1][..], &[0; 9], rest].concat();
    let Ok(elf) = Elf::open(&file[..]) else { return };
    let length = file.len() as u64;
    for segment in elf.loaded().iter() {
        for address in [segment.address, segment.address.saturating_add(segment.size / 2)] {
            assert!(elf.code_offset(address).is_none_or(|offset| offset < length));
            assert!(elf.data_offset(address, 8).is_none_or(|offset| offset + 8 <= length));
            assert!(elf.loaded_bytes(address, 16).is_none_or(|bytes| bytes.len() <= 16));
        }
    }
    assert!(elf.build_id().is_none_or(|id| (1..=20).contains(&id.len())));
    if let Some(part) = elf.frame_index() {
        let bytes = elf.bytes(part.offset, part.size, "index", PART_MAX).unwrap_or_default();
        let _ = FrameIndex::parse(bytes, part.address).map(|index| index.row(&[0xff; 8]));
    }
    if let Ok(Some(dynamic)) = elf.dynamic() {
        for (_, number) in dynamic.entries() {
            assert!(dynamic.string(number, 64).is_none_or(|string| string.len() < 64));
        }
    }
    if let Ok(sections) = elf.sections() {
        read(&sections);
    }
});

fn read(sections: &Sections<'_, '_, &[u8]>) {
    for section in sections.iter() {
        let _ = (sections.name(section), sections.inflated_size(section));
        assert!([40, 64].contains(&sections.row(section).len()));
        let bytes = sections.bytes(section, "section", PART_MAX);
        assert!(bytes.is_err() || bytes.is_ok_and(|bytes| bytes.len() as u64 == section.file_size()));
    }
    for kind in [abi::SHT_SYMTAB, abi::SHT_DYNSYM] {
        if let Ok(Some(table)) = sections.symbols(kind, &LIMITS) {
            let _ = (table.find(b"main"), table.named().count());
        }
    }
}
