//! Payloads with 64-bit pointers behind headers that say 32.
//!
//! A 32-bit program that merges or relogs the trace of a 64-bit system gives every
//! record the header of its own width, and leaves the payload as it is. Read by the
//! header's word such a payload is an image at half an address, a stack of halves, or
//! nothing. What the payload is can be told from itself: from its length where that is
//! fixed, from where its texts end, and from addresses of the 64-bit kernel, which no
//! 32-bit payload can look like. Where that leaves a doubt the header is right.

use super::dxgkrnl;
use super::present;
use super::process::Process;
use super::{IMAGE_ID, Image, ImageChange, ImageDebugId, Lifecycle};
use crate::file::group;
use crate::{Class, Record};

/// Addresses of the 64-bit kernel have these bits.
const KERNEL: u64 = 0xffff_8000_0000_0000;
/// Between those of programs and of the kernel there are none.
const NOWHERE: std::ops::Range<u64> = 1 << 47..KERNEL;
/// Pages of images.
const PAGE: u64 = 0x1000;

/// The record with the width that its payload has.
#[inline]
pub fn of_payload<'a>(record: &Record<'a>) -> Record<'a> {
    Record { is_64_bit: record.is_64_bit || is_wide(record), ..*record }
}

/// Whether a record is of the graphics kernel, all of whose payloads have the width of the kernel.
/// Some hold no address that tells it.
#[inline]
pub fn is_of_graphics(record: &Record<'_>) -> bool {
    matches!(record.class, Class::Provider { provider: dxgkrnl::PROVIDER, .. })
}

/// Whether a record whose header says 32 bits has a payload of 64.
#[cold]
pub fn is_wide(record: &Record<'_>) -> bool {
    if record.is_64_bit {
        return false;
    }
    match record.class {
        Class::Kernel { group, opcode } => kernel(record, group, opcode),
        Class::Classic { class: IMAGE_ID, opcode: 36 } => by_content(record, names_symbols),
        Class::Provider { provider: dxgkrnl::PROVIDER, .. } => is_kernel_address(record.payload, 0),
        Class::Provider { provider: present::DXGI, id: 42, .. } => record.payload.len() == 16,
        Class::Classic { .. } | Class::Provider { .. } | Class::Wpp => false,
    }
}

fn kernel(record: &Record<'_>, group: u8, opcode: u8) -> bool {
    let Record { payload, version, .. } = *record;
    // Narrow layouts that are shorter in every version have a length of their own.
    let length = payload.len();
    match (group, opcode) {
        (group::PERF_INFO, 46 | 66 | 68 | 69) => length >= 16,
        (group::PERF_INFO, 67) => is_kernel_address(payload, 8),
        (group::STACK, 32) => are_addresses(payload.get(16..)),
        (group::STACK, 35 | 36) => are_addresses(Some(payload)),
        (group::STACK, 37 | 38) => length >= 24,
        (group::DISK, 10 | 11) => version >= 2 && length >= 48,
        (group::DISK, 14) => is_kernel_address(payload, 16),
        (group::DISK, 12 | 13 | 15) => is_kernel_address(payload, 0),
        (group::PAGE_FAULT, 32) => length >= 40,
        (group::PAGE_FAULT, 10..=15) => length >= 16,
        (group::FILE, 0 | 32 | 35 | 36) => is_path(payload, 8) && !is_path(payload, 4),
        (group::THREAD, 1..=4) => thread(payload, version),
        (group::PROCESS, 1..=4 | 39) => by_content(record, names_process),
        (group::PROCESS, 10) | (group::IMAGE, 2..=4 | 10) => by_content(record, names_image),
        _ => false,
    }
}

/// Whether the payload makes sense as one of 64 bits, and none as one of 32.
fn by_content(record: &Record<'_>, makes_sense: fn(&Record<'_>) -> bool) -> bool {
    makes_sense(&Record { is_64_bit: true, ..*record })
        && !makes_sense(&Record { is_64_bit: false, ..*record })
}

/// Its stacks lie in the kernel; otherwise by where its name ends.
fn thread(payload: &[u8], version: u16) -> bool {
    let end = Some(payload.len());
    match version {
        0 | 1 => false,
        2 => payload.len() >= 68,
        _ => {
            payload.len() >= 72
                && (is_kernel_address(payload, 8)
                    || (text_end(payload, 72) == end && text_end(payload, 44) != end))
        }
    }
}

fn names_process(record: &Record<'_>) -> bool {
    let process = Process::decode(record, Lifecycle::Start);
    process.is_some_and(|process| process.pid < 1 << 30 && is_name(process.image_name.0))
}

