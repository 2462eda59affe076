//! Whose records of tasks were beyond their share (`bpf/src/tasks.bpf.c`).

use aya::Ebpf;
use aya::maps::PerCpuArray;
use syscollect_model::{LaneKind, LossCause};
use syscollect_records::TaskShare;
use syscollect_store::{LaneLoss, LostRecord};

/// Words of a [`TaskShare`], as the kernel gives it.
const WORDS: usize = TaskShare::SIZE / 8;

/// Losses of lanes, with those of tasks by user. The shares are read only where there are such: that
/// is a system call for each of them.
pub(super) fn with_users(losses: Vec<LaneLoss>, ebpf: &Ebpf) -> Vec<LaneLoss> {
    match losses.iter().any(is_beyond_share) {
        true => by_user(losses, &read(ebpf)),
        false => losses,
    }
}

fn is_beyond_share(loss: &LaneLoss) -> bool {
    loss.origin == LaneKind::Task.into() && loss.cause == LossCause::BeyondShare
}

/// The shares that records were beyond, with their CPUs.
fn read(ebpf: &Ebpf) -> Vec<(u32, TaskShare)> {
    let map =
        ebpf.map("task_shares").and_then(|map| PerCpuArray::<_, [u64; WORDS]>::try_from(map).ok());
    let mut shares = Vec::new();
    for values in map.iter().flat_map(PerCpuArray::iter).flatten() {
        let of_cpus = (0..).zip(values.iter().map(share));
        shares.extend(of_cpus.filter(|(_, share)| share.lost > 0));
    }
    shares
}

fn share(words: &[u64; WORDS]) -> TaskShare {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    TaskShare::from_bytes(&bytes).unwrap_or_default()
}

/// Losses of lanes, in which those of tasks that are of one user say so. Where users have a share
/// together, and of renames beyond a process's share, it is not known whose they are.
fn by_user(mut losses: Vec<LaneLoss>, shares: &[(u32, TaskShare)]) -> Vec<LaneLoss> {
    for (cpu, share) in shares.iter().filter(|(_, share)| share.of_many == 0) {
        let mut left = share.lost;
        let of_nobody = losses
            .iter_mut()
            .filter(|loss| is_beyond_share(loss) && loss.cpu == Some(*cpu) && loss.user.is_none());
        for loss in of_nobody {
            let theirs = left.min(loss.count);
            (loss.count, left) = (loss.count - theirs, left - theirs);
        }
        losses.push(LaneLoss {
            origin: LaneKind::Task.into(),
            cpu: Some(*cpu),
            record: LostRecord::Any,
            cause: LossCause::BeyondShare,
            user: Some(share.uid),
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
        let theirs = TaskShare { uid: 1001, lost: 80, ..TaskShare::default() };
        let of_two = TaskShare { uid: 1002, lost: 5, of_many: 1, ..TaskShare::default() };
        let reported = by_user(losses, &[(1, theirs), (0, of_two)]);
        let rows: Vec<_> = reported.iter().map(|loss| (loss.cpu, loss.user, loss.count)).collect();
        assert_eq!(
            rows,
            [
                (Some(0), None, 5),
                (Some(1), None, 10),
                (Some(1), None, 3),
                (Some(1), Some(1001), 80)
            ]
        );
        assert_eq!(reported[2], full);
    }

    #[test]
    fn a_share_is_read_as_the_kernel_lays_it_out() {
        let written = TaskShare { mark: 1, before: 2, used: 3, lost: 4, uid: 5, of_many: 6 };
        let words: Vec<u64> = written
            .as_bytes()
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(share(&words.try_into().unwrap()), written);
    }
}
