//! The stream's frames: a length and an LZ4 block that may refer to what was sent before.

use lz4_flex::block::{compress_into_with_dict, get_maximum_output_size};

/// The most bytes that a frame unpacks to.
pub const MOST_RAW: usize = 256 * 1024;
/// How far back a block may refer.
const HISTORY: usize = 64 * 1024;

/// What frames are to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Few bytes: a third of what they unpack to.
    #[default]
    Compressed,
    /// Little CPU time: the block has all bytes as they are. For a viewer on the same machine.
    Stored,
}

/// Packs one stream.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    packing: Packing,
    /// What a block may refer to.
    history: Vec<u8>,
}

impl Packer {
    pub(crate) fn new(packing: Packing) -> Self {
        Self { packing, history: Vec::new() }
    }

    /// Packs at most [`MOST_RAW`] bytes as one frame, and appends it.
    pub(crate) fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        debug_assert!(raw.len() <= MOST_RAW);
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self.packing {
            Packing::Compressed => self.compress(raw, out),
            Packing::Stored => store(raw, out),
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + get_maximum_output_size(raw.len()), 0);
        // There is room for whatever comes out, so it does not fail.
        let packed = compress_into_with_dict(raw, &mut out[start..], &self.history);
        out.truncate(start + packed.unwrap_or_default());
        self.history.extend_from_slice(raw);
        let old = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..old);
    }
}

/// A block of one sequence, which has literals only (LZ4 block format: the token's upper half is how
/// many, and 15 or more of them go on in bytes behind it).
fn store(raw: &[u8], out: &mut Vec<u8>) {
    const TOKEN_MOST: usize = 15;
    match raw.len().checked_sub(TOKEN_MOST) {
        None => out.push((raw.len() as u8) << 4),
        Some(rest) => {
            out.push((TOKEN_MOST as u8) << 4);
            out.resize(out.len() + rest / 255, 255);
            out.push((rest % 255) as u8);
        }
    }
    out.extend_from_slice(raw);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::block::decompress_with_dict;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_packed_comes_out_again(
            pieces in prop::collection::vec(prop::collection::vec(0u8..4, 1..40_000), 1..6),
            is_stored in any::<bool>(),
        ) {
            let packing = if is_stored { Packing::Stored } else { Packing::Compressed };
            let (mut packer, mut before) = (Packer::new(packing), Vec::new());
            for piece in pieces {
                let mut frame = Vec::new();
                packer.pack(&piece, &mut frame);
                let length = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
                prop_assert_eq!(length, frame.len() - 4);
                let history = &before[before.len().saturating_sub(HISTORY)..];
                let raw = decompress_with_dict(&frame[4..], piece.len(), history).unwrap();
                prop_assert_eq!(&raw, &piece);
                before.extend(raw);
            }
        }
    }

    #[test]
    fn what_is_stored_comes_out_again_whatever_its_length() {
        for length in [1, 14, 15, 16, 269, 270, 271, MOST_RAW] {
            let (raw, mut frame) = (vec![7; length], Vec::new());
            Packer::new(Packing::Stored).pack(&raw, &mut frame);
            assert_eq!(decompress_with_dict(&frame[4..], length, &[]).unwrap(), raw, "{length}");
            assert!(frame.len() <= 4 + get_maximum_output_size(MOST_RAW));
        }
    }

    #[test]
    fn what_was_sent_before_makes_the_next_frame_small() {
        let text: Vec<u8> = (0..2_000u32).flat_map(u32::to_le_bytes).collect();
        let (mut packer, mut frames) = (Packer::default(), Vec::new());
        packer.pack(&text, &mut frames);
        let first = frames.len();
        packer.pack(&text, &mut frames);
        assert!(frames.len() - first < first / 4, "{} and {}", first, frames.len() - first);
    }
}
