//! What is recorded, passed on meanwhile to whoever plays or watches it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_store::{Chunk, LeftOutChunks, Producer, ProducerShares};

use crate::stage::{Flush, since_last_switch};

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
    /// The same behind chunks, or the beginning of this one, that were left out because
    /// [nobody looked](WatchDemand::State).
    Resumes(Chunk),
    /// Since somebody [looks](WatchDemand::Prompt) nothing is passed over any more, and what was
    /// is of before what [no record comes before](Self::NothingBefore) now.
    Complete,
    /// Chunks were left out here, because too much waits.
    LeftOut(LeftOutChunks),
    /// No record of before these ticks comes any more, but from instrumented programs that were not
    /// found yet, that write more than their share, or whose turn did not come in time.
    NothingBefore(Ticks),
}

/// What who watches needs at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchDemand {
    /// All that is wanted.
    #[default]
    All,
    /// The same as soon as it can be had without a wakeup for it: somebody looks.
    Prompt,
    /// Nobody looks. Of scheduling events only those that say who runs on each CPU when they are
    /// taken, and no samples; of everything else all, because it says what is open.
    State,
}

/// Rounds of the collector after which what is known to be over began after somebody looked: one
/// may have been under way, and with each it is known of the one before.
const ROUNDS_UNTIL_COMPLETE: u8 = 3;

impl WatchDemand {
    /// How long records may wait for company.
    fn flush(self) -> Flush {
        match self {
            Self::All => Flush::WATCHED,
            Self::Prompt => Flush::PROMPT,
            Self::State => Flush::UNSEEN,
        }
    }

    fn passes_over(self, kind: LaneKind) -> bool {
        self == Self::State && matches!(kind, LaneKind::Sched | LaneKind::Sample)
    }
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
            Receiver::Watcher(waiting) => waiting.lock().demand.flush(),
        }
    }

    /// How long records are on their way at most that wait so long for company.
    pub(crate) fn longest_way(&self, flush: Flush) -> Duration {
        let wait = flush.longest_wait();
        match &self.0 {
            // Instrumented programs are found, and looked at, in turns.
            Receiver::Player(_) => wait + Duration::from_secs(1),
            // What kernel lanes say is watched in time. Programs may be late: who watches takes
            // what they say by its own times.
            Receiver::Watcher(_) => wait,
        }
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
    /// Chunks that had no room since these were taken, by who wrote them: what one program wrote
    /// is missing of no other.
    left_out: BTreeMap<Lane, BTreeMap<Option<Producer>, u64>>,
    /// How far the recording is, where it was full.
    nothing_before: Option<Ticks>,
    demand: WatchDemand,
    /// Rounds since somebody looks, until that is complete.
    rounds: u8,
    /// Lanes that go on behind what nobody looked at; of one that says who runs, what says it now.
    passed_over: BTreeMap<Lane, Option<Chunk>>,
}

impl WaitingItems {
    /// Nothing came since it was taken.
    fn has_nothing(&self) -> bool {
        self.items.is_empty()
            && self.left_out.is_empty()
            && self.nothing_before.is_none()
            && self.passed_over.is_empty()
    }

    /// Of this chunk nobody sees more than who runs.
    fn pass_over(&mut self, chunk: &Chunk) {
        let last = self.passed_over.entry(chunk.header.lane).or_default();
        if chunk.header.lane.kind == LaneKind::Sched
            && let Some(switch) = since_last_switch(chunk)
        {
            *last = Some(switch);
        }
    }

    /// Says who runs where nobody looked since, before how far the recording is.
    fn resume_all(&mut self) {
        if self.passed_over.values().all(Option::is_none) {
            return;
        }
        let is_known = matches!(self.items.back(), Some(Teed::NothingBefore(_)));
        let until = if is_known { self.items.pop_back() } else { None };
        self.passed_over.retain(|_, last| match last.take() {
            Some(last) => {
                self.items.push_back(Teed::Resumes(last));
                false
            }
            None => true,
        });
        self.items.extend(until);
    }
}

/// What is watched of a recording: taken by who watches, now and then.
#[derive(Clone, Debug)]
pub struct Watched(Arc<WaitingChunks>);

