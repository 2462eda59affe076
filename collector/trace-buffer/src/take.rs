//! Taking packets out of a sequence: the same for reading and for overwriting.

use crate::buffer::TraceBuffer;
use crate::fragment::{Fragment, first_fragment};
use crate::header::{ChunkHeader, HEADER_BYTES, StoredFlags};
use crate::loss::LossCause;
use crate::sequence::Before;
use crate::sequences::Slot;

/// Whether what is not there yet is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Reading: the sequence stalls.
    Wait,
    /// Overwriting: it is lost.
    Force,
}

/// A packet that was taken, and still lies in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Where its first fragment's content begins.
    pub(crate) at: usize,
    /// Bytes of that.
    pub(crate) first: usize,
    /// How many chunks behind the first of the sequence have a first fragment that belongs to it.
    pub(crate) chunks: usize,
    /// Bytes of all its fragments.
    pub(crate) bytes: usize,
}

/// What became of a packet that goes on in other chunks.
struct Chain {
    end: ChainEnd,
    /// Chunks behind the first whose first fragments belong to it.
    chunks: usize,
    /// Bytes of those fragments.
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainEnd {
    Whole,
    /// The rest is not there, or waits for a patch.
    Waits,
    /// The rest cannot come any more.
    Broken,
}

impl TraceBuffer {
    /// Takes the next packet of a sequence, from its first chunk up to the one at `target`, which is
    /// in its list; a packet that begins there may end behind it. `None` if there is none: the chunk
    /// at `target` was passed then, or, at [`Pace::Wait`], the sequence stalls.
    ///
    /// Ends: each turn consumes a fragment or passes a chunk, or is the last.
    pub(crate) fn take(&mut self, slot: Slot, target: u32, pace: Pace) -> Option<Taken> {
        loop {
            let offset = *self.sequences.get(slot).chunks.front()?;
            let header = self.block.header(offset);
            let unread = &self.block.payload(offset, header)[usize::from(header.read)..];
            let Ok(fragment) = first_fragment(unread) else {
                if pace == Pace::Wait && header.has(StoredFlags::INCOMPLETE) {
                    return self.stall(slot);
                }
                self.pass(slot, offset, header);
                if offset == target {
                    return None;
                }
                continue;
            };
            if header.read == 0 && header.has(StoredFlags::FROM_PREVIOUS) {
                self.drop_orphan(slot, offset, header, fragment);
                continue;
            }
            let is_last = fragment.bytes() == unread.len();
            let at = offset as usize + HEADER_BYTES + usize::from(header.read) + fragment.prefix;
            let mut taken = Taken { at, first: fragment.len, chunks: 0, bytes: fragment.len };
            if is_last && header.has(StoredFlags::NEEDS_PATCH | StoredFlags::ON_NEXT) {
                let chain = self.follow(slot, header);
                if chain.end == ChainEnd::Waits && pace == Pace::Wait {
                    return self.stall(slot);
                }
                self.begin(slot, header.id);
                self.consume_chain(slot, chain.chunks);
                match chain.end {
                    ChainEnd::Whole => {}
                    ChainEnd::Waits => self.lose(slot, LossCause::Overwritten, 1),
                    ChainEnd::Broken => self.lose(slot, LossCause::Reassembly, 1),
                }
                self.consume(offset, header, fragment);
                if chain.end != ChainEnd::Whole {
                    continue;
                }
                taken.chunks = chain.chunks;
                taken.bytes += chain.bytes;
            } else {
                self.begin(slot, header.id);
                self.consume(offset, header, fragment);
            }
            if taken.bytes > 0 {
                return Some(taken);
            }
        }
    }

    fn stall(&mut self, slot: Slot) -> Option<Taken> {
        self.sequences.get_mut(slot).is_stalled = true;
        None
    }

    #[inline]
    fn consume(&mut self, offset: u32, header: ChunkHeader, fragment: Fragment) {
        self.block.set_read(offset, header.read + fragment.bytes() as u16);
    }

    /// Consumes a fragment that goes on with a packet of which the beginning was not taken.
    fn drop_orphan(&mut self, slot: Slot, offset: u32, header: ChunkHeader, fragment: Fragment) {
        self.begin(slot, header.id);
        match self.sequences.get(slot).passed.map(|passed| passed.before) {
            Some(Before::InLostPacket) => {}
            Some(Before::Ended) => self.lose(slot, LossCause::Violation, 1),
            Some(Before::Unknown) | None => self.lose(slot, LossCause::Reassembly, 1),
        }
        self.consume(offset, header, fragment);
    }

    /// Looks where the packet ends that the last fragment of the first chunk belongs to. Each chunk
    /// behind it is looked at once at most.
    fn follow(&self, slot: Slot, first: ChunkHeader) -> Chain {
        let mut chain = Chain { end: ChainEnd::Waits, chunks: 0, bytes: 0 };
        if first.has(StoredFlags::NEEDS_PATCH) {
            return chain;
        }
        let mut last_id = first.id;
        for (index, &offset) in self.sequences.get(slot).chunks.iter().enumerate().skip(1) {
            let header = self.block.header(offset);
            last_id = last_id.wrapping_add(1);
            if header.id != last_id {
                chain.end = ChainEnd::Broken;
                return chain;
            }
            let payload = self.block.payload(offset, header);
            let Ok(fragment) = first_fragment(payload) else {
                if header.has(StoredFlags::INCOMPLETE) {
                    return chain;
                }
                if header.has(StoredFlags::CUT) {
                    chain.end = ChainEnd::Broken;
                    return chain;
                }
                // A chunk with nothing in it is in nobody's way.
                continue;
            };
            if !header.has(StoredFlags::FROM_PREVIOUS) || header.read > 0 {
                chain.end = ChainEnd::Broken;
                return chain;
            }
            let is_last = fragment.bytes() == payload.len();
            if is_last && header.has(StoredFlags::NEEDS_PATCH) {
                return chain;
            }
            chain.chunks = index;
            chain.bytes += fragment.len;
            if !(is_last && header.has(StoredFlags::ON_NEXT)) {
                chain.end = ChainEnd::Whole;
                return chain;
            }
        }
        chain
    }

    /// Consumes the first fragments of so many chunks behind the first.
    fn consume_chain(&mut self, slot: Slot, chunks: usize) {
        let list = &self.sequences.get(slot).chunks;
        for &offset in list.iter().skip(1).take(chunks) {
            let header = self.block.header(offset);
            if let Ok(fragment) = first_fragment(self.block.payload(offset, header)) {
                self.block.set_read(offset, fragment.bytes() as u16);
            }
        }
    }
}
