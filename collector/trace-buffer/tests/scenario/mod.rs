//! Chunks that are quickly made, and packets as lines.
//!
//! A fragment is one letter many times: `a*10`. A packet of several is `a*10+b*3`, and what its
//! sequence lost before it stands behind: `c*4 after 1 gap in chunk ids`.
#![allow(dead_code, reason = "each test needs a part of it")]

use syscollect_trace_buffer::{
    Batch, BatchLimit, Chunk, ChunkFlags, Commit, LossCause, Losses, Mode, Packet, Patch,
    SequenceId, TraceBuffer, push_fragment,
};

/// Three writers.
pub(crate) const A: SequenceId = SequenceId::new(1, 1);
pub(crate) const B: SequenceId = SequenceId::new(2, 1);
pub(crate) const C: SequenceId = SequenceId::new(3, 1);

/// A chunk that is being made.
#[derive(Clone)]
pub(crate) struct Draft {
    sequence: SequenceId,
    id: u32,
    fragments: u16,
    flags: ChunkFlags,
    is_complete: bool,
    payload: Vec<u8>,
}

pub(crate) fn chunk(sequence: SequenceId, id: u32) -> Draft {
    let flags = ChunkFlags::NONE;
    Draft { sequence, id, fragments: 0, flags, is_complete: true, payload: Vec::new() }
}

impl Draft {
    /// A fragment of `len` letters.
    pub(crate) fn with(mut self, letter: char, len: usize) -> Self {
        push_fragment(&mut self.payload, &vec![letter as u8; len]);
        self.fragments += 1;
        self
    }

    /// Bytes that are said to be a fragment.
    pub(crate) fn with_raw(mut self, bytes: &[u8]) -> Self {
        self.payload.extend(bytes);
        self.fragments += 1;
        self
    }

    /// One fragment, so long that the chunk takes `bytes` of the buffer.
    pub(crate) fn filling(self, letter: char, bytes: usize) -> Self {
        let prefix = if bytes - 16 > 128 { 2 } else { 1 };
        self.with(letter, bytes - 16 - prefix)
    }

    pub(crate) fn continued(mut self) -> Self {
        self.flags |= ChunkFlags::FROM_PREVIOUS;
        self
    }

    pub(crate) fn on_next(mut self) -> Self {
        self.flags |= ChunkFlags::ON_NEXT;
        self
    }

    pub(crate) fn needs_patch(mut self) -> Self {
        self.flags |= ChunkFlags::NEEDS_PATCH;
        self
    }

    /// Copied while its writer has it, of `room` bytes.
    pub(crate) fn scraped(mut self, room: usize) -> Self {
        self.is_complete = false;
        self.payload.resize(room, 0);
        self
    }

    pub(crate) fn saying(mut self, fragments: u16) -> Self {
        self.fragments = fragments;
        self
    }

    pub(crate) fn as_chunk(&self) -> Chunk<'_> {
        let Self { sequence, id, fragments, flags, is_complete, ref payload } = *self;
        Chunk { sequence, id, fragments, flags, is_complete, payload }
    }
}

/// A buffer in a scenario.
pub(crate) struct Scenario(pub(crate) TraceBuffer);

impl Scenario {
    pub(crate) fn ring(bytes: usize) -> Self {
        Self(TraceBuffer::new(bytes, Mode::Ring).expect("a size that can be had"))
    }

    pub(crate) fn discard(bytes: usize) -> Self {
        Self(TraceBuffer::new(bytes, Mode::Discard).expect("a size that can be had"))
    }

    pub(crate) fn commit(&mut self, draft: &Draft) -> Commit {
        let commit = self.0.commit(&draft.as_chunk());
        assert_eq!(self.0.inconsistency(), None);
        commit
    }

    /// Chunks that are all new.
    #[track_caller]
    pub(crate) fn store<const N: usize>(&mut self, drafts: [Draft; N]) {
        for draft in drafts {
            assert_eq!(self.commit(&draft), Commit::Stored);
        }
    }

    /// What a fold gets of the commit, without what is lost.
    pub(crate) fn fold(&mut self, draft: &Draft) -> String {
        let mut folded = Vec::new();
        self.0.commit_folding(&draft.as_chunk(), |packet| folded.push(content(&packet)));
        folded.join(", ")
    }

    pub(crate) fn patch(&mut self, sequence: SequenceId, id: u32, offset: u32, with: &str) -> bool {
        let patch = Patch { offset, bytes: with.as_bytes() };
        self.0.patch(sequence, id, &[patch], false).is_ok()
    }

    /// All that can be read.
    pub(crate) fn read(&mut self) -> String {
        let lines = lines(self.0.read(BatchLimit::NONE));
        assert_eq!(self.0.inconsistency(), None);
        lines
    }

    pub(crate) fn read_packets(&mut self, packets: u64) -> String {
        lines(self.0.read(BatchLimit::packets(packets)))
    }

    pub(crate) fn lost(&self) -> String {
        losses(&self.0.losses())
    }
}

pub(crate) fn lines(mut batch: Batch<'_>) -> String {
    let mut lines = Vec::new();
    while let Some(packet) = batch.next_packet() {
        lines.push(line(&packet));
    }
    lines.join(", ")
}

pub(crate) fn line(packet: &Packet<'_>) -> String {
    let content = content(packet);
    if packet.lost.is_empty() {
        content
    } else {
        format!("{content} after {}", losses(&packet.lost))
    }
}

fn content(packet: &Packet<'_>) -> String {
    let fragments: Vec<String> = packet.fragments().map(fragment).collect();
    fragments.join("+")
}

fn fragment(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|a, b| a == b);
    let shown = runs.map(|run| match run.len() {
        1 => format!("{}", run[0] as char),
        len => format!("{}*{len}", run[0] as char),
    });
    shown.collect()
}

pub(crate) fn losses(losses: &Losses) -> String {
    let causes = losses.causes();
    let shown: Vec<String> = LossCause::ALL
        .into_iter()
        .filter(|&cause| causes.contains(cause))
        .map(|cause| format!("{} {}", losses.count(cause), cause.name()))
        .collect();
    if shown.is_empty() { "nothing".into() } else { shown.join(" and ") }
}
