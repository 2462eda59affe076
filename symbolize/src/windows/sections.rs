//! Where the sections of an image lie whose PDB has no section headers.
//!
//! Symbols of a PDB are at an offset in a section; where the sections lie is said by a copy of the
//! image's section headers. PDBs of precompiled .NET images have none. They have the lengths of the
//! sections in their order, and an image's sections follow each other in that order, each on a page
//! of its own (PE format, "Section Table"). Whether that is how the image lies is told by its
//! length, which the trace knows. Where that does not agree nothing is named: a name from the wrong
//! place is worse than none.
//!
//! The reader of PDBs makes section headers of the lengths by itself, without the pages between
//! them. Its addresses are those that [`Sections`] translates from and to.

use pdb_addr2line::pdb::ImageSectionHeader;

/// Where the first section begins: the headers take a page. And what sections begin at multiples
/// of.
const PAGE: u32 = 0x1000;

/// Why code cannot be placed in the sections of a PDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    /// Neither headers nor lengths.
    #[error("it does not say where the image's sections lie, so its symbols have no addresses")]
    Absent,
    /// There is nothing to compare the lengths with.
    #[error(
        "it has no section headers, as those of precompiled .NET images, and the trace does not \
         say how long the image is: where its code lies cannot be told"
    )]
    ImageLengthUnknown,
    /// The lengths make another image.
    #[error(
        "it has no section headers, as those of precompiled .NET images, and its sections make an \
         image of {sections:#x} bytes, not {image:#x}: where its code lies cannot be told"
    )]
    OtherLength {
        /// Bytes of the image that the sections make.
        sections: u64,
        /// Bytes of the image that was traced.
        image: u64,
    },
}

/// A section: where it lies in the image, where the reader believes it to lie, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    image: u32,
    reader: u32,
    length: u32,
}

/// Where sections lie; empty where the PDB says it itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sections(Vec<Section>);

impl Sections {
    /// What the reader found. `image_length` is `SizeOfImage`; 0 where it is not known.
    pub(super) fn new(
        found: &[ImageSectionHeader],
        image_length: u32,
    ) -> Result<Self, SectionError> {
        if found.is_empty() {
            return Err(SectionError::Absent);
        }
        // Those that the reader made have no names, and lie nowhere in the file.
        if !found.iter().all(|section| section.name == [0; 8] && section.pointer_to_raw_data == 0) {
            return Ok(Self::default());
        }
        if image_length == 0 {
            return Err(SectionError::ImageLengthUnknown);
        }
        let mut end = u64::from(PAGE);
        let mut sections = Vec::with_capacity(found.len());
        for section in found {
            let image = u32::try_from(end).unwrap_or(u32::MAX);
            sections.push(Section {
                image,
                reader: section.virtual_address,
                length: section.virtual_size,
            });
            end = (end + u64::from(section.virtual_size)).next_multiple_of(PAGE.into());
        }
        let image = u64::from(image_length).next_multiple_of(PAGE.into());
        if end == image {
            Ok(Self(sections))
        } else {
            Err(SectionError::OtherLength { sections: end, image })
        }
    }

    /// Where the reader looks for an address of the image; `None` where no section is.
    pub(super) fn to_reader(&self, address: u32) -> Option<u32> {
        self.translated(address, |section| (section.image, section.reader))
    }

    /// Where something begins in the image that the reader found at an address.
    pub(super) fn to_image(&self, address: u32) -> Option<u32> {
        self.translated(address, |section| (section.reader, section.image))
    }

    fn translated(&self, address: u32, ways: impl Fn(&Section) -> (u32, u32)) -> Option<u32> {
        if self.0.is_empty() {
            return Some(address);
        }
        self.0.iter().find_map(|section| {
            let (from, to) = ways(section);
            let offset = address.checked_sub(from).filter(|offset| *offset < section.length)?;
            to.checked_add(offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pdb_addr2line::pdb::SectionCharacteristics;

    fn header(name: &[u8; 8], virtual_address: u32, virtual_size: u32) -> ImageSectionHeader {
        ImageSectionHeader {
            name: *name,
            virtual_size,
            virtual_address,
            size_of_raw_data: virtual_size,
            pointer_to_raw_data: u32::from(name[0]),
            pointer_to_relocations: 0,
            pointer_to_line_numbers: 0,
            number_of_relocations: 0,
            number_of_line_numbers: 0,
            characteristics: SectionCharacteristics::default(),
        }
    }

    /// As the reader makes them: one behind the other.
    fn made() -> [ImageSectionHeader; 3] {
        [(0x1000, 0x1234), (0x2234, 0x10), (0x2244, 0x2000)]
            .map(|(at, length)| header(&[0; 8], at, length))
    }

    #[test]
    fn sections_without_headers_lie_on_pages_of_their_own() {
        let sections = Sections::new(&made(), 0x6000).unwrap();
        let addresses =
            [0x1000, 0x2233, 0x3000, 0x4000, 0x5fff].map(|address| sections.to_reader(address));
        assert_eq!(addresses, [0x1000, 0x2233, 0x2234, 0x2244, 0x4243].map(Some));
        assert_eq!(
            [0xfff, 0x2234, 0x3010, 0x6000].map(|address| sections.to_reader(address)),
            [None; 4]
        );
        assert_eq!(sections.to_image(0x2244), Some(0x4000));
    }

    #[test]
    fn an_image_of_another_length_is_not_believed() {
        let error = SectionError::OtherLength { sections: 0x6000, image: 0x7000 };
        assert_eq!(Sections::new(&made(), 0x6800), Err(error));
        assert_eq!(Sections::new(&made(), 0), Err(SectionError::ImageLengthUnknown));
        assert_eq!(Sections::new(&[], 0x6000), Err(SectionError::Absent));
    }

    #[test]
    fn headers_that_the_pdb_has_are_right() {
        let headers =
            [header(b".text\0\0\0", 0x1000, 0x1234), header(b".data\0\0\0", 0x9000, 0x10)];
        let sections = Sections::new(&headers, 0).unwrap();
        assert_eq!(
            [0x1001, 0x9008, 0x5000].map(|address| sections.to_reader(address)),
            [0x1001, 0x9008, 0x5000].map(Some)
        );
    }
}
