//! Plain LZ77 of the XPRESS family (MS-XCA 2.4): what compressed buffers hold.

/// Expands `compressed` into `output` until one of them ends, and says how many
/// bytes came out. Fewer than `output` has room for: the data is cut off or
/// damaged, and what came out is what was before that.
///
/// Work and memory are bounded by the two lengths.
pub fn expand(compressed: &[u8], output: &mut [u8]) -> usize {
    expand_all(compressed, output).length
}

/// What came of an expansion.
pub(super) struct Expanded {
    /// Bytes that came out.
    pub(super) length: usize,
    /// Bytes of the input that were not needed.
    pub(super) unread: usize,
}

/// As [`expand`], and says how much of the input is left.
pub(super) fn expand_all(compressed: &[u8], output: &mut [u8]) -> Expanded {
    let mut expander = Expander { input: compressed, half: None, output, length: 0 };
    while expander.length < expander.output.len() {
        if expander.group().is_none() {
            break;
        }
    }
    Expanded { length: expander.length, unread: expander.input.len() }
}

/// A compressor may end with the flags of a group of which nothing follows.
pub(super) const UNREAD_MAX: usize = 4;

struct Expander<'a> {
    /// What is not yet read.
    input: &'a [u8],
    /// The upper half of a byte whose lower half was the length of a match before.
    half: Option<u8>,
    output: &'a mut [u8],
    /// How much of the output is there.
    length: usize,
}

