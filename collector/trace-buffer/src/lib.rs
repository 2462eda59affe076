//! A trace buffer with guarantees.
//!
//! **Duties.** One block of memory, fixed at the start, that holds the newest packets of many
//! sequences ([`Mode::Ring`]) or the first ([`Mode::Discard`]). Writers commit [`Chunk`]s of
//! fragments, patch them later, and may commit a chunk again that was copied while they had it; a
//! reader gets whole packets, each sequence in its order, and with each packet what its sequence lost
//! before it, and why ([`LossCause`]). What a ring overwrites is handed to a fold first, packet by
//! packet, by the code that reads. The semantics are those of Perfetto's TraceBuffer V2, so that the
//! chunks of its producers fit in as they are; `docs/trace-buffer.md` lists the guarantees, each
//! with the test that shows it, and where this buffer promises more.
//!
//! **For whom.** Packets of producers that speak Perfetto's protocol, for which nothing listens yet.
//! The recorder's own lanes have the buffer of `syscollect-store`; `docs/trace-buffer.md` says why.
//!
//! **Non-goals.** No I/O, no threads and no locks: who shares a buffer locks it. No memory that
//! others write to: it is copied before it comes here. Nothing is said of what packets mean, and
//! nothing of time. No `unsafe`.
//!
//! ```
//! use syscollect_trace_buffer::{
//!     BatchLimit, Chunk, ChunkFlags, LossCause, Mode, SequenceId, TraceBuffer, push_fragment,
//! };
//!
//! let mut buffer = TraceBuffer::new(4096, Mode::Ring)?;
//! let sequence = SequenceId::new(1, 7);
//! let mut commit = |id, flags, fragments: &[&[u8]]| {
//!     let mut payload = Vec::new();
//!     for fragment in fragments {
//!         push_fragment(&mut payload, fragment);
//!     }
//!     let fragments = fragments.len() as u16;
//!     buffer.commit(&Chunk { sequence, id, fragments, flags, is_complete: true, payload: &payload });
//! };
//! commit(0, ChunkFlags::NONE, &[b"one"]);
//! // Chunk 1 never comes; the packet that begins in chunk 2 ends in chunk 3.
//! commit(2, ChunkFlags::ON_NEXT, &[b"two", b"thr"]);
//! commit(3, ChunkFlags::FROM_PREVIOUS, &[b"ee", b"four"]);
//!
//! let mut batch = buffer.read(BatchLimit::NONE);
//! let mut packets = Vec::new();
//! while let Some(packet) = batch.next_packet() {
//!     packets.push((packet.to_vec(), packet.lost.count(LossCause::Gap)));
//! }
//! let expected = [("one", 0), ("two", 1), ("three", 0), ("four", 0)];
//! assert!(packets.iter().map(|(bytes, gaps)| (bytes.as_slice(), *gaps)).eq(
//!     expected.map(|(text, gaps)| (text.as_bytes(), gaps))
//! ));
//! assert_eq!(buffer.chunks(), 0, "what was read is gone");
//! # Ok::<(), syscollect_trace_buffer::SizeError>(())
//! ```
//!
//! # Bounds
//!
//! Whatever writers say, nothing panics, and
//!
//! - **memory** is the block; 4 bytes for each chunk in it, and room for four times as many (chunks of
//!   4 KiB: 0.4 % of the block; chunks with nothing in them, which take 16 bytes: as much as the
//!   block again); and about 250 bytes for each sequence that is known, of which there are at most
//!   66,560 (all writers of a producer, and the last 1,024 without a chunk), or one for each KiB of
//!   the block where that is more. Chunks of further sequences are refused and counted. Reading takes
//!   no memory: packets are lent where they lie;
//! - **a commit** looks at each fragment of the chunk once (there are at most 65,535), copies it once,
//!   and consumes what it overwrites: chunks in that range, with what comes before each in its own
//!   sequence. A fragment is consumed once, so what many commits take is bounded by what they brought;
//!   a single one may have to pass all chunks of the sequences that it meets. To come out of order
//!   costs a search, and 4 bytes moved for each chunk behind;
//! - **a patch** looks at each fragment of one chunk once;
//! - **a batch** visits each extent of the block once, and what a sequence waits for is looked for
//!   again only when something of that sequence has changed. Padding beside padding becomes one.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod block;
mod buffer;
mod chunk;
mod commit;
mod fragment;
mod header;
mod loss;
mod packet;
mod patch;
mod read;
mod sequence;
mod sequences;
mod snapshot;
mod take;

pub use buffer::{MAX_BYTES, MIN_BYTES, Mode, SizeError, Statistics, TraceBuffer};
pub use chunk::{Chunk, ChunkFlags, Patch, SequenceId};
pub use commit::{Commit, Refusal};
pub use fragment::{ABORTED_SIZE, push_fragment};
pub use header::HEADER_BYTES;
pub use loss::{LossCause, LossCauses, Losses};
pub use packet::{Fragments, Packet};
pub use patch::PatchError;
pub use read::{Batch, BatchLimit};
pub use sequences::KEPT_EMPTY;
pub use snapshot::Snapshot;

/// Bytes that a chunk's payload has at most. A packet may have any number of chunks.
pub const MAX_PAYLOAD: usize = u16::MAX as usize;
