//! Locks: who waits, who has them, and from when on that is told.
#![allow(clippy::unwrap_used)] // the helpers of tests, too

mod common;

use common::{record, scenario, scenario_of, thread_id};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError, mpsc};
use std::time::Duration;
use syscollect_usdt_client::lock::{Condvar, Mutex, RwLock};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_zone_protocol::ItemKind;

/// Tests here turn recording off and on: one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn recorded() -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    record();
    scenario();
    alone
}

/// Runs `with` while another thread has what `take` takes; returns what that thread has written.
fn while_another_holds<G>(take: impl FnOnce() -> G + Send, with: impl FnOnce()) -> Vec<String> {
    std::thread::scope(|scope| {
        let (tell_held, held) = mpsc::channel();
        let (let_go, may_end) = mpsc::channel::<()>();
        let other = scope.spawn(move || {
            let guard = take();
            tell_held.send(()).unwrap();
            let _ = may_end.recv();
            drop(guard);
            scenario()
        });
        held.recv().unwrap();
        with();
        let_go.send(()).unwrap();
        other.join().unwrap()
    })
}

/// Lets `first` run until it waits, then `then`.
fn once_it_waits<R: Send>(first: impl FnOnce() -> R + Send, then: impl FnOnce()) -> R {
    std::thread::scope(|scope| {
        let (tell, reported) = mpsc::channel();
        let waiter = scope.spawn(move || {
            tell.send(thread_id()).unwrap();
            first()
        });
        let tid = reported.recv().unwrap();
        // Field 3 of stat is the state; a thread that sleeps after it has told its id waits for the
        // lock.
        let path = format!("/proc/self/task/{tid}/stat");
        while !std::fs::read_to_string(&path).unwrap().rsplit(')').next().unwrap().starts_with(" S")
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        then();
        waiter.join().unwrap()
    })
}

#[test]
fn a_free_lock_is_obtained_without_a_wait_and_released() {
    let _alone = recorded();
    let queue = Mutex::named("queue", 1);
    *queue.lock().unwrap() += 1;
    assert_eq!(*queue.try_lock().unwrap(), 2);
    assert_eq!(scenario(), ["queue Obtain", "queue Release", "queue Obtain", "queue Release"]);
}

#[test]
fn a_thread_that_finds_the_lock_taken_waits_for_it() {
    let _alone = recorded();
    let queue = Mutex::named("queue", ());
    let guard = queue.lock().unwrap();
    let waiter = once_it_waits(
        || {
            drop(queue.lock().unwrap());
            scenario()
        },
        || drop(guard),
    );
    assert_eq!(waiter[waiter.len() - 3..], ["queue Wait", "queue Obtain", "queue Release"]);
    assert_eq!(scenario(), ["queue Obtain", "queue Release"]);
}

#[test]
fn an_event_of_a_lock_names_the_place_of_the_call() {
    let _alone = recorded();
    let lock = Mutex::new(());
    let line = line!() + 1;
    drop(lock.lock().unwrap());

    let mut drain = Drain::open().unwrap();
    let ring = common::ring_of(&drain, thread_id()).unwrap();
    let items = drain.take(ring);
    let lines: Vec<u32> = items
        .iter()
        .filter(|item| item[0] as u8 == ItemKind::Lock as u8)
        .map(|item| {
            let entry = (item[2] as usize - 1) * 8;
            u32::from_le_bytes(drain.log()[entry + 8..entry + 12].try_into().unwrap())
        })
        .collect();
    assert_eq!(lines, [line, line]);
}

#[test]
fn locks_of_one_name_are_different_locks() {
    let _alone = recorded();
    let shards: Vec<_> = (0..2).map(|_| Mutex::named("shard", ())).collect();
    drop(shards[0].lock().unwrap());
    drop(shards[1].lock().unwrap());

    let mut drain = Drain::open().unwrap();
    let ring = common::ring_of(&drain, thread_id()).unwrap();
    let numbers: Vec<u32> = drain.take(ring).iter().map(|item| item[1] as u32).collect();
    assert_eq!(numbers[0], numbers[1]);
    assert_eq!(numbers[2], numbers[3]);
    assert_ne!(numbers[0], numbers[2]);
}

#[test]
fn a_try_that_fails_tells_nothing() {
    let _alone = recorded();
    let queue = Mutex::named("queue", ());
    while_another_holds(
        || queue.lock().unwrap(),
        || assert!(matches!(queue.try_lock(), Err(TryLockError::WouldBlock))),
    );
    assert_eq!(scenario(), [] as [&str; 0]);
}

#[test]
fn a_lock_that_was_held_before_the_recording_is_told_of_once_it_is_free() {
    let _alone = recorded();
    let queue = Mutex::named("queue", ());
    testing::lower();
    let guard = queue.lock().unwrap();
    testing::raise();

    let waiter = once_it_waits(
        || {
            drop(queue.lock().unwrap());
            record();
            scenario()
        },
        || drop(guard),
    );
    assert!(!waiter.iter().any(|line| line.starts_with("queue")), "{waiter:?}");
    assert_eq!(scenario(), [] as [&str; 0], "who has let go was not seen to take it");
    drop(queue.lock().unwrap());
    assert_eq!(scenario(), ["queue Obtain", "queue Release"]);
}

#[test]
fn a_lock_that_was_taken_in_a_pause_is_not_told_of_after_it() {
    let _alone = recorded();
    let queue = Mutex::named("queue", ());
    drop(queue.lock().unwrap());
    testing::lower();
    let guard = queue.lock().unwrap();
    testing::raise();
    drop(guard);
    assert_eq!(scenario(), ["queue Obtain", "queue Release"], "as before the pause");
}

