//! Emptying a ring whose writer is not trusted.
//!
//! The arena's holder moves the ring's tail, and what lies behind it is never overwritten. An
//! observer has a position of its own and writes nothing. It copies what lies between its position
//! and the head, and only then looks where tail and head are: what was at or behind the tail after
//! the copy is intact, for the writer keeps off it; so is what is younger than the ring's last
//! round, less what the writer may have written since it published the head. What may have been
//! overwritten meanwhile is not looked at, but counted as lost: the holder writes beside the tail
//! how many events it has taken until there.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use syscollect_zone_protocol::MAX_ITEM_WORDS;
use syscollect_zone_protocol::arena::{MAX_GROUP_BYTES, RING_BYTES, RingHeader, RingState};

use super::history::{RING_WORDS, RingHistory};
use super::items::{Piece, pieces, stale_words, thread_ends, words_of_a_thread};
use super::memory::ArenaMemory;

/// Words that are copied at a time: what a ring claims to hold costs no more, until it has shown
/// that it does.
const READ_WORDS: usize = READ_BYTES / 8;
pub(super) const READ_BYTES: usize = 64 << 10;
/// An observer who sees the ring change hands while it looks, looks again so often.
const LOOKS: usize = 4;

/// A ring and where this recorder stands in it.
pub(super) struct RingReader {
    memory: Arc<ArenaMemory>,
    number: u32,
    /// Up to where it was read, bytes.
    position: u64,
    /// Events before that, as holders count them.
    events: u64,
    /// Items older than these ticks are left out; `None` once one was not.
    skip_before: Option<u64>,
    /// Lost items as last read.
    lost: u64,
    /// What an observer knows; `None` of the ring's holder.
    observed: Option<ObservedRing>,
}

/// What the recorder knows of a ring that another one empties, or did.
struct ObservedRing {
    /// Which of the ring's threads wrote what lies at the position: the next one once all of a
    /// thread that has ended was read, for the ring may have many more owners before the next look.
    owner: u32,
    /// Whether all that was ever written to the ring is this recording's.
    from_start: bool,
    /// Whether the events that were counted are those of the holder.
    is_counted: bool,
    /// What other threads have written since.
    handover: Option<Handover>,
    /// Whether something was missed that may be older than the recording.
    in_doubt: bool,
    /// Events that it was too late for, and times that it was of which nobody knows how many, since
    /// the last call.
    overrun: u64,
    gaps: u64,
    /// Bytes that were read only to find where threads end, since the last call.
    scanned: u64,
}

/// Items of several threads, one behind the other.
#[derive(Clone, Copy)]
struct Handover {
    /// Where the items begin of the ring's owner at that time.
    until: u64,
    owner: u32,
    /// Whether all threads until then say where they end.
    is_told: bool,
}

/// Why a ring is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RingError {
    /// Its positions cannot be.
    #[error("its positions cannot be")]
    Positions,
    /// What lies there is no item.
    #[error("it holds what is no item")]
    Item,
    /// There is no such state.
    #[error("its state is unknown")]
    State,
    /// The system does not give what lies there.
    #[error("it cannot be read")]
    Unreadable,
}

/// What a ring holds before it is emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingContent {
    /// A thread's last items: nothing follows.
    pub(super) ended: bool,
    /// Bytes.
    pub(super) bytes: u64,
    /// Which of the ring's threads wrote what comes first; `None` where that cannot be told.
    pub(super) owner: Option<u32>,
    /// Whether the ring has another owner by now.
    pub(super) is_late: bool,
    /// Up to where it is that thread's, as far as is known, and up to where there is something.
    pub(super) until: u64,
    pub(super) head: u64,
}

/// What an observer was too late for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    /// Events.
    pub(super) events: u64,
    /// Times that it was of which nobody knows how many events they were.
    pub(super) gaps: u64,
    /// Bytes that were read to find out.
    pub(super) scanned: u64,
}

/// What an observer sees of a ring.
#[derive(Clone, Copy)]
struct Look {
    tail: u64,
    /// Events before the tail, if the holder's count of them belongs to it.
    events: Option<u64>,
    state: u32,
    head: u64,
    owner: u32,
}

impl Look {
    /// Up to where things may have been overwritten: before the holder's tail, and only as far as
    /// the writer may have come in its next round.
    fn overwritten(&self) -> u64 {
        let reach = self.head.saturating_add(MAX_GROUP_BYTES as u64);
        self.tail.min(reach.saturating_sub(RING_BYTES as u64))
    }
}

