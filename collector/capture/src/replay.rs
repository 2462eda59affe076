//! A source that replays recorded chunks: everything behind the sources can be
//! run and tested without a kernel that records.

use std::collections::BTreeMap;

use syscollect_model::{SessionInfo, Ticks};
use syscollect_store::{Chunk, LaneLoss};

use crate::error::CaptureError;
use crate::source::{Drained, Source};
use crate::stage::Flush;

/// Chunks at a time: as a real source, it delivers in portions.
const CHUNKS_PER_DRAIN: usize = 8;

/// Delivers chunks in their order, some at each drain.
pub(crate) struct Replay {
    chunks: std::vec::IntoIter<Chunk>,
}

impl Replay {
    pub(crate) fn new(chunks: Vec<Chunk>) -> Self {
        Self { chunks: chunks.into_iter() }
    }
}

impl Source for Replay {
    fn attach(&mut self, _cpus: &[u32]) -> Result<(), CaptureError> {
        Ok(())
    }

    fn add_cpu(&mut self, _cpu: u32) -> Result<(), CaptureError> {
        Ok(())
    }

    fn drain(&mut self, _now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        let portion = if flush.is_all() { usize::MAX } else { CHUNKS_PER_DRAIN };
        self.chunks.by_ref().take(portion).for_each(&mut *out.chunk);
        if self.chunks.len() > 0 { 1.0 } else { 0.0 }
    }

    fn detach(&mut self, _cpus: &[u32]) {}

    fn losses(&self) -> Vec<LaneLoss> {
        Vec::new()
    }

    fn statistics(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn describe(&self, _session: &mut SessionInfo) {}

    fn missing(&self) -> &[String] {
        &[]
    }
}
