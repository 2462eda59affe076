//! Work that may never end, done where nobody waits for it longer than a while.
//!
//! A file system may be a program of an ordinary user (FUSE) or a server that is gone: any call on
//! its files may block for ever. So such calls are made on threads that are given up when they do
//! not come back. There are few of them, and each user has a share, for a thread that hangs is only
//! free again when its call returns.

use crate::{OpenError, ThreadNice, payer};
use rustc_hash::FxHashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long one piece of work is waited for.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Threads that may hang at one time, but for those of root and of nobody.
const HANGING_MAX: usize = 12;
/// Those of one user.
const HANGING_MAX_OF_ONE: usize = 2;
/// Threads that are kept for the next piece of work.
const IDLE_MAX: usize = 4;

type UntrustedWork = Box<dyn FnOnce() + Send>;

/// Threads for work that may never end.
#[derive(Clone, Debug)]
pub struct Patience {
    limit: Duration,
    threads: Arc<Mutex<Threads>>,
}

#[derive(Debug, Default)]
struct Threads {
    idle: Vec<Sender<UntrustedWork>>,
    /// Threads that were given up and are not back, by the user for whom they work.
    hanging: FxHashMap<Option<u32>, usize>,
}

static OURS: LazyLock<Patience> = LazyLock::new(|| Patience::new(PATIENCE));

/// Does `work`, as urgently as the calling thread would, on behalf of the user `uid` (of nobody else
/// for `None`), and waits [`PATIENCE`] for it.
///
/// # Errors
///
/// [`OpenError::Hangs`] if it does not come back; it then goes on where nobody waits for it. At
/// once
/// [`OpenError::OthersHang`] if too much does so already.
pub fn within<T: Send + 'static>(
    uid: Option<u32>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, OpenError> {
    OURS.within(uid, work)
}

/// Ends the threads that wait for the next piece of work. Threads have the rights of the thread
/// that started them, so who gives up rights for good starts new ones.
pub fn end_idle_threads() {
    OURS.lock().idle.clear();
}

impl Patience {
    /// Waits `limit` for each piece of work.
    pub fn new(limit: Duration) -> Self {
        Self { limit, threads: Arc::default() }
    }

    /// As [`within`], with these threads.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn within<T: Send + 'static>(
        &self,
        uid: Option<u32>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OpenError> {
        let uid = uid.map(payer);
        let thread = self.a_thread(uid)?;
        let slot = Arc::new(Slot::default());
        let (filled, threads) = (slot.clone(), self.threads.clone());
        let urgency = ThreadNice::of_this_thread();
        let job = Box::new(move || {
            urgency.give_this_thread();
            let result = catch_unwind(AssertUnwindSafe(work)).ok();
            if !filled.put(result) {
                came_back(&threads, uid);
            }
        });
        if thread.send(job).is_err() {
            return Err(std::io::Error::other("a thread that reads files ended").into());
        }
        let result = slot
            .take(self.limit, || *self.lock().hanging.entry(uid).or_default() += 1)
            .ok_or(OpenError::Hangs)?;
        let mut threads = self.lock();
        if threads.idle.len() < IDLE_MAX {
            threads.idle.push(thread);
        }
        result.ok_or_else(|| std::io::Error::other("reading it panicked").into())
    }

    /// A thread that has nothing to do.
    fn a_thread(&self, uid: Option<u32>) -> Result<Sender<UntrustedWork>, OpenError> {
        let mut threads = self.lock();
        let all: usize = threads.hanging.values().sum();
        // However many others hang, root and nobody have theirs.
        let is_refused = all >= HANGING_MAX && !matches!(uid, None | Some(0));
        if is_refused || threads.hanging.get(&uid).is_some_and(|own| *own >= HANGING_MAX_OF_ONE) {
            return Err(OpenError::OthersHang);
        }
        if let Some(thread) = threads.idle.pop() {
            return Ok(thread);
        }
        let (thread, jobs) = channel::<UntrustedWork>();
        std::thread::Builder::new()
            .name("files".into())
            .spawn(move || jobs.into_iter().for_each(|job| job()))?;
        Ok(thread)
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        // A list and counts are whole even if a thread panicked.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that was given up is free again.
fn came_back(threads: &Mutex<Threads>, uid: Option<u32>) {
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hanging) = threads.hanging.get_mut(&uid) {
        *hanging = hanging.saturating_sub(1);
    }
    threads.hanging.retain(|_, hanging| *hanging > 0);
}

/// Where a result is put; whether it was waited for is decided once.
struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Waiting,
    /// `None` after a panic.
    Done(Option<T>),
    GivenUp,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Waiting), changed: Condvar::new() }
    }
}

