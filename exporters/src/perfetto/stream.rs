//! From packets to bytes: blocks of packets are compressed on threads of their
//! own and written in order.

use super::fields::{packet, trace};
use crate::ExportError;
use crate::proto::Message;
use crossbeam::channel::{Receiver, Sender, bounded};
use flate2::{Compress, Compression, FlushCompress};
use std::collections::VecDeque;
use std::io::Write;
use std::thread::{self, JoinHandle};

/// A block is handed on when it has grown to this, bytes. Perfetto asks for
/// less than 512 KB in one packet; larger blocks compress no better, because
/// zlib looks back 32 KB.
const BLOCK: usize = 256 << 10;
/// Blocks that may wait for a compressor: enough that neither side idles, and a bound of memory.
const QUEUE: usize = 4;
/// Speed counts more than the last tenth of size: level 1 of zlib-rs.
const LEVEL: u32 = 1;

struct CompressionJob {
    block: Vec<u8>,
    done: Sender<Vec<u8>>,
}

/// Writes a `Trace`: compressed blocks of packets.
pub(crate) struct Stream<W> {
    out: W,
    /// The packets not yet handed on.
    block: Vec<u8>,
    /// `None` once the last block was handed on.
    jobs: Option<Sender<CompressionJob>>,
    /// The blocks under way, oldest first, so that they are written in order.
    under_way: VecDeque<Receiver<Vec<u8>>>,
    /// Buffers to use again.
    free: Vec<Vec<u8>>,
    workers: Vec<JoinHandle<()>>,
}

impl<W: Write> Stream<W> {
    /// A stream to `out` with `workers` threads that compress (at least one). Where no thread can be
    /// had the stream compresses itself.
    pub(crate) fn new(out: W, workers: usize) -> Self {
        let (jobs, queue) = bounded::<CompressionJob>(QUEUE);
        let workers = (0..workers.max(1))
            .map_while(|_| {
                let queue = queue.clone();
                thread::Builder::new().spawn(move || compress_all(&queue)).ok()
            })
            .collect();
        Self {
            out,
            block: Vec::with_capacity(BLOCK + (BLOCK >> 3)),
            jobs: Some(jobs),
            under_way: VecDeque::new(),
            free: Vec::new(),
            workers,
        }
    }

    /// Appends one packet.
    #[inline]
    pub(crate) fn packet(
        &mut self,
        fill: impl FnOnce(&mut Message<'_>),
    ) -> Result<(), ExportError> {
        Message::new(&mut self.block).message(trace::PACKET, fill);
        if self.block.len() >= BLOCK { self.hand_on() } else { Ok(()) }
    }

    /// Gives the block to the compressors and writes what they have finished.
    #[cold]
    fn hand_on(&mut self) -> Result<(), ExportError> {
        let empty = self.free.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK + (BLOCK >> 3)));
        let block = std::mem::replace(&mut self.block, empty);
        let (done, finished) = bounded(1);
        let (jobs, job) = (self.jobs.as_ref(), CompressionJob { block, done });
        match self.workers.is_empty() {
            true => BlockCompressor::new().compress(job),
            false => {
                let jobs = jobs.ok_or(ExportError::WriterGone)?;
                jobs.send(job).map_err(|_| ExportError::WriterGone)?;
            }
        }
        self.under_way.push_back(finished);
        while let Some(oldest) = self.under_way.front() {
            // Beyond the queue's length the oldest is waited for, which bounds the memory.
            let compressed = if self.under_way.len() > 2 * QUEUE {
                oldest.recv().map_err(|_| ExportError::WriterGone)?
            } else if let Ok(compressed) = oldest.try_recv() {
                compressed
            } else {
                break;
            };
            self.write(compressed)?;
        }
        Ok(())
    }

    fn write(&mut self, mut compressed: Vec<u8>) -> Result<(), ExportError> {
        self.under_way.pop_front();
        self.out.write_all(&compressed)?;
        compressed.clear();
        self.free.push(compressed);
        Ok(())
    }

    /// Writes everything and gives the output back.
    pub(crate) fn finish(mut self) -> Result<W, ExportError> {
        if !self.block.is_empty() {
            self.hand_on()?;
        }
        self.jobs = None;
        while let Some(oldest) = self.under_way.front() {
            let compressed = oldest.recv().map_err(|_| ExportError::WriterGone)?;
            self.write(compressed)?;
        }
        for worker in self.workers.drain(..) {
            worker.join().map_err(|_| ExportError::WriterGone)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A worker: until the stream hands on no more.
fn compress_all(queue: &Receiver<CompressionJob>) {
    let mut compressor = BlockCompressor::new();
    queue.iter().for_each(|job| compressor.compress(job));
}

/// Compresses one block after another.
struct BlockCompressor {
    state: Compress,
    zlib: Vec<u8>,
}

impl BlockCompressor {
    fn new() -> Self {
        Self { state: Compress::new(Compression::new(LEVEL), true), zlib: Vec::new() }
    }

    fn compress(&mut self, job: CompressionJob) {
        let CompressionJob { mut block, done } = job;
        deflate(&mut self.state, &block, &mut self.zlib);
        // The block's own buffer takes the result: it is large enough and travels back to be used
        // again.
        block.clear();
        Message::new(&mut block).message(trace::PACKET, |compressed| {
            compressed.bytes(packet::COMPRESSED_PACKETS, &self.zlib);
        });
        // A stream that gave up no longer listens; there is nobody to tell.
        let _ = done.send(block);
    }
}

/// `input` as one zlib stream in `output`.
fn deflate(compressor: &mut Compress, input: &[u8], output: &mut Vec<u8>) {
    compressor.reset();
    output.clear();
    // zlib's bound for incompressible input, so that one call suffices.
    output.reserve(input.len() + (input.len() >> 8) + 128);
    loop {
        let read = compressor.total_in() as usize;
        match compressor.compress_vec(&input[read..], output, FlushCompress::Finish) {
            Ok(flate2::Status::StreamEnd) => break,
            // More room is all that can be missing: the stream's state is its own and in order.
            _ => output.reserve(input.len() / 2 + 128),
        }
    }
}