#[test]
fn the_next_collector_is_told_from_when_the_lock_is_free() {
    let _alone = recorded();
    let queue = Mutex::named("queue", ());
    let drain = Drain::open().unwrap();
    let attached = &drain.header().attached;
    attached.fetch_add(1, Ordering::Relaxed);
    let guard = queue.lock().unwrap();
    attached.fetch_add(1, Ordering::Relaxed);
    drop(guard);
    assert_eq!(scenario().last().map(String::as_str), Some("queue Obtain"), "the last collector's");
    drop(queue.lock().unwrap());
    assert_eq!(scenario().iter().filter(|line| line.starts_with("queue")).count(), 2);
}

#[test]
fn readers_have_a_lock_together_and_a_writer_waits_for_them() {
    let _alone = recorded();
    let table = RwLock::named("table", 5);
    let reader = table.read().unwrap();
    let second = table.try_read().unwrap();
    assert_eq!(*reader + *second, 10);
    let writer = once_it_waits(
        || {
            *table.write().unwrap() = 6;
            scenario()
        },
        || {
            drop(reader);
            drop(second);
        },
    );
    assert_eq!(writer[writer.len() - 3..], ["table Wait", "table Obtain", "table Release"]);
    let [obtain, release] = ["table ObtainShared", "table ReleaseShared"];
    assert_eq!(scenario(), [obtain, obtain, release, release]);
    assert_eq!(*table.read().unwrap(), 6);
}

#[test]
fn a_reader_who_came_before_the_recording_keeps_the_lock_untold() {
    let _alone = recorded();
    let table = RwLock::named("table", ());
    testing::lower();
    let early = table.read().unwrap();
    testing::raise();
    drop(table.read().unwrap());
    assert_eq!(scenario(), [] as [&str; 0], "a writer would seem to wait for nobody");
    drop(early);
    drop(table.read().unwrap());
    assert_eq!(scenario(), ["table ObtainShared", "table ReleaseShared"]);
}

#[test]
fn a_mutex_is_free_while_its_holder_waits_for_a_condition() {
    let _alone = recorded();
    let (ready, wake) = (Mutex::named("ready", false), Condvar::new());
    let waiter = once_it_waits(
        || {
            let guard = ready.lock().unwrap();
            drop(wake.wait_while(guard, |ready| !*ready).unwrap());
            scenario()
        },
        || {
            *ready.lock().unwrap() = true;
            wake.notify_one();
        },
    );
    let reported: Vec<&str> =
        waiter.iter().map(String::as_str).filter(|line| line.starts_with("ready")).collect();
    assert_eq!(reported, ["ready Obtain", "ready Release", "ready Obtain", "ready Release"]);
}

#[test]
fn poison_is_kept() {
    let _alone = recorded();
    let queue = Mutex::named("queue", 1);
    let table = RwLock::named("table", 1);
    std::thread::scope(|scope| {
        let both = scope.spawn(|| {
            let _guards = (queue.lock().unwrap(), table.write().unwrap());
            panic!("a panic with two locks: this is part of a test");
        });
        assert!(both.join().is_err());
    });
    assert!(queue.is_poisoned() && table.is_poisoned());
    assert_eq!(*queue.lock().unwrap_err().into_inner(), 1);
    assert!(matches!(queue.try_lock(), Err(TryLockError::Poisoned(_))));
    assert!(table.read().is_err());
    queue.clear_poison();
    assert!(queue.lock().is_ok());
}

#[test]
fn while_nobody_records_nothing_is_written() {
    let _alone = recorded();
    let (queue, table) = (Mutex::named("queue", ()), RwLock::named("table", ()));
    testing::lower();
    drop(queue.lock().unwrap());
    drop(queue.try_lock().unwrap());
    drop(table.read().unwrap());
    drop(table.write().unwrap());
    testing::raise();
    assert_eq!(scenario_of(thread_id()), [] as [&str; 0]);
}

#[cfg(feature = "parking_lot")]
mod parking_lot {
    use super::{once_it_waits, recorded, scenario, while_another_holds};
    use std::time::Duration;
    use syscollect_usdt_client::lock::parking_lot::{Mutex, named_mutex, named_rwlock};

    static STATIC: Mutex<u32> = named_mutex("static", 0);

    #[test]
    fn a_mutex_tells_what_the_standard_ones_tell() {
        let _alone = recorded();
        let guard = STATIC.lock();
        let waiter = once_it_waits(
            || {
                *STATIC.lock() += 1;
                scenario()
            },
            || drop(guard),
        );
        assert_eq!(waiter[waiter.len() - 3..], ["static Wait", "static Obtain", "static Release"]);
        assert_eq!(scenario(), ["static Obtain", "static Release"]);
        assert!(!STATIC.is_locked());
        assert_eq!(scenario(), [] as [&str; 0], "a look takes no lock");
    }

    #[test]
    fn a_wait_that_ran_out_of_time_is_given_up() {
        let _alone = recorded();
        let queue = named_mutex("queue", ());
        let holder = while_another_holds(
            || queue.lock(),
            || assert!(queue.try_lock_for(Duration::from_millis(5)).is_none()),
        );
        assert_eq!(scenario(), ["queue Wait", "queue GiveUp"]);
        assert_eq!(holder[holder.len() - 2..], ["queue Obtain", "queue Release"]);
    }

    #[test]
    fn readers_and_writers_are_told_apart() {
        let _alone = recorded();
        let table = named_rwlock("table", 1);
        drop((table.read(), table.read()));
        *table.write() = 2;
        let [obtain, release] = ["table ObtainShared", "table ReleaseShared"];
        assert_eq!(scenario(), [obtain, obtain, release, release, "table Obtain", "table Release"]);
    }
}
