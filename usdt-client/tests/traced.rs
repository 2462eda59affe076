//! Futures whose wakeups are recorded.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use common::{record, scenario, scenario_of, scenario_of_all, thread_id};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use syscollect_usdt_client::{Traced, location};

/// An executor's waker, which counts.
#[derive(Default)]
struct CountingWaker(AtomicU32);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One test reads what all threads have written: there is one at a time.
static TESTS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = TESTS.lock().unwrap_or_else(PoisonError::into_inner);
    record();
    scenario_of_all();
    guard
}

/// What a future waits for, as a timer or a socket keeps it.
#[derive(Default)]
struct Gate {
    waker: Mutex<Option<Waker>>,
    is_open: AtomicBool,
}

impl Gate {
    fn waker(&self) -> Waker {
        self.waker.lock().unwrap().clone().expect("it was polled")
    }
}

struct WaitsFor(Arc<Gate>);

impl Future for WaitsFor {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        *self.0.waker.lock().unwrap() = Some(context.waker().clone());
        if self.0.is_open.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn from_its_wakeup_to_its_poll_a_future_waits_and_who_woke_it_says_so() {
    let _alone = alone();
    let (count, gate) = (Arc::new(CountingWaker::default()), Arc::new(Gate::default()));
    let executor = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&executor);
    let mut future = Box::pin(Traced::new(location!("fetch"), WaitsFor(Arc::clone(&gate))));
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert_eq!(scenario(), ["async fetch of task 1", "task fetch", "begin fetch at 0", "end 0"]);
    let waker = gate.waker();
    let other = std::thread::spawn(move || {
        waker.wake_by_ref();
        waker.wake_by_ref();
        thread_id()
    });
    let other = other.join().unwrap();
    assert_eq!(count.0.load(Ordering::Relaxed), 2, "the executor hears of each");
    let woken = ["attached 0", "async woken, not polled of task 1", "task fetch", "ThreadEnd"];
    assert_eq!(scenario_of(other), woken);
    gate.is_open.store(true, Ordering::Relaxed);
    assert!(future.as_mut().poll(&mut context).is_ready());
    assert_eq!(scenario(), ["AsyncEnd", "begin fetch at 0", "AsyncEnd", "end 0"]);
    gate.waker().wake();
    assert_eq!(count.0.load(Ordering::Relaxed), 3);
    assert_eq!(scenario(), [""; 0], "nobody waits any more");
}

#[test]
fn a_future_that_is_dropped_waits_no_longer() {
    let _alone = alone();
    let gate = Arc::new(Gate::default());
    let mut context = Context::from_waker(Waker::noop());
    let mut future = Box::pin(Traced::new(location!("given up"), WaitsFor(Arc::clone(&gate))));
    assert!(future.as_mut().poll(&mut context).is_pending());
    gate.waker().wake();
    scenario();
    drop(future);
    assert_eq!(scenario(), ["AsyncEnd", "AsyncEnd"], "its wait and its life");
    gate.waker().wake();
    assert_eq!(scenario(), [""; 0]);
}

#[test]
fn each_wait_that_begins_ends_however_threads_wake_and_poll() {
    const WAKEUPS: u32 = 2_000;
    let _alone = alone();
    let (gate, count) = (Arc::new(Gate::default()), Arc::new(AtomicU32::new(0)));
    let mut context = Context::from_waker(Waker::noop());
    let mut future = Box::pin(Traced::new(location!("fetch"), WaitsFor(Arc::clone(&gate))));
    assert!(future.as_mut().poll(&mut context).is_pending());
    let wakers: Vec<_> = (0..2)
        .map(|_| {
            let (gate, count) = (Arc::clone(&gate), Arc::clone(&count));
            std::thread::spawn(move || {
                while count.fetch_add(1, Ordering::Relaxed) < WAKEUPS {
                    gate.waker().wake();
                    // So that there are polls between them also where a thread runs for long.
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    while count.load(Ordering::Relaxed) < WAKEUPS {
        assert!(future.as_mut().poll(&mut context).is_pending());
        std::thread::yield_now();
    }
    gate.is_open.store(true, Ordering::Relaxed);
    assert!(future.as_mut().poll(&mut context).is_ready());
    wakers.into_iter().for_each(|thread| thread.join().unwrap());
    let lines = scenario_of_all();
    let begins = lines.iter().filter(|line| line.starts_with("async ")).count();
    let ends = lines.iter().filter(|line| *line == "AsyncEnd").count();
    assert!(begins > 10, "of {WAKEUPS} wakeups {begins} begin a zone");
    assert_eq!(begins, ends);
}