impl<T> Slot<T> {
    /// Whether somebody waits for it.
    fn put(&self, result: Option<T>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = matches!(*state, State::Waiting);
        if waiting {
            *state = State::Done(result);
        }
        self.changed.notify_one();
        waiting
    }

    /// Waits at most `limit`; `given_up` is done before anybody can come back.
    fn take(&self, limit: Duration, given_up: impl FnOnce()) -> Option<Option<T>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited =
            self.changed.wait_timeout_while(state, limit, |state| matches!(state, State::Waiting));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match std::mem::replace(&mut *state, State::GivenUp) {
            State::Done(result) => Some(result),
            State::Waiting | State::GivenUp => {
                given_up();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(20);

    /// A file system that answers when it is told to.
    fn slow_file_system() -> (Sender<()>, impl FnOnce() + Send) {
        let (answer, asked): (Sender<()>, Receiver<()>) = channel();
        (answer, move || assert!(asked.recv().is_err(), "it is told by being dropped"))
    }

    #[test]
    fn what_answers_is_answered() {
        let patience = Patience::new(Duration::from_secs(30));
        assert_eq!(
            (0..100).map(|n| patience.within(Some(7), move || n * 2).unwrap()).sum::<u32>(),
            9900
        );
        assert_eq!(patience.lock().idle.len(), 1, "one thread did it all");
    }

    #[test]
    fn a_panic_is_an_error_and_its_thread_works_on() {
        let patience = Patience::new(Duration::from_secs(30));
        let error = patience.within(None, || -> u32 { panic!("wanted by this test") }).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
        assert_eq!(patience.within(None, || 1).unwrap(), 1);
    }

    #[test]
    fn a_file_system_that_never_answers_is_given_up_and_its_user_soon_refused() {
        let patience = Patience::new(SHORT);
        let mut file_systems = Vec::new();
        for _ in 0..HANGING_MAX_OF_ONE {
            let (answer, call) = slow_file_system();
            file_systems.push(answer);
            assert!(matches!(patience.within(Some(1000), call), Err(OpenError::Hangs)));
        }
        let before = Instant::now();
        assert!(matches!(patience.within(Some(1000), || ()), Err(OpenError::OthersHang)));
        assert!(before.elapsed() < SHORT, "at once");
        patience.within(Some(1001), || ()).expect("another user has a share of their own");
    }

    #[test]
    fn all_users_together_make_no_more_threads_hang_than_there_may_be() {
        let patience = Patience::new(SHORT);
        let mut file_systems = Vec::new();
        let mut hung = 0;
        for uid in 1..50 {
            let (answer, call) = slow_file_system();
            file_systems.push(answer);
            hung += usize::from(matches!(patience.within(Some(uid), call), Err(OpenError::Hangs)));
        }
        assert_eq!(hung, HANGING_MAX);
        patience.within(Some(0), || ()).expect("root waits for nobody else");
        let (_answer, call) = slow_file_system();
        assert!(matches!(patience.within(Some(0), call), Err(OpenError::Hangs)));
    }

    #[test]
    fn who_comes_back_is_free_again() {
        let patience = Patience::new(SHORT);
        for _ in 0..3 {
            let hung: Vec<_> = (0..HANGING_MAX_OF_ONE)
                .map(|_| {
                    let (answer, call) = slow_file_system();
                    assert!(matches!(patience.within(Some(1000), call), Err(OpenError::Hangs)));
                    answer
                })
                .collect();
            drop(hung);
            while !patience.lock().hanging.is_empty() {
                std::thread::yield_now();
            }
        }
    }
}
