//! Semaphores that the kernel cannot raise.
//!
//! It finds a semaphore by its place in the file, in the first writable mapping
//! of that place. lld lets the read-only-after-relocation segment and the data
//! segment share a page of the file. While a program is loaded both mappings
//! are writable, and the kernel raises the copy that is about to be wiped: the
//! program never sees that somebody listens. In programs that run already the
//! first of the two is read-only, and the right one is found.

use syscollect_elf::{Elf, ReadCache, Segment, abi};
use syscollect_untrusted_files::Reader;

use super::plan::Planned;

const PAGE: u64 = 4096;
const TROUBLE: &str = "its linker (lld) put its semaphores into a page that is mapped twice, so \
                       the kernel raises them only in programs that run already, not in those that \
                       start later; where the semaphore has a page of its own, or with the linker \
                       of GNU (-fuse-ld=bfd), it does";

/// What to say of the semaphores that are to be raised in a file, if they are of that kind.
pub(super) fn trouble<'a>(
    file: Reader,
    planned: impl Iterator<Item = &'a Planned>,
) -> Option<&'static str> {
    let semaphores: Vec<u64> =
        planned.map(|planned| planned.semaphore).filter(|offset| *offset != 0).collect();
    if semaphores.is_empty() {
        return None;
    }
    let writable = writable_pages(file).unwrap_or_default();
    mapped_twice(&writable, &semaphores).then_some(TROUBLE)
}

/// The pages of the file that are mapped writable, as ranges of bytes.
fn writable_pages(file: Reader) -> Option<Vec<(u64, u64)>> {
    let cache = ReadCache::new(file);
    let elf = Elf::of_x86_64(&cache).ok()?;
    Some(
        elf.loaded()
            .iter()
            .filter(|segment| segment.flags.contains(abi::PF_W) && segment.size > 0)
            .map(pages_of)
            .collect(),
    )
}

fn pages_of(segment: &Segment) -> (u64, u64) {
    let end = segment.offset.saturating_add(segment.size).checked_next_multiple_of(PAGE);
    (segment.offset & !(PAGE - 1), end.unwrap_or(u64::MAX))
}

fn mapped_twice(writable: &[(u64, u64)], semaphores: &[u64]) -> bool {
    semaphores.iter().any(|semaphore| {
        writable.iter().filter(|(start, end)| (start..end).contains(&semaphore)).count() > 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(path: &str) -> Reader {
        Reader::of(&std::fs::File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn a_page_in_two_writable_segments_is_mapped_twice() {
        let segments = [(0x5a000, 0x5e000), (0x5d000, 0x5f000)];
        assert!(mapped_twice(&segments, &[0x5daf0]));
        assert!(!mapped_twice(&segments, &[0x5e000]));
        assert!(!mapped_twice(&segments[..1], &[0x5daf0]));
    }

    #[test]
    fn the_writable_pages_of_this_program_are_whole_pages() {
        let pages = writable_pages(reader("/proc/self/exe")).unwrap();
        assert!(!pages.is_empty());
        assert!(
            pages.iter().all(|(start, end)| start % PAGE == 0 && end % PAGE == 0 && start < end)
        );
    }

    #[test]
    fn what_is_no_program_has_no_trouble() {
        let planned =
            Planned { offset: 0, semaphore: 1, probe: 1, arguments: Vec::new(), at_return: false };
        assert_eq!(trouble(reader("/etc/passwd"), [planned].iter()), None);
    }
}
