//! Many modules at once, each for a while only.
//!
//! Files come from programs of any user: one may be built so that its names take for ever. So
//! modules are named on threads whose CPU time is watched: what is beyond a share says so, and a
//! thread that does not hear of it is given up, of which there are few.

use crate::os::ThreadClock;
use crate::shared::NamingContext;
use crate::turn::{Accounts, NamingPace, NamingTurn};
use crate::{ModuleRequest, jit, module};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use syscollect_model::{MemoryAt, SymbolTable};
use syscollect_untrusted_files::payer;

/// How often it is looked whether somebody takes too long, or nobody wants it any more.
const TICK: Duration = Duration::from_millis(50);
/// Readers of debug information go down a level for each one in their input.
const STACK: usize = 64 << 20;
/// Threads of this program that were given up and are still at it; each goes on, with what CPU time
/// nobody else wants, until it is done or the program ends.
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
const GIVEN_UP_MAX: usize = 4;
/// CPU time within which a thread hears that its module is over: a step takes less, unless its file
/// is built to make it longer.
const GRACE: Duration = Duration::from_secs(1);

/// A module that waits, by its place among the requests.
struct WaitingModule {
    index: usize,
    /// Of its file, as far as that is known.
    owner: Option<u32>,
    request: ModuleRequest,
}

/// What waits, and what was spent.
struct Queue {
    /// By who pays, each with its place in the order of all: one may have a hundred thousand.
    waiting: FxHashMap<Option<u32>, VecDeque<(usize, WaitingModule)>>,
    accounts: Accounts,
}

impl Queue {
    fn new(order: impl IntoIterator<Item = WaitingModule>, accounts: Accounts) -> Self {
        let mut waiting = FxHashMap::<_, VecDeque<_>>::default();
        for (place, one) in order.into_iter().enumerate() {
            waiting.entry(one.owner.map(payer)).or_default().push_back((place, one));
        }
        Self { waiting, accounts }
    }

    /// The next one of the owner whose files took the least so far: what one user brings delays
    /// nobody else for long.
    fn next(&mut self) -> Option<WaitingModule> {
        let Self { waiting, accounts } = self;
        let firsts = waiting.iter_mut().filter_map(|(owner, all)| {
            let (place, _) = all.front()?;
            Some(((accounts.spent(*owner), *place), all))
        });
        let (_, all) = firsts.min_by_key(|(order, _)| *order)?;
        Some(all.pop_front()?.1)
    }
}

/// What a thread is at.
#[derive(Clone, Debug)]
struct NamingTask {
    index: usize,
    since: Instant,
    clock: ThreadClock,
    /// What the clock showed.
    begun: Duration,
    /// CPU time that is on its owner's account already.
    accounted: Duration,
    turn: Arc<NamingTurn>,
    /// CPU time after which it was told that it is over.
    reported: Option<Duration>,
}

impl NamingTask {
    fn begin(index: usize, owner: Option<u32>) -> Self {
        let (clock, turn) = (ThreadClock::of_this_thread(), NamingTurn::default());
        if let Some(owner) = owner {
            turn.belongs_to(owner);
        }
        Self {
            index,
            since: Instant::now(),
            begun: clock.now(),
            clock,
            accounted: Duration::ZERO,
            turn: Arc::new(turn),
            reported: None,
        }
    }

    /// Puts what it took on its owner's account; what it took in all.
    fn account(&mut self, accounts: &mut Accounts) -> Duration {
        let here = self.clock.now().saturating_sub(self.begun);
        let spent = here + self.turn.spent_elsewhere();
        accounts.spend(self.turn.owner(), spent.saturating_sub(self.accounted));
        self.accounted = spent.max(self.accounted);
        spent
    }

    /// Whether it is to be given up, and why; tells it how thorough it may be still.
    fn is_late(&mut self, accounts: &mut Accounts, limit: Duration) -> Option<String> {
        let spent = self.account(accounts);
        let pace = accounts.pace(self.turn.owner(), spent);
        self.turn.slow_to(pace);
        let reported = (pace == NamingPace::Over).then(|| *self.reported.get_or_insert(spent));
        if reported.is_some_and(|reported| spent.saturating_sub(reported) >= GRACE) {
            return Some(format!("not named: it took {:.1} s of CPU time", spent.as_secs_f64()));
        }
        (self.since.elapsed() >= limit).then(|| format!("not named: it took longer than {limit:?}"))
    }
}

