//! What a sequence lost, and why: a bit for each cause, and counts.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Why packets of a sequence do not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LossCause {
    /// There was no room: the writer had no chunk to go on in and gave a packet up, or the buffer
    /// was full ([`Mode::Discard`](crate::Mode::Discard)) or held too many sequences. Counts packets
    /// that were given up and chunks that were refused.
    NoRoom,
    /// A part of a packet is there and another is not. Counts such packets.
    Reassembly,
    /// Chunk ids are missing when what follows them is passed, or came only after that. Counts gaps,
    /// however wide (ids are claims of the writer), and chunks that came too late.
    Gap,
    /// What the writer sent contradicts itself. Counts fragments and chunks that were refused for it.
    Violation,
    /// Newer chunks took the memory before it was read. Counts packets.
    Overwritten,
}

impl LossCause {
    /// All causes, in the order of their bits.
    pub const ALL: [Self; 5] =
        [Self::NoRoom, Self::Reassembly, Self::Gap, Self::Violation, Self::Overwritten];

    /// The cause in lower case, as messages show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRoom => "no room",
            Self::Reassembly => "reassembly",
            Self::Gap => "gap in chunk ids",
            Self::Violation => "violation of the format",
            Self::Overwritten => "overwritten",
        }
    }
}

/// A set of causes: the bit `1 << cause as u8` for each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LossCauses(u8);

impl LossCauses {
    /// No cause: nothing was lost.
    pub const NONE: Self = Self(0);

    /// The bits: 1 no room, 2 reassembly, 4 gap, 8 violation, 16 overwritten.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether nothing was lost.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `cause` is one of them.
    pub const fn contains(self, cause: LossCause) -> bool {
        self.0 & (1 << cause as u8) != 0
    }

    /// The causes, in the order of their bits.
    pub fn iter(self) -> impl Iterator<Item = LossCause> {
        LossCause::ALL.into_iter().filter(move |&cause| self.contains(cause))
    }
}

impl From<LossCause> for LossCauses {
    fn from(cause: LossCause) -> Self {
        Self(1 << cause as u8)
    }
}

impl BitOr for LossCauses {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for LossCauses {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for LossCauses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// How often something was lost, by cause. What one counts is said at each [`LossCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    counts: [u64; LossCause::ALL.len()],
}

impl Losses {
    /// Nothing was lost.
    pub const NONE: Self = Self { counts: [0; LossCause::ALL.len()] };

    /// How often something was lost for `cause`.
    pub const fn count(&self, cause: LossCause) -> u64 {
        self.counts[cause as usize]
    }

    /// The causes that are counted at least once.
    pub fn causes(&self) -> LossCauses {
        let counted = LossCause::ALL.into_iter().filter(|&cause| self.count(cause) > 0);
        counted.fold(LossCauses::NONE, |causes, cause| causes | cause.into())
    }

    /// Whether nothing was lost.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Counts `count` more for `cause`; stays at the largest number rather than begin anew.
    pub fn add(&mut self, cause: LossCause, count: u64) {
        let sum = &mut self.counts[cause as usize];
        *sum = sum.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_bit_and_a_count() {
        let mut losses = Losses::NONE;
        assert!(losses.is_empty() && losses.causes().is_empty());
        losses.add(LossCause::Gap, 2);
        losses.add(LossCause::Overwritten, 3);
        assert_eq!(losses.count(LossCause::Gap), 2);
        assert_eq!(losses.causes().bits(), 0b10100);
        assert_eq!(format!("{:?}", losses.causes()), "{Gap, Overwritten}");
        losses.add(LossCause::Gap, u64::MAX);
        assert_eq!(losses.count(LossCause::Gap), u64::MAX);
    }

    #[test]
    fn causes_are_listed_in_the_order_of_their_bits() {
        let bits = LossCause::ALL.map(|cause| LossCauses::from(cause).bits());
        assert_eq!(bits, [1, 2, 4, 8, 16]);
    }
}
