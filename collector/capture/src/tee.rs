//! What is recorded, passed on meanwhile to whoever plays or watches it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_store::{Chunk, Producer, ProducerShares};

use crate::stage::Flush;

/// Bytes of chunks that wait for who watches; what comes on top is left out.
const MOST_WAITING: usize = 32 << 20;

/// How much of that may be taken where another chunk of such a lane comes: what programs write
/// leaves room for what the kernel says, zones leave some for what they are called, and all leave
/// some for who lives, ends and crashes.
fn room_of(kind: LaneKind) -> usize {
    match kind {
        LaneKind::Task | LaneKind::Definition | LaneKind::Clock => MOST_WAITING,
        LaneKind::ZoneLog => MOST_WAITING / 8 * 5,
        LaneKind::Zone | LaneKind::Probe => MOST_WAITING / 2,
        _ => MOST_WAITING / 8 * 7,
    }
}

/// Something of a recording that goes on.
#[derive(Clone, Debug)]
pub enum Teed {
    /// The next chunk of its lane, as it goes into the file.
    Chunk(Chunk),
    /// So many chunks of that lane were left out here, because too much waits.
    LeftOut(Lane, u64),
    /// No record of before these ticks comes any more, but from instrumented programs that were not
    /// found yet, or that write more than their share.
    NothingBefore(Ticks),
}

/// Where a recording is passed on to while it goes on.
#[derive(Clone, Debug)]
pub struct Tee(Receiver);

#[derive(Clone, Debug)]
enum Receiver {
    Player(Sender<Teed>),
    Watcher(Arc<WaitingChunks>),
}

impl Tee {
    /// Passes on everything. What is sent waits without bound for who receives it: this is for
    /// tests of playing while recording.
    #[must_use]
    pub fn to_play(sender: Sender<Teed>) -> Self {
        Self(Receiver::Player(sender))
    }

    /// Passes on what comes of the lanes that are `wanted`, up to a bound, without waking anybody:
    /// who watches looks by itself.
    #[must_use]
    pub fn to_watch(wanted: impl Fn(LaneKind) -> bool + Send + Sync + 'static) -> (Self, Watched) {
        let waiting = WaitingChunks { wanted: Box::new(wanted), items: Mutex::default() };
        let waiting = Arc::new(waiting);
        (Self(Receiver::Watcher(Arc::clone(&waiting))), Watched(waiting))
    }

    /// Passes on a chunk, if it is wanted; of that program, if one wrote it.
    pub(crate) fn chunk(&self, chunk: &Chunk, producer: Option<Producer>) {
        match &self.0 {
            // Who does not listen any more is told nothing.
            Receiver::Player(sender) => drop(sender.send(Teed::Chunk(chunk.clone()))),
            Receiver::Watcher(waiting) => waiting.push(chunk, producer),
        }
    }

    /// No record of before these ticks comes any more.
    pub(crate) fn nothing_before(&self, ticks: Ticks) {
        match &self.0 {
            Receiver::Player(sender) => drop(sender.send(Teed::NothingBefore(ticks))),
            Receiver::Watcher(waiting) => waiting.nothing_before(ticks),
        }
    }

    /// How long records may wait for company.
    pub(crate) fn flush(&self) -> Flush {
        match &self.0 {
            Receiver::Player(_) => Flush::USUAL,
            Receiver::Watcher(_) => Flush::WATCHED,
        }
    }

    /// When records that were taken out of lanes have gone on.
    pub(crate) fn rounds(&self) -> Rounds {
        let wait = self.flush().longest_wait();
        Rounds::new(match &self.0 {
            // Instrumented programs are found, and looked at, in turns.
            Receiver::Player(_) => wait + Duration::from_secs(1),
            // What kernel lanes say is watched in time; programs that write more than their share
            // are late.
            Receiver::Watcher(_) => wait,
        })
    }
}

/// What waits for who watches.
struct WaitingChunks {
    wanted: Box<dyn Fn(LaneKind) -> bool + Send + Sync>,
    items: Mutex<WaitingItems>,
}

#[derive(Default)]
struct WaitingItems {
    items: VecDeque<Teed>,
    bytes: usize,
    /// Of these, what instrumented programs wrote.
    shares: ProducerShares,
    /// Chunks that had no room since these were taken.
    left_out: BTreeMap<Lane, u64>,
    /// How far the recording is, where it was full.
    nothing_before: Option<Ticks>,
}

