//! Shares of definitions: what programs define is kept for as long as the
//! recording lasts, in the file and by whoever reads it, so it is bounded.

use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::shares::Pool;

/// What a program may define at least, whatever the buffer: one log.
const LOG: u64 = syscollect_zone_protocol::arena::LOG_BYTES as u64;
/// What was taken is forgotten in that time: a machine on which short programs come and go has
/// names for all of them.
const FORGOTTEN_AFTER_SECONDS: u64 = 600;

/// What programs may still define.
pub(super) struct DefinitionShares {
    pool: Pool,
    total: u64,
    /// By process, bytes.
    taken: FxHashMap<u32, u64>,
    refilled: Instant,
}

impl DefinitionShares {
    /// As many bytes as the trace buffer holds, and a few logs at least.
    pub(super) fn new(buffer_bytes: usize) -> Self {
        let total = (buffer_bytes as u64).max(2 * LOG);
        Self {
            pool: Pool::new(total),
            total,
            taken: FxHashMap::default(),
            refilled: Instant::now(),
        }
    }

    /// Takes so many bytes of a process's and its user's share; `false` if there are not so many.
    pub(super) fn take(&mut self, user: u32, pid: u32, bytes: u64) -> bool {
        let taken = self.taken.entry(pid).or_default();
        if *taken + bytes > LOG || !self.pool.take(user, bytes) {
            return false;
        }
        *taken += bytes;
        true
    }

    /// Forgets some of what was taken, now and then.
    pub(super) fn refill(&mut self) {
        let seconds = self.refilled.elapsed().as_secs();
        if seconds == 0 {
            return;
        }
        self.refilled = Instant::now();
        self.pool.give_back_of_each(forgotten(self.total, seconds));
        self.taken.retain(|_, taken| {
            *taken = taken.saturating_sub(forgotten(LOG, seconds));
            *taken > 0
        });
    }
}

/// How much of so much is forgotten in this time.
fn forgotten(of: u64, seconds: u64) -> u64 {
    (of / FORGOTTEN_AFTER_SECONDS).saturating_mul(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_log_and_a_user_half_of_what_there_is() {
        let mut shares = DefinitionShares::new(64 << 20);
        let processes: Vec<usize> = (1..5).map(|pid| mebibytes(&mut shares, 1001, pid)).collect();
        assert_eq!(processes, [16, 16, 0, 0]);
        assert_eq!(
            mebibytes(&mut shares, 1002, 9),
            16,
            "another user's program has all of its log"
        );
        shares.refilled -= std::time::Duration::from_secs(FORGOTTEN_AFTER_SECONDS);
        shares.refill();
        assert_eq!(mebibytes(&mut shares, 1001, 5), 16);
    }

    fn mebibytes(shares: &mut DefinitionShares, user: u32, pid: u32) -> usize {
        (0..1000).take_while(|_| shares.take(user, pid, 1 << 20)).count()
    }
}