impl Watched {
    /// What came since the last call. What was left out is said behind what came before it.
    pub fn take(&self) -> Vec<Teed> {
        let mut waiting = self.0.lock();
        if waiting.has_nothing() {
            return Vec::new();
        }
        waiting.resume_all();
        let WaitingItems { demand, rounds, .. } = *waiting;
        let passed_over = std::mem::take(&mut waiting.passed_over);
        let empty = WaitingItems { demand, rounds, passed_over, ..WaitingItems::default() };
        let WaitingItems { items, left_out, nothing_before, .. } =
            std::mem::replace(&mut *waiting, empty);
        drop(waiting);
        let left_out = left_out.into_iter().flat_map(|(lane, of_lane)| {
            of_lane.into_iter().map(move |(producer, chunks)| {
                Teed::LeftOut(LeftOutChunks { lane, producer, chunks })
            })
        });
        let until = nothing_before.map(Teed::NothingBefore);
        items.into_iter().chain(left_out).chain(until).collect()
    }

    /// Whether so much waits that there is soon no room for what the kernel says.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        self.0.lock().bytes > MOST_WAITING / 4 * 3
    }

    /// What is needed from now on.
    pub fn demand(&self, demand: WatchDemand) {
        let mut waiting = self.0.lock();
        if std::mem::replace(&mut waiting.demand, demand) != demand {
            waiting.rounds = 0;
        }
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
            let of_lane = waiting.left_out.entry(lane).or_default();
            *of_lane.entry(producer).or_default() += 1;
            return;
        }
        if waiting.demand.passes_over(lane.kind) {
            return waiting.pass_over(chunk);
        }
        if let Some(producer) = producer {
            waiting.shares.add(producer, bytes);
        }
        waiting.bytes += bytes;
        match waiting.passed_over.remove(&lane) {
            None => waiting.items.push_back(Teed::Chunk(chunk.clone())),
            Some(last) => {
                let again = last.into_iter().chain([chunk.clone()]);
                waiting.items.extend(again.map(Teed::Resumes));
            }
        }
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
        if waiting.demand == WatchDemand::Prompt && waiting.rounds < ROUNDS_UNTIL_COMPLETE {
            waiting.rounds += 1;
            if waiting.rounds == ROUNDS_UNTIL_COMPLETE {
                waiting.resume_all();
                waiting.items.push_back(Teed::Complete);
            }
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
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// When each ended, and the ticks of right before it began.
    rounds: VecDeque<(Instant, Ticks)>,
}

