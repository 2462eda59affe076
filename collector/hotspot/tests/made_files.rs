//! Libraries made by hand, with lists as HotSpot has them.

use proptest::prelude::*;
use syscollect_fixtures::elf::{CODE, CODE_OFFSET, DATA, DATA_OFFSET, File};
use syscollect_hotspot::{HotspotFileError, machine};
use syscollect_records::hotspot::{HotspotFile, continuation, member};

/// What OpenJDK 17 has of the members that are needed, in an order of its own: structure, member,
/// type, and where it is if it is static.
const OLDER: [(&str, &str, &str, u64); 17] = [
    ("VirtualSpace", "_low_boundary", "char*", 0),
    ("VirtualSpace", "_high_boundary", "char*", 0),
    ("VirtualSpace", "_low", "char*", 0),
    ("GrowableArrayBase", "_len", "int", 0),
    ("GrowableArray<int>", "_data", "int*", 0),
    ("CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 0x5100),
    ("CodeHeap", "_memory", "VirtualSpace", 0),
    ("CodeHeap", "_segmap", "VirtualSpace", 0),
    ("CodeHeap", "_log2_segment_size", "int", 0),
    ("AbstractInterpreter", "_code", "StubQueue*", 0x5108),
    ("StubQueue", "_stub_buffer", "address", 0),
    ("StubQueue", "_buffer_limit", "int", 0),
    ("StubRoutines", "_call_stub_return_address", "address", 0x5110),
    ("CodeBlob", "_size", "int", 0),
    ("CodeBlob", "_frame_size", "int", 0),
    ("CodeBlob", "_frame_complete_offset", "int", 0),
    ("CodeBlob", "_code_begin", "address", 0),
];
/// From OpenJDK 23 on.
const NEWER: [(&str, &str, &str, u64); 2] =
    [("CodeBlob", "_frame_complete_offset", "int16_t", 0), ("CodeBlob", "_code_offset", "int", 0)];
/// Where the lists lie among the data, which begins with the pointers to them.
const MEMBERS: u64 = 16;
const MEMBER: u64 = 48;
const TYPE: u64 = 40;

/// What OpenJDK 25 has of what says where frames of virtual threads are, in the order of
/// [`continuation`]; 21 has a structure in place of two.
const CONTINUATION: [&str; continuation::COUNT] = [
    "_ZN12StubRoutines19_cont_returnBarrierE",
    "_ZN28jdk_internal_vm_Continuation12_tail_offsetE",
    "_ZN26jdk_internal_vm_StackChunk10_pc_offsetE",
    "_ZN26jdk_internal_vm_StackChunk10_sp_offsetE",
    "_ZN26jdk_internal_vm_StackChunk14_bottom_offsetE",
    "_ZN26jdk_internal_vm_StackChunk14_parent_offsetE",
    "_ZN23InstanceStackChunkKlass16_offset_of_stackE",
    "_ZN14CompressedOops5_baseE",
    "_ZN14CompressedOops6_shiftE",
    "UseCompressedOops",
];
const NARROW_OOP: &str = "_ZN14CompressedOops11_narrow_oopE";
/// Where these lie.
const VIRTUAL_THREADS: u64 = 0x5200;

type Row = (&'static str, &'static str, &'static str, u64);

fn newer() -> [Row; 17] {
    let [.., complete, code] = NEWER;
    let mut rows = OLDER;
    rows[15..].copy_from_slice(&[complete, code]);
    rows
}

/// Puts addresses where the file's data is to have them.
struct Made {
    bytes: Vec<u8>,
    relocations: Vec<u8>,
    string_bytes: usize,
    are_relocated: bool,
}

impl Made {
    fn put(&mut self, at: u64, value: u64) {
        let at = (DATA_OFFSET + at) as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// An address is put there by the loader, or is there.
    fn put_address(&mut self, at: u64, address: u64) {
        if self.are_relocated {
            let row = [DATA + at, 8, address];
            self.relocations.extend(row.iter().flat_map(|word| word.to_le_bytes()));
        } else {
            self.put(at, address);
        }
    }

    /// Texts lie in the code.
    fn put_text(&mut self, at: u64, text: &str) {
        let address = CODE + self.string_bytes as u64;
        let place = CODE_OFFSET as usize + self.string_bytes;
        self.bytes[place..place + text.len()].copy_from_slice(text.as_bytes());
        self.bytes[place + text.len()] = 0;
        self.string_bytes += text.len() + 1;
        self.put_address(at, address);
    }
}

fn file(rows: &[Row], are_relocated: bool) -> Vec<u8> {
    file_with_symbols(rows, are_relocated, &[])
}

/// With a table of symbols that is not for the loader, if there are any; they lie from
/// [`VIRTUAL_THREADS`] on, 16 bytes apart.
fn file_with_symbols(rows: &[Row], are_relocated: bool, names: &[&str]) -> Vec<u8> {
    let types = MEMBERS + MEMBER * rows.len() as u64 + 8;
    let symbols = [("gHotSpotVMStructs", 1, 1, DATA), ("gHotSpotVMTypes", 1, 1, DATA + 8)];
    let mut file = File::with_symbols(&symbols);
    // Of the loader's table.
    file.sections[0].1 = 11;
    if !names.is_empty() {
        let addresses = (VIRTUAL_THREADS..).step_by(16);
        let symbols: Vec<_> =
            names.iter().zip(addresses).map(|(name, address)| (*name, 1, 0, address)).collect();
        let mut more = File::with_symbols(&symbols).sections;
        // The number of the section of their names: section 0 is none, and the loader's are two.
        more[0].3 = 4;
        file.sections.append(&mut more);
    }
    let mut made =
        Made { bytes: file.bytes(), relocations: Vec::new(), string_bytes: 0, are_relocated };
    made.put_address(0, DATA + MEMBERS);
    made.put_address(8, DATA + types);
    for (row, (structure, name, kind, address)) in (MEMBERS..).step_by(MEMBER as usize).zip(rows) {
        made.put_text(row, structure);
        made.put_text(row + 8, name);
        made.put_text(row + 16, kind);
        made.put(row + 24, u64::from(*address != 0));
        if *address != 0 {
            made.put_address(row + 40, *address);
        }
    }
    made.put_text(types, "HeapBlock");
    made.put(types + TYPE - 8, 16);
    let Made { bytes, relocations, .. } = made;
    if !are_relocated {
        return bytes;
    }
    let loaded = (CODE_OFFSET as usize)..(DATA_OFFSET as usize + 0x400);
    file.sections.push((".rela.dyn", 4, 0, 0, relocations));
    let mut whole = file.bytes();
    whole[loaded.clone()].copy_from_slice(&bytes[loaded]);
    whole
}

/// Where a file's data would lie, were all of it mapped like its code.
fn as_code(address: u64) -> u64 {
    address - CODE + CODE_OFFSET
}

fn offset_of(rows: &[Row], name: &str) -> u64 {
    let row = rows.iter().position(|row| row.1 == name).expect("it is there") as u64;
    as_code(DATA + MEMBERS + row * MEMBER + 32)
}

fn read(rows: &[Row], are_relocated: bool) -> HotspotFile {
    machine(&*file(rows, are_relocated)).expect("it is read").expect("it has one")
}

#[test]
fn the_places_of_offsets_are_found_by_names() {
    for rows in [OLDER, newer()] {
        let found = read(&rows, false);
        let statics = [found.heaps, found.interpreter, found.call_stub];
        assert_eq!(statics, [0x5100, 0x5108, 0x5110].map(as_code));
        assert_eq!(found.members[member::LENGTH], offset_of(&rows, "_len"));
        assert_eq!(found.members[member::FRAME_SIZE], offset_of(&rows, "_frame_size"));
        assert_eq!(found.members[member::INTERPRETER_SIZE], offset_of(&rows, "_buffer_limit"));
        assert_eq!(found.block_header, 16);
    }
    let (older, newer) = (read(&OLDER, false), read(&newer(), false));
    assert_eq!((older.frame_complete_bytes, older.code_offset_bytes), (4, 0));
    assert_eq!((newer.frame_complete_bytes, newer.code_offset_bytes), (2, 4));
}

#[test]
fn where_virtual_threads_have_their_frames_is_found_by_symbols() {
    let continuation_of = |names: &[&str]| {
        let bytes = file_with_symbols(&newer(), false, names);
        machine(&*bytes).expect("it is read").expect("it has one").continuation
    };
    let places: Vec<u64> = (VIRTUAL_THREADS..).step_by(16).map(as_code).take(10).collect();
    assert_eq!(continuation_of(&CONTINUATION)[..], places[..]);

    let mut with_structure = CONTINUATION;
    with_structure[continuation::NARROW_BASE] = NARROW_OOP;
    with_structure[continuation::NARROW_SHIFT] = "something";
    let found = continuation_of(&with_structure);
    assert_eq!(found[continuation::NARROW_BASE], places[continuation::NARROW_BASE]);
    assert_eq!(found[continuation::NARROW_SHIFT], places[continuation::NARROW_BASE] + 8);

    let nothing = [0; continuation::COUNT];
    assert_eq!(continuation_of(&CONTINUATION[1..]), nothing, "one is missing");
    assert_eq!(continuation_of(&[]), nothing, "the symbols were taken out");
}

#[test]
fn what_the_loader_puts_there_counts() {
    assert_eq!(read(&OLDER, true), read(&OLDER, false));
}

#[test]
fn a_machine_that_lacks_a_member_is_refused_and_told_which() {
    let lacking = machine(&*file(&OLDER[..16], false));
    assert!(matches!(lacking, Err(HotspotFileError::Lacks("_code_offset"))), "{lacking:?}");
}

#[test]
fn a_library_without_lists_has_no_machine() {
    let mut other = File::with_symbols(&[("main", 2, 1, CODE)]);
    other.sections[0].1 = 11;
    assert_eq!(machine(&*other.bytes()).unwrap(), None);
}

proptest! {
    #[test]
    fn whatever_a_file_holds_there_is_an_answer(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        are_relocated in any::<bool>(),
    ) {
        let mut bytes = file(&OLDER, are_relocated);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(Some(found)) = machine(&*bytes) {
            prop_assert!(found.block_header <= 64);
            prop_assert!(matches!(found.frame_complete_bytes, 2 | 4));
            prop_assert!(matches!(found.code_offset_bytes, 0 | 2 | 4));
        }
    }
}