impl Expander<'_> {
    /// 32 flags, the highest first, and what they announce: 0 a byte, 1 a match.
    /// `None` at the end of input or output, or where a match cannot be.
    #[inline]
    fn group(&mut self) -> Option<()> {
        let mut flags = u32::from_le_bytes(self.bytes()?);
        let mut left = u32::BITS;
        while left > 0 {
            let literals = flags.leading_zeros().min(left);
            if literals > 0 {
                self.literals(literals as usize)?;
                left -= literals;
                flags = flags.checked_shl(literals).unwrap_or(0);
            }
            if left > 0 {
                self.matched()?;
                left -= 1;
                flags <<= 1;
            }
        }
        Some(())
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.input.split_first_chunk::<N>()?;
        self.input = rest;
        Some(*bytes)
    }

    #[inline]
    fn literals(&mut self, count: usize) -> Option<()> {
        // Most are few: the copy of a constant length is one instruction.
        if let (Some(from), Some(to)) = (
            self.input.first_chunk::<32>(),
            self.output.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut::<32>),
        ) {
            *to = *from;
            self.input = &self.input[count..];
            self.length += count;
            return Some(());
        }
        let fitting = count.min(self.input.len()).min(self.output.len() - self.length);
        self.output[self.length..self.length + fitting].copy_from_slice(&self.input[..fitting]);
        self.input = &self.input[fitting..];
        self.length += fitting;
        (fitting == count).then_some(())
    }

    #[inline]
    fn matched(&mut self) -> Option<()> {
        let token = u16::from_le_bytes(self.bytes()?);
        let distance = usize::from(token >> 3) + 1;
        let length = match usize::from(token & 7) {
            7 => self.long_length()?,
            short => short + 3,
        };
        self.copy(distance, length)
    }

    /// The length of a match that has more than three bits: four more, then
    /// eight, sixteen, and at last 32, each where the one before is full.
    fn long_length(&mut self) -> Option<usize> {
        let four = match self.half.take() {
            Some(half) => half,
            None => {
                let [byte] = self.bytes()?;
                self.half = Some(byte >> 4);
                byte & 0xf
            }
        };
        if four < 15 {
            return Some(usize::from(four) + 7 + 3);
        }
        let length = match u8::from_le_bytes(self.bytes()?) {
            u8::MAX => match u16::from_le_bytes(self.bytes()?) {
                0 => u32::from_le_bytes(self.bytes()?) as usize,
                sixteen => sixteen.into(),
            },
            eight => usize::from(eight) + 15 + 7,
        };
        (length >= 15 + 7).then(|| length.saturating_add(3))
    }

    /// Repeats what was written `distance` bytes ago; it may overlap what it writes.
    #[inline]
    fn copy(&mut self, distance: usize, length: usize) -> Option<()> {
        let from = self.length.checked_sub(distance)?;
        let wide = self.output.len() - self.length >= 16;
        if length <= 16 && distance >= 16 && wide {
            // What is too much is written over by what follows.
            self.output.copy_within(from..from + 16, self.length);
            self.length += length;
            return Some(());
        }
        let fitting = length.min(self.output.len() - self.length);
        let end = self.length + fitting;
        while self.length < end {
            // What is there between the two repeats doubles with every round.
            let step = (self.length - from).min(end - self.length);
            self.output.copy_within(from..from + step, self.length);
            self.length += step;
        }
        (fitting == length).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expands to as much as there is room for.
    fn expanded(compressed: &[u8], room: usize) -> Vec<u8> {
        let mut output = vec![0xee; room];
        let length = expand(compressed, &mut output);
        output.truncate(length);
        output
    }

    /// A compressor that finds matches by looking everywhere: slow and thorough.
    #[derive(Default)]
    struct Compressor {
        bytes: Vec<u8>,
        flags: Vec<bool>,
        /// Where the flags of the present group go.
        group: usize,
        /// Where half a byte is left.
        half: Option<usize>,
    }

    impl Compressor {
        fn compress(input: &[u8]) -> Vec<u8> {
            let mut compressor = Self { bytes: vec![0; 4], ..Self::default() };
            let mut at = 0;
            while at < input.len() {
                match longest_match(input, at) {
                    Some((distance, length)) => {
                        compressor.matched(distance, length);
                        at += length;
                    }
                    None => {
                        compressor.bytes.push(input[at]);
                        compressor.flag(false);
                        at += 1;
                    }
                }
            }
            while !compressor.flags.is_empty() {
                compressor.flag(true);
            }
            compressor.bytes
        }

        fn flag(&mut self, is_match: bool) {
            self.flags.push(is_match);
            if self.flags.len() == 32 {
                let word =
                    self.flags.drain(..).fold(0_u32, |word, flag| word << 1 | u32::from(flag));
                self.bytes[self.group..self.group + 4].copy_from_slice(&word.to_le_bytes());
                self.group = self.bytes.len();
                self.bytes.extend([0; 4]);
            }
        }

        fn matched(&mut self, distance: usize, length: usize) {
            let token = ((distance - 1) << 3 | (length - 3).min(7)) as u16;
            self.bytes.extend(token.to_le_bytes());
            if length >= 10 {
                self.long_length(length - 10);
            }
            self.flag(true);
        }

        fn long_length(&mut self, rest: usize) {
            let nibble = rest.min(15) as u8;
            match self.half.take() {
                Some(at) => self.bytes[at] |= nibble << 4,
                None => {
                    self.half = Some(self.bytes.len());
                    self.bytes.push(nibble);
                }
            }
            match rest {
                0..15 => {}
                15..270 => self.bytes.push((rest - 15) as u8),
                _ if rest + 7 <= 0xffff => {
                    self.bytes.push(255);
                    self.bytes.extend(((rest + 7) as u16).to_le_bytes());
                }
                _ => {
                    self.bytes.extend([255, 0, 0]);
                    self.bytes.extend(((rest + 7) as u32).to_le_bytes());
                }
            }
        }
    }

    fn longest_match(input: &[u8], at: usize) -> Option<(usize, usize)> {
        let matches = (1..=at.min(8192)).map(|distance| {
            let pairs = input[at..].iter().zip(&input[at - distance..]);
            (pairs.take_while(|(next, earlier)| next == earlier).count(), distance)
        });
        let (length, distance) = matches.max()?;
        (length >= 3).then_some((distance, length))
    }

    #[test]
    fn the_specifications_examples_expand_to_what_it_says() {
        let letters = b"abcdefghijklmnopqrstuvwxyz";
        let compressed = [&[0x3f, 0, 0, 0][..], letters].concat();
        assert_eq!(expanded(&compressed, letters.len()), letters);
        let compressed =
            [0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01];
        assert_eq!(expanded(&compressed, 300), b"abc".repeat(100));
    }

    #[test]
    fn matches_of_every_length_come_back_whole() {
        for length in (3..600).chain([65_540, 70_000, 200_000]) {
            let original = [vec![7; length], vec![8; length], vec![7; 20]].concat();
            assert_eq!(
                expanded(&Compressor::compress(&original), original.len()),
                original,
                "{length}"
            );
        }
    }

    #[test]
    fn a_match_before_the_beginning_ends_it() {
        let before = [0xff, 0xff, 0xff, 0x7f, b'a', 8, 0];
        assert_eq!(expanded(&before, 100), b"a");
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(original in prop::collection::vec(0..3_u8, 0..600)) {
            let compressed = Compressor::compress(&original);
            prop_assert_eq!(&expanded(&compressed, original.len()), &original);
        }

        #[test]
        fn what_is_cut_off_comes_back_as_far_as_it_goes(
            original in prop::collection::vec(0..4_u8, 1..600),
            cut in 0.0..1.0,
        ) {
            let compressed = Compressor::compress(&original);
            let part =
                expanded(&compressed[..(compressed.len() as f64 * cut) as usize], original.len());
            prop_assert!(original.starts_with(&part));
            let room = (original.len() as f64 * cut) as usize;
            prop_assert_eq!(&expanded(&compressed, room), &original[..room]);
        }

        #[test]
        fn anything_expands_to_no_more_than_there_is_room_for(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            room in 0..5_000_usize,
        ) {
            prop_assert!(expanded(&bytes, room).len() <= room);
        }
    }
}
