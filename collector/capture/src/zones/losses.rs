//! What programs lost.

/// What a program lost, and what was given up of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Items that found their ring full.
    pub(super) ring_full: u64,
    /// Events of threads that had no ring.
    pub(super) without_ring: u64,
    /// Events of threads whose rings others took before anybody came to read them.
    pub(super) unread: u64,
    /// Definitions that found the log full.
    pub(super) definitions: u64,
    /// Definitions beyond the share of its program or user.
    pub(super) excess_definitions: u64,
    /// Rings and logs that were not read to their end when the recording ended.
    pub(super) unfinished: u64,
    /// Rings and logs that made no sense.
    pub(super) broken: u64,
    /// Items of threads that nobody knows any more.
    pub(super) nobodys: u64,
    /// Rings of which another recorder had taken nobody knows how much.
    pub(super) gaps: u64,
}

impl Losses {
    /// Adds up; numbers of programs may be anything.
    pub(super) fn add(&mut self, other: &Self) {
        self.ring_full = bounded_sum(self.ring_full, other.ring_full);
        self.without_ring = bounded_sum(self.without_ring, other.without_ring);
        self.unread = bounded_sum(self.unread, other.unread);
        self.definitions = bounded_sum(self.definitions, other.definitions);
        self.excess_definitions = bounded_sum(self.excess_definitions, other.excess_definitions);
        self.unfinished = bounded_sum(self.unfinished, other.unfinished);
        self.broken = bounded_sum(self.broken, other.broken);
        self.nobodys = bounded_sum(self.nobodys, other.nobodys);
        self.gaps = bounded_sum(self.gaps, other.gaps);
    }
}

fn bounded_sum(a: u64, b: u64) -> u64 {
    const MOST: u64 = 1 << 48;
    a.saturating_add(b).min(MOST)
}
