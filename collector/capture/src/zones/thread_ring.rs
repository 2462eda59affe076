//! A ring of a program, and the threads whose items come out of it.

use std::time::{Duration, Instant};

use syscollect_model::{ClockSource, Ticks, grouped};
use syscollect_records::Stamp;
use syscollect_store::Chunk;
use syscollect_zone_protocol::ItemKind;
use syscollect_zone_protocol::arena::RING_BYTES;

use super::items::{Piece, pieces};
use super::lanes::{Lanes, ThreadLane};
use super::losses::{Losses, most_lost};
use super::ring::{Missed, RingContent, RingError, RingReader};
use crate::clock::ticks_now;

/// What an observer has of a thread that has ended waits so long for the thread to be told.
const PATIENCE: Duration = Duration::from_millis(50);

/// For a thread that writes nothing for so long it is stated what it has open: it may hang, and
/// not state that itself when it could see this recorder.
const SILENCE: Duration = Duration::from_millis(500);

/// What drains of a program's rings share.
pub(super) struct RingOutput<'a> {
    pub(super) lanes: &'a mut Lanes,
    pub(super) scratch: &'a mut Vec<u64>,
    pub(super) chunks: &'a mut Vec<Chunk>,
    pub(super) notes: &'a mut Vec<String>,
}

/// A ring and the thread whose items come out of it.
pub(super) struct ThreadRing {
    pub(super) number: u32,
    pub(super) reader: RingReader,
    /// Who the watcher says has it, and has had it last: the owner's count and its thread, if it is
    /// known.
    reported: Vec<(u32, Option<u32>)>,
    /// Since when items wait for their thread to be told, which has the ring no more.
    unknown_since: Option<Instant>,
    /// Whose items were taken last, and where they go; no lane where nobody knows the thread.
    writer: Option<(u32, Option<ThreadLane>)>,
    /// Since when its thread writes nothing, where it is to be stated what it has open.
    silent_since: Option<Instant>,
    /// When it was found empty, if it was.
    pub(super) empty_at: Option<Instant>,
    pub(super) broken: bool,
    lost: LostOfRing,
}

/// What was lost of a ring.
struct LostOfRing {
    /// Since when it is counted: CLOCK_MONOTONIC in nanoseconds.
    since: u64,
    /// Events so far.
    counted: u64,
}

/// What a drain counts.
pub(super) struct DrainCounts<'a> {
    pub(super) pid: u32,
    pub(super) losses: &'a mut Losses,
    pub(super) items: &'a mut u64,
    /// Bytes that were read of what rings held before.
    pub(super) history: &'a mut usize,
}

impl DrainCounts<'_> {
    /// Counts what the ring's threads can have lost since the recording began; how much is counted.
    /// More than that is what the program claims, and is not.
    fn count_full(&mut self, events: u64, lost: &mut LostOfRing, out: &mut RingOutput<'_>) -> u64 {
        if events == 0 {
            return 0;
        }
        let elapsed = ticks_now(ClockSource::Monotonic).0.saturating_sub(lost.since);
        let counted = lost.counted.saturating_add(events);
        // What the ring held may be older.
        if counted > most_lost(elapsed).saturating_add(RING_BYTES as u64 / 8) {
            if self.losses.unbelievable == 0 {
                out.notes.push(unbelievable_note(self.pid, events));
            }
            self.losses.unbelievable += 1;
            return 0;
        }
        lost.counted = counted;
        self.losses.ring_full = self.losses.ring_full.saturating_add(events);
        events
    }

    /// Counts what another recorder has taken before this one came; how much is counted.
    fn count(&mut self, missed: Missed, lost: &mut LostOfRing, out: &mut RingOutput<'_>) -> u64 {
        let counted = self.count_full(missed.events, lost, out);
        if missed.gaps > 0 {
            if self.losses.gaps == 0 {
                let pid = self.pid;
                out.notes.push(format!(
                    "process {pid}: it is not known how many of its first zones are missing: \
                     another recorder had taken them before this one came"
                ));
            }
            self.losses.gaps += missed.gaps;
        }
        counted
    }
}