/// A thread that names.
struct Worker {
    work: Arc<Mutex<Option<NamingTask>>>,
}

/// What came of the requests, in their order.
struct Tables {
    tables: Vec<Option<SymbolTable>>,
    missing: usize,
}

impl Tables {
    fn new(requests: usize) -> Self {
        Self { tables: (0..requests).map(|_| None).collect(), missing: requests }
    }

    /// The first one that comes of a request counts.
    fn add(&mut self, index: usize, table: impl FnOnce() -> SymbolTable) {
        if self.tables[index].is_none() {
            self.tables[index] = Some(table());
            self.missing -= 1;
        }
    }
}

/// Names all of `requests`, until `unwanted` says so; the tables are in the order of the requests,
/// `None` where nobody waited for one.
pub(crate) fn name_all(
    shared: &Arc<NamingContext>,
    requests: &[ModuleRequest],
    unwanted: &dyn Fn() -> bool,
) -> Vec<Option<SymbolTable>> {
    let options = &shared.options;
    let mut tables = Tables::new(requests.len());
    // The most asked for first, so that no thread begins the longest work last.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(requests[*index].offsets.len()));
    let accounts = Accounts::new(options.module_share, options.owner_share, options.asked_by);
    let queue = Queue::new(
        order.into_iter().map(|index| {
            let request = requests[index].clone();
            let owner = match &request.memory {
                Some(memory) => jit::owner_of(shared, memory),
                None => shared.pinned.owner_of(&request.path, &request.build_id),
            };
            WaitingModule { index, owner, request }
        }),
        accounts,
    );
    let queue = Arc::new(Mutex::new(queue));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(requests.len());
    let (done, named) = channel();
    let mut workers: Vec<Worker> =
        (0..threads).filter_map(|_| Worker::start(shared, &queue, &done)).collect();
    let begin = Instant::now();
    let why = loop {
        if tables.missing == 0 {
            break None;
        }
        match named.recv_timeout(TICK) {
            Ok((index, table)) => tables.add(index, || table),
            Err(RecvTimeoutError::Timeout) => {}
            // `done` lives here.
            Err(RecvTimeoutError::Disconnected) => {
                break Some("not named: a thread could not be started");
            }
        }
        // Whoever waits for the names may be in more of a hurry by now.
        workers.iter().for_each(Worker::is_as_urgent_as_this);
        let before = workers.len();
        workers.retain(|worker| match worker.give_up(&queue, options.module_time) {
            Some((index, why)) => {
                tables.add(index, || unnamed(&requests[index], &why));
                false
            }
            None => true,
        });
        for _ in workers.len()..before {
            let room = GIVEN_UP.load(Ordering::Relaxed) <= GIVEN_UP_MAX;
            workers.extend(room.then(|| Worker::start(shared, &queue, &done)).flatten());
        }
        if unwanted() {
            break None;
        } else if begin.elapsed() >= options.all_time {
            break Some("not named: naming all modules took too long");
        } else if workers.is_empty() {
            break Some("not named: other modules took too long");
        }
    };
    // Nobody begins anything any more, and nobody goes on for long.
    lock(&queue).waiting.clear();
    workers.iter().for_each(|worker| {
        if let Some(work) = lock(&worker.work).as_ref() {
            work.turn.slow_to(NamingPace::Over);
        }
    });
    let all = tables.tables.into_iter().zip(requests);
    all.map(|(table, request)| table.or_else(|| why.map(|why| unnamed(request, why)))).collect()
}

/// The table of a module that has no names because of the time it takes.
fn unnamed(request: &ModuleRequest, why: &str) -> SymbolTable {
    let ModuleRequest { path, build_id, memory, offsets, .. } = request;
    SymbolTable {
        path: path.clone(),
        memory: memory.map(|memory| MemoryAt { pid: memory.pid, at: memory.since }),
        build_id: build_id.clone(),
        note: why.to_owned(),
        unfinished: offsets.len() as u64,
        ..SymbolTable::default()
    }
}

