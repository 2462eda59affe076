//! A trace buffer with guarantees.
//!
//! mod docs below
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
