//! A collector for measurements: a thread of this process that reads the rings
//! from another CPU, between the batches that are timed, so that nothing is lost
//! and the writer finds its ring's memory as a real collector leaves it.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_zone_protocol::arena::RING_BYTES;

/// Turns between two readings: what eight nested zones write in so many turns fits a ring.
const BATCH: u64 = 4000;

/// Raises the semaphore as long as it lives.
pub(crate) struct Reader {
    ask: SyncSender<()>,
    answer: Receiver<()>,
}

impl Reader {
    /// Attaches.
    pub(crate) fn attach() -> Self {
        testing::raise();
        // The first event makes the arena.
        drop(syscollect_usdt_client::zone!("first"));
        let (ask, asked) = sync_channel::<()>(0);
        let (answered, answer) = sync_channel(0);
        std::thread::spawn(move || {
            let mut drain = Drain::open();
            while asked.recv().is_ok() {
                drain.iter_mut().for_each(read_all);
                if answered.send(()).is_err() {
                    return;
                }
            }
        });
        Self { ask, answer }
    }

    /// The time of so many turns, in batches that fit a ring.
    pub(crate) fn timed(&self, turns: u64, mut turn: impl FnMut(u64)) -> Duration {
        let mut total = Duration::ZERO;
        for batch in 0..turns.div_ceil(BATCH) {
            self.read();
            let start = batch * BATCH;
            total += timed((turns - start).min(BATCH), |index| turn(start + index));
        }
        total
    }

    /// Has all rings emptied.
    pub(crate) fn read(&self) {
        if self.ask.send(()).is_ok() {
            // Nothing comes only where the thread could not be made.
            let _ = self.answer.recv();
        }
    }

    /// Events that found no room.
    pub(crate) fn lost(&self) -> u64 {
        Drain::open().map_or(0, |drain| drain.lost())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        testing::lower();
    }
}

/// Reads every word, as a collector does that copies them.
fn read_all(drain: &mut Drain) {
    for number in 0..drain.rings() {
        let ring = drain.ring(number);
        let head = ring.head.load(Ordering::Acquire);
        for position in (ring.tail.load(Ordering::Relaxed)..head).step_by(8) {
            drain.word_at(number, position as usize % RING_BYTES);
        }
        ring.tail.store(head, Ordering::Release);
    }
}

/// The calling thread's CPU time of so many turns of a loop: what else runs on the machine does not
/// count.
pub(crate) fn timed(turns: u64, mut turn: impl FnMut(u64)) -> Duration {
    let start = cpu_time();
    for index in 0..turns {
        turn(std::hint::black_box(index));
    }
    cpu_time() - start
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
