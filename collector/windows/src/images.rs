//! Which images a recording has, and the records that tell their PDBs' identities.
//!
//! A kernel session names images but not their PDBs. Tools that merge traces
//! (xperf, wpr) read each image's debug directory on the machine that recorded and
//! add one record for each: class KernelTraceControl, type 36. These are the same
//! records, so every reader of such traces finds them.

use std::collections::{BTreeMap, HashMap};

use syscollect_etl::file::Trace;
use syscollect_etl::payload::{Payload, decode};
use syscollect_etl::{Guid, Record};

use crate::identity::Identity;

/// An image that some process had, or the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// The kernel's name for its file.
    pub path: String,
    /// When it was linked, as its header says; 0 where that was not told.
    pub stamp: u32,
}

impl Image {
    /// Whether an identity is of this image, rather than of a file that took its name.
    #[must_use]
    pub fn is(&self, identity: &Identity) -> bool {
        self.stamp == 0 || self.stamp == identity.stamp
    }
}

/// An image in memory: process and base.
type ImageAddress = (u32, u64);

/// What a file says about images.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// By where each lay; `None` where one lay after another, for which one identity cannot stand.
    images_by_address: BTreeMap<ImageAddress, Option<Image>>,
    /// The last time stamp of the file, raw.
    pub(crate) end: u64,
}

impl Images {
    /// Reads all of a recording.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut images = Self::default();
        trace.scan(|_, record| images.note(record));
        images
    }

    fn note(&mut self, record: &Record<'_>) {
        self.end = self.end.max(record.timestamp);
        let Payload::Image(image) = decode(record) else { return };
        let address = (image.pid, image.base);
        let image = Image { path: image.path.to_string_lossy(), stamp: image.timestamp };
        let known = self.images_by_address.entry(address).or_insert_with(|| Some(image.clone()));
        if known.as_ref() != Some(&image) {
            *known = None;
        }
    }

    /// The records that report what `identify` knows, each image's file asked for once.
    pub(crate) fn records(
        &self,
        mut identify: impl FnMut(&Image) -> Option<Identity>,
    ) -> Vec<Vec<u8>> {
        let mut known: HashMap<&Image, Option<Identity>> = HashMap::new();
        let by_address = self.images_by_address.iter();
        let images = by_address.filter_map(|(address, image)| Some((*address, image.as_ref()?)));
        let records = images.filter_map(|(address, image)| {
            let identity = known.entry(image).or_insert_with(|| identify(image));
            identity.as_ref().map(|identity| record(self.end, address, identity))
        });
        records.collect()
    }
}

const KERNEL_TRACE_CONTROL: Guid = Guid::from_u128(0xb3e675d7_2554_4f18_830b_2762732560de);
/// DbgID_RSDS.
const RSDS: u8 = 36;
const HEADER: usize = 48;
/// A header with the class's GUID, 64-bit payload behind it.
const FULL_64: [u8; 2] = [20, 0xc0];
/// Records begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// One record: header, base, process, GUID, age, and the PDB's name with a 0 behind it.
fn record(timestamp: u64, (pid, base): ImageAddress, identity: &Identity) -> Vec<u8> {
    let name = identity.pdb.as_bytes();
    let size = HEADER + 8 + 4 + 16 + 4 + name.len() + 1;
    // A name has 4096 bytes at the most, so this fits.
    let mut bytes = Vec::with_capacity(size.next_multiple_of(ALIGNMENT));
    bytes.extend((size as u16).to_le_bytes());
    bytes.extend(FULL_64);
    bytes.extend([RSDS, 0, 2, 0]);
    // No thread wrote it.
    bytes.extend([0xff; 8]);
    bytes.extend(timestamp.to_le_bytes());
    bytes.extend(KERNEL_TRACE_CONTROL.0);
    bytes.extend([0; 8]);
    bytes.extend(base.to_le_bytes());
    bytes.extend(pid.to_le_bytes());
    bytes.extend(identity.guid.0);
    bytes.extend(identity.age.to_le_bytes());
    bytes.extend(name);
    bytes.resize(size, 0);
    bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use syscollect_etl::file::group;
    use syscollect_etl::{Class, ExtendedItems};

    fn payload(pid: u32, base: u64, stamp: u32, path: &str) -> Vec<u8> {
        let mut bytes = vec![0; 56];
        bytes[..8].copy_from_slice(&base.to_le_bytes());
        bytes[16..20].copy_from_slice(&pid.to_le_bytes());
        bytes[24..28].copy_from_slice(&stamp.to_le_bytes());
        bytes.extend(path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        bytes
    }

    fn images(payloads: &[Vec<u8>]) -> Images {
        let mut images = Images::default();
        for (timestamp, payload) in payloads.iter().enumerate() {
            let class = Class::Kernel { group: group::IMAGE, opcode: 10 };
            let (timestamp, extended) = (timestamp as u64, ExtendedItems::default());
            let record = Record {
                timestamp,
                class,
                cpu: 0,
                task: None,
                version: 3,
                is_64_bit: true,
                payload,
                extended,
            };
            images.note(&record);
        }
        images
    }

    pub(crate) fn identity() -> Identity {
        Identity { guid: Guid([7; 16]), age: 3, pdb: "a.pdb".to_owned(), stamp: 5 }
    }

    #[test]
    fn an_image_in_two_processes_is_read_once_and_told_twice() {
        let images = images(&[payload(1, 0x1000, 5, "a.dll"), payload(2, 0x1000, 5, "a.dll")]);
        let mut asked = 0;
        let records = images.records(|image| {
            asked += 1;
            assert_eq!(*image, Image { path: "a.dll".to_owned(), stamp: 5 });
            Some(identity())
        });
        assert_eq!((asked, records.len()), (1, 2));
    }

    #[test]
    fn an_image_that_is_told_of_again_when_the_recording_ends_is_still_one() {
        let images = images(&[payload(1, 0x1000, 5, "a.dll"), payload(1, 0x1000, 5, "a.dll")]);
        assert_eq!(images.records(|_| Some(identity())).len(), 1);
    }

    #[test]
    fn a_place_that_had_two_images_gets_no_identity_rather_than_a_wrong_one() {
        let images = images(&[payload(1, 0x1000, 5, "a.dll"), payload(1, 0x1000, 6, "b.dll")]);
        assert!(images.records(|_| Some(identity())).is_empty());
    }

    #[test]
    fn an_image_without_a_pdb_is_not_told() {
        let images = images(&[payload(1, 0x1000, 5, "a.dll")]);
        assert!(images.records(|_| None).is_empty());
    }

    #[test]
    fn a_file_that_was_linked_at_another_time_is_another_image() {
        assert!(image(5).is(&identity()) && !image(6).is(&identity()));
        assert!(image(0).is(&identity()), "nobody said when");
    }

    fn image(stamp: u32) -> Image {
        Image { path: "a.dll".to_owned(), stamp }
    }
}
