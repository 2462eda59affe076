//! The last events of each thread: what it did before it crashed.

use crate::labels;
use std::collections::VecDeque;
use syscollect_model::{Message, StringId, Tables, ThreadId};

/// Events of a thread that are kept.
const MOST_EVENTS: usize = 8;
/// Characters of a message's text that are kept.
const LONGEST_TEXT: usize = 160;

/// What a thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThreadEvent {
    /// A slice of that name began.
    Slice(StringId),
    /// An instant of that name.
    Instant(StringId),
    /// It said so.
    Message(Box<str>),
}

impl ThreadEvent {
    /// What it is called in the report.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Slice(_) => "zone",
            Self::Instant(_) => "instant",
            Self::Message(_) => "message",
        }
    }

    /// A message, of which the beginning is kept.
    pub(super) fn message(message: &Message, tables: &Tables) -> Self {
        let text = labels::message_text(message, tables);
        Self::Message(text.chars().take(LONGEST_TEXT).collect())
    }
}

/// An event, and when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentEvent {
    pub(super) at: u64,
    pub(super) what: ThreadEvent,
}

/// The last events, by thread.
#[derive(Debug, Default)]
pub(super) struct RecentEvents {
    threads: Vec<VecDeque<RecentEvent>>,
}

impl RecentEvents {
    #[inline]
    pub(super) fn add(&mut self, thread: ThreadId, event: RecentEvent) {
        let place = thread.index();
        if place >= self.threads.len() {
            self.threads.resize_with(place + 1, VecDeque::new);
        }
        let events = &mut self.threads[place];
        if events.len() == MOST_EVENTS {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Those of a thread, the last one first.
    pub(super) fn of(&self, thread: ThreadId) -> Vec<RecentEvent> {
        let events = self.threads.get(thread.index());
        events.into_iter().flat_map(|events| events.iter().rev().cloned()).collect()
    }
}
