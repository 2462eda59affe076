//! Who is asked for the names of an ELF file: this thread, or a process of its own.

use crate::apart::{ElfReaderApart, ReaderShare};
use crate::image::Image;
use crate::os::CAN_BE_APART;
use crate::reader::{ElfFunction, ElfReader};
use crate::turn::NamingPace;

/// An ELF file that is asked for names.
pub(crate) enum ElfSource<'a> {
    /// By this thread.
    Here(Box<ElfReader<'a>>),
    /// In a process of its own.
    Apart(ElfReaderApart<'a>),
}

impl<'a> ElfSource<'a> {
    /// Of a file that nobody built against this program.
    pub(crate) fn here(image: &'a Image) -> Self {
        Self::Here(Box::new(ElfReader::new(image)))
    }

    /// Of any file.
    pub(crate) fn apart(image: &'a Image, share: ReaderShare<'a>) -> Self {
        match CAN_BE_APART {
            true => Self::Apart(ElfReaderApart::new(image, share)),
            false => Self::here(image),
        }
    }

    /// See [`ElfReader::names`]; may stop where the pace is beyond `slowest`.
    ///
    /// # Errors
    ///
    /// In words.
    pub(crate) fn names(
        &mut self,
        addresses: &[u64],
        lines: bool,
        slowest: NamingPace,
    ) -> Result<Vec<Option<ElfFunction>>, String> {
        match self {
            Self::Here(reader) => reader.names(addresses, lines),
            Self::Apart(reader) => reader.names(addresses, lines, slowest),
        }
    }
}
