//! Work of GPUs, as words: zones that have times on two clocks, and how these clocks go together.
//!
//! A zone is known by its context and a number within it. The thread that submits says when it
//! begins and ends to do so; what the GPU's clock was comes later, from any thread, in any order,
//! or never.

use super::{ItemKind, ItemWords, MAX_ITEM_WORDS, halves, high, low};
use crate::HostClock;

/// The longest deviation of a calibration that can be said, nanoseconds.
pub const MAX_DEVIATION: u32 = i32::MAX as u32;

/// Which zone of a GPU: a context of the [log](crate::log), and a number that no other zone has
/// which is open or has no times yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GpuZoneNumber {
    /// The context.
    pub context: u32,
    /// The zone's number; they may wrap, and come in no order.
    pub number: u32,
}

impl GpuZoneNumber {
    #[inline(always)]
    fn word(self) -> u64 {
        halves(self.context, self.number)
    }

    fn of_word(word: u64) -> Self {
        Self { context: low(word), number: high(word) }
    }
}

/// What is said of the work of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuEvent {
    /// The thread begins to submit a zone. Attributes of a zone may follow.
    ZoneBegin {
        /// The zone.
        zone: GpuZoneNumber,
        /// Its source location.
        location: u32,
    },
    /// What belongs to the zone is submitted.
    ZoneEnd {
        /// The zone.
        zone: GpuZoneNumber,
    },
    /// When the GPU did it; written by any thread, at any time.
    Times {
        /// The zone.
        zone: GpuZoneNumber,
        /// The GPU's ticks when it began.
        began: u64,
        /// The GPU's ticks when it ended.
        ended: u64,
    },
    /// The GPU will not say when it did it: the device is lost, the query was not written.
    NoTimes {
        /// The zone.
        zone: GpuZoneNumber,
    },
    /// Two clocks, read together.
    Calibration {
        /// The context whose clock was read.
        context: u32,
        /// Which clock of the host was read.
        clock: HostClock,
        /// How far the two readings may lie apart, nanoseconds, at most [`MAX_DEVIATION`].
        deviation: u32,
        /// What the host's clock was.
        host: u64,
        /// What the GPU's clock was, in its ticks.
        gpu: u64,
    },
}

impl GpuEvent {
    /// Its item's words, as [`Item::encode`](super::Item::encode) makes them, which is too large to
    /// be inlined where a zone counts nanoseconds.
    #[inline(always)]
    pub fn encode(self, ticks: u64) -> ItemWords {
        let mut words = [0; MAX_ITEM_WORDS];
        let (kind, length) = self.write(&mut words);
        words[0] = ticks << 8 | kind as u64;
        ItemWords { words, length }
    }

    /// Writes the words behind the first; the kind, and how many words there are in all.
    #[inline(always)]
    pub(super) fn write(self, words: &mut [u64; MAX_ITEM_WORDS]) -> (ItemKind, usize) {
        match self {
            Self::ZoneBegin { zone, location } => {
                words[1] = zone.word();
                words[2] = halves(location, 0);
                (ItemKind::GpuZoneBegin, 3)
            }
            Self::ZoneEnd { zone } => {
                words[1] = zone.word();
                (ItemKind::GpuZoneEnd, 2)
            }
            Self::Times { zone, began, ended } => {
                words[1] = zone.word();
                words[2] = began;
                words[3] = ended;
                (ItemKind::GpuTimes, 4)
            }
            Self::NoTimes { zone } => {
                words[1] = zone.word();
                (ItemKind::GpuNoTimes, 2)
            }
            Self::Calibration { context, clock, deviation, host, gpu } => {
                let deviation = if deviation > MAX_DEVIATION { MAX_DEVIATION } else { deviation };
                words[1] = halves(context, deviation | (clock as u32) << 31);
                words[2] = host;
                words[3] = gpu;
                (ItemKind::GpuCalibration, 4)
            }
        }
    }

    /// The event of that kind with these words behind the first; `None` for other kinds.
    #[inline]
    pub(super) fn read(kind: ItemKind, words: [u64; 3]) -> Option<Self> {
        let [a, b, c] = words;
        let zone = GpuZoneNumber::of_word(a);
        Some(match kind {
            ItemKind::GpuZoneBegin => Self::ZoneBegin { zone, location: low(b) },
            ItemKind::GpuZoneEnd => Self::ZoneEnd { zone },
            ItemKind::GpuTimes => Self::Times { zone, began: b, ended: c },
            ItemKind::GpuNoTimes => Self::NoTimes { zone },
            ItemKind::GpuCalibration => {
                let clock = HostClock::from_number((high(a) >> 31) as u8)?;
                let deviation = high(a) & MAX_DEVIATION;
                Self::Calibration { context: low(a), clock, deviation, host: b, gpu: c }
            }
            _ => return None,
        })
    }
}
