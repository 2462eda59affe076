//! How long runnable threads waited for a CPU.

use super::account::Wait;
use super::data::RunQueueReport;
use super::durations::Durations;
use super::row_maker::WaitSpan;

/// Digits of the percentiles of waits.
const WAIT_DIGITS: u8 = 3;

/// The waits of threads that the report is about.
#[derive(Debug)]
pub(super) struct RunQueueWaits {
    after_wakeup: Durations,
    after_preemption: Durations,
    /// The longest, the first of equals.
    longest: Option<WaitSpan>,
}

impl Default for RunQueueWaits {
    fn default() -> Self {
        Self {
            after_wakeup: Durations::new(WAIT_DIGITS),
            after_preemption: Durations::new(WAIT_DIGITS),
            longest: None,
        }
    }
}

impl RunQueueWaits {
    /// A wait has ended. What began before a part is no latency of it: most of those are missing.
    #[inline]
    pub(super) fn add(&mut self, began_with: Wait, span: WaitSpan, began_before: bool) {
        if self.longest.is_none_or(|longest| span.waited > longest.waited) {
            self.longest = Some(span);
        }
        match began_with {
            _ if began_before => {}
            Wait::Wakeup => self.after_wakeup.add(span.waited),
            Wait::Preemption => self.after_preemption.add(span.waited),
        }
    }

    pub(super) fn longest(&self) -> Option<WaitSpan> {
        self.longest
    }

    pub(super) fn report(&self) -> RunQueueReport {
        let mut all = Durations::new(WAIT_DIGITS);
        all.merge(&self.after_wakeup);
        all.merge(&self.after_preemption);
        RunQueueReport {
            all: all.distribution(),
            after_wakeup: self.after_wakeup.distribution(),
            after_preemption: self.after_preemption.distribution(),
            histogram: all.buckets(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::ThreadId;

    #[test]
    fn a_wait_that_began_before_the_part_may_be_the_longest_and_is_no_latency() {
        let span = |waited| WaitSpan { waited, since: 5, thread: ThreadId(1) };
        let mut waits = RunQueueWaits::default();
        waits.add(Wait::Wakeup, span(70), true);
        waits.add(Wait::Wakeup, span(30), false);
        waits.add(Wait::Preemption, span(20), false);
        assert_eq!(waits.longest(), Some(span(70)));
        let report = waits.report();
        assert_eq!((report.all.count, report.all.max_ns), (2, 30));
        assert_eq!((report.after_wakeup.count, report.after_preemption.count), (1, 1));
    }
}
