//! Plain LZ77 of the XPRESS family (MS-XCA 2.4): what compressed buffers hold.

/// Expands `compressed` into `output` until one of them ends, and says how many
/// bytes came out. Fewer than `output` has room for: the data is cut off or
/// damaged, and what came out is what was before that.
///
/// Work and memory are bounded by the two lengths.
pub fn expand(compressed: &[u8], output: &mut [u8]) -> usize {
    let mut expander = Expander { input: compressed, half: None, output, length: 0 };
    while expander.length < expander.output.len() {
        if expander.group().is_none() {
            break;
        }
    }
    expander.length
}

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
        if let (Some(from), Some(to)) =
            (self.input.first_chunk::<32>(), self.output.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut::<32>))
        {
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
