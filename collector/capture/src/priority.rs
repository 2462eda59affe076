//! The real-time class for part of a thread's time.

use std::time::{Duration, Instant};

use crate::collector::{go_before_most, go_first, go_with_others};
use crate::usage::thread_cpu_time;

/// How much CPU time of each window a thread goes first.
const PART: Duration = Duration::from_millis(2);
const WINDOW: Duration = Duration::from_millis(100);

/// A thread that goes first: what it does cannot wait, but programs make it, as much as they like.
/// Beyond a part of its time it goes with all others, so that nobody has more of it than that.
pub(crate) struct FirstForPart {
    window: Instant,
    cpu_before: Duration,
    is_first: bool,
}

impl FirstForPart {
    /// The calling thread goes first from now on.
    pub(crate) fn begin() -> Self {
        // As it goes when its part is used up.
        go_before_most();
        go_first();
        Self::at(Instant::now(), thread_cpu_time())
    }

    fn at(window: Instant, cpu_before: Duration) -> Self {
        Self { window, cpu_before, is_first: true }
    }

    /// The calling thread has done something. Cheap: it reads two clocks.
    pub(crate) fn follow(&mut self) {
        match self.turn(Instant::now(), thread_cpu_time()) {
            Some(true) => go_first(),
            Some(false) => go_with_others(),
            None => {}
        }
    }

    /// Whether it goes first from now on, if that is another than before.
    fn turn(&mut self, now: Instant, cpu: Duration) -> Option<bool> {
        if now.duration_since(self.window) >= WINDOW {
            (self.window, self.cpu_before) = (now, cpu);
        }
        let is_first = cpu.saturating_sub(self.cpu_before) <= PART;
        (std::mem::replace(&mut self.is_first, is_first) != is_first).then_some(is_first)
    }

    /// How long the thread may wait before it calls [`Self::follow`] again; `None` if as long as it
    /// likes: what comes next finds it where it is to go.
    pub(crate) fn wait(&self) -> Option<Duration> {
        (!self.is_first).then(|| WINDOW.saturating_sub(self.window.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_without_end_goes_first_for_its_part_of_each_window() {
        let start = Instant::now();
        let mut priority = FirstForPart::at(start, Duration::ZERO);
        let mut first = Duration::ZERO;
        let step = Duration::from_millis(1);
        for ms in 1..=1_000 {
            first += if priority.is_first { step } else { Duration::ZERO };
            priority.turn(start + step * ms, step * ms);
        }
        let most = (PART + 2 * step) * 11;
        assert!(first >= PART * 10 && first <= most, "it went first for {first:?} of a second");
    }

    #[test]
    fn a_thread_that_has_little_to_do_always_goes_first() {
        let start = Instant::now();
        let mut priority = FirstForPart::at(start, Duration::ZERO);
        for ms in 1..=1_000u32 {
            let cpu = Duration::from_micros(15) * ms;
            assert_eq!(priority.turn(start + Duration::from_millis(ms.into()), cpu), None);
        }
        assert_eq!(priority.wait(), None);
    }
}
