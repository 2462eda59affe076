//! The stream's frames: a length and an LZ4 block that may refer to what was sent before.

use lz4_flex::block::{compress_into_with_dict, get_maximum_output_size};

/// The most bytes that a frame unpacks to.
pub const MOST_RAW: usize = 256 * 1024;
/// How far back a block may refer.
const HISTORY: usize = 64 * 1024;

/// Packs one stream.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    history: Vec<u8>,
}

impl Packer {
    /// Packs at most [`MOST_RAW`] bytes as one frame, and appends it.
    pub(crate) fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        debug_assert!(raw.len() <= MOST_RAW);
        let start = out.len();
        out.resize(start + 4 + get_maximum_output_size(raw.len()), 0);
        // There is room for whatever comes out, so it does not fail.
        let packed = compress_into_with_dict(raw, &mut out[start + 4..], &self.history);
        let length = packed.unwrap_or_default();
        out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        out.truncate(start + 4 + length);
        self.history.extend_from_slice(raw);
        let old = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::block::decompress_with_dict;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_packed_comes_out_again(pieces in prop::collection::vec(
            prop::collection::vec(0u8..4, 1..40_000), 1..6,
        )) {
            let (mut packer, mut before) = (Packer::default(), Vec::new());
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
    fn what_was_sent_before_makes_the_next_frame_small() {
        let text: Vec<u8> = (0..2_000u32).flat_map(u32::to_le_bytes).collect();
        let (mut packer, mut frames) = (Packer::default(), Vec::new());
        packer.pack(&text, &mut frames);
        let first = frames.len();
        packer.pack(&text, &mut frames);
        assert!(frames.len() - first < first / 4, "{} and {}", first, frames.len() - first);
    }
}
