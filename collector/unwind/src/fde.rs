//! Frame description entries (FDE) and what they have in common (CIE).

use crate::arch::RETURN_ADDRESS;
use crate::rule::Slice;
use gimli::{
    BaseAddresses, CommonInformationEntry, DwEhPe, FrameDescriptionEntry, UnwindOffset,
    UnwindSection,
};
use rustc_hash::FxHashMap;

/// Bytes of a CIE at most; compilers write 24. Every FDE may ask for another one to be evaluated.
pub(crate) const CIE_MAX: usize = 1024;
/// Bytes of an FDE at most; compilers write 40, and some 10,000 for the largest functions.
pub(crate) const FDE_MAX: usize = 512 << 10;
/// CIEs that are remembered; most files have three.
const CIES_MAX: usize = 1024;
/// What stands for a length of 64 bits, which follows.
const LONG: u32 = 0xffff_ffff;

/// Reads FDEs of a section.
pub(crate) struct FdeReader<'a, S> {
    bytes: &'a [u8],
    pub(crate) section: S,
    pub(crate) bases: &'a BaseAddresses,
    cies: FxHashMap<usize, Option<CommonInformationEntry<Slice<'a>>>>,
}

impl<'a, S: UnwindSection<Slice<'a>>> FdeReader<'a, S> {
    pub(crate) fn new(bytes: &'a [u8], section: S, bases: &'a BaseAddresses) -> Self {
        Self { bytes, section, bases, cies: FxHashMap::default() }
    }

    /// The FDE at the section's byte `offset`; `None` if there is none that can be used.
    pub(crate) fn fde(&mut self, offset: usize) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        if Length::at(self.bytes, offset)?.content > FDE_MAX {
            return None;
        }
        let partial = self.section.partial_fde_from_offset(self.bases, offset.into()).ok()?;
        let cie = self.cie(UnwindOffset::into(partial.cie_offset()))?;
        partial.parse(|_, _, _| Ok(cie.clone())).ok()
    }

    fn cie(&mut self, offset: usize) -> Option<CommonInformationEntry<Slice<'a>>> {
        if let Some(known) = self.cies.get(&offset) {
            return known.clone();
        }
        if self.cies.len() == CIES_MAX {
            self.cies.clear();
        }
        let cie = self.read_cie(offset);
        self.cies.insert(offset, cie.clone());
        cie
    }

    fn read_cie(&self, offset: usize) -> Option<CommonInformationEntry<Slice<'a>>> {
        // Looked at before it is parsed, which takes as long as its texts are.
        let length = Length::at(self.bytes, offset)?;
        if length.content > CIE_MAX {
            return None;
        }
        let cie = self.section.cie_from_offset(self.bases, offset.into()).ok()?;
        let is_known = cie.fde_address_encoding().is_none_or(is_absolute_or_relative);
        let is_usual = cie.address_size() == 8 && cie.return_address_register() == RETURN_ADDRESS;
        (is_known && is_usual).then_some(cie)
    }
}

/// Whether pointers are addresses, or seen from where they lie. Seen from anything else, nobody
/// here knows where the code is.
fn is_absolute_or_relative(encoding: DwEhPe) -> bool {
    [gimli::DW_EH_PE_absptr, gimli::DW_EH_PE_pcrel].contains(&encoding.application())
}

/// The number with which a CIE and an FDE begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    /// Bytes of the number itself.
    pub(crate) own: usize,
    /// Bytes that follow.
    pub(crate) content: usize,
}

impl Length {
    /// Bytes of the number at most.
    pub(crate) const OWN_MAX: usize = 12;

    pub(crate) fn at(bytes: &[u8], offset: usize) -> Option<Self> {
        let rest = bytes.get(offset..)?;
        let (short, rest) = rest.split_first_chunk()?;
        let short = u32::from_le_bytes(*short);
        if short != LONG {
            return Some(Self { own: 4, content: short as usize });
        }
        let content = u64::from_le_bytes(*rest.first_chunk()?);
        Some(Self { own: 12, content: usize::try_from(content).ok()? })
    }
}
