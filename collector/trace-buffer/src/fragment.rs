//! Fragments in a chunk's payload: a size and that many bytes each. Nothing here is trusted.

use crate::MAX_PAYLOAD;
use crate::chunk::Chunk;
use crate::header::{MANY_PACKETS, StoredFlags};

/// The size that a writer gives a fragment which it cannot finish, because it has no room to go on
/// (as Perfetto's writers do).
pub const ABORTED_SIZE: u64 = (1 << 28) - 1;

/// More bytes than this a 64-bit number does not take.
const LONGEST_SIZE: usize = 10;

/// Where a fragment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Bytes of its size field.
    pub(crate) prefix: usize,
    /// Bytes of its content.
    pub(crate) len: usize,
}

impl Fragment {
    /// Bytes with the size field.
    pub(crate) const fn bytes(self) -> usize {
        self.prefix + self.len
    }
}

/// Why no fragment could be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFragment {
    /// There are no more bytes.
    End,
    /// The writer gave it up ([`ABORTED_SIZE`]).
    Aborted,
    /// The size has no end, or more bytes than there are.
    Damaged,
}

/// The fragment at the beginning of `bytes`.
#[inline]
pub(crate) fn first_fragment(bytes: &[u8]) -> Result<Fragment, NoFragment> {
    let mut size = 0_u64;
    for (index, &byte) in bytes.iter().take(LONGEST_SIZE).enumerate() {
        size |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return sized(size, index + 1, bytes.len());
        }
    }
    Err(if bytes.is_empty() { NoFragment::End } else { NoFragment::Damaged })
}

#[inline]
fn sized(size: u64, prefix: usize, available: usize) -> Result<Fragment, NoFragment> {
    match usize::try_from(size) {
        Ok(len) if len <= available - prefix => Ok(Fragment { prefix, len }),
        _ if size == ABORTED_SIZE => Err(NoFragment::Aborted),
        _ => Err(NoFragment::Damaged),
    }
}

/// Appends `fragment` to a chunk's payload, with its size before it.
///
/// ```
/// let mut payload = Vec::new();
/// syscollect_trace_buffer::push_fragment(&mut payload, b"abc");
/// assert_eq!(payload, b"\x03abc");
/// ```
pub fn push_fragment(payload: &mut Vec<u8>, fragment: &[u8]) {
    let mut size = fragment.len();
    while size >= 0x80 {
        payload.push(size as u8 | 0x80);
        size >>= 7;
    }
    payload.push(size as u8);
    payload.extend_from_slice(fragment);
}

/// What can be used of a chunk that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    /// Bytes of the fragments that are whole, from the beginning of the payload.
    pub(crate) payload: u16,
    /// Flags that hold for what can be used.
    pub(crate) flags: StoredFlags,
    /// Fragments with content, or [`MANY_PACKETS`].
    pub(crate) packets: u8,
}

impl Survey {
    /// Looks at each fragment once; `None` if the payload is longer than any chunk's.
    pub(crate) fn of(chunk: &Chunk<'_>) -> Option<Self> {
        if chunk.payload.len() > MAX_PAYLOAD {
            return None;
        }
        let mut flags = StoredFlags::from_writer(chunk.flags);
        // The writer may be at the last fragment of a chunk that it still has.
        let fragments = chunk.fragments.saturating_sub(u16::from(!chunk.is_complete));
        let mut at = 0;
        let mut packets = 0_u32;
        for _ in 0..fragments {
            match first_fragment(&chunk.payload[at..]) {
                Ok(fragment) => {
                    at += fragment.bytes();
                    packets += u32::from(fragment.len > 0);
                }
                Err(NoFragment::Aborted) => {
                    flags.insert(StoredFlags::ABORTED);
                    break;
                }
                Err(NoFragment::End | NoFragment::Damaged) => {
                    flags.insert(StoredFlags::DAMAGED);
                    break;
                }
            }
        }
        if !chunk.is_complete {
            flags.insert(StoredFlags::INCOMPLETE);
        }
        // These speak of a last fragment, which is not there.
        if flags.intersects(StoredFlags::CUT | StoredFlags::INCOMPLETE) || at == 0 {
            flags.remove(StoredFlags::ON_NEXT | StoredFlags::NEEDS_PATCH);
        }
        let packets = u8::try_from(packets).unwrap_or(MANY_PACKETS);
        Some(Self { payload: u16::try_from(at).ok()?, flags, packets })
    }
}

