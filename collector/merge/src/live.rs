//! A recording that is played while it is made: what events refer to is learned from the lanes as
//! they come, up to where nothing can come before, and forgotten once nothing can name it.
//!
//! A file is read whole before it is played, so that it knows more than a recording that goes on:
//!
//! - names that threads get later: the rows have the name of now, and each change is an event;
//! - threads and processes that are announced late: until then they have rows of their own, called
//!   by their ids;
//! - zones of GPUs: they are told when their times are read, by the clock as it is known then; those
//!   that have none, after a minute or with their program;
//! - names of functions: where no symbols came, frames show their module and offset;
//! - markers that were placed before the time at which they were written: they are told then;
//! - whether the zones of a pair of probes nest, where nobody said it: not until they were seen to;
//! - who writes to a lane of zones after whom: where a thread is ahead of time and its end was
//!   lost, the lane's next owner is told of late;
//! - whether the recorder was killed, so that the last mappings are missing;
//! - what the recorder said, which the recording's last description has;
//! - causes of losses that the recorder declares behind them: the totals in the end are exact.
//!
//! What programs wrote may come late, when it was said already that [nothing comes](Live::advance):
//! then it is told when it comes, with its own times.

use crate::definitions::clock_map;
use crate::forgetting::{Forgetting, HeldRows};
use crate::knowledge::{Knowledge, NumberedSources, RowsOfPlays};
use crate::learner::{FedChunk, Learner, clock_pairs};
use crate::losses::Losses;
use crate::playing::Playing;
use crate::stacks::{Resolver, Stacks};
use crate::tasks::TaskHistory;
use crate::zones::InstrumentedPrograms;
use crate::zones::programs::Programs;
use std::sync::Arc;
use syscollect_model::{
    ClockMap, ClockPair, Exporter, Lane, LaneKind, MachineId, SessionInfo, Tables, Ticks,
    records_lost,
};
use syscollect_playback::{AnyExporter, Output, Played, Stopped, stoppable};
use syscollect_store::{Chunk, Definition, UserOf};

/// Plays what `feed` feeds into the exporter, from its `begin` to its `end`.
///
/// # Errors
///
/// Those of `feed`, and the exporter's.
pub fn play_live<E: Exporter>(
    exporter: &mut E,
    feed: impl FnOnce(&mut Live<'_>) -> Result<(), Stopped>,
) -> Result<Played, E::Error> {
    stoppable(exporter, |exporter| {
        let mut live = Live::new(exporter);
        feed(&mut live)?;
        live.finish()
    })
}

/// A recording that is played while it is made.
///
/// All its chunks are fed, those of definitions, too, each lane's in their order. Whoever feeds
/// says from time to time what [nothing comes before](Self::advance): up to there, and up to the
/// last clock reading, events are told. Chunks of before the session is described and the clocks
/// were read twice wait in memory; if the recording ends before that, it is played at its end, and
/// of one without a description or a clock reading nothing is told.
pub struct Live<'a> {
    state: LiveState<'a>,
    info: Option<SessionInfo>,
    readings: Vec<ClockPair>,
    forgetting: Forgetting,
    /// Nothing of before it comes any more.
    until: Ticks,
}