impl RingReader {
    /// Begins where an earlier reader stopped; items older than `start` are left out.
    pub(super) fn new(memory: Arc<ArenaMemory>, number: u32, start: u64, had_reader: bool) -> Self {
        let header = memory.ring(number);
        let position = header.tail.load(Ordering::Acquire);
        let events = header.taken_after.load(Ordering::Relaxed);
        // A ring that somebody has read before: its losses are not this recording's.
        let lost =
            if position == 0 || !had_reader { 0 } else { header.lost.load(Ordering::Relaxed) };
        let skip_before = Some(start);
        Self { memory, number, position, events, skip_before, lost, observed: None }
    }

    /// Observes a ring that another recorder empties, from its first item on: what is older than
    /// `start` is left out, unless the recording goes back to the ring's beginning.
    pub(super) fn observe(
        memory: Arc<ArenaMemory>,
        number: u32,
        start: u64,
        from_start: bool,
    ) -> Self {
        let lost = if from_start { 0 } else { memory.ring(number).lost.load(Ordering::Relaxed) };
        let observed = ObservedRing {
            owner: 1,
            from_start,
            is_counted: from_start,
            handover: None,
            in_doubt: false,
            overrun: 0,
            gaps: 0,
            scanned: 0,
        };
        let (position, events, skip_before) = (0, 0, Some(start));
        Self { memory, number, position, events, skip_before, lost, observed: Some(observed) }
    }

    fn header(&self) -> &RingHeader {
        self.memory.ring(self.number)
    }

    /// Whether there is something.
    pub(super) fn has_more(&self) -> bool {
        self.header().head.load(Ordering::Acquire) != self.position
    }

    /// What is there. The state is read first: what is there at the end of a
    /// thread is everything. The owner is read last: it was written before the
    /// items, and does not change before the ring is given back.
    pub(super) fn waiting(&mut self, scratch: &mut Vec<u64>) -> Result<RingContent, RingError> {
        if self.observed.is_some() && !self.try_hold() {
            return self.look_and_follow(scratch);
        }
        let header = self.header();
        let state = header.state.load(Ordering::Acquire);
        let head = header.head.load(Ordering::Acquire);
        let owner = header.owner.load(Ordering::Relaxed);
        let bytes = self.bytes_until(head, state)?;
        let ended = state == RingState::Ended as u32;
        Ok(RingContent { ended, bytes, owner: Some(owner), is_late: false, until: head, head })
    }

    /// Bytes up to the head, if they and the state can be.
    fn bytes_until(&self, head: u64, state: u32) -> Result<u64, RingError> {
        if state > RingState::Ended as u32 {
            return Err(RingError::State);
        }
        if !head.is_multiple_of(8) || !self.position.is_multiple_of(8) {
            return Err(RingError::Positions);
        }
        head.checked_sub(self.position)
            .filter(|bytes| *bytes <= RING_BYTES as u64)
            .ok_or(RingError::Positions)
    }

    /// Goes on as the ring's holder if this recorder is the arena's by now and has read all that an
    /// earlier one has: what lies from here on nobody overwrites.
    fn try_hold(&mut self) -> bool {
        let may = self.memory.is_held()
            && self.position >= self.header().tail.load(Ordering::Acquire)
            && self.position <= self.header().head.load(Ordering::Acquire);
        if may {
            self.observed = None;
            self.publish_tail();
        }
        may
    }

    /// Gives the room before the position back.
    fn publish_tail(&self) {
        let header = self.header();
        header.taken_before.store(self.events, Ordering::Relaxed);
        // Release: the copy comes before the writer's next use of the room.
        header.tail.store(self.position, Ordering::Release);
        header.taken_after.store(self.events, Ordering::Release);
    }