impl Worker {
    fn start(
        shared: &Arc<NamingContext>,
        queue: &Arc<Mutex<Queue>>,
        done: &Sender<(usize, SymbolTable)>,
    ) -> Option<Self> {
        let work = Arc::new(Mutex::new(None));
        let (at, shared, queue, done) = (work.clone(), shared.clone(), queue.clone(), done.clone());
        let thread = thread::Builder::new().name("naming".into()).stack_size(STACK);
        let names = thread.spawn(move || name_waiting(&at, &shared, &queue, &done));
        names.ok().map(|_| Self { work })
    }

    /// What it names is as urgent as what the calling thread does.
    fn is_as_urgent_as_this(&self) {
        if let Some(task) = lock(&self.work).as_ref() {
            task.clock.is_as_urgent_as_this();
        }
    }

    /// Gives the thread up if its module takes too long: which one, and why.
    fn give_up(&self, queue: &Mutex<Queue>, limit: Duration) -> Option<(usize, String)> {
        // In the order in which threads that begin a module lock them.
        let mut queue = lock(queue);
        let mut at = lock(&self.work);
        let work = at.as_mut()?;
        let why = work.is_late(&mut queue.accounts, limit)?;
        work.turn.slow_to(NamingPace::Over);
        work.clock.yield_to_all();
        GIVEN_UP.fetch_add(1, Ordering::Relaxed);
        let index = work.index;
        *at = None;
        Some((index, why))
    }
}

/// Names modules of the queue until it is empty, or nobody takes what is done; `at` is what is at
/// work.
fn name_waiting(
    at: &Mutex<Option<NamingTask>>,
    shared: &NamingContext,
    queue: &Mutex<Queue>,
    done: &Sender<(usize, SymbolTable)>,
) {
    loop {
        // The queue is locked until it is said what is at work: nothing is ever in neither
        // place.
        let mut waiting = lock(queue);
        let Some(WaitingModule { index, owner, request }) = waiting.next() else { return };
        let work = NamingTask::begin(index, owner);
        let turn = work.turn.clone();
        *lock(at) = Some(work);
        drop(waiting);
        let table = module::name(shared, &request, &turn);
        let Some(mut work) = lock(at).take() else {
            // It was given up meanwhile.
            GIVEN_UP.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        work.account(&mut lock(queue).accounts);
        if done.send((index, table)).is_err() {
            return;
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole even if a thread panicked.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_whose_files_took_the_least_is_next() {
        let owners = [Some(1), Some(1), Some(2), None, Some(2)];
        let accounts = Accounts::new(Duration::MAX / 8, Duration::MAX / 8, None);
        let waiting = owners.into_iter().enumerate().map(|(index, owner)| {
            let request = ModuleRequest::default();
            WaitingModule { index, owner, request }
        });
        let mut queue = Queue::new(waiting, accounts);
        let order = [5, 1, 3, 1, 1, 1].map(|seconds| {
            let WaitingModule { index, owner, .. } = queue.next()?;
            queue.accounts.spend(owner, Duration::from_secs(seconds));
            Some(index)
        });
        assert_eq!(order, [Some(0), Some(2), Some(3), Some(4), Some(1), None]);
    }

    #[test]
    fn what_waits_is_not_gone_through_for_each_that_is_next() {
        // One user had programs begin under 100,000 names, and what named them moved the rest of
        // the list each time, for minutes.
        let accounts = Accounts::new(Duration::MAX / 8, Duration::MAX / 8, None);
        let mut queue = Queue::new((0..500_000).map(waiting), accounts);
        let begin = Instant::now();
        let count = std::iter::from_fn(|| queue.next()).count();
        assert_eq!(count, 500_000);
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    }

    fn waiting(index: usize) -> WaitingModule {
        WaitingModule { index, owner: Some(1), request: ModuleRequest::default() }
    }
}
