//! The container: compressed blocks become the payload.

use super::Damage;

const BLOCK: usize = 64 << 10;

/// A stream: the last block is the history of the next one.
#[derive(Default)]
struct Stream {
    history: Vec<u8>,
}

/// The payload of a file, and how many streams it was spread over.
pub(super) fn payload(file: &[u8]) -> Result<(Vec<u8>, u8), Damage> {
    let head = file.get(..6).ok_or_else(|| Damage("the file ends in its head".into()))?;
    if head[..4] != [0x74, 0x72, 0xfd, 0x50] {
        return Err(Damage(format!("{:02x?} is not how a file begins", &head[..4])));
    }
    if head[4] != 0 {
        return Err(Damage(format!("compression {} is not LZ4", head[4])));
    }
    if head[5] == 0 {
        return Err(Damage("the file has no streams".into()));
    }
    let mut streams: Vec<Stream> = (0..head[5]).map(|_| Stream::default()).collect();
    let mut payload = Vec::new();
    let mut rest = &file[6..];
    let mut index = 0;
    while !rest.is_empty() {
        if payload.len() % BLOCK != 0 {
            return Err(Damage(format!("block {} is short and not the last", index - 1)));
        }
        let (size, after) = rest.split_first_chunk().ok_or_else(|| Damage(format!("block {index} has no size")))?;
        let size = u32::from_le_bytes(*size) as usize;
        let bytes = after.get(..size).ok_or_else(|| Damage(format!("block {index} is longer than the file")))?;
        let stream = &mut streams[index % usize::from(head[5])];
        let block = lz4_flex::block::decompress_with_dict(bytes, BLOCK, &stream.history)
            .map_err(|error| Damage(format!("block {index}: {error}")))?;
        payload.extend_from_slice(&block);
        stream.history = block;
        rest = &after[size..];
        index += 1;
    }
    Ok((payload, head[5]))
}
