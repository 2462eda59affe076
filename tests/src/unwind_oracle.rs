//! Another unwinder, framehop, as the judge of walks by unwind tables.

use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder,
};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment};

type Bytes = Arc<[u8]>;
/// A section's addresses and bytes.
type Section = (std::ops::Range<u64>, Bytes);

/// What an ELF file has to unwind by.
#[derive(Debug)]
pub struct OracleFile {
    text: Option<std::ops::Range<u64>>,
    got: Option<std::ops::Range<u64>>,
    frames: Option<Section>,
    header: Option<Section>,
    /// Of each loaded segment where it begins in the file, and its address.
    segments: Vec<(u64, u64)>,
    /// What its unwind information describes, by address; it may overlap.
    described: Vec<std::ops::Range<u64>>,
}

impl OracleFile {
    /// Of a file's bytes; `None` if they are no ELF file.
    pub fn read(file: &[u8]) -> Option<Self> {
        let object = object::File::parse(file).ok()?;
        let [text, got, frames, header] = [".text", ".got", ".eh_frame", ".eh_frame_hdr"]
            .map(|name| object.section_by_name(name));
        let mut segments: Vec<_> =
            object.segments().map(|segment| (segment.file_range().0, segment.address())).collect();
        segments.sort_unstable();
        let frames = frames.as_ref().and_then(contents);
        Some(Self {
            described: frames.as_ref().map(described).unwrap_or_default(),
            text: text.as_ref().map(addresses),
            got: got.as_ref().map(addresses),
            frames,
            header: header.as_ref().and_then(contents),
            segments,
        })
    }

    /// Whether there is unwind information for the code at this byte of the file. Where there is
    /// none, framehop guesses by the instructions around it.
    pub fn describes(&self, offset: u64) -> bool {
        let Some(address) = self.meant(offset) else { return false };
        let after = self.described.partition_point(|code| code.start <= address);
        self.described[..after].last().is_some_and(|code| code.contains(&address))
    }

    /// The address that it gives to its byte `offset`.
    fn meant(&self, offset: u64) -> Option<u64> {
        let before = self.segments.iter().rev().find(|(begin, _)| begin & !0xfff <= offset);
        let (begin, meant) = before?;
        Some(meant.wrapping_sub(*begin).wrapping_add(offset))
    }

    /// How much further up it lies than it says, where its byte `offset` is mapped at `address`.
    fn bias(&self, address: u64, offset: u64) -> Option<u64> {
        Some(address.wrapping_sub(self.meant(offset)?))
    }

    /// The file, mapped so that its byte `offset` lies at `address`; `code` is what it has there.
    fn module(
        &self,
        code: std::ops::Range<u64>,
        address: u64,
        offset: u64,
    ) -> Option<Module<Bytes>> {
        let sections = ExplicitModuleSectionInfo {
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: self.frames.as_ref().map(|(addresses, _)| addresses.clone()),
            eh_frame: self.frames.as_ref().map(|(_, bytes)| bytes.clone()),
            eh_frame_hdr_svma: self.header.as_ref().map(|(addresses, _)| addresses.clone()),
            eh_frame_hdr: self.header.as_ref().map(|(_, bytes)| bytes.clone()),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(String::new(), code, self.bias(address, offset)?, sections))
    }
}

/// A walk by framehop, frame by frame, over the code that it was told of.
pub struct OracleWalk {
    unwinder: UnwinderX86_64<Bytes, MayAllocateDuringUnwind>,
    cache: CacheX86_64<MayAllocateDuringUnwind>,
    registers: UnwindRegsX86_64,
    address: FrameAddress,
    known: Vec<std::ops::Range<u64>>,
}

/// Where a step of such a walk led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleStep {
    /// To the caller, which goes on there.
    Caller(u64),
    /// There is no caller.
    End,
    /// It cannot tell.
    Unknown,
}

impl OracleWalk {
    /// From code at `ip` on.
    pub fn new(ip: u64, sp: u64, bp: u64) -> Self {
        Self {
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new_in(),
            registers: UnwindRegsX86_64::new(ip, sp, bp),
            address: FrameAddress::from_instruction_pointer(ip),
            known: Vec::new(),
        }
    }

    /// Tells it that `file` is mapped at the addresses `code`, its byte `offset` at `address`.
    pub fn add(
        &mut self,
        file: &OracleFile,
        code: std::ops::Range<u64>,
        address: u64,
        offset: u64,
    ) {
        if self.known.contains(&code) {
            return;
        }
        if let Some(module) = file.module(code.clone(), address, offset) {
            self.unwinder.add_module(module);
        }
        self.known.push(code);
    }

    /// To the caller, by what `read` says of the stack's words.
    pub fn step(&mut self, mut read: impl FnMut(u64) -> Option<u64>) -> OracleStep {
        let caller = self.unwinder.unwind_frame(
            self.address,
            &mut self.registers,
            &mut self.cache,
            &mut |address| read(address).ok_or(()),
        );
        match caller {
            Ok(Some(ip)) => match FrameAddress::from_return_address(ip) {
                Some(address) => {
                    self.address = address;
                    OracleStep::Caller(ip)
                }
                None => OracleStep::End,
            },
            Ok(None) => OracleStep::End,
            Err(_) => OracleStep::Unknown,
        }
    }
}

/// The code that entries of `.eh_frame` are of, in the order of its addresses.
fn described((place, bytes): &Section) -> Vec<std::ops::Range<u64>> {
    let section = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(place.start);
    let (mut entries, mut described) = (section.entries(&bases), Vec::new());
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = partial.parse(EhFrame::cie_from_offset) {
            described.push(fde.initial_address()..fde.end_address());
        }
    }
    described.sort_unstable_by_key(|code| code.start);
    described
}

fn addresses<'a>(section: &impl ObjectSection<'a>) -> std::ops::Range<u64> {
    section.address()..section.address() + section.size()
}

fn contents<'a>(section: &impl ObjectSection<'a>) -> Option<Section> {
    Some((addresses(section), section.data().ok()?.into()))
}
