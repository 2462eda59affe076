//! Chunks, the trace buffer, and the capture file.
//!
//! **Duties.** The format of a capture (`docs/capture-format.md`): [`Chunk`]s
//! of raw records that each decode alone, and [`Definition`]s that others
//! refer to; [`TraceBuffer`], which holds a bounded amount of them between the
//! lanes and the disk; [`CaptureWriter`] and [`CaptureReader`].
//!
//! **Non-goals.** No record is decoded here (that is `syscollect-merge`), and
//! no kernel interface is opened (that is `syscollect-capture`).
mod chunk;
mod definition;

pub use chunk::{Chunk, ChunkHeader, Lane, LaneKind};
pub use definition::{CounterDefinition, Definition, KnownProcess, KnownThread, LaneLoss};
