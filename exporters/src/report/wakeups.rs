//! Who woke whom.

use super::capped::Capped;
use super::data::{Table, WakeRow, WakerKind, Wakeups};
use super::row_maker::RowMaker;
use super::thread_accounts::ThreadAccounts;
use std::borrow::Cow;
use std::cmp::Reverse;
use syscollect_model::{Tables, ThreadId, Wakeup};

/// Pairs of threads that wake each other.
const MAX_WAKE_PAIRS: usize = 1 << 19;

/// Who made a thread runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Waker {
    Thread(ThreadId),
    Interrupt,
    Unknown,
}

impl Waker {
    #[inline]
    pub(super) fn of(wakeup: &Wakeup) -> Self {
        match wakeup.waker {
            _ if wakeup.from_interrupt => Self::Interrupt,
            Some(waker) => Self::Thread(waker),
            None => Self::Unknown,
        }
    }

    pub(super) fn kind(self) -> WakerKind {
        match self {
            Self::Thread(_) => WakerKind::Thread,
            Self::Interrupt => WakerKind::Interrupt,
            Self::Unknown => WakerKind::Unknown,
        }
    }

    /// 0 where it is no thread.
    pub(super) fn tid(self, tables: &Tables) -> u32 {
        match self {
            Self::Thread(thread) => tables.thread(thread).tid,
            Self::Interrupt | Self::Unknown => 0,
        }
    }

    /// Empty where it is no thread.
    pub(super) fn name(self, tables: &Tables) -> Cow<'_, str> {
        match self {
            Self::Thread(thread) => tables.thread_name(thread),
            Self::Interrupt | Self::Unknown => "".into(),
        }
    }
}

/// The wakeups that threads did or got that the report is about.
#[derive(Debug)]
pub(super) struct WakeCounts {
    /// By who woke, and who was woken.
    pairs: Capped<(Waker, ThreadId), u64>,
    count: u64,
    by_interrupt: u64,
}

impl Default for WakeCounts {
    fn default() -> Self {
        Self { pairs: Capped::new(MAX_WAKE_PAIRS), count: 0, by_interrupt: 0 }
    }
}

impl WakeCounts {
    #[inline]
    pub(super) fn add(&mut self, wakeup: &Wakeup, accounts: &mut ThreadAccounts, tables: &Tables) {
        let waker = Waker::of(wakeup);
        let chosen = accounts.is_chosen(wakeup.wakee, tables)
            || matches!(waker, Waker::Thread(waker) if accounts.is_chosen(waker, tables));
        if chosen {
            self.count += 1;
            self.by_interrupt += u64::from(wakeup.from_interrupt);
            *self.pairs.row((waker, wakeup.wakee)) += 1;
        }
    }

    pub(super) fn report(&self, maker: RowMaker<'_>) -> Wakeups {
        let tables = maker.tables;
        let pairs = self.pairs.iter().map(|(pair, count)| (*pair, *count)).collect();
        let sorted = maker.table(pairs, |((waker, wakee), count)| {
            let (kind, tid) = (waker.kind(), waker.tid(tables));
            (Reverse(*count), kind, tid, tables.thread(*wakee).tid, *waker, *wakee)
        });
        let rows = sorted.rows.into_iter().map(|((waker, wakee), count)| WakeRow {
            waker_kind: waker.kind(),
            waker: waker.name(tables).into(),
            waker_tid: waker.tid(tables),
            wakee: tables.thread_name(wakee).into(),
            wakee_tid: tables.thread(wakee).tid,
            count,
        });
        let pairs = Table { total: sorted.total, rows: rows.collect() };
        Wakeups { count: self.count, by_interrupt: self.by_interrupt, pairs }
    }
}
