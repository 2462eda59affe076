//! The virtual machine in a file.

use crate::HotspotFileError;
use crate::list::Lists;
use crate::relocated::Relocated;
use syscollect_elf::{Elf, ReadRef, Sections, Segment, SymbolLimits, abi};
use syscollect_records::hotspot::{HotspotFile, continuation, member};

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

/// What says where frames of virtual threads lie in the heap: symbols that are not for the loader, and
/// bytes behind them; the order is that of [`continuation`]. There are none before OpenJDK 21.
const CONTINUATION: [&[(&[u8], u64)]; continuation::COUNT] = [
    &[(b"_ZN12StubRoutines19_cont_returnBarrierE", 0)],
    &[(b"_ZN28jdk_internal_vm_Continuation12_tail_offsetE", 0)],
    &[(b"_ZN26jdk_internal_vm_StackChunk10_pc_offsetE", 0)],
    &[(b"_ZN26jdk_internal_vm_StackChunk10_sp_offsetE", 0)],
    &[(b"_ZN26jdk_internal_vm_StackChunk14_bottom_offsetE", 0)],
    &[(b"_ZN26jdk_internal_vm_StackChunk14_parent_offsetE", 0)],
    &[(b"_ZN23InstanceStackChunkKlass16_offset_of_stackE", 0)],
    // The second is a structure of OpenJDK 21's.
    &[(b"_ZN14CompressedOops5_baseE", 0), (b"_ZN14CompressedOops11_narrow_oopE", 0)],
    &[(b"_ZN14CompressedOops6_shiftE", 0), (b"_ZN14CompressedOops11_narrow_oopE", 8)],
    &[(b"UseCompressedOops", 0)],
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
    file.continuation = continuation_places(&sections, code)?.unwrap_or_default();
    Ok(Some(file))
}

/// Where what [`CONTINUATION`] names is; `None` if the file does not say all of it.
fn continuation_places<'d, R: ReadRef<'d>>(
    sections: &Sections<'_, 'd, R>,
    code: &Segment,
) -> Result<Option<[u64; continuation::COUNT]>, HotspotFileError> {
    let Some(symbols) = sections.symbols(abi::SHT_SYMTAB, &LIMITS)? else { return Ok(None) };
    let mut places = [0; continuation::COUNT];
    for (place, names) in places.iter_mut().zip(CONTINUATION) {
        let found = names.iter().find_map(|(name, behind)| {
            symbols.find(name).map(|symbol| symbol.address.wrapping_add(*behind))
        });
        let Some(found) = found else { return Ok(None) };
        *place = as_code(found, code);
    }
    Ok(Some(places))
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
