//! Which image lay where, in whose memory, and when.

use rustc_hash::FxHashMap;
use syscollect_model::BuildId;
use syscollect_playback::{ModuleKey, PdbIdentity, WindowsImage};

/// What drivers and the kernel itself are filed under: their addresses are the same in every
/// process.
pub(super) const KERNEL_SPACE: u32 = u32::MAX;
/// Addresses from here on are the kernel's on 64-bit Windows.
pub(super) const KERNEL_HALF: u64 = 1 << 63;

/// An image in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) base: u64,
    pub(super) size: u64,
    /// Raw time since which it was there; 0 where it was there before the recording.
    pub(super) since: u64,
    /// Raw time at which it was gone.
    pub(super) until: u64,
    pub(super) path: String,
    pub(super) timestamp: u32,
    /// Row of the modules, once [`Images`] are complete.
    pub(super) module: u32,
}

/// What a record says of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageAction {
    Load,
    Unload,
    /// It is there: told at the beginning or at the end of a recording.
    Rundown,
}

/// A record about an image.
#[derive(Clone, Debug)]
pub(super) struct ImageRecord {
    pub(super) at: u64,
    pub(super) action: ImageAction,
    pub(super) pid: u32,
    pub(super) base: u64,
    pub(super) size: u64,
    pub(super) timestamp: u32,
    pub(super) path: String,
}

/// What images of each process lay where, and when.
#[derive(Debug, Default)]
pub(super) struct Images {
    spaces: FxHashMap<u32, ProcessImages>,
    /// Some code of the kernel lies in the lower half: a 32-bit kernel.
    low_kernel: bool,
}

#[derive(Debug, Default)]
struct ProcessImages {
    images: Vec<Image>,
    /// Raw times at which something came or went, ascending.
    changes: Vec<u64>,
    /// When the process before it had ended, 0 for the first of its id.
    began: u64,
}

/// The identity that an image's debug directory names, by where the image lies.
pub(super) type Identities = FxHashMap<(u32, u64), PdbIdentity>;

impl Images {
    /// The space that an image belongs to.
    pub(super) fn space_of(pid: u32, base: u64) -> u32 {
        if base >= KERNEL_HALF || pid == 0 { KERNEL_SPACE } else { pid }
    }

    /// Whether an address is the kernel's.
    #[inline]
    pub(super) fn is_kernel(&self, at: u64, address: u64) -> bool {
        address >= KERNEL_HALF
            || (self.low_kernel && self.find(KERNEL_SPACE, at, address).is_some())
    }

    /// Takes all records about images, and when processes of an id ended (pid, raw time).
    pub(super) fn new(mut records: Vec<ImageRecord>, ends: &[(u32, u64)]) -> Self {
        let mut images = Self::default();
        records.sort_by_key(|record| record.at);
        let mut ends: Vec<(u32, u64)> = ends.to_vec();
        ends.sort_unstable_by_key(|(_, at)| *at);
        let mut ends = ends.into_iter().peekable();
        for record in records {
            while let Some((pid, at)) = ends.next_if(|(_, at)| *at < record.at) {
                images.end(pid, at);
            }
            images.apply(record);
        }
        ends.for_each(|(pid, at)| images.end(pid, at));
        images.low_kernel = images.spaces.get(&KERNEL_SPACE).is_some_and(ProcessImages::has_low);
        images.spaces.values_mut().for_each(ProcessImages::seal);
        images
    }

    fn end(&mut self, pid: u32, at: u64) {
        if let Some(space) = self.spaces.get_mut(&pid) {
            space.end(at);
        }
    }

    fn apply(&mut self, record: ImageRecord) {
        let space = self.spaces.entry(Self::space_of(record.pid, record.base)).or_default();
        let ImageRecord { at, action, base, size, timestamp, path, .. } = record;
        let there = space
            .images
            .iter_mut()
            .rev()
            .find(|image| image.base == base && image.until == u64::MAX);
        match (action, there) {
            (ImageAction::Unload, Some(image)) => image.until = at,
            (ImageAction::Rundown, Some(image)) if image.size == size => {}
            // One that was there before the recording, and is told of as it goes or at the end.
            (ImageAction::Rundown | ImageAction::Unload, there) => {
                let until = if action == ImageAction::Unload { at } else { u64::MAX };
                let since = there.map_or(space.began, |_| at);
                space.images.push(Image { base, size, since, until, path, timestamp, module: 0 });
            }
            (ImageAction::Load, _) => {
                space.images.push(Image {
                    base,
                    size,
                    since: at,
                    until: u64::MAX,
                    path,
                    timestamp,
                    module: 0,
                });
            }
        }
    }

    /// Gives every image its row of modules.
    pub(super) fn identify(&mut self, mut module: impl FnMut(u32, &Image) -> u32) {
        for (pid, space) in &mut self.spaces {
            for image in &mut space.images {
                image.module = module(*pid, image);
            }
        }
    }

    /// The image that showed `address` in a space at raw time `at`: the newest one.
    pub(super) fn find(&self, space: u32, at: u64, address: u64) -> Option<&Image> {
        let images = &self.spaces.get(&space)?.images;
        images.iter().rev().find(|image| {
            image.since <= at
                && at <= image.until
                && address >= image.base
                && address - image.base < image.size
        })
    }