/// What is watched of a recording: taken by who watches, now and then.
#[derive(Clone, Debug)]
pub struct Watched(Arc<WaitingChunks>);

impl Watched {
    /// What came since the last call. What was left out is said behind what came before it.
    pub fn take(&self) -> Vec<Teed> {
        let WaitingItems { items, left_out, nothing_before, .. } =
            std::mem::take(&mut *self.0.lock());
        let left_out = left_out.into_iter().map(|(lane, chunks)| Teed::LeftOut(lane, chunks));
        let until = nothing_before.map(Teed::NothingBefore);
        items.into_iter().chain(left_out).chain(until).collect()
    }
}

impl WaitingChunks {
    fn push(&self, chunk: &Chunk, producer: Option<Producer>) {
        let lane = chunk.header.lane;
        if !(self.wanted)(lane.kind) {
            return;
        }
        let mut waiting = self.lock();
        let bytes = chunk.data.len() + size_of::<Teed>();
        let free = room_of(lane.kind).saturating_sub(waiting.bytes);
        let room = producer.map_or(free, |producer| waiting.shares.room_for(producer, free));
        // Behind what is missing nothing comes of its lane, so that it is clear where it is. All
        // logs share one, and what comes of them says where it belongs.
        let is_behind = lane.kind != LaneKind::ZoneLog && waiting.left_out.contains_key(&lane);
        if bytes > room || is_behind {
            *waiting.left_out.entry(lane).or_default() += 1;
            return;
        }
        if let Some(producer) = producer {
            waiting.shares.add(producer, bytes);
        }
        waiting.bytes += bytes;
        waiting.items.push_back(Teed::Chunk(chunk.clone()));
    }

