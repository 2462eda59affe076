//! The container: compressed blocks become the payload.

use super::Damage;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

const BLOCK: usize = 64 << 10;

/// How blocks were compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// LZ4: the last block of a stream is the history of the next one.
    #[default]
    Lz4,
    /// zstd: a stream is one frame, and every block of it is all there with its own bytes.
    Zstd,
}

enum Stream {
    Lz4 { history: Vec<u8> },
    Zstd(Decoder<'static>),
}

impl Stream {
    fn new(compression: Compression) -> Result<Self, String> {
        match compression {
            Compression::Lz4 => Ok(Self::Lz4 { history: Vec::new() }),
            Compression::Zstd => Decoder::new().map(Self::Zstd).map_err(|error| error.to_string()),
        }
    }

    fn block(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Lz4 { history } => {
                let block = lz4_flex::block::decompress_with_dict(bytes, BLOCK, history);
                *history = block.map_err(|error| error.to_string())?;
                Ok(history.clone())
            }
            Self::Zstd(decoder) => {
                let mut block = vec![0; BLOCK + 1];
                let (mut input, mut output) =
                    (InBuffer::around(bytes), OutBuffer::around(&mut block[..]));
                loop {
                    let before = (input.pos(), output.pos());
                    decoder.run(&mut input, &mut output).map_err(|error| error.to_string())?;
                    if before == (input.pos(), output.pos()) {
                        break;
                    }
                }
                let (taken, length) = (input.pos(), output.pos());
                block.truncate(length);
                if taken < bytes.len() {
                    Err(format!("{taken} bytes of {} make a block", bytes.len()))
                } else {
                    Ok(block)
                }
            }
        }
    }
}

/// The payload of a file, its compression, and how many streams it was spread over.
pub(super) fn payload(file: &[u8]) -> Result<(Vec<u8>, Compression, u8), Damage> {
    let head = file.get(..6).ok_or_else(|| Damage("the file ends in its head".into()))?;
    if head[..4] != [0x74, 0x72, 0xfd, 0x50] {
        return Err(Damage(format!("{:02x?} is not how a file begins", &head[..4])));
    }
    let compression = match head[4] {
        0 => Compression::Lz4,
        1 => Compression::Zstd,
        other => return Err(Damage(format!("compression {other} is neither LZ4 nor zstd"))),
    };
    if head[5] == 0 {
        return Err(Damage("the file has no streams".into()));
    }
    let streams: Result<Vec<_>, _> = (0..head[5]).map(|_| Stream::new(compression)).collect();
    let mut streams = streams.map_err(Damage)?;
    let mut payload = Vec::new();
    let mut rest = &file[6..];
    let mut index = 0;
    while !rest.is_empty() {
        if payload.len() % BLOCK != 0 {
            return Err(Damage(format!("block {} is short and not the last", index - 1)));
        }
        let (size, after) =
            rest.split_first_chunk().ok_or_else(|| Damage(format!("block {index} has no size")))?;
        let size = u32::from_le_bytes(*size) as usize;
        let bytes = after
            .get(..size)
            .ok_or_else(|| Damage(format!("block {index} is longer than the file")))?;
        let stream = &mut streams[index % usize::from(head[5])];
        let block =
            stream.block(bytes).map_err(|error| Damage(format!("block {index}: {error}")))?;
        if block.is_empty() || block.len() > BLOCK {
            return Err(Damage(format!("block {index} is none of 1 to {BLOCK} bytes")));
        }
        payload.extend_from_slice(&block);
        rest = &after[size..];
        index += 1;
    }
    Ok((payload, compression, head[5]))
}
