//! Events of signal handlers, also in the middle of another event.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use syscollect_usdt_client::testing::Drain;
use syscollect_usdt_client::{ordered_ticks, zone};

/// How many signals are sent.
const SIGNALS: u64 = 2000;
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_signal: i32) {
    drop(zone!("handler"));
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_handlers_zones_never_break_those_that_they_interrupt() {
    common::record();
    let mut drain = Drain::open().expect("an arena");
    let number = common::ring_of(&drain, common::thread_id()).unwrap();
    // SAFETY: sets a handler that only records.
    unsafe { libc::signal(libc::SIGALRM, on_alarm as *const () as usize) };
    let thread = common::thread_id();
    let alarm = std::thread::spawn(move || {
        while HANDLED.load(Ordering::Relaxed) < SIGNALS {
            // SAFETY: the thread waits for this one.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGALRM) };
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    });
    let mut zones = ReadZones::default();
    let mut rounds = 0;
    while HANDLED.load(Ordering::Relaxed) < SIGNALS {
        for _ in 0..1000 {
            drop(zone!("own"));
        }
        rounds += 1000;
        zones.take(&common::shown(&drain.take(number), drain.log()));
    }
    alarm.join().unwrap();
    zones.take(&common::shown(&drain.take(number), drain.log()));
    assert_eq!(zones.own, rounds, "none of the thread's own zones is lost");
    assert!(zones.handlers > 0, "zones of handlers are recorded");
    // A handler's zone that is refused counts once: it has no end.
    assert_eq!(zones.handlers + drain.lost(), HANDLED.load(Ordering::Relaxed));
}

#[derive(Default)]
struct ReadZones {
    own: u64,
    handlers: u64,
    depth: u64,
}

impl ReadZones {
    fn take(&mut self, lines: &[String]) {
        for line in lines {
            if let Some(begin) = line.strip_prefix("begin ") {
                self.own += u64::from(begin == format!("own at {}", self.depth));
                self.handlers += u64::from(begin == format!("handler at {}", self.depth));
                self.depth += 1;
            } else if line.starts_with("end ") {
                self.depth -= 1;
                assert_eq!(*line, format!("end {}", self.depth));
            }
        }
    }
}

#[test]
fn ordered_ticks_are_never_equal_on_any_thread() {
    static GO: AtomicBool = AtomicBool::new(false);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                while !GO.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                (0..10_000).map(|_| ordered_ticks()).collect::<Vec<_>>()
            })
        })
        .collect();
    GO.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for thread in threads {
        let ticks = thread.join().unwrap();
        assert!(ticks.is_sorted_by(|one, next| one < next), "a thread sees them rise");
        all.extend(ticks);
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}
