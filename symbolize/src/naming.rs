//! Many modules at once, each for a while only.
//!
//! Files come from programs of any user: one may be built so that its names take for ever. So
//! modules are named on threads that are given up when they take too long, of which there are few;
//! what is not named says so.

use crate::memory::Memory;
use crate::{HeldFiles, ModuleRequest, Options, module};
use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use syscollect_model::SymbolTable;

/// How often it is looked whether somebody takes too long, or nobody wants it any more.
const TICK: Duration = Duration::from_millis(50);
/// Readers of debug information go down a level for each one in their input.
const STACK: usize = 64 << 20;
/// Threads that may be given up; they go on until the program ends.
const GIVEN_UP_MAX: usize = 4;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) held: HeldFiles,
    pub(crate) options: Options,
    pub(crate) memory: Memory,
}

/// A module that waits, by its place among the requests.
struct Waiting {
    index: usize,
    request: ModuleRequest,
}

/// What a thread is at.
#[derive(Clone, Copy, Debug)]
struct Work {
    index: usize,
    since: Instant,
}

/// A thread that names.
struct Worker {
    work: Arc<Mutex<Option<Work>>>,
}

/// Names all of `requests`, until `unwanted` says so; the tables are in the order of the requests.
pub(crate) fn name_all(
    shared: &Arc<Shared>,
    requests: &[ModuleRequest],
    unwanted: &dyn Fn() -> bool,
) -> Vec<SymbolTable> {
    let mut tables: Vec<Option<SymbolTable>> = requests.iter().map(|_| None).collect();
    // The most asked for first, so that no thread begins the longest work last.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(requests[*index].offsets.len()));
    let waiting = order
        .into_iter()
        .map(|index| Waiting { index, request: requests[index].clone() })
        .collect();
    let queue = Arc::new(Mutex::new(waiting));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(requests.len());
    let (done, named) = channel();
    let mut workers: Vec<Worker> =
        (0..threads).filter_map(|_| Worker::start(shared, &queue, &done)).collect();
    let (begin, options, mut given_up) = (Instant::now(), &shared.options, 0);
    let why = loop {
        if tables.iter().all(Option::is_some) {
            break "";
        }
        match named.recv_timeout(TICK) {
            Ok((index, table)) => _ = tables[index].get_or_insert(table),
            Err(RecvTimeoutError::Timeout) => {}
            // `done` lives here.
            Err(RecvTimeoutError::Disconnected) => break "not named: a thread could not be started",
        }
        let before = workers.len();
        workers.retain(|worker| match worker.is_late(options.module_time) {
            Some(index) => {
                tables[index]
                    .get_or_insert_with(|| unnamed(&requests[index], &late(options.module_time)));
                false
            }
            None => true,
        });
        for _ in workers.len()..before {
            given_up += 1;
            workers.extend(
                (given_up <= GIVEN_UP_MAX).then(|| Worker::start(shared, &queue, &done)).flatten(),
            );
        }
        if unwanted() {
            break "not named: it was abandoned";
        } else if begin.elapsed() >= options.all_time {
            break "not named: naming all modules took too long";
        } else if workers.is_empty() {
            break "not named: other modules took too long";
        }
    };
    // Nobody begins anything any more.
    lock(&queue).clear();
    let all = tables.into_iter().zip(requests);
    all.map(|(table, request)| table.unwrap_or_else(|| unnamed(request, why))).collect()
}

fn late(limit: Duration) -> String {
    format!("not named: it took longer than {limit:?}")
}

fn unnamed(request: &ModuleRequest, why: &str) -> SymbolTable {
    let ModuleRequest { path, build_id, .. } = request;
    SymbolTable {
        path: path.clone(),
        build_id: build_id.clone(),
        note: why.to_owned(),
        ..SymbolTable::default()
    }
}

impl Worker {
    fn start(
        shared: &Arc<Shared>,
        queue: &Arc<Mutex<VecDeque<Waiting>>>,
        done: &Sender<(usize, SymbolTable)>,
    ) -> Option<Self> {
        let work = Arc::new(Mutex::new(None));
        let (at, shared, queue, done) = (work.clone(), shared.clone(), queue.clone(), done.clone());
        let names = move || {
            loop {
                // The queue is locked until it is said what is at work: nothing is ever in neither
                // place.
                let mut waiting = lock(&queue);
                let Some(Waiting { index, request }) = waiting.pop_front() else { return };
                *lock(&at) = Some(Work { index, since: Instant::now() });
                drop(waiting);
                let table = module::name(&shared, &request);
                *lock(&at) = None;
                if done.send((index, table)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("naming".into()).stack_size(STACK);
        thread.spawn(names).ok().map(|_| Self { work })
    }

    /// The module on which it is for longer than `limit`.
    fn is_late(&self, limit: Duration) -> Option<usize> {
        lock(&self.work).filter(|work| work.since.elapsed() >= limit).map(|work| work.index)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole even if a thread panicked.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
