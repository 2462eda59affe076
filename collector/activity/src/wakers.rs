//! Who wakes a thread.

use crate::names::ThreadName;

/// Wakers that are counted each; what others do is one sum.
const FOLLOWED: usize = 3;

/// Interrupt code wakes, whoever it interrupts.
pub(crate) const INTERRUPT: u32 = u32::MAX - 1;
/// It is not known who.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Who woke a thread most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// A thread; its name where that is known.
    Thread(u32, Option<ThreadName>),
    /// Interrupts: timers, disks, the network.
    Interrupt,
    /// Several, of which it cannot be said who did it most.
    Several,
    /// Somebody of whom the records are missing.
    Unknown,
}

/// Who woke a thread most, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakerShare {
    /// Who.
    pub waker: Waker,
    /// How often: of [several](Waker::Several) all together.
    pub wakeups: u32,
}

/// The wakers of a thread: the first few are counted each, so that it is sure who did it most, or
/// that it is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wakers {
    followed: [(u32, u32); FOLLOWED],
    others: u32,
}

impl Wakers {
    #[inline]
    pub(crate) fn add(&mut self, waker: u32) {
        for (followed, count) in &mut self.followed {
            if *count == 0 {
                *followed = waker;
            }
            if *followed == waker {
                *count = count.saturating_add(1);
                return;
            }
        }
        self.others = self.others.saturating_add(1);
    }

    /// Who did it most; `None` if nobody did.
    pub(crate) fn most(&self, name_of: impl Fn(u32) -> Option<ThreadName>) -> Option<WakerShare> {
        // Of two that did it as often, the one that began.
        let (first, wakeups) = self.followed.into_iter().rev().max_by_key(|(_, count)| *count)?;
        if wakeups == 0 {
            return None;
        }
        if wakeups < self.others {
            let all = self.followed.iter().fold(self.others, |sum, (_, n)| sum.saturating_add(*n));
            return Some(WakerShare { waker: Waker::Several, wakeups: all });
        }
        let waker = match first {
            INTERRUPT => Waker::Interrupt,
            UNKNOWN => Waker::Unknown,
            tid => Waker::Thread(tid, name_of(tid)),
        };
        Some(WakerShare { waker, wakeups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(wakers: &[u32]) -> Option<WakerShare> {
        let mut all = Wakers::default();
        wakers.iter().for_each(|waker| all.add(*waker));
        all.most(|_| None)
    }

    #[test]
    fn who_wakes_most_is_named_if_that_is_sure() {
        let thread = |tid| Waker::Thread(tid, None);
        assert_eq!(most(&[]), None);
        let share = |waker, wakeups| Some(WakerShare { waker, wakeups });
        assert_eq!(most(&[7, 8, 8, INTERRUPT, 8]), share(thread(8), 3));
        assert_eq!(most(&[7, 8]), share(thread(7), 1), "who came first");
        assert_eq!(most(&[INTERRUPT, 7, INTERRUPT]), share(Waker::Interrupt, 2));
        // One of those that are not counted each may have done it three times.
        assert_eq!(most(&[1, 2, 2, 3, 4, 4, 4]), share(Waker::Several, 7));
        assert_eq!(most(&[1, 2, 2, 3, 4, 5]), share(thread(2), 2));
    }
}
