//! The spans that the calling thread has entered, with their zones.

use crate::ZoneToken;
use core::cell::Cell;
use tracing_core::span::Id;

/// Spans entered at a time; those beyond are no zones.
const CAPACITY: usize = 64;

struct Entered {
    count: Cell<usize>,
    /// Id and zone, outermost first.
    spans: [Cell<(u64, ZoneToken)>; CAPACITY],
}

thread_local! {
    /// Without a destructor: good as long as the thread lives.
    static ENTERED: Entered = const {
        Entered { count: Cell::new(0), spans: [const { Cell::new((0, ZoneToken::INACTIVE)) }; CAPACITY] }
    };
}

impl Entered {
    /// The innermost entry of that span.
    fn position(&self, id: &Id) -> Option<usize> {
        let id = id.into_u64();
        (0..self.count.get()).rev().find(|position| self.spans[*position].get().0 == id)
    }
}

/// Whether another span can be entered.
pub(super) fn has_room() -> bool {
    ENTERED.with(|entered| entered.count.get() < CAPACITY)
}

/// Remembers the zone of a span that was entered.
pub(super) fn push(id: &Id, token: ZoneToken) {
    ENTERED.with(|entered| {
        let count = entered.count.get();
        if let Some(slot) = entered.spans.get(count) {
            slot.set((id.into_u64(), token));
            entered.count.set(count + 1);
        }
    });
}

/// The zone of the span as it was entered last on this thread.
pub(super) fn token(id: &Id) -> Option<ZoneToken> {
    ENTERED.with(|entered| entered.position(id).map(|position| entered.spans[position].get().1))
}

/// Forgets the zone of a span that is left, in whatever order.
#[inline]
pub(super) fn remove(id: &Id) -> Option<ZoneToken> {
    ENTERED.with(|entered| {
        let position = entered.position(id)?;
        let token = entered.spans[position].get().1;
        let last = entered.count.get() - 1;
        for index in position..last {
            entered.spans[index].set(entered.spans[index + 1].get());
        }
        entered.count.set(last);
        Some(token)
    })
}
