//! Chunks, the trace buffer, and the capture file.
//!
//! **Duties.** The format of a capture (`docs/capture-format.md`): [`Chunk`]s
//! of raw records that each decode alone, and [`Definition`]s that others
//! refer to; [`TraceBuffer`], which holds a bounded amount of them between the
//! lanes and the disk; [`CaptureWriter`] and [`CaptureReader`].
//!
//! **Non-goals.** No record is decoded here (that is `syscollect-merge`), and
//! no kernel interface is opened (that is `syscollect-capture`).
//!
//! ```
//! use syscollect_model::{Lane, LaneKind, Ticks};
//! use syscollect_store::{CaptureReader, CaptureWriter, Chunk, ChunkHeader, Definition};
//!
//! let lane = Lane::new(LaneKind::Sample, 3);
//! let data = vec![7; 240];
//! let header = ChunkHeader {
//!     lane,
//!     sequence: 0,
//!     first: Ticks(100),
//!     last: Ticks(900),
//!     current_tid: 0,
//!     stride: 24,
//!     records_before: 0,
//!     records: 10,
//!     length: 240,
//! };
//! let mut writer = CaptureWriter::create(Vec::new())?;
//! writer.write(&Chunk { header, data: data.clone() })?;
//! writer.define(&Definition::Counters(Vec::new()))?;
//! let file = writer.finish()?;
//!
//! let reader = CaptureReader::from_bytes(file)?;
//! let entry = &reader.chunks(lane)[0];
//! assert_eq!(reader.read(entry)?.data, data);
//! assert!(reader.damage().is_empty());
//! assert!(!reader.is_complete(), "no summary was written");
//! # Ok::<(), syscollect_store::StoreError>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod buffer;
mod chunk;
mod codec;
mod definition;
mod drain;
mod encoded_chunk;
mod error;
mod file_parts;
mod format;
#[cfg(test)]
mod hostile;
mod index;
mod kept_stacks;
mod lost_record;
mod reader;
mod scan;
mod shares;
mod transpose;
mod writer;

pub use buffer::{
    BufferMode, BufferSnapshot, Fold, FoldBounds, Popped, SnapshotLosses, TraceBuffer, UserOf,
};
pub use chunk::{Chunk, ChunkHeader};
pub use codec::ReadBuffer;
pub use definition::{
    ClientDefinition, CounterDefinition, Definition, KeptFile, KnownProcess, KnownSleep,
    KnownThread, LaneEnd, LaneLoss, ProbeArgument, ProbeDefinition, ProbeRole,
    TracepointDefinition, TracepointField, TracepointFieldKind, UnwoundStack,
};
pub use drain::drain_to;
pub use encoded_chunk::EncodedChunk;
pub use error::StoreError;
pub use file_parts::{FilePart, FilePartsWriter, PART_MAX, TakePart};
pub use format::{EMPTY_CAPTURE_BYTES, MAX_CHUNK};
pub use index::{Damage, IndexEntry};
pub use lost_record::LostRecord;
pub use reader::CaptureReader;
pub use shares::{LeftOutChunks, Producer, ProducerShares, fair_level};
pub use writer::CaptureWriter;