impl Rounds {
    /// All lanes were emptied, from `began` and `ticks` on until `ended`, and what waited for so
    /// long as records may be on their way went on; gives what all that comes is later than.
    ///
    /// Records that a round takes out have gone on by the first round that begins so much later as
    /// they may be on their way. They were written after the round before it began, but for
    /// those whose program had read the clock and then had to wait: hence one round more.
    pub(crate) fn emptied(
        &mut self,
        began: Instant,
        ticks: Ticks,
        ended: Instant,
        longest_way: Duration,
    ) -> Option<Ticks> {
        self.rounds.push_back((ended, ticks));
        let is_out =
            |(at, _): &(Instant, Ticks)| began.saturating_duration_since(*at) >= longest_way;
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
    use syscollect_records::{RecordKind, SchedRecord, Stamp};
    use syscollect_store::ChunkHeader;

    #[test]
    fn a_round_holds_back_what_it_took_out_as_long_as_that_may_wait() {
        let (start, mut rounds) = (Instant::now(), Rounds::default());
        let way = Duration::from_millis(1500);
        // Each takes 10 ms.
        let mut round = |ms: u64| {
            let begun = start + Duration::from_millis(ms);
            rounds.emptied(begun, Ticks(ms), begun + Duration::from_millis(10), way)
        };
        assert_eq!([0, 100, 1509, 1510].map(&mut round), [None; 4]);
        assert_eq!([1609, 1610].map(&mut round), [None, Some(Ticks(0))]);
        // What the round at 1,509 ms took out may be on its way until 3,019.
        assert_eq!([3018, 3019, 9000].map(&mut round), [0, 100, 3018].map(|ms| Some(Ticks(ms))));
    }

    #[test]
    fn what_goes_on_with_each_round_is_known_with_the_next() {
        let (start, mut rounds) = (Instant::now(), Rounds::default());
        let mut round = |ms: u64, way: u64| {
            let begun = start + Duration::from_millis(ms);
            let (ended, way) = (begun + Duration::from_millis(1), Duration::from_millis(way));
            rounds.emptied(begun, Ticks(ms), ended, way)
        };
        assert_eq!([0, 20, 40].map(|ms| round(ms, 100)), [None; 3]);
        let known = [60, 80, 100].map(|ms| round(ms, 0));
        assert_eq!(known, [40, 60, 80].map(|ms| Some(Ticks(ms))));
        assert_eq!(round(120, 100), None, "what it took out may wait");
        assert_eq!(round(240, 100), Some(Ticks(100)));
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
            Teed::Resumes(Chunk { header, data }) => {
                let Lane { kind, index, .. } = header.lane;
                format!("{kind:?}{index} resumes #{} of {} bytes", header.sequence, data.len())
            }
            Teed::Complete => "complete".to_owned(),
            Teed::LeftOut(LeftOutChunks { lane, producer, chunks }) => {
                let whose = producer.map_or(String::new(), |of| format!(" of {}", of.program));
                format!("-{chunks} {:?}{}{whose}", lane.kind, lane.index)
            }
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

    /// A chunk of switches.
    fn switches(index: u16, sequence: u64) -> Chunk {
        let record = SchedRecord { stamp: Stamp::new(5, RecordKind::Switch), ..Default::default() };
        let data = record.as_bytes().repeat(3);
        let mut chunk = chunk(LaneKind::Sched, index, sequence, data.len());
        (chunk.header.stride, chunk.header.records, chunk.data) = (16, 3, data);
        chunk
    }

    #[test]
    fn where_nobody_looks_the_last_switch_of_each_cpu_is_known_and_then_everything_again() {
        let (tee, watched) = Tee::to_watch(|_| true);
        let sample = |sequence| tee.chunk(&chunk(LaneKind::Sample, 0, sequence, 24), None);
        watched.demand(WatchDemand::State);
        (0..3).for_each(|sequence| tee.chunk(&switches(0, sequence), None));
        sample(0);
        tee.chunk(&chunk(LaneKind::Task, 0, 0, 10), None);
        tee.nothing_before(Ticks(7));
        let taken = shown(watched.take());
        assert_eq!(taken, ["Task0 #0", "Sched0 resumes #2 of 16 bytes", "<7"]);
        tee.chunk(&switches(0, 3), None);
        tee.chunk(&switches(1, 0), None);
        watched.demand(WatchDemand::Prompt);
        tee.chunk(&switches(0, 4), None);
        sample(1);
        sample(2);
        let taken = shown(watched.take());
        let first = ["Sched0 resumes #3 of 16 bytes", "Sched0 resumes #4 of 48 bytes"];
        let then =
            ["Sample0 resumes #1 of 24 bytes", "Sample0 #2", "Sched1 resumes #0 of 16 bytes"];
        assert_eq!(taken, [&first[..], &then].concat());
        tee.chunk(&switches(0, 5), None);
        tee.chunk(&switches(1, 1), None);
        assert_eq!(shown(watched.take()), ["Sched0 #5", "Sched1 #1"]);
        (10..13).for_each(|ticks| tee.nothing_before(Ticks(ticks)));
        assert_eq!(shown(watched.take()), ["<12", "complete"]);
        tee.nothing_before(Ticks(13));
        assert_eq!(shown(watched.take()), ["<13"]);
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
    fn whose_chunks_were_left_out_is_known() {
        let (tee, watched) = Tee::to_watch(|_| true);
        let [loud, other] =
            [(1001, 1), (1002, 2)].map(|(user, program)| Producer { user, program });
        let write = |producer, index, sequence, bytes| {
            tee.chunk(&chunk(LaneKind::Zone, index, sequence, bytes), Some(producer));
        };
        write(loud, 0, 0, 10);
        (1..4).for_each(|sequence| write(loud, 0, sequence, MOST_WAITING));
        write(loud, 1, 0, MOST_WAITING);
        // The lane is another program's by now, and goes on where nothing is missing.
        write(other, 0, 4, 10);
        write(other, 2, 0, 10);
        let expected = ["Zone0 #0", "Zone2 #0", "-3 Zone0 of 1", "-1 Zone0 of 2", "-1 Zone1 of 1"];
        assert_eq!(shown(watched.take()), expected);
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