/// Whether a fragment of `payload` ends at `at`, or the first begins there.
pub(crate) fn is_boundary(payload: &[u8], at: usize) -> bool {
    let mut reached = 0;
    while reached < at {
        match first_fragment(&payload[reached..]) {
            Ok(fragment) => reached += fragment.bytes(),
            Err(_) => return false,
        }
    }
    reached == at
}

/// Where the content of the last fragment of `payload` begins; `None` if it has none.
pub(crate) fn last_content(payload: &[u8]) -> Option<usize> {
    let mut content = None;
    let mut at = 0;
    while let Ok(fragment) = first_fragment(&payload[at..]) {
        content = Some(at + fragment.prefix);
        at += fragment.bytes();
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{ChunkFlags, SequenceId};

    fn chunk(payload: &[u8], fragments: u16) -> Chunk<'_> {
        let sequence = SequenceId::new(1, 1);
        Chunk { sequence, id: 0, fragments, flags: ChunkFlags::NONE, is_complete: true, payload }
    }

    #[test]
    fn sizes_may_be_longer_than_they_need_to_be() {
        assert_eq!(first_fragment(b"\x02ab"), Ok(Fragment { prefix: 1, len: 2 }));
        assert_eq!(first_fragment(b"\x82\x80\x80\x00ab"), Ok(Fragment { prefix: 4, len: 2 }));
        assert_eq!(first_fragment(b"\x00"), Ok(Fragment { prefix: 1, len: 0 }));
    }

    #[test]
    fn sizes_that_lie_are_no_fragments() {
        assert_eq!(first_fragment(b""), Err(NoFragment::End));
        assert_eq!(first_fragment(b"\x03ab"), Err(NoFragment::Damaged));
        assert_eq!(first_fragment(b"\x82"), Err(NoFragment::Damaged));
        assert_eq!(first_fragment(&[0xff; 64]), Err(NoFragment::Damaged));
        assert_eq!(first_fragment(b"\xff\xff\xff\x7f"), Err(NoFragment::Aborted));
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(first_fragment(&largest), Err(NoFragment::Damaged));
    }

    #[test]
    fn a_survey_stops_at_the_first_damage() {
        let survey = Survey::of(&chunk(b"\x01a\x00\x01b\x07c", 4)).expect("a short payload");
        assert_eq!((survey.payload, survey.packets), (5, 2));
        assert!(survey.flags.intersects(StoredFlags::DAMAGED));
    }

    #[test]
    fn more_fragments_than_there_are_is_damage_and_fewer_is_not() {
        let more = Survey::of(&chunk(b"\x01a", 2)).expect("a short payload");
        assert!(more.flags.intersects(StoredFlags::DAMAGED));
        let fewer = Survey::of(&chunk(b"\x01a\x01b", 1)).expect("a short payload");
        assert_eq!((fewer.payload, fewer.flags), (2, StoredFlags::NONE));
    }

    #[test]
    fn the_last_fragment_is_found_and_boundaries_are() {
        let payload = b"\x01a\x02bc";
        assert_eq!(last_content(payload), Some(3));
        assert_eq!(last_content(b""), None);
        let boundaries: Vec<_> = (0..=6).filter(|&at| is_boundary(payload, at)).collect();
        assert_eq!(boundaries, [0, 2, 5]);
    }
}
