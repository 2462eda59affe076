//! Collectors that come, go and come again, or never come.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use common::{record, ring_of, scenario, scenario_of, scenario_of_all, thread_id};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::{AsyncZone, Task, enabled, location, message, set_thread_name, zone};

/// What these tests change is the whole process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn a_later_collector_is_told_name_and_open_zones_of_a_thread_at_its_next_event() {
    let _alone = alone();
    record();
    let lines = std::thread::spawn(|| {
        set_thread_name("worker with a name that is longer than 24");
        let _outer = zone!("outer");
        let _inner = zone!("inner");
        scenario();
        another_comes();
        message!("next");
        scenario()
    });
    let expected = [
        "attached 2",
        "ThreadName \"worker with a name that is longer than 24\"",
        "open outer at 0",
        "open inner at 1",
        "message next color 000000",
    ];
    assert_eq!(lines.join().unwrap(), expected);
}

/// Another collector takes the arena.
fn another_comes() {
    Drain::open().expect("an arena").header().attached.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_later_collector_is_told_of_open_async_zones_and_their_tasks_by_whichever_thread_is_first() {
    let _alone = alone();
    record();
    let (task, ended) = (Task::new("upload 7"), AsyncZone::begin(location!("ended before")));
    let (first, own) =
        (AsyncZone::begin_in(&task, location!("send")), AsyncZone::begin(location!("own task")));
    drop(ended);
    scenario_of_all();
    another_comes();
    std::thread::spawn(|| message!("next")).join().unwrap();
    let reported = async_lines_in_time(3);
    let send = reported.iter().position(|line| line == "async open send").unwrap();
    assert_eq!(reported[send + 1], "task upload 7");
    assert!(reported.contains(&"async open own task".to_owned()));
    message!("on the thread that began them");
    assert!(self::async_lines().is_empty(), "it is said once");
    another_comes();
    drop(first);
    message!("next");
    assert_eq!(async_lines_in_time(1), ["async open own task"], "each collector is told anew");
    drop(own);
}

/// At least so many lines about open async zones. Mostly the thread of the test
/// says them at once; but one that ends after its test may have been the first.
fn async_lines_in_time(lines: usize) -> Vec<String> {
    let (start, mut all) = (Instant::now(), Vec::new());
    while all.len() < lines {
        assert!(start.elapsed() < Duration::from_secs(10), "{all:?}");
        all.append(&mut async_lines());
    }
    all
}

/// What any thread has said of open async zones since the last call.
fn async_lines() -> Vec<String> {
    scenario_of_all()
        .into_iter()
        .filter(|line| line.starts_with("async open") || line.starts_with("task"))
        .collect()
}

#[test]
fn an_async_zone_that_ends_while_nobody_records_is_no_longer_told() {
    let _alone = alone();
    record();
    let zone = AsyncZone::begin(location!("unseen end"));
    scenario();
    testing::lower();
    std::thread::spawn(|| drop(zone)).join().unwrap();
    testing::raise();
    another_comes();
    message!("next");
    assert!(async_lines().is_empty());
}

#[test]
fn more_async_zones_than_are_remembered_are_recorded_all_the_same() {
    const ZONES: usize = 5000;
    let _alone = alone();
    record();
    scenario();
    let zones: Vec<AsyncZone> =
        (0..ZONES).map(|_| AsyncZone::begin(location!("one of many"))).collect();
    assert_eq!(count(&scenario(), "async one of many of task 0"), ZONES);
    another_comes();
    message!("next");
    let reported = async_lines_in_time(4000).len();
    assert!((4000..=4096).contains(&reported), "{reported}");
    drop(zones);
    assert_eq!(count(&scenario(), "AsyncEnd"), ZONES);
    another_comes();
    message!("next");
    assert!(self::async_lines().is_empty());
}

fn count(lines: &[String], line: &str) -> usize {
    lines.iter().filter(|found| *found == line).count()
}

#[test]
fn a_zone_begun_while_nobody_recorded_is_not_ended_when_somebody_does() {
    let _alone = alone();
    record();
    scenario();
    testing::lower();
    assert!(!enabled());
    let off = zone!("off");
    let token = off.token();
    testing::raise();
    drop(off);
    assert!(!token.is_active());
    assert!(scenario().is_empty());
}

#[test]
fn a_zone_that_is_open_when_the_collector_goes_is_ended_for_the_next_one() {
    let _alone = alone();
    record();
    scenario();
    let open = zone!("open");
    testing::lower();
    drop(zone!("off"));
    drop(open);
    testing::raise();
    drop(zone!("next"));
    assert_eq!(scenario(), ["begin open at 0", "end 0", "begin next at 0", "end 0"]);
}

#[test]
fn a_ring_whose_reader_may_still_come_for_its_items_is_left_alone() {
    let _alone = alone();
    record();
    let (first, second) = (ring_of_a_new_thread(), ring_of_a_new_thread());
    assert_ne!(first, second);
}

fn ring_of_a_new_thread() -> usize {
    std::thread::spawn(|| {
        message!("short life");
        ring_of(&Drain::open().expect("an arena"), thread_id()).expect("a ring")
    })
    .join()
    .unwrap()
}

#[test]
fn a_program_that_closes_all_descriptors_gets_another_arena_and_keeps_its_own_files() {
    let _alone = alone();
    record();
    common::stop_reading();
    let descriptor = testing::arena_descriptor().expect("an arena");
    // SAFETY: what a daemon does that closes all it did not open.
    unsafe { libc::close(descriptor) };
    // The number is soon another file's, which must not be taken for the arena.
    let file = std::fs::File::open("/dev/null").unwrap();
    let tid = std::thread::spawn(|| {
        drop(zone!("after"));
        thread_id()
    });
    let tid = tid.join().unwrap();
    assert_ne!(testing::arena_descriptor(), Some(descriptor));
    assert_eq!(scenario_of(tid), ["attached 0", "begin after at 0", "end 0", "ThreadEnd"]);
    drop(file);
    record();
}
