//! What is merged while playing: the steps of tasks, and lanes.

use crate::lane::{LaneCursor, Record, Timed};
use crate::order::Cursor;
use crate::tasks::Step;
use std::iter::{Copied, Peekable};
use std::slice::Iter;
use syscollect_model::Tables;

/// A source of the merge: the steps of tasks, or a lane.
pub(crate) enum Source<'a> {
    /// The steps and the ticks of the next one.
    Steps(Peekable<Copied<Iter<'a, (u64, Step)>>>, Option<u64>),
    /// A lane of events.
    Lane(Timed<'a>),
}

pub(crate) enum Item {
    Step(Step),
    Record(Record),
}

impl<'a> Source<'a> {
    pub(crate) fn steps(steps: &'a [(u64, Step)]) -> Self {
        let mut steps = steps.iter().copied().peekable();
        let head = steps.peek().map(|(ticks, _)| *ticks);
        Self::Steps(steps, head)
    }

    /// The lane, if it is one.
    pub(crate) fn lane(&self) -> Option<&LaneCursor<'a>> {
        match self {
            Self::Lane(Timed(cursor)) => Some(cursor),
            Self::Steps(..) => None,
        }
    }
}

impl Cursor for Source<'_> {
    type Key = u64;
    type Item = (u64, Item);

    #[inline]
    fn key(&self) -> Option<u64> {
        match self {
            Self::Lane(lane) => lane.key(),
            Self::Steps(_, head) => *head,
        }
    }

    #[inline]
    fn take(&mut self) -> (u64, Item) {
        match self {
            Self::Lane(lane) => {
                let (ticks, record) = lane.take();
                (ticks, Item::Record(record))
            }
            Self::Steps(steps, head) => {
                // `take` follows a `key`, so there is one; else the step changes nothing.
                let (ticks, step) = steps.next().unwrap_or((u64::MAX, Step::Bind(0, Tables::IDLE_THREAD)));
                *head = steps.peek().map(|(ticks, _)| *ticks);
                (ticks, Item::Step(step))
            }
        }
    }
}