    /// A number that changes whenever the space does.
    #[inline]
    pub(super) fn epoch(&self, space: u32, at: u64) -> u32 {
        self.spaces
            .get(&space)
            .map_or(0, |space| space.changes.partition_point(|change| *change <= at) as u32)
    }
}

impl ProcessImages {
    /// The process ended: its id may be given to another.
    fn end(&mut self, at: u64) {
        self.images
            .iter_mut()
            .filter(|image| image.until == u64::MAX)
            .for_each(|image| image.until = at);
        self.began = at;
    }

    fn has_low(&self) -> bool {
        self.images.iter().any(|image| image.base < KERNEL_HALF)
    }

    fn seal(&mut self) {
        self.images.sort_by_key(|image| image.since);
        let ends = self.images.iter().map(|image| image.until.saturating_add(1));
        self.changes = self.images.iter().map(|image| image.since).chain(ends).collect();
        self.changes.sort_unstable();
        self.changes.dedup();
    }
}

/// What an image is known by: GUID, as it is written, and age; without a debug
/// directory its time stamp and its size.
pub(super) fn module_key(image: &Image, pdb: Option<&PdbIdentity>) -> (ModuleKey, WindowsImage) {
    let size = u32::try_from(image.size).unwrap_or(u32::MAX);
    let id = match pdb {
        Some(pdb) => {
            let [a, b, c, d, e, f, g, h, rest @ ..] = pdb.guid;
            [&[d, c, b, a, f, e, h, g], &rest[..], &pdb.age.to_be_bytes()].concat()
        }
        None if image.timestamp == 0 => Vec::new(),
        None => [image.timestamp.to_be_bytes(), size.to_be_bytes()].concat(),
    };
    let windows = WindowsImage { pdb: pdb.cloned(), size, timestamp: image.timestamp };
    (ModuleKey::mapped(&image.path, &BuildId::from_bytes(&id)), windows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64, action: ImageAction, base: u64, path: &str) -> ImageRecord {
        ImageRecord { at, action, pid: 7, base, size: 0x1000, timestamp: 1, path: path.into() }
    }

    fn paths(images: &Images, at: [u64; 4], address: u64) -> [Option<&str>; 4] {
        at.map(|at| images.find(7, at, address).map(|image| image.path.as_str()))
    }

    #[test]
    fn an_address_belongs_to_the_image_of_its_time() {
        use ImageAction::{Load, Unload};
        let records = vec![
            record(30, Load, 0x1000, "second"),
            record(20, Unload, 0x1000, "first"),
            record(10, Load, 0x1000, "first"),
        ];
        let images = Images::new(records, &[]);
        assert_eq!(
            paths(&images, [9, 15, 25, 30], 0x1fff),
            [None, Some("first"), None, Some("second")]
        );
        assert_eq!(paths(&images, [9, 15, 25, 30], 0x2000), [None; 4], "the end is not part of it");
        let epochs = [9, 10, 20, 21, 30].map(|at| images.epoch(7, at));
        assert_eq!(epochs, [0, 1, 1, 2, 3]);
    }

    #[test]
    fn what_is_told_at_the_end_was_there_before_the_beginning() {
        let images = Images::new(vec![record(90, ImageAction::Rundown, 0x1000, "early")], &[]);
        assert_eq!(paths(&images, [0, 50, 90, 99], 0x1000), [Some("early"); 4]);
    }

    #[test]
    fn the_next_process_of_the_same_id_has_none_of_the_images() {
        let records = vec![
            record(1, ImageAction::Load, 0x1000, "old"),
            record(90, ImageAction::Rundown, 0x1000, "new"),
        ];
        let images = Images::new(records, &[(7, 40)]);
        assert_eq!(
            paths(&images, [1, 40, 41, 90], 0x1000),
            [Some("old"), Some("new"), Some("new"), Some("new")]
        );
    }

    #[test]
    fn drivers_are_seen_from_every_process() {
        let driver = ImageRecord {
            base: KERNEL_HALF | 0x1000,
            ..record(0, ImageAction::Rundown, 0, "driver")
        };
        let images = Images::new(vec![driver], &[]);
        assert!(images.is_kernel(5, KERNEL_HALF) && !images.is_kernel(5, 0x1000));
        assert!(images.find(KERNEL_SPACE, 5, KERNEL_HALF | 0x1800).is_some());
    }

    #[test]
    fn a_pdb_identity_is_written_as_people_write_guids() {
        let image = Image {
            base: 0,
            size: 0x2000,
            since: 0,
            until: 0,
            path: "a.dll".into(),
            timestamp: 5,
            module: 0,
        };
        let mut guid = [0; 16];
        (0..16).for_each(|i| guid[i] = i as u8);
        let pdb = PdbIdentity { name: "a.pdb".into(), guid, age: 3 };
        let (key, _) = module_key(&image, Some(&pdb));
        assert_eq!(
            key.build_id.to_string(),
            "03020100050407060809 0a0b0c0d0e0f00000003".replace(' ', "")
        );
        assert_eq!(module_key(&image, None).0.build_id.to_string(), "0000000500002000");
    }
}
