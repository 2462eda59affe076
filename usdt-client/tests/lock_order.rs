//! Events of a lock that threads fight for, replayed in the order of their stamps.
#![allow(clippy::unwrap_used)] // the helpers of tests, too

mod common;

use common::{name, record};
use std::collections::HashSet;
use std::sync::Barrier;
use syscollect_usdt_client::lock::{Mutex, RwLock};
use syscollect_usdt_client::testing::Drain;
use syscollect_zone_protocol::{ItemKind, LockAction};

const THREADS: usize = 4;
const TURNS: usize = 2000;

/// Stamp, thread and what happened to the lock of that name.
fn events(drain: &mut Drain, lock: &str) -> Vec<(u64, usize, LockAction)> {
    let mut events = Vec::new();
    for ring in 0..drain.rings() {
        for item in drain.take(ring) {
            if item[0] as u8 == ItemKind::Lock as u8 && name(drain.log(), item[1] as u32) == lock {
                events.push((
                    item[0] >> 8,
                    ring,
                    LockAction::from_number((item[1] >> 32) as u8).unwrap(),
                ));
            }
        }
    }
    events.sort_by_key(|(ticks, ..)| *ticks);
    events
}

fn fight(turn: impl Fn(usize) + Sync) {
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                (0..TURNS).for_each(&turn);
            });
        }
    });
}

/// Replays the events, and fails where somebody obtains what another one has.
fn replay(events: &[(u64, usize, LockAction)]) {
    let (mut writer, mut readers, mut waiting) = (None, HashSet::new(), HashSet::new());
    for (index, (_, thread, action)) in events.iter().enumerate() {
        let near = &events[index.saturating_sub(4)..(index + 4).min(events.len())];
        match action {
            LockAction::Wait | LockAction::WaitShared => {
                assert!(waiting.insert(*thread), "{near:?}");
            }
            LockAction::GiveUp => assert!(waiting.remove(thread), "{near:?}"),
            LockAction::Obtain => {
                waiting.remove(thread);
                assert!(
                    writer.replace(*thread).is_none() && readers.is_empty(),
                    "event {index}: {near:?}"
                );
            }
            LockAction::Release => assert_eq!(writer.take(), Some(*thread), "{near:?}"),
            LockAction::ObtainShared => {
                waiting.remove(thread);
                assert!(writer.is_none() && readers.insert(*thread), "event {index}: {near:?}");
            }
            LockAction::ReleaseShared => assert!(readers.remove(thread), "{near:?}"),
        }
    }
    assert!(
        writer.is_none() && readers.is_empty() && waiting.is_empty(),
        "all is released at the end"
    );
}

#[test]
fn no_two_threads_seem_to_have_a_lock_at_once() {
    record();
    let mut drain = Drain::open().unwrap();
    let mutex = Mutex::named("mutex", 0_usize);
    fight(|_| *mutex.lock().unwrap() += 1);
    assert_eq!(*mutex.lock().unwrap(), THREADS * TURNS);
    let reported = events(&mut drain, "mutex");
    assert!(reported.len() >= 2 * THREADS * TURNS, "{} events", reported.len());
    replay(&reported);

    let table = RwLock::named("table", 0_usize);
    fight(|turn| {
        if turn % 5 == 0 {
            *table.write().unwrap() += 1;
        } else {
            std::hint::black_box(*table.read().unwrap());
        }
    });
    replay(&events(&mut drain, "table"));
    assert_eq!(drain.lost(), 0);
}
