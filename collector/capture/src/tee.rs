//! What is recorded, told meanwhile to whoever plays it while it is written.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use syscollect_model::Ticks;
use syscollect_store::Chunk;

use crate::stage::LONGEST_WAIT;

/// Something of a recording that goes on.
#[derive(Clone, Debug)]
pub enum Teed {
    /// The next chunk of its lane, as it goes into the file.
    Chunk(Chunk),
    /// No record of before these ticks comes any more, but from instrumented programs that were not
    /// found yet, or that write more than their share.
    NothingBefore(Ticks),
}

/// Where a recording is told to. What is told waits without bound for who receives it: this is for
/// tests of playing while recording.
pub type Tee = Sender<Teed>;

/// How long records may be on their way: they wait for others to share a chunk with, and
/// instrumented programs are found, and looked at, in turns.
const LONGEST_WAY: Duration = LONGEST_WAIT.saturating_add(Duration::from_secs(1));

/// When lanes were emptied, so far as records that were taken out then may still wait for company.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// When each ended, and the ticks of right before it began.
    rounds: VecDeque<(Instant, Ticks)>,
}

impl Rounds {
    /// All lanes were emptied, from `began` and `ticks` on until `ended`; gives what all that comes
    /// is later than.
    ///
    /// Records that a round takes out have gone on by the first round that begins [`LONGEST_WAY`]
    /// later. They were written after the round before it began, but for
    /// those whose program had read the clock and then had to wait: hence one round more.
    pub(crate) fn emptied(
        &mut self,
        began: Instant,
        ticks: Ticks,
        ended: Instant,
    ) -> Option<Ticks> {
        self.rounds.push_back((ended, ticks));
        let is_out =
            |(at, _): &(Instant, Ticks)| began.saturating_duration_since(*at) >= LONGEST_WAY;
        while self.rounds.get(2).is_some_and(is_out) {
            self.rounds.pop_front();
        }
        let [(_, ticks), second] = [self.rounds.front()?, self.rounds.get(1)?];
        is_out(second).then_some(*ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_holds_back_what_it_took_out_as_long_as_that_may_wait() {
        let (start, mut rounds) = (Instant::now(), Rounds::default());
        // Each takes 10 ms.
        let mut round = |ms: u64| {
            let begun = start + Duration::from_millis(ms);
            rounds.emptied(begun, Ticks(ms), begun + Duration::from_millis(10))
        };
        assert_eq!([0, 100, 1509, 1510].map(&mut round), [None; 4]);
        assert_eq!([1609, 1610].map(&mut round), [None, Some(Ticks(0))]);
        // What the round at 1,509 ms took out may be on its way until 3,019.
        assert_eq!([3018, 3019, 9000].map(&mut round), [0, 100, 3018].map(|ms| Some(Ticks(ms))));
    }
}
