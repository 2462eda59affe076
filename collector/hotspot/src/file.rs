//! The virtual machine in a file.

use crate::HotspotFileError;
use crate::list::Lists;
use crate::relocated::Relocated;
use syscollect_elf::{Elf, ReadRef, Segment, SymbolLimits, abi};
use syscollect_records::hotspot::{HotspotFile, member};

/// Bytes of a symbol table and of its names that are read at most.
const LIMITS: SymbolLimits = SymbolLimits { table: 16 << 20, names: 16 << 20 };
/// Bytes before a piece of code at most; there are 8 or 16.
const BLOCK_HEADER_MAX: u32 = 64;

/// Members of structures, as versions call them: the order is that of [`member`].
const MEMBERS: [&[(&str, &str)]; member::COUNT] = [
    // The second is OpenJDK 11's.
    &[("GrowableArrayBase", "_len"), ("GenericGrowableArray", "_len")],
    &[("GrowableArray<int>", "_data")],
    &[("CodeHeap", "_memory")],
    &[("CodeHeap", "_segmap")],
    &[("CodeHeap", "_log2_segment_size")],
    &[("VirtualSpace", "_low_boundary")],
    &[("VirtualSpace", "_high_boundary")],
    &[("VirtualSpace", "_low")],
    &[("CodeBlob", "_size")],
    &[("CodeBlob", "_frame_size")],
    &[("CodeBlob", "_frame_complete_offset")],
    // The second is of OpenJDK 23 and newer.
    &[("CodeBlob", "_code_begin"), ("CodeBlob", "_code_offset")],
    &[("StubQueue", "_stub_buffer")],
    &[("StubQueue", "_buffer_limit")],
];

/// Whether a file at such a path may hold a virtual machine: what is called otherwise is not looked
/// at.
pub fn may_hold_machine(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("libjvm.so"))
}

/// Where the virtual machine in an ELF file of x86-64 says what the kernel programs read; `None` if
/// there is none in it.
///
/// # Errors
///
/// If it is no ELF file, or its list of structures lacks what is needed.
pub fn machine<'d, R: ReadRef<'d>>(data: R) -> Result<Option<HotspotFile>, HotspotFileError> {
    let elf = Elf::of_x86_64(data)?;
    let sections = elf.sections()?;
    let Some(symbols) = sections.symbols(abi::SHT_DYNSYM, &LIMITS)? else { return Ok(None) };
    if symbols.find(b"gHotSpotVMStructs").is_none() {
        return Ok(None);
    }
    let data = Relocated::read(&elf, &sections)?;
    let lists = Lists::find(&data, &symbols).ok_or(HotspotFileError::BadList)?;
    let code = elf.loaded().code().next().ok_or(HotspotFileError::BadList)?;
    let mut file = HotspotFile {
        heaps: as_code(lists.member(&[("CodeCache", "_heaps")])?.address, code),
        interpreter: as_code(lists.member(&[("AbstractInterpreter", "_code")])?.address, code),
        call_stub: as_code(
            lists.member(&[("StubRoutines", "_call_stub_return_address")])?.address,
            code,
        ),
        block_header: lists.size_of("HeapBlock")?,
        ..HotspotFile::default()
    };
    for (place, names) in file.members.iter_mut().zip(MEMBERS) {
        *place = as_code(lists.member(names)?.offset_at, code);
    }
    let complete = lists.member(MEMBERS[member::FRAME_COMPLETE])?;
    file.frame_complete_bytes = bytes_of_type(complete.type_name);
    let code_begin = lists.member(MEMBERS[member::CODE])?;
    if code_begin.type_name != b"address" {
        file.code_offset_bytes = bytes_of_type(code_begin.type_name);
    }
    if file.block_header > BLOCK_HEADER_MAX {
        return Err(HotspotFileError::BadList);
    }
    Ok(Some(file))
}

fn bytes_of_type(name: &[u8]) -> u16 {
    if matches!(name, b"int16_t" | b"u2" | b"uint16_t") { 2 } else { 4 }
}

/// Where an address would lie in the file, were all of it mapped like its code.
fn as_code(address: u64, code: &Segment) -> u64 {
    address.wrapping_sub(code.address).wrapping_add(code.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_may_hold_a_machine_are_told_by_their_names() {
        assert!(may_hold_machine("/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"));
        assert!(may_hold_machine("libjvm.so") && may_hold_machine("/tmp/libjvm.so (deleted)"));
        assert!(!may_hold_machine("/usr/lib/libjvm.so/libc.so.6"));
        assert!(!may_hold_machine("/usr/lib/libjsig.so"));
    }

    #[test]
    fn a_program_that_is_no_machine_has_none() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(machine(&*own).unwrap(), None);
        assert!(machine(&b"no ELF file"[..]).is_err());
    }
}