    fn nothing_before(&self, ticks: Ticks) {
        let mut waiting = self.lock();
        if !waiting.left_out.is_empty() {
            waiting.nothing_before = Some(ticks);
            return;
        }
        match waiting.items.back_mut() {
            Some(Teed::NothingBefore(before)) => *before = ticks,
            _ => waiting.items.push_back(Teed::NothingBefore(ticks)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingItems> {
        // The items are whole between any two statements that can panic.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WaitingChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingChunks").finish_non_exhaustive()
    }
}

/// When lanes were emptied, so far as records that were taken out then may still wait for company.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// How long records may be on their way.
    longest_way: Duration,
    /// When each ended, and the ticks of right before it began.
    rounds: VecDeque<(Instant, Ticks)>,
}

impl Rounds {
    fn new(longest_way: Duration) -> Self {
        Self { longest_way, rounds: VecDeque::new() }
    }

    /// All lanes were emptied, from `began` and `ticks` on until `ended`; gives what all that comes
    /// is later than.
    ///
    /// Records that a round takes out have gone on by the first round that begins so much later as
    /// they may be on their way. They were written after the round before it began, but for
    /// those whose program had read the clock and then had to wait: hence one round more.
    pub(crate) fn emptied(
        &mut self,
        began: Instant,
        ticks: Ticks,
        ended: Instant,
    ) -> Option<Ticks> {
        self.rounds.push_back((ended, ticks));
        let is_out =
            |(at, _): &(Instant, Ticks)| began.saturating_duration_since(*at) >= self.longest_way;
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
    use syscollect_store::ChunkHeader;

    #[test]
    fn a_round_holds_back_what_it_took_out_as_long_as_that_may_wait() {
        let (start, mut rounds) = (Instant::now(), Rounds::new(Duration::from_millis(1500)));
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

    fn chunk(kind: LaneKind, index: u16, sequence: u64, bytes: usize) -> Chunk {
        let header = ChunkHeader {
            lane: Lane::new(kind, index),
            sequence,
            first: Ticks(sequence),
            last: Ticks(sequence),
            current_tid: 0,
            stride: 0,
            records_before: sequence,
            records: 1,
            length: bytes as u32,
        };
        Chunk { header, data: vec![0; bytes] }
    }

    /// What was taken, in short: `sched0 #3`, `-2 sched0`, `<7`.
    fn shown(taken: Vec<Teed>) -> Vec<String> {
        let show = |teed| match teed {
            Teed::Chunk(Chunk { header, .. }) => {
                format!("{:?}{} #{}", header.lane.kind, header.lane.index, header.sequence)
            }
            Teed::LeftOut(lane, chunks) => format!("-{chunks} {:?}{}", lane.kind, lane.index),
            Teed::NothingBefore(ticks) => format!("<{}", ticks.0),
        };
        taken.into_iter().map(show).collect()
    }

    #[test]
    fn who_watches_gets_what_is_wanted_in_order_and_the_last_of_how_far_it_is() {
        let (tee, watched) = Tee::to_watch(|kind| kind == LaneKind::Sched);
        tee.chunk(&chunk(LaneKind::Sched, 0, 0, 10), None);
        tee.chunk(&chunk(LaneKind::Sample, 0, 0, 10), None);
        tee.nothing_before(Ticks(5));
        tee.nothing_before(Ticks(7));
        tee.chunk(&chunk(LaneKind::Sched, 1, 0, 10), None);
        assert_eq!(shown(watched.take()), ["Sched0 #0", "<7", "Sched1 #0"]);
        assert!(watched.take().is_empty());
    }

    #[test]
    fn who_writes_zones_without_end_leaves_room_for_others_and_for_what_the_kernel_says() {
        let (tee, watched) = Tee::to_watch(|_| true);
        let [loud, quiet, other] =
            [(1001, 1), (1001, 2), (1002, 3)].map(|(user, program)| Producer { user, program });
        let write = |producer, index, sequence, bytes| {
            tee.chunk(&chunk(LaneKind::Zone, index, sequence, bytes), Some(producer));
        };
        for sequence in 0..100 {
            // Each of its threads has a lane.
            (0..7).for_each(|thread| write(loud, thread, sequence, 64 << 10));
        }
        write(quiet, 7, 0, 1 << 20);
        write(other, 8, 0, 4 << 20);
        tee.chunk(&chunk(LaneKind::Sched, 0, 0, 10 << 20), None);
        tee.chunk(&chunk(LaneKind::Sched, 0, 1, 10 << 20), None);
        tee.chunk(&chunk(LaneKind::Task, 0, 0, 1 << 20), None);
        let taken = shown(watched.take());
        let of = |what: &str| taken.iter().filter(|one| one.starts_with(what)).count();
        let loud = of("Zone") - of("Zone7") - of("Zone8");
        assert!((80..100).contains(&loud), "three quarters of a user's half: {loud}");
        let [quiet, other] = [of("Zone7 #0"), of("Zone8 #0")];
        assert_eq!((quiet, other, of("Sched0 #0"), of("Task0 #0")), (1, 1, 1, 1));
        assert_eq!(of("-1 Sched0"), 1);
    }

    #[test]
    fn what_one_user_defines_without_end_does_not_cost_another_user_its_names() {
        let (tee, watched) = Tee::to_watch(|_| true);
        let [loud, other] =
            [(1001, 1), (1002, 2)].map(|(user, program)| Producer { user, program });
        // All logs are in one lane, in the order in which they are read.
        let define = |producer, sequence, bytes| {
            tee.chunk(&chunk(LaneKind::ZoneLog, 0, sequence, bytes), Some(producer));
        };
        (0..200).for_each(|sequence| define(loud, sequence, 64 << 10));
        define(other, 200, 100);
        let taken = shown(watched.take());
        let of = |what: &str| taken.iter().any(|one| one == what);
        assert!(of("ZoneLog0 #200"), "there is room for it: {:?}", taken.last());
    }

    #[test]
    fn who_does_not_look_holds_no_more_than_a_bound_and_learns_what_was_left_out() {
        let (tee, watched) = Tee::to_watch(|_| true);
        let large = MOST_WAITING / 2;
        tee.chunk(&chunk(LaneKind::Sched, 0, 0, large), None);
        tee.nothing_before(Ticks(1));
        tee.chunk(&chunk(LaneKind::Sched, 0, 1, large), None);
        tee.nothing_before(Ticks(2));
        // There would be room for it, but it belongs behind what is missing.
        tee.chunk(&chunk(LaneKind::Sched, 0, 2, 10), None);
        tee.chunk(&chunk(LaneKind::Sched, 1, 0, 10), None);
        tee.nothing_before(Ticks(3));
        let expected = ["Sched0 #0", "<1", "Sched1 #0", "-2 Sched0", "<3"];
        assert_eq!(shown(watched.take()), expected);
        tee.chunk(&chunk(LaneKind::Sched, 0, 3, 10), None);
        assert_eq!(shown(watched.take()), ["Sched0 #3"], "it goes on");
    }
}