    /// Hands what is waiting, of one thread, to `sink` and gives its room back. An observer that is
    /// too late for it, and whoever comes to the end of a thread, stops before.
    pub(super) fn take(
        &mut self,
        waiting: RingContent,
        scratch: &mut Vec<u64>,
        sink: &mut dyn FnMut(Piece<'_>),
    ) -> Result<(), RingError> {
        while self.position < waiting.until {
            let (read, mut limit) = self.read(self.position, waiting.until, scratch)?;
            let mut end = None;
            if self.observed.is_some() {
                if self.position < self.look().overwritten() {
                    return Ok(());
                }
                if waiting.is_late && waiting.owner.is_some() {
                    end = words_of_a_thread(read, limit);
                    limit = end.unwrap_or(limit);
                }
            }
            let skipped = self.skip_stale(read, limit);
            let (_, fresh) = read.split_at(skipped);
            // An observer has to know whose the items are behind the end of a thread's.
            let ends = if self.observed.is_some() { thread_ends(read, limit) } else { None };
            let mut events = 0;
            let taken = pieces(fresh, limit.saturating_sub(skipped), |piece| {
                events += u64::from(piece.events);
                sink(piece);
            });
            let taken = skipped + taken.map_err(|_| RingError::Item)?;
            if taken == 0 {
                return Err(RingError::Item);
            }
            self.position += taken as u64 * 8;
            self.events += events;
            match &mut self.observed {
                None => self.publish_tail(),
                Some(observed) if end.is_some() => {
                    observed.owner = observed.owner.wrapping_add(1);
                    return Ok(());
                }
                Some(observed) => {
                    let is_last = waiting.ended && self.position >= waiting.until;
                    if let Some(owner) = waiting.owner
                        && !waiting.is_late
                        && (is_last || ends.is_some_and(|found| found.ends > 0))
                    {
                        observed.owner = owner.wrapping_add(1);
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies items from a position on, and how many words of them begin there: the last may run
    /// over that.
    fn read<'a>(
        &self,
        position: u64,
        until: u64,
        scratch: &'a mut Vec<u64>,
    ) -> Result<(&'a [u64], usize), RingError> {
        let start = (position % RING_BYTES as u64) as usize;
        let available = (until.saturating_sub(position) / 8) as usize;
        // Items begin before the limit, and the last may run over it.
        let limit = ((RING_BYTES - start) / 8).min(READ_WORDS);
        scratch.resize(READ_WORDS + MAX_ITEM_WORDS, 0);
        let read = &mut scratch[..available.min(limit + MAX_ITEM_WORDS - 1)];
        self.memory.read_items(self.number, start, read).map_err(|_| RingError::Unreadable)?;
        // What is looked at next is as it was after the copy.
        fence(Ordering::Acquire);
        Ok((read, limit))
    }

    /// Words at the beginning that are older than the recording. What was lost
    /// until then is not this recording's either.
    fn skip_stale(&mut self, words: &[u64], limit: usize) -> usize {
        let Some(start) = self.skip_before else { return 0 };
        let (stale, events) = stale_words(words, limit, start);
        self.events += events;
        if stale > 0 {
            self.lost = self.header().lost.load(Ordering::Relaxed);
        }
        if stale < limit.min(words.len()) {
            self.skip_before = None;
        }
        if let Some(observed) = &mut self.observed {
            // What was missed before something that is too old was too old as well.
            observed.gaps += u64::from(std::mem::take(&mut observed.in_doubt) && stale == 0);
        }
        stale
    }

    /// Items that were lost since the last call because the ring was full.
    pub(super) fn newly_lost(&mut self) -> u64 {
        let lost = self.header().lost.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut self.lost, lost);
        lost.saturating_sub(before)
    }

    /// What was missed since the last call because it was overwritten.
    pub(super) fn newly_missed(&mut self) -> Missed {
        let Some(observed) = &mut self.observed else { return Missed::default() };
        Missed {
            events: std::mem::take(&mut observed.overrun),
            gaps: std::mem::take(&mut observed.gaps),
            scanned: std::mem::take(&mut observed.scanned),
        }
    }

    /// Whether something lies in the ring, and nothing of it is of this recording.
    pub(super) fn has_only_history(&self) -> bool {
        self.skip_before.is_some() && self.position > 0
    }

    /// What states at `now` that which the ring's thread had open before the recording, and has
    /// still, as far as the ring tells; empty where its thread goes on meanwhile, and states that
    /// itself.
    pub(super) fn restatement(
        &self,
        now: u64,
        scratch: &mut Vec<u64>,
    ) -> Result<Vec<u64>, RingError> {
        let header = self.header();
        let is_as_before = || {
            header.state.load(Ordering::Acquire) == RingState::Used as u32
                && header.head.load(Ordering::Acquire) == self.position
        };
        if self.position == 0 || !is_as_before() {
            return Ok(Vec::new());
        }
        scratch.resize(RING_WORDS, 0);
        self.memory.read_items(self.number, 0, scratch).map_err(|_| RingError::Unreadable)?;
        // What is looked at next is as it was after the copy.
        fence(Ordering::Acquire);
        let history = RingHistory { ring: scratch, head: self.position };
        Ok(if is_as_before() { history.restatement(now) } else { Vec::new() })
    }

    /// Gives an empty ring of a thread that has ended to the next one, unless another recorder
    /// will.
    pub(super) fn free(&self) {
        if self.observed.is_none() {
            self.header().state.store(RingState::Free as u32, Ordering::Release);
        }
    }

    /// Up to where it was read, bytes.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
}

/// What an observer does.
impl RingReader {
    /// Looks at the header, the tail before the head: so it is never beyond it.
    fn look(&self) -> Look {
        let header = self.header();
        let (mut tail, mut events) = (0, None);
        for _ in 0..LOOKS {
            let after = header.taken_after.load(Ordering::Acquire);
            tail = header.tail.load(Ordering::Acquire);
            if header.taken_before.load(Ordering::Acquire) == after {
                events = Some(after);
                break;
            }
        }
        let state = header.state.load(Ordering::Acquire);
        let head = header.head.load(Ordering::Acquire);
        Look { tail, events, state, head, owner: 0 }
    }

    /// The same, while the ring has one owner. A ring gets another only when the holder has emptied
    /// it: whoever owns it wrote all from the tail on.
    fn look_at_owner(&self) -> Option<Look> {
        (0..LOOKS).find_map(|_| {
            let before = self.header().owner.load(Ordering::Acquire);
            let look = self.look();
            let owner = self.header().owner.load(Ordering::Acquire);
            (owner == before).then_some(Look { owner, ..look })
        })
    }

    /// What is there for an observer, and whose it is.
    fn look_and_follow(&mut self, scratch: &mut Vec<u64>) -> Result<RingContent, RingError> {
        let Some(look) = self.look_at_owner() else { return Ok(self.nothing()) };
        if look.tail > look.head || !look.tail.is_multiple_of(8) {
            return Err(RingError::Positions);
        }
        if self.position < look.overwritten() {
            self.fall_behind(&look);
        }
        let bytes = self.bytes_until(look.head, look.state)?;
        if self.position < look.tail && !self.follow_handover(&look, scratch)? {
            return Ok(self.nothing());
        }
        let position = self.position;
        let Some(observed) = &mut self.observed else { return Ok(self.nothing()) };
        let handover = match observed.handover {
            Some(handover) if position < handover.until => handover,
            _ => {
                observed.handover = None;
                let (ended, head) = (look.state != RingState::Used as u32, look.head);
                let next = look.owner.wrapping_add(1);
                let is_read = position == head && (ended || observed.owner == next);
                observed.owner = if is_read { next } else { look.owner };
                if position == look.tail
                    && let Some(events) = look.events
                {
                    (self.events, observed.is_counted) = (events, true);
                }
                let owner = Some(look.owner);
                return Ok(RingContent { ended, bytes, owner, is_late: false, until: head, head });
            }
        };
        Ok(RingContent {
            ended: false,
            bytes,
            owner: handover.is_told.then_some(observed.owner),
            is_late: true,
            until: handover.until,
            head: look.head,
        })
    }

    fn nothing(&self) -> RingContent {
        let at = self.position;
        RingContent { ended: false, bytes: 0, owner: None, is_late: false, until: at, head: at }
    }

    /// What lies before the tail may be that of threads that have ended: finds out where they do.
    /// `false` where it was overtaken meanwhile.
    fn follow_handover(&mut self, look: &Look, scratch: &mut Vec<u64>) -> Result<bool, RingError> {
        let Some(observed) = &mut self.observed else { return Ok(true) };
        if let Some(handover) = observed.handover
            && self.position >= handover.until
        {
            (observed.owner, observed.handover) = (handover.owner, None);
        }
        if observed.handover.is_some() || observed.owner == look.owner {
            return Ok(true);
        }
        let owners = look.owner.wrapping_sub(observed.owner);
        let (mut at, mut ends, mut is_last) = (self.position, 0, false);
        while at < look.tail {
            let (read, limit) = self.read(at, look.tail, scratch)?;
            if at < self.look().overwritten() {
                return Ok(false);
            }
            let found = thread_ends(read, limit).ok_or(RingError::Item)?;
            at += found.words as u64 * 8;
            ends += found.ends;
            is_last = found.is_last;
        }
        // The ring's owner may have ended, too, and the holder has taken that: it is not one of
        // those before.
        let is_over = look.state != RingState::Used as u32 && look.tail == look.head;
        ends -= u32::from(is_last && is_over);
        if let Some(observed) = &mut self.observed {
            observed.scanned += at - self.position;
            let (until, owner, is_told) = (look.tail, look.owner, ends == owners);
            observed.handover = Some(Handover { until, owner, is_told });
        }
        Ok(true)
    }

    /// What lies at the position is gone: goes on at the tail, which is always an item's beginning.
    fn fall_behind(&mut self, look: &Look) {
        let Some(observed) = &mut self.observed else { return };
        let most = (look.tail - self.position) / 8;
        let events = look.events.filter(|_| observed.is_counted);
        match events.map(|events| events.saturating_sub(self.events).clamp(1, most)) {
            _ if self.skip_before.is_some() && !observed.from_start => observed.in_doubt = true,
            Some(events) => observed.overrun += events,
            None => observed.gaps += 1,
        }
        (self.position, self.events) = (look.tail, look.events.unwrap_or(self.events));
        observed.is_counted = look.events.is_some();
        (observed.owner, observed.handover) = (look.owner, None);
    }
}
