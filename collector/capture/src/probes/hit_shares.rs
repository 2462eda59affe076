//! Whose hits were beyond their share of a CPU's ring buffer (`bpf/include/hit_share.h`).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use syscollect_model::{LaneKind, LossCause};
use syscollect_records::{LaneShare, RecordKind};
use syscollect_store::{LaneLoss, LostRecord};

use crate::ring_buffers::Mapping;

/// Shares of users on each CPU, as bpf/include/users.h tells them apart.
const SHARES: usize = 128;
/// Words of a `struct hit_share`: a [`LaneShare`], and behind it the stacks that were lost.
const WORDS: usize = 8;
const STACKS_LOST: usize = LaneShare::SIZE / 8;
const _: () = assert!(STACKS_LOST < WORDS);

/// Elements of the map for so many CPUs.
pub(super) const fn elements(cpus: u32) -> u32 {
    cpus * SHARES as u32
}

/// The shares of all users on all CPUs, mapped.
pub(super) struct HitShares {
    memory: Mapping,
    cpus: u32,
}

impl HitShares {
    /// Maps those of so many CPUs.
    pub(super) fn map(map: BorrowedFd<'_>, cpus: u32) -> io::Result<Self> {
        let bytes = elements(cpus) as usize * WORDS * 8;
        Ok(Self { memory: Mapping::new(map, 0, bytes, libc::PROT_READ)?, cpus })
    }

    fn word(&self, share: usize, index: usize) -> u64 {
        assert!(share < elements(self.cpus) as usize && index < WORDS);
        // SAFETY: within the mapping by the assertion, aligned, accessed as an atomic.
        let word = unsafe {
            AtomicU64::from_ptr(self.memory.base.as_ptr().add((share * WORDS + index) * 8).cast())
        };
        word.load(Ordering::Relaxed)
    }

    fn share(&self, share: usize) -> [u64; WORDS] {
        std::array::from_fn(|index| self.word(share, index))
    }

    /// Hits and stacks beyond the shares of users.
    pub(super) fn losses(&self) -> impl Iterator<Item = LaneLoss> {
        (0..elements(self.cpus) as usize)
            .flat_map(|share| losses_of((share / SHARES) as u32, self.share(share)))
    }
}

/// What one share lost. Where several users have it together, it is not known whose that was: then
/// a part of the ring buffer was full.
fn losses_of(cpu: u32, words: [u64; WORDS]) -> impl Iterator<Item = LaneLoss> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let share = LaneShare::from_bytes(&bytes).unwrap_or_default();
    let (cause, user) = match share.of_many {
        0 => (LossCause::BeyondShare, Some(share.uid)),
        _ => (LossCause::LaneFull, None),
    };
    let lost = [
        (LaneKind::Probe, RecordKind::Probe, share.lost),
        (LaneKind::ProbeStack, RecordKind::Stack, words[STACKS_LOST]),
    ];
    lost.into_iter().filter(|(.., count)| *count > 0).map(move |(lane, kind, count)| LaneLoss {
        origin: lane.into(),
        cpu: Some(cpu),
        record: LostRecord::Kind(kind),
        cause,
        user,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A share as the kernel program lays it out.
    fn share(share: LaneShare, stacks_lost: u64) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(share.as_bytes().chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        words[STACKS_LOST] = stacks_lost;
        words
    }

    fn rows(words: [u64; WORDS]) -> Vec<(Option<u32>, LossCause, LostRecord, u64)> {
        losses_of(3, words).map(|loss| (loss.user, loss.cause, loss.record, loss.count)).collect()
    }

    #[test]
    fn what_is_beyond_a_users_share_is_theirs() {
        let theirs = LaneShare { used: 9, lost: 70, uid: 1001, ..LaneShare::default() };
        let (hits, stacks) =
            (LostRecord::Kind(RecordKind::Probe), LostRecord::Kind(RecordKind::Stack));
        assert_eq!(
            rows(share(theirs, 4)),
            [
                (Some(1001), LossCause::BeyondShare, hits, 70),
                (Some(1001), LossCause::BeyondShare, stacks, 4)
            ]
        );
        assert!(
            rows(share(LaneShare { used: 9, uid: 1001, ..LaneShare::default() }, 0)).is_empty()
        );
    }

    #[test]
    fn what_users_with_one_share_lost_is_nobodys() {
        let of_two = LaneShare { lost: 5, uid: 1065, of_many: 1, ..LaneShare::default() };
        let hits = LostRecord::Kind(RecordKind::Probe);
        assert_eq!(rows(share(of_two, 0)), [(None, LossCause::LaneFull, hits, 5)]);
    }
}
