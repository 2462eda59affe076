//! Event loops that are away from their wait for known times.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::system::{clock_ns, tid};

const MS: u64 = 1_000_000;
/// Shorter turns are not printed.
const LEAST_PRINTED: u64 = 20 * MS;
/// The main thread's start, before its first wait.
const START: u64 = 150 * MS;
/// How long a loop waits for events that never come.
const WAIT_MS: i32 = 10;
/// Turns before, between and after those that take long.
const SHORT_TURNS: usize = 12;

/// What a loop does in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Short,
    Busy(u64),
    Asleep(u64),
    Blocked(u64),
}

impl Turn {
    fn kind(self) -> &'static str {
        match self {
            Self::Short | Self::Busy(_) => "busy",
            Self::Asleep(_) => "asleep",
            Self::Blocked(_) => "blocked",
        }
    }
}

/// Turns of an epoll loop and a poll loop: longer ones than 50 ms, and near misses.
const EPOLL: [Turn; 10] = [
    Turn::Busy(120),
    Turn::Busy(40),
    Turn::Asleep(80),
    Turn::Busy(120),
    Turn::Blocked(80),
    Turn::Busy(120),
    Turn::Asleep(80),
    Turn::Asleep(40),
    Turn::Busy(120),
    Turn::Busy(120),
];
const POLL: [Turn; 5] =
    [Turn::Busy(100), Turn::Asleep(40), Turn::Blocked(90), Turn::Busy(40), Turn::Asleep(70)];
const POOL: [Turn; 4] = [Turn::Busy(110), Turn::Busy(40), Turn::Asleep(70), Turn::Blocked(80)];
const SPINNING: [Turn; 2] = [Turn::Busy(160), Turn::Busy(160)];

/// Runs all of them; prints each turn that takes long by the clock of the one who does it.
pub(crate) fn run() -> Result<()> {
    burns_here(START);
    let threads = [
        named("polls", || wait_loop("poll", &POLL, poll))?,
        named("pool", || pool(&POOL))?,
        named("spins", || spin(&SPINNING))?,
        named("computes", computes)?,
    ];
    let epoll = epoll_descriptor()?;
    wait_loop("epoll", &EPOLL, || epoll_wait(epoll, WAIT_MS))?;
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))??;
    }
    Ok(())
}

type Running = thread::JoinHandle<Result<()>>;

fn named(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<Running> {
    thread::Builder::new().name(name.to_owned()).spawn(run).context("no thread can be started")
}

/// Short turns, and one of these after each few.
fn plan(turns: &[Turn]) -> impl Iterator<Item = Turn> {
    let short = || std::iter::repeat_n(Turn::Short, SHORT_TURNS);
    short().chain(turns.iter().flat_map(move |turn| [*turn].into_iter().chain(short())))
}

fn wait_loop(name: &str, turns: &[Turn], wait: impl Fn() -> Result<()>) -> Result<()> {
    let worker = Worker::new(name)?;
    for turn in plan(turns) {
        wait()?;
        worker.takes(turn)?;
    }
    wait()
}

/// Looks for events without waiting for them.
fn spin(turns: &[Turn]) -> Result<()> {
    let (worker, epoll) = (Worker::new("spins")?, epoll_descriptor()?);
    for turn in turns {
        let begin = clock_ns(libc::CLOCK_MONOTONIC);
        while clock_ns(libc::CLOCK_MONOTONIC) - begin < 300 * MS {
            epoll_wait(epoll, 0)?;
        }
        worker.takes(*turn)?;
    }
    let begin = clock_ns(libc::CLOCK_MONOTONIC);
    while clock_ns(libc::CLOCK_MONOTONIC) - begin < 100 * MS {
        epoll_wait(epoll, 0)?;
    }
    Ok(())
}

/// A thread of a pool that gets its work from another one.
fn pool(turns: &[Turn]) -> Result<()> {
    let queue = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
    let works = Arc::clone(&queue);
    let count = plan(turns).count();
    let worker = named("works", move || {
        let worker = Worker::new("pool")?;
        (0..count).try_for_each(|_| {
            let (lock, filled) = &*works;
            let jobs = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let jobs = filled.wait_while(jobs, |jobs: &mut VecDeque<Turn>| jobs.is_empty());
            let job = jobs.unwrap_or_else(PoisonError::into_inner).pop_front();
            job.map_or(Ok(()), |turn| worker.takes(turn))
        })
    })?;
    for turn in plan(turns) {
        let (lock, filled) = &*queue;
        lock.lock().unwrap_or_else(PoisonError::into_inner).push_back(turn);
        filled.notify_one();
        let takes = match turn {
            Turn::Short => 1,
            Turn::Busy(takes) | Turn::Asleep(takes) | Turn::Blocked(takes) => takes,
        };
        thread::sleep(Duration::from_millis(takes + 10));
    }
    worker.join().map_err(|_| anyhow::anyhow!("the pool has panicked"))?
}

/// No loop: computes, and waits shortly on a futex now and then.
fn computes() -> Result<()> {
    println!("{{\"loop\":\"none\",\"tid\":{}}}", tid());
    let futex = 0_u32;
    for turn in 0..100 {
        burns_here(if turn % 20 == 19 { 80 * MS } else { 4 * MS });
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
        // SAFETY: both live until the call returns; nobody wakes, so that it waits until the end.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const futex,
                libc::FUTEX_WAIT,
                0,
                &raw const timeout,
            )
        };
    }
    Ok(())
}