fn names_image(record: &Record<'_>) -> bool {
    let image = Image::decode(record, ImageChange::Load);
    image.is_some_and(|image| {
        let is_aligned = image.base.is_multiple_of(PAGE) && image.size.is_multiple_of(PAGE);
        is_aligned && image.size > 0 && image.path.characters().next() == Some('\\')
    })
}

fn names_symbols(record: &Record<'_>) -> bool {
    let id = ImageDebugId::decode(record);
    id.is_some_and(|id| id.base.is_multiple_of(PAGE) && is_name(id.pdb.0))
}

fn is_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| *byte >= b' ' && *byte != 0x7f)
}

/// Whether an address of the 64-bit kernel lies there.
fn is_kernel_address(payload: &[u8], at: usize) -> bool {
    let address = payload.get(at..).and_then(<[u8]>::first_chunk).copied().map(u64::from_le_bytes);
    address.is_some_and(|address| address >= KERNEL)
}

/// Whether all of it is addresses as 64-bit CPUs have them. Two addresses of 32 bits
/// make none: the upper one would have to lie in the first or the last 32 KiB.
fn are_addresses(bytes: Option<&[u8]>) -> bool {
    let (addresses, rest) = bytes.unwrap_or_default().as_chunks::<8>();
    !addresses.is_empty()
        && rest.is_empty()
        && addresses.iter().all(|bytes| !NOWHERE.contains(&u64::from_le_bytes(*bytes)))
}

/// Whether a path begins there.
fn is_path(payload: &[u8], at: usize) -> bool {
    payload.get(at..at + 2) == Some(&[b'\\', 0])
}

/// Where UTF-16 text ends that begins there, with its zero; `None` where it has none.
fn text_end(payload: &[u8], at: usize) -> Option<usize> {
    let (units, _) = payload.get(at..)?.as_chunks::<2>();
    let length = units.iter().position(|unit| *unit == [0, 0]);
    match length {
        Some(length) => Some(at + (length + 1) * 2),
        None => units.is_empty().then_some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExtendedItems, Task};
    use proptest::prelude::*;

    fn record(class: Class, version: u16, payload: &[u8]) -> Record<'_> {
        let task = Some(Task { pid: 100, tid: 101 });
        let extended = ExtendedItems::default();
        Record { timestamp: 1, class, cpu: 0, task, version, is_64_bit: false, payload, extended }
    }

    fn stack(addresses: &[u64], is_64_bit: bool) -> Vec<u8> {
        let mut payload = vec![0; 16];
        for address in addresses {
            match is_64_bit {
                true => payload.extend(address.to_le_bytes()),
                false => payload.extend((*address as u32).to_le_bytes()),
            }
        }
        payload
    }

    const STACK: Class = Class::Kernel { group: group::STACK, opcode: 32 };

    #[test]
    fn a_stack_of_64_bits_is_told_from_one_of_32() {
        let kernel = [0xffff_f800_1000_0500, 0xffff_f800_1000_0600];
        let user = [0x7ff6_0000_1000, 0x7ffe_1234_5678];
        let below = [0x0040_1000, 0x7700_1234];
        for addresses in [kernel, user, below] {
            assert!(is_wide(&record(STACK, 2, &stack(&addresses, true))), "{addresses:x?}");
            assert!(!is_wide(&record(STACK, 2, &stack(&addresses, false))), "{addresses:x?}");
        }
    }

    #[test]
    fn what_says_64_bits_is_never_asked() {
        let payload = stack(&[1, 2], true);
        let record = Record { is_64_bit: true, ..record(STACK, 2, &payload) };
        assert!(!is_wide(&record));
        assert_eq!(of_payload(&record), record);
    }

    proptest! {
        #[test]
        fn stacks_of_32_bit_programs_stay_what_they_are(
            addresses in prop::collection::vec(0x10_0000_u32..0xfff0_0000, 1..40),
        ) {
            let addresses: Vec<u64> = addresses.into_iter().map(u64::from).collect();
            prop_assert!(!is_wide(&record(STACK, 2, &stack(&addresses, false))));
            prop_assert!(is_wide(&record(STACK, 2, &stack(&addresses, true))));
        }

        #[test]
        fn any_payload_of_any_kind_is_one_or_the_other(
            group: u8,
            opcode: u8,
            version in 0..6_u16,
            payload in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let asked = record(Class::Kernel { group, opcode }, version, &payload);
            prop_assert_eq!(of_payload(&asked).is_64_bit, is_wide(&asked));
        }
    }
}
