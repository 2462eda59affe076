//! The thread that plays what is recorded and tells viewers.

use super::announce::Announcer;
use super::backlog::Backlog;
use super::server::Server;
use crate::confine;
use crate::record::flight::LiveNames;
use anyhow::{Context, Result, anyhow};
use std::cell::{RefCell, RefMut};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syscollect_activity::UnnamedAddresses;
use syscollect_capture::{WatchDemand, Watched, go_before_most, payer_of};
use syscollect_exporters::{CodeToName, TracyLive};
use syscollect_merge::play_live;
use syscollect_model::{Event, Exporter, Forgotten, Loss, RecorderSummary, Tables, Time};

/// How often it is looked what came, and what a viewer wants: nothing wakes it.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The same while no viewer is there.
const LOOK_UNSEEN_EVERY: Duration = Duration::from_millis(100);
/// The same while a viewer takes what waits for it.
const LOOK_BEHIND_EVERY: Duration = Duration::from_millis(1);
/// How long a viewer may take to ask for what it still wants when the recorder ends.
const LONGEST_END: Duration = Duration::from_secs(3);
/// How long names are looked for then.
const LONGEST_NAMING: Duration = Duration::from_secs(1);
/// Places whose names are looked for at a time: the first names should come soon.
const FIRST_LOT: usize = 500;
/// The same where that takes long: most of it goes to the reading of the files that they are in,
/// which is once for each lot.
const LARGEST_LOT: usize = 8_000;
/// From here on it takes long.
const LONG_NAMING: Duration = Duration::from_millis(200);

/// The thread that tells viewers.
pub(super) struct Follower {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// What is recorded, and how more of it is asked for.
pub(super) struct RecordedLive {
    pub(super) watched: Watched,
    /// All stacks that are still needed are to be sent again.
    pub(super) ask_stacks_anew: Box<dyn Fn() + Send>,
}

impl Follower {
    /// Begins to tell viewers what comes.
    pub(super) fn begin(
        recorded: RecordedLive,
        server: Server,
        announcer: Option<Announcer>,
        names: LiveNames,
    ) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("live".into());
        let thread = thread.spawn(move || {
            // What a viewer shows would be of long ago where the machine is busy, and that is when
            // somebody looks.
            go_before_most();
            confine::to_waiting();
            follow(&recorded, server, announcer, names, &over);
        });
        Ok(Self { is_over, thread: thread.context("cannot start a thread")? })
    }

    /// Tells the viewer that it is over, and waits for it as long as that may take.
    pub(super) fn end(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("a part of the program failed"))
    }
}

/// What is played and what is sent are one, on one thread.
#[derive(Clone, Default)]
pub(super) struct SharedLive(Rc<RefCell<TracyLive>>);

impl SharedLive {
    #[cfg(test)]
    pub(super) fn of(live: TracyLive) -> Self {
        Self(Rc::new(RefCell::new(live)))
    }

    pub(super) fn borrow_mut(&self) -> RefMut<'_, TracyLive> {
        self.0.borrow_mut()
    }
}

impl Exporter for SharedLive {
    type Error = Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Infallible> {
        self.0.borrow_mut().begin(tables)
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        self.0.borrow_mut().event(time, event, tables)
    }

    fn forget(&mut self, forgotten: &mut Forgotten, tables: &Tables) -> Result<(), Infallible> {
        self.0.borrow_mut().forget(forgotten, tables)
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Infallible> {
        self.0.borrow_mut().end(losses, recorder, tables)
    }
}

fn follow(
    RecordedLive { watched, ask_stacks_anew }: &RecordedLive,
    mut server: Server,
    mut announcer: Option<Announcer>,
    names: LiveNames,
    is_over: &AtomicBool,
) {
    let live = SharedLive::default();
    let mut names = NamesInLots { names, size: FIRST_LOT, asked_at: Instant::now() };
    {
        let mut live = live.borrow_mut();
        live.find_names(syscollect_merge::is_of_recording);
        live.ask(payer_of);
        live.is_recorded_by(std::process::id());
    }
    let shared = live.clone();
    let played = play_live(&mut live.clone(), |player| {
        player.ask(payer_of);
        let (mut backlog, mut is_complete) = (Backlog::default(), false);
        while !is_over.load(Ordering::Relaxed) {
            let (every, demand) = match server.is_asked() {
                true => (LOOK_EVERY, WatchDemand::Prompt),
                false => (LOOK_UNSEEN_EVERY, WatchDemand::State),
            };
            watched.demand(demand);
            player.tell_gpu_zones(demand == WatchDemand::Prompt);
            let is_behind = || shared.borrow_mut().session().is_behind();
            // Who reads is waited for as long as what comes has room. For who does not, events are
            // left out.
            let waits = is_behind() && server.is_read() && !watched.is_filling();
            match (waits, backlog.is_empty()) {
                (true, _) => std::thread::sleep(LOOK_BEHIND_EVERY),
                (false, true) => {
                    std::thread::sleep(every);
                    backlog.add(watched.take());
                }
                (false, false) => {}
            }
            if !waits {
                let was_behind = is_behind();
                is_complete |= backlog.play(player, || was_behind || !is_behind())?;
            }
            is_complete &= demand == WatchDemand::Prompt;
            if player.take_wants_stacks_anew() {
                ask_stacks_anew();
            }
            let mut live = shared.borrow_mut();
            server.step(live.session(), is_complete);
            names.find(&mut live);
            if let Some(announcer) = &mut announcer {
                announcer.step(server.has_viewer());
            }
        }
        Ok(())
    });
    match played {
        Ok(_) => {}
        Err(never) => match never {},
    }
    let mut live = live.borrow_mut();
    live.session().finish();
    let begun = Instant::now();
    while server.has_viewer() && begun.elapsed() < LONGEST_END {
        server.step(live.session(), true);
        match begun.elapsed() < LONGEST_NAMING {
            true => names.find(&mut live),
            false => live.give_up_names(),
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Names of places that the viewer asked for, one lot after the other.
struct NamesInLots {
    names: LiveNames,
    /// How many places the next has at most.
    size: usize,
    asked_at: Instant,
}

impl NamesInLots {
    /// Tells names that were found, and has those looked for that the viewer asked for since.
    fn find(&mut self, live: &mut TracyLive) {
        let was_busy = self.names.is_busy();
        while let Some(tables) = self.names.take() {
            live.add_names(&tables);
        }
        if self.names.is_busy() {
            return;
        }
        if was_busy {
            // Whoever looked is gone, or has told all by now.
            live.end_names();
            self.size = match self.asked_at.elapsed() >= LONG_NAMING {
                true => (self.size * 2).min(LARGEST_LOT),
                false => FIRST_LOT,
            };
        }
        let wanted = live.take_to_name(self.size);
        let places = wanted.into_iter().map(|code| {
            let CodeToName { path, build_id, is_kernel, offsets } = code;
            UnnamedAddresses { path, build_id, is_kernel, offsets }
        });
        let places: Vec<UnnamedAddresses> = places.collect();
        if !places.is_empty() {
            self.asked_at = Instant::now();
            self.names.ask(places);
        }
        if !self.names.is_busy() {
            live.end_names();
        }
    }
}
