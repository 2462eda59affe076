//! A packet on its way out.

use crate::block::Block;
use crate::buffer::TraceBuffer;
use crate::chunk::SequenceId;
use crate::fragment::first_fragment;
use crate::loss::Losses;
use crate::sequences::Slot;
use crate::take::Taken;
use std::collections::VecDeque;

/// A whole packet. Its bytes still lie in the buffer, in one fragment or more.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Whose packet it is.
    pub sequence: SequenceId,
    /// What its sequence was found to have lost since the packet before it was read. For a packet that
    /// goes to a fold: what no packet has reported yet.
    pub lost: Losses,
    taken: Taken,
    block: &'a Block,
    chunks: &'a VecDeque<u32>,
}

impl<'a> Packet<'a> {
    #[inline]
    pub(crate) fn new(
        buffer: &'a TraceBuffer,
        slot: Slot,
        sequence: SequenceId,
        lost: Losses,
        taken: Taken,
    ) -> Self {
        let chunks = &buffer.sequences.get(slot).chunks;
        Self { sequence, lost, taken, block: &buffer.block, chunks }
    }

    /// Bytes of all fragments together; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.taken.bytes
    }

    /// The content, which is that of the fragments one after the other. None is empty.
    #[inline]
    pub fn fragments(&self) -> Fragments<'a> {
        Fragments {
            first: Some(self.block.bytes(self.taken.at, self.taken.first)),
            chunks: self.chunks,
            next: 1,
            end: 1 + self.taken.chunks,
            block: self.block,
        }
    }

    /// The content at once, if it is one fragment.
    #[inline]
    pub fn as_slice(&self) -> Option<&'a [u8]> {
        (self.taken.chunks == 0).then(|| self.block.bytes(self.taken.at, self.taken.first))
    }

    /// Appends the content to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len());
        for fragment in self.fragments() {
            out.extend_from_slice(fragment);
        }
    }

    /// A copy of the content.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut content = Vec::new();
        self.append_to(&mut content);
        content
    }
}

/// The fragments of a [`Packet`], in order. Kept nowhere: each is found in its chunk when its turn
/// comes, so a packet of any number of them needs no memory.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    first: Option<&'a [u8]>,
    chunks: &'a VecDeque<u32>,
    /// The chunks whose first fragments come, of `chunks`.
    next: usize,
    end: usize,
    block: &'a Block,
}

impl<'a> Iterator for Fragments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first);
        }
        if self.next == self.end { None } else { self.next_of_chunks() }
    }
}

impl<'a> Fragments<'a> {
    fn next_of_chunks(&mut self) -> Option<&'a [u8]> {
        while self.next < self.end {
            let offset = *self.chunks.get(self.next)?;
            self.next += 1;
            let payload = self.block.payload(offset, self.block.header(offset));
            if let Ok(fragment) = first_fragment(payload)
                && fragment.len > 0
            {
                return Some(&payload[fragment.prefix..fragment.bytes()]);
            }
        }
        None
    }
}