/// What is said of a program that claims to have lost more than it can have.
pub(super) fn unbelievable_note(pid: u32, claimed: u64) -> String {
    format!(
        "process {pid}: it claims {} lost items, more than it can have written: they are not \
         counted",
        grouped(claimed)
    )
}

/// Says in a thread's lane that events are missing before the one of that stamp.
fn mark_loss(
    lane: &mut ThreadLane,
    stamp: Stamp,
    events: u64,
    now: Ticks,
    chunks: &mut Vec<Chunk>,
) {
    let words = [stamp.0 & !0xff | ItemKind::Lost as u64, events];
    let first = Some(Stamp(words[0]));
    let (last, starts_stamped) = (first, true);
    lane.append(
        Piece { words: &words, items: 1, events: 0, first, last, starts_stamped },
        now,
        chunks,
    );
}

/// Whose ring is drained, and when.
pub(super) struct Draining {
    pub(super) client: u32,
    /// Whether nothing comes after this.
    pub(super) all: bool,
    pub(super) now: Ticks,
    pub(super) at: Instant,
}

impl ThreadRing {
    /// A ring of a recording that began then, nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn new(number: u32, reader: RingReader, since: u64) -> Self {
        Self {
            number,
            reader,
            reported: Vec::new(),
            unknown_since: None,
            writer: None,
            silent_since: None,
            empty_at: None,
            broken: false,
            lost: LostOfRing { since, counted: 0 },
        }
    }

    /// The thread that has it; `None` when nobody knows it any more. So many owners are remembered.
    /// Returns whether that is news.
    pub(super) fn set_owner(&mut self, owner: u32, tid: Option<u32>, remembered: usize) -> bool {
        self.empty_at = None;
        if let Some((_, known)) = self.reported.iter_mut().find(|(known, _)| *known == owner) {
            *known = known.or(tid);
            return false;
        }
        if self.reported.len() >= remembered {
            self.reported.remove(0);
        }
        self.reported.push((owner, tid));
        true
    }

    /// What its thread has open is to be stated, by the thread or for it.
    pub(super) fn request_restatement(&mut self) {
        self.silent_since = Some(Instant::now());
    }

    /// The lane that it filled last.
    pub(super) fn into_lane(self) -> Option<ThreadLane> {
        self.writer.and_then(|(_, lane)| lane)
    }

    pub(super) fn lane(&mut self) -> Option<&mut ThreadLane> {
        self.writer.as_mut().and_then(|(_, lane)| lane.as_mut())
    }

    /// Moves what is there to the lane of its thread; returns how many bytes the ring held.
    pub(super) fn drain(
        &mut self,
        context: &Draining,
        account: &mut DrainCounts<'_>,
        out: &mut RingOutput<'_>,
    ) -> Result<u64, RingError> {
        let (mut begun, mut bytes) = (None, 0);
        loop {
            let waiting = self.reader.waiting(out.scratch)?;
            let begun = *begun.get_or_insert(self.reader.position());
            let missed = self.reader.newly_missed();
            let counted = account.count(missed, &mut self.lost, out);
            bytes = bytes.max(waiting.bytes) + missed.scanned;
            if waiting.bytes > 0 {
                if !self.follow_owner(context, &waiting, out) {
                    // The watcher will tell soon whose they are.
                    return Ok(bytes);
                }
                let lane = self.writer.as_mut().and_then(|(_, lane)| lane.as_mut());
                let marked = context.now;
                Self::take(&mut self.reader, lane, waiting, (marked, counted), account, out)?;
            }
            self.state_if_silent(context, &waiting, account, out)?;
            let position = self.reader.position();
            // An observer that was overtaken goes on elsewhere; another thread's items may follow.
            let is_overtaken = position < waiting.until;
            let has_more = is_overtaken || waiting.is_late && position < waiting.head;
            if has_more && position.saturating_sub(begun) < RING_BYTES as u64 {
                continue;
            }
            account.losses.unfinished += u64::from(is_overtaken && context.all);
            account.count(self.reader.newly_missed(), &mut self.lost, out);
            account.count_full(self.reader.newly_lost(), &mut self.lost, out);
            if waiting.ended && !has_more {
                self.let_go(context, out);
                self.reader.free();
            }
            return Ok(bytes);
        }
    }

    /// States what its thread has open, as far as the ring tells, where the thread does not.
    fn state_if_silent(
        &mut self,
        context: &Draining,
        waiting: &RingContent,
        account: &mut DrainCounts<'_>,
        out: &mut RingOutput<'_>,
    ) -> Result<(), RingError> {
        let Some(since) = &mut self.silent_since else { return Ok(()) };
        if waiting.bytes > 0 {
            *since = context.at;
        }
        let is_silent = match context.all {
            // It is the last moment.
            true => self.reader.has_only_history(),
            false => context.at.saturating_duration_since(*since) >= SILENCE,
        };
        if !is_silent || waiting.ended || !self.follow_owner(context, waiting, out) {
            return Ok(());
        }
        self.silent_since = None;
        *account.history += RING_BYTES;
        let words = self.reader.restatement(context.now.0, out.scratch)?;
        if let Some(lane) = self.writer.as_mut().and_then(|(_, lane)| lane.as_mut()) {
            // They are items that were made here.
            let _ = pieces(&words, words.len(), |piece| {
                *account.items += u64::from(piece.items);
                lane.append(piece, context.now, out.chunks);
            });
        }
        Ok(())
    }

    fn take(
        reader: &mut RingReader,
        mut lane: Option<&mut ThreadLane>,
        waiting: RingContent,
        (now, missed): (Ticks, u64),
        account: &mut DrainCounts<'_>,
        out: &mut RingOutput<'_>,
    ) -> Result<(), RingError> {
        let RingOutput { scratch, chunks, .. } = out;
        let mut missed = (missed > 0).then_some(missed);
        reader.take(waiting, scratch, &mut |piece| {
            let items = u64::from(piece.items);
            match &mut lane {
                Some(lane) => {
                    if let Some(first) = piece.first
                        && let Some(events) = missed.take()
                    {
                        mark_loss(lane, first, events, now, chunks);
                    }
                    *account.items += items;
                    lane.append(piece, now, chunks);
                }
                None => account.losses.nobodys += items,
            }
        })
    }

    /// Has the lane of the thread that wrote what is waiting. `false` while
    /// it is not known; at the end it is nobody's then.
    fn follow_owner(
        &mut self,
        context: &Draining,
        waiting: &RingContent,
        out: &mut RingOutput<'_>,
    ) -> bool {
        let Some(owner) = waiting.owner else {
            self.let_go(context, out);
            return true;
        };
        if self.writer.as_ref().is_some_and(|(known, _)| *known == owner) {
            return true;
        }
        let reported = self.reported.iter().find(|(reported, _)| *reported == owner);
        let tid = match reported {
            Some((_, tid)) => *tid,
            None if context.all => None,
            None if waiting.is_late => {
                let since = *self.unknown_since.get_or_insert(context.at);
                if context.at.duration_since(since) < PATIENCE {
                    return false;
                }
                None
            }
            None => return false,
        };
        self.unknown_since = None;
        self.let_go(context, out);
        let lane = tid.and_then(|tid| out.lanes.open(context.client, tid, context.at));
        self.writer = Some((owner, lane));
        true
    }

    /// The thread has ended: its lane may be another's.
    pub(super) fn let_go(&mut self, context: &Draining, out: &mut RingOutput<'_>) {
        if let Some((_, Some(mut lane))) = self.writer.take() {
            lane.flush(context.now, out.chunks);
            out.lanes.close(lane, context.at);
        }
    }
}