/// Whether it has begun.
enum LiveState<'a> {
    Waiting(Output<'a>, Vec<FedChunk>),
    Playing(Box<Playing<'a>>, Box<Learner>),
    /// Between the two.
    Nothing,
}

impl<'a> Live<'a> {
    fn new(exporter: &'a mut AnyExporter<'a>) -> Self {
        let output = Output::of_part(exporter, None, None);
        let state = LiveState::Waiting(output, Vec::new());
        let forgetting = Forgetting::default();
        Self { state, info: None, readings: Vec::new(), forgetting, until: Ticks(0) }
    }

    /// What is kept of what was recorded so far.
    pub fn held(&self) -> HeldRows {
        match &self.state {
            LiveState::Playing(playing, learner) => HeldRows::of(playing, learner),
            LiveState::Waiting(..) | LiveState::Nothing => HeldRows::default(),
        }
    }

    /// Users have shares of what is kept, and this says whose a process is.
    pub fn ask(&mut self, user_of: UserOf) {
        self.forgetting.ask(user_of);
    }

    /// Whether so many stacks are kept that all that are still needed should be sent anew; said
    /// once.
    pub fn take_wants_stacks_anew(&mut self) -> bool {
        self.forgetting.take_wants_stacks_anew()
    }

    /// The next chunk of its lane.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn feed(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        self.take_in(FedChunk { chunk, resumes: false })
    }

    /// The next chunk of its lane behind others that whoever feeds left out on purpose: events of
    /// them are not told, and not lost either.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn feed_resuming(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        self.take_in(FedChunk { chunk, resumes: true })
    }

    /// Chunks of the lane were left out here by whoever feeds, because too much waited: the gap that
    /// its next chunk shows is that.
    pub fn left_out(&mut self, lane: Lane) {
        if let LiveState::Playing(playing, _) = &mut self.state {
            playing.engine.source.losses.left_out(lane);
        }
    }

    fn take_in(&mut self, fed: FedChunk) -> Result<(), Stopped> {
        match &mut self.state {
            LiveState::Playing(playing, learner) => {
                learner.feed(fed, playing);
                Ok(())
            }
            LiveState::Waiting(_, chunks) => {
                let chunk = &fed.chunk;
                match chunk.header.lane.kind {
                    LaneKind::Definition => {
                        if let Ok(Some(Definition::Session(info))) =
                            Definition::from_json(&chunk.data)
                        {
                            self.info = Some(*info);
                        }
                    }
                    LaneKind::Clock => self.readings.extend(clock_pairs(chunk)),
                    _ => {}
                }
                chunks.push(fed);
                match ClockMap::new(self.readings.clone()) {
                    Ok(clock) => self.begin(clock),
                    Err(_) => Ok(()),
                }
            }
            LiveState::Nothing => Ok(()),
        }
    }

    /// Begins, now that times are known, if the session is.
    fn begin(&mut self, clock: ClockMap) -> Result<(), Stopped> {
        let Some(info) = &self.info else { return Ok(()) };
        let state = std::mem::replace(&mut self.state, LiveState::Nothing);
        let LiveState::Waiting(mut output, chunks) = state else { return Ok(()) };
        let info = SessionInfo { clock_pairs: clock.pairs().to_vec(), ..info.clone() };
        let mut known = nothing_known(info, clock);
        output.exporter().begin(&known.tables)?;
        let mappings_unrecorded = known.tables.machine(known.machine).mappings_unrecorded;
        let mut playing = Box::new(Playing::new(&mut known, output));
        playing.engine.source.names_of_now = true;
        playing.engine.source.new_rows.share();
        playing.decoders.zones.references.known.logs.share();
        playing.are_programs_late = true;
        if mappings_unrecorded {
            playing.engine.source.resolver.stacks.locator.spaces.mark_incomplete();
        }
        let mut learner = Box::new(Learner::new(known.clock));
        chunks.into_iter().for_each(|fed| learner.feed(fed, &mut playing));
        self.state = LiveState::Playing(playing, learner);
        Ok(())
    }

    /// No record of before these ticks comes any more, of any lane but those of programs that are
    /// late: tells what can be told.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn advance(&mut self, ticks: Ticks) -> Result<(), Stopped> {
        self.reach(ticks);
        self.play_part(usize::MAX).map(|_| ())
    }

    /// The same, but that nothing is told yet: [`play_part`](Self::play_part) does.
    pub fn reach(&mut self, ticks: Ticks) {
        let LiveState::Playing(playing, learner) = &mut self.state else { return };
        // Behind the last reading the clock may still turn out to be another.
        let last = learner.clock.pairs().last().map_or(Ticks(0), |pair| pair.ticks);
        let until = ticks.min(last);
        learner.learn(until, playing);
        playing.nothing_before(until);
        self.until = until;
    }

    /// Tells what can be told, but of no more than so many items; whether that was all.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn play_part(&mut self, most: usize) -> Result<bool, Stopped> {
        let LiveState::Playing(playing, learner) = &mut self.state else { return Ok(true) };
        let is_all = playing.play_part(most)?;
        if is_all {
            self.forgetting.step(self.until, learner, playing)?;
        }
        Ok(is_all)
    }

    /// Whether zones of GPUs are told from now on, as they are from the beginning on. It is said
    /// for those that nobody would look at: they are more work than others.
    pub fn tell_gpu_zones(&mut self, are_told: bool) {
        if let LiveState::Playing(playing, _) = &mut self.state {
            playing.decoders.zones.gpu.watch(are_told);
        }
    }

    fn finish(mut self) -> Result<Played, Stopped> {
        if let (LiveState::Waiting(..), Some(info)) = (&self.state, &self.info)
            && let Ok(clock) = clock_map(std::mem::take(&mut self.readings), info)
        {
            self.begin(clock)?;
        }
        let LiveState::Playing(mut playing, mut learner) = self.state else {
            return Ok(Played::default());
        };
        learner.learn(Ticks(u64::MAX), &mut playing);
        playing.decoders.zones.references.known.programs.end(&learner.clock, learner.last);
        let (mut played, mut losses) = playing.finish()?;
        if learner.summary.is_some() {
            losses.complete();
        }
        let losses = losses.totals();
        played.lost = records_lost(&losses);
        let (exporter, tables) = playing.engine.exporter();
        exporter.end(&losses, learner.summary.as_ref(), tables)?;
        Ok(played)
    }
}

/// What is known when a recording begins.
fn nothing_known(info: SessionInfo, clock: ClockMap) -> Knowledge {
    let resolver = Resolver::new(&info, Stacks::default());
    let mut tables = Tables::default();
    let programs = InstrumentedPrograms {
        programs: Programs::new(&info, &clock, None),
        ..InstrumentedPrograms::default()
    };
    tables.machines = vec![info];
    Knowledge {
        machine: MachineId::FIRST,
        clock: Arc::new(clock),
        tables,
        resolver,
        history: TaskHistory::default(),
        programs,
        numbered: NumberedSources::default(),
        losses: Losses::default(),
        definition_records: 0,
        earlier: RowsOfPlays::none(),
    }
}