/// Does what a turn says, and prints what it has taken.
struct Worker {
    name: String,
    holder: Holder,
}

impl Worker {
    fn new(name: &str) -> Result<Self> {
        println!("{{\"loop\":\"{name}\",\"tid\":{}}}", tid());
        Ok(Self { name: name.to_owned(), holder: Holder::new()? })
    }

    fn takes(&self, turn: Turn) -> Result<()> {
        let begin = clock_ns(libc::CLOCK_MONOTONIC);
        let cpu = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        match turn {
            Turn::Short => burns_here(MS / 5),
            Turn::Busy(time) => burns_here(time * MS),
            Turn::Asleep(time) => sleeps_here(time),
            Turn::Blocked(time) => self.holder.blocks_here(time)?,
        }
        let cpu = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - cpu;
        let length = clock_ns(libc::CLOCK_MONOTONIC) - begin;
        if length >= LEAST_PRINTED {
            println!(
                "{{\"turn\":\"{}\",\"kind\":\"{}\",\"length_ns\":{length},\"cpu_ns\":{cpu}}}",
                self.name,
                turn.kind()
            );
        }
        Ok(())
    }
}

/// A thread that holds a lock for as long as it is told.
struct Holder {
    lock: Arc<Mutex<()>>,
    ask: Sender<u64>,
    is_taken: Arc<AtomicBool>,
}

impl Holder {
    fn new() -> Result<Self> {
        let lock = Arc::new(Mutex::new(()));
        let (ask, asked) = mpsc::channel::<u64>();
        let is_taken = Arc::new(AtomicBool::new(false));
        let (held, takes) = (Arc::clone(&lock), Arc::clone(&is_taken));
        named("holds", move || {
            for time in asked {
                let _guard = held.lock().unwrap_or_else(PoisonError::into_inner);
                takes.store(true, Ordering::Release);
                thread::sleep(Duration::from_millis(time));
            }
            Ok(())
        })?;
        Ok(Self { lock, ask, is_taken })
    }

    #[inline(never)]
    fn blocks_here(&self, time: u64) -> Result<()> {
        self.is_taken.store(false, Ordering::Release);
        self.ask.send(time)?;
        // No wait that loops come back to.
        while !self.is_taken.load(Ordering::Acquire) {
            thread::sleep(Duration::from_micros(50));
        }
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        // It is no last call, so that it stays in the stack.
        black_box(());
        Ok(())
    }
}

/// Uses the CPU until so many nanoseconds have passed.
#[inline(never)]
fn burns_here(time: u64) {
    let begin = clock_ns(libc::CLOCK_MONOTONIC);
    while clock_ns(libc::CLOCK_MONOTONIC) - begin < time {
        for number in 0..1_000_u32 {
            black_box(number);
        }
    }
}

#[inline(never)]
fn sleeps_here(time: u64) {
    thread::sleep(Duration::from_millis(time));
    // It is no last call, so that it stays in the stack.
    black_box(());
}

fn epoll_descriptor() -> Result<libc::c_int> {
    // SAFETY: takes a plain number.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    ensure!(epoll >= 0, "no epoll: {}", std::io::Error::last_os_error());
    Ok(epoll)
}

fn epoll_wait(epoll: libc::c_int, timeout_ms: i32) -> Result<()> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: there is room for the one event.
    let found = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, timeout_ms) };
    ensure!(found == 0, "epoll: {found}, {}", std::io::Error::last_os_error());
    Ok(())
}

fn poll() -> Result<()> {
    // SAFETY: no descriptor is given.
    let found = unsafe { libc::poll(std::ptr::null_mut(), 0, WAIT_MS) };
    ensure!(found == 0, "poll: {found}, {}", std::io::Error::last_os_error());
    Ok(())
}
