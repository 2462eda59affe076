//! The compression of the container's blocks.

use super::options::TracyCompression;
use super::wire::BLOCK;
use std::io;

/// Blocks go to the streams in turn, and the viewer decompresses each stream on
/// a thread of its own.
pub(crate) const STREAMS: u8 = 4;

/// What makes blocks smaller.
pub(crate) enum Compressor {
    /// Blocks are compressed one by one, without the history of their stream, which
    /// readers accept and which costs little: a block is as long as the history.
    Lz4,
    #[cfg(feature = "zstd")]
    Zstd(zstd::Streams),
}

impl Compressor {
    pub(crate) fn new(compression: TracyCompression) -> io::Result<Self> {
        match compression {
            TracyCompression::Lz4 => Ok(Self::Lz4),
            #[cfg(feature = "zstd")]
            TracyCompression::Zstd => zstd::Streams::new().map(Self::Zstd),
        }
    }

    /// How the container names it.
    pub(crate) fn number(&self) -> u8 {
        match self {
            Self::Lz4 => 0,
            #[cfg(feature = "zstd")]
            Self::Zstd(_) => 1,
        }
    }

    /// The most bytes that a block becomes.
    pub(crate) fn bound(&self) -> usize {
        match self {
            Self::Lz4 => lz4_flex::block::get_maximum_output_size(BLOCK),
            #[cfg(feature = "zstd")]
            Self::Zstd(_) => zstd::Streams::bound(),
        }
    }

    /// Compresses the next block into `out`, which has room for [`Self::bound`]; how many bytes it
    /// has become.
    pub(crate) fn block(&mut self, block: &[u8], out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Lz4 => lz4_flex::block::compress_into(block, out).map_err(io::Error::other),
            #[cfg(feature = "zstd")]
            Self::Zstd(streams) => streams.block(block, out),
        }
    }
}

#[cfg(feature = "zstd")]
mod zstd {
    //! One zstd frame for each stream, never ended: what is written of it so far always
    //! decompresses to whole blocks.

    use super::{BLOCK, STREAMS};
    use std::io;
    use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

    /// As fast as LZ4. Of 3.5 million events, level 3 makes nothing smaller and takes 2.6 times as
    /// long, and level 9 gains 8 % in 13 times as long.
    const LEVEL: i32 = 1;

    pub(crate) struct Streams {
        encoders: Vec<Encoder<'static>>,
        next: usize,
    }

    impl Streams {
        pub(super) fn new() -> io::Result<Self> {
            let encoders = (0..STREAMS).map(|_| Encoder::new(LEVEL)).collect::<io::Result<_>>()?;
            Ok(Self { encoders, next: 0 })
        }

        pub(super) fn bound() -> usize {
            zstd::zstd_safe::compress_bound(BLOCK) + 64
        }

        pub(super) fn block(&mut self, block: &[u8], out: &mut [u8]) -> io::Result<usize> {
            let encoder = &mut self.encoders[self.next];
            self.next = (self.next + 1) % usize::from(STREAMS);
            let (mut input, mut output) = (InBuffer::around(block), OutBuffer::around(out));
            while input.pos() < block.len() {
                let before = (input.pos(), output.pos());
                encoder.run(&mut input, &mut output)?;
                if before == (input.pos(), output.pos()) {
                    return Err(io::Error::other("zstd takes no more of a block"));
                }
            }
            match encoder.flush(&mut output)? {
                0 => Ok(output.pos()),
                left => Err(io::Error::other(format!(
                    "zstd holds {left} bytes back that found no room"
                ))),
            }
        }
    }
}
