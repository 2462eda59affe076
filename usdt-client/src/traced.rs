//! Futures that are recorded: their lives, their polls, and how long they waited for these.

use crate::location::Location;
use crate::task::{AsyncZone, Task};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

/// From the wakeup to the poll.
static WAITING: Location =
    Location::new("woken, not polled", || "Future::poll", file!(), line!(), 0);

/// A future that is a task: its life is an async zone, from its first poll to its result (or until
/// it is dropped), and its polls are zones of the threads that poll it. From the moment when it is
/// woken to its next poll lasts another zone of the task, *woken, not polled*, which the thread
/// writes that wakes it: how long the executor lets it wait.
///
/// With any executor, as it only looks at what is passed to it:
///
/// ```
/// # fn spawn(_: impl Future) {}
/// use syscollect_usdt_client::{Traced, location};
///
/// spawn(Traced::new(location!("fetch"), async { /* ... */ }));
/// ```
///
/// While somebody records, the first poll allocates, and one by another waker than before. Wakeups
/// do not, and those that come before the next poll cost one atomic operation.
pub struct Traced<F> {
    location: &'static Location,
    // Before its life: fields are dropped in this order.
    waker: Option<RecordingWaker>,
    life: Option<LifeZone>,
    future: F,
}

/// The zone of a future's life, and the task that this is.
struct LifeZone {
    task: Task<'static>,
    _zone: AsyncZone,
}

impl<F: Future> Traced<F> {
    /// Wraps a future.
    pub fn new(location: &'static Location, future: F) -> Self {
        Self { location, waker: None, life: None, future }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is not moved: it is pinned again below, and the other fields are not
        // pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `this` came from a pinned reference.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        if let Some(waker) = &this.waker {
            waker.wait.end();
        }
        if !crate::enabled() {
            return future.poll(context);
        }
        let location = this.location;
        let life = this.life.get_or_insert_with(|| {
            let task = Task::new(location.name());
            let zone = AsyncZone::begin_in(&task, location);
            LifeZone { task, _zone: zone }
        });
        let _poll = crate::Zone::begin(location);
        let waker = match this.waker.take().filter(|waker| waker.passes_on_to(context.waker())) {
            Some(waker) => waker,
            None => RecordingWaker::new(context.waker(), life.task),
        };
        let waker = this.waker.insert(waker);
        let result = future.poll(&mut Context::from_waker(&waker.waker));
        if result.is_ready() {
            (this.waker, this.life) = (None, None);
        }
        result
    }
}

/// What the future gives to whoever is to wake it.
struct RecordingWaker {
    wait: Arc<WaitForPoll>,
    /// The same, as a waker.
    waker: Waker,
}

impl RecordingWaker {
    fn new(inner: &Waker, task: Task<'static>) -> Self {
        let state = AtomicU64::new(NOT_WOKEN);
        let wait = Arc::new(WaitForPoll { inner: inner.clone(), task, state });
        Self { waker: Waker::from(Arc::clone(&wait)), wait }
    }

    /// Whether a wakeup reaches that one.
    fn passes_on_to(&self, inner: &Waker) -> bool {
        self.wait.inner.will_wake(inner)
    }
}

impl Drop for RecordingWaker {
    /// It is not polled through this one any more, whoever may still wake it.
    fn drop(&mut self) {
        self.wait.end_for_good();
    }
}

/// Nobody has woken it since its last poll.
const NOT_WOKEN: u64 = 0;
/// A thread has, and has not written it yet.
const BEGINNING: u64 = u64::MAX;
/// It is not polled any more.
const OVER: u64 = u64::MAX - 1;

/// The wait of a future that was woken for its poll.
struct WaitForPoll {
    inner: Waker,
    task: Task<'static>,
    /// One of the above, or the number of the zone that is open.
    state: AtomicU64,
}

impl WaitForPoll {
    /// It is woken: of the wakeups between two polls the first counts.
    fn begin(&self) {
        if !self.passes(NOT_WOKEN, BEGINNING) {
            return;
        }
        let zone = AsyncZone::begin_in(&self.task, &WAITING);
        let number = zone.into_number();
        if !self.passes(BEGINNING, number) {
            // It was polled meanwhile for another reason.
            drop(AsyncZone::from_number(number));
        }
    }

    /// It is polled.
    fn end(&self) {
        if self.state.load(Ordering::Relaxed) != NOT_WOKEN {
            self.leave(NOT_WOKEN);
        }
    }

    fn end_for_good(&self) {
        self.leave(OVER);
    }

    fn leave(&self, state: u64) {
        // What the thread wrote that woke it comes before what is written here.
        let before = self.state.swap(state, Ordering::AcqRel);
        if !matches!(before, NOT_WOKEN | BEGINNING | OVER) {
            drop(AsyncZone::from_number(before));
        }
    }

    fn passes(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Wake for WaitForPoll {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if crate::enabled() {
            self.begin();
        }
        self.inner.wake_by_ref();
    }
}
