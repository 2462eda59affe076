//! Whose records were beyond their share of a lane (`bpf/include/lane_share.h`).

use aya::Ebpf;
use aya::maps::PerCpuArray;
use syscollect_model::{LaneKind, LossCause};
use syscollect_records::LaneShare;
use syscollect_store::{LaneLoss, LostRecord};

/// The lanes in which users have shares, and the maps of these.
const MAPS: [(LaneKind, &str); 2] =
    [(LaneKind::Task, "task_shares"), (LaneKind::SchedStack, "sched_stack_shares")];

/// Words of a [`LaneShare`], as the kernel gives it.
const WORDS: usize = LaneShare::SIZE / 8;

/// Losses of lanes, with those beyond shares by user. The shares of a kind of lanes are read only
/// where there are such: that is a system call for each of them.
pub(super) fn with_users(mut losses: Vec<LaneLoss>, ebpf: &Ebpf) -> Vec<LaneLoss> {
    for (kind, map) in MAPS {
        if losses.iter().any(|loss| is_beyond_share(loss, kind)) {
            losses = by_user(losses, kind, &read(ebpf, map));
        }
    }
    losses
}

fn is_beyond_share(loss: &LaneLoss, kind: LaneKind) -> bool {
    loss.origin == kind.into() && loss.cause == LossCause::BeyondShare
}

/// The shares that records were beyond, with their CPUs.
fn read(ebpf: &Ebpf, map: &str) -> Vec<(u32, LaneShare)> {
    let map = ebpf.map(map).and_then(|map| PerCpuArray::<_, [u64; WORDS]>::try_from(map).ok());
    let mut shares = Vec::new();
    for values in map.iter().flat_map(PerCpuArray::iter).flatten() {
        let of_cpus = (0..).zip(values.iter().map(share));
        shares.extend(of_cpus.filter(|(_, share)| share.lost > 0));
    }
    shares
}

fn share(words: &[u64; WORDS]) -> LaneShare {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    LaneShare::from_bytes(&bytes).unwrap_or_default()
}

/// Losses of lanes, in which those of a kind of lanes that are beyond a user's share say whose that
/// is. Where users have a share together it is not known: then a part of the lane was full. What is
/// left of nobody are renames beyond a process's share.
fn by_user(
    mut losses: Vec<LaneLoss>,
    kind: LaneKind,
    shares: &[(u32, LaneShare)],
) -> Vec<LaneLoss> {
    for (cpu, share) in shares {
        let mut left = share.lost;
        let of_nobody = losses.iter_mut().filter(|loss| {
            is_beyond_share(loss, kind) && loss.cpu == Some(*cpu) && loss.user.is_none()
        });
        for loss in of_nobody {
            let theirs = left.min(loss.count);
            (loss.count, left) = (loss.count - theirs, left - theirs);
        }
        let (cause, user) = match share.of_many {
            0 => (LossCause::BeyondShare, Some(share.uid)),
            _ => (LossCause::LaneFull, None),
        };
        losses.push(LaneLoss {
            origin: kind.into(),
            cpu: Some(*cpu),
            record: LostRecord::Any,
            cause,
            user,
            count: share.lost - left,
        });
    }
    losses.retain(|loss| loss.count > 0);
    losses
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::RecordKind;

    fn loss(kind: RecordKind, cpu: u32, count: u64) -> LaneLoss {
        LaneLoss {
            origin: LaneKind::Task.into(),
            cpu: Some(cpu),
            record: LostRecord::Kind(kind),
            cause: LossCause::BeyondShare,
            user: None,
            count,
        }
    }

    #[test]
    fn what_is_beyond_a_users_share_is_theirs_and_the_sums_stay() {
        let full = LaneLoss { cause: LossCause::LaneFull, ..loss(RecordKind::Fork, 1, 3) };
        let losses = vec![
            loss(RecordKind::Fork, 0, 5),
            loss(RecordKind::Exit, 1, 70),
            loss(RecordKind::Rename, 1, 20),
            full.clone(),
        ];
        let theirs = LaneShare { uid: 1001, lost: 80, ..LaneShare::default() };
        let of_two = LaneShare { uid: 1002, lost: 5, of_many: 1, ..LaneShare::default() };
        let reported = by_user(losses, LaneKind::Task, &[(1, theirs), (0, of_two)]);
        let rows: Vec<_> =
            reported.iter().map(|loss| (loss.cpu, loss.user, loss.cause, loss.count)).collect();
        assert_eq!(
            rows,
            [
                (Some(1), None, LossCause::BeyondShare, 10),
                (Some(1), None, LossCause::LaneFull, 3),
                (Some(1), Some(1001), LossCause::BeyondShare, 80),
                (Some(0), None, LossCause::LaneFull, 5),
            ]
        );
        assert_eq!(reported[1], full);
    }

    #[test]
    fn shares_of_one_kind_of_lanes_say_nothing_of_another() {
        let stack =
            LaneLoss { origin: LaneKind::SchedStack.into(), ..loss(RecordKind::Stack, 0, 9) };
        let losses = vec![loss(RecordKind::Fork, 0, 5), stack];
        let theirs = LaneShare { uid: 1001, lost: 9, ..LaneShare::default() };
        let reported = by_user(losses, LaneKind::SchedStack, &[(0, theirs)]);
        let rows: Vec<_> = reported.iter().map(|loss| (loss.user, loss.count)).collect();
        assert_eq!(rows, [(None, 5), (Some(1001), 9)]);
    }

    #[test]
    fn a_share_is_read_as_the_kernel_lays_it_out() {
        let written = LaneShare { mark: 1, before: 2, used: 3, lost: 4, uid: 5, of_many: 6 };
        let words: Vec<u64> = written
            .as_bytes()
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(share(&words.try_into().unwrap()), written);
    }
}
