//! Forked children, in a process of its own because forking a test runner is a risk.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

mod common;

use common::{in_child, record, ring_of, scenario, scenario_of, thread_id};
use std::sync::atomic::Ordering;
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::{AsyncZone, location, message, zone};
use syscollect_zone_protocol::arena::RingState;

#[test]
fn a_child_starts_afresh_and_its_parent_goes_on_untouched() {
    record();
    let outer = zone!("of the parent");
    scenario();
    let drain = Drain::open().expect("an arena");
    let ring = drain.ring(ring_of(&drain, thread_id()).unwrap());
    let head = ring.head.load(Ordering::Relaxed);
    let parents_inode = inode(testing::arena_descriptor().unwrap());
    let good = in_child(|| {
        let before_first_event = testing::arena_descriptor();
        let mut token = outer.token();
        syscollect_usdt_client::zone::end(token);
        {
            let inner = zone!("of the child");
            token = inner.token();
        }
        let own = testing::arena_descriptor().map(inode);
        let lines = scenario();
        before_first_event.is_none()
            && own.is_some()
            && own != Some(parents_inode)
            && arenas() == 1
            && token.is_active()
            && lines == ["attached 0", "begin of the child at 0", "end 0"]
            && Drain::open().is_some_and(|drain| {
                drain.header().pid.load(Ordering::Relaxed) == std::process::id()
            })
    });
    assert!(good, "the child saw what it should");
    assert_eq!(ring.head.load(Ordering::Relaxed), head, "nothing was written to the parent's ring");
    drop(outer);
    assert_eq!(scenario(), ["end 0"]);
    async_zones_stay_with_the_parent();
    children_of_threads_and_of_children();
    nothing_is_left_after_exec();
}

fn nothing_is_left_after_exec() {
    let listing = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    assert!(listing.status.success());
    assert!(!String::from_utf8_lossy(&listing.stdout).contains("syscollect-zones"));
    drop(zone!("after exec"));
    assert_eq!(scenario(), ["begin after exec at 0", "end 0"], "the parent of a vfork goes on");
}

/// Those that are open at the fork are the parent's: the child tells nobody of them.
fn async_zones_stay_with_the_parent() {
    let zone = AsyncZone::begin(location!("of the parent"));
    let good = in_child(|| {
        message!("first");
        another_comes();
        let _own = AsyncZone::begin(location!("of the child"));
        another_comes();
        message!("last");
        let lines = scenario();
        lines[2..]
            == [
                "attached 0",
                "async of the child of task 0",
                "attached 0",
                "async open of the child",
                "message last color 000000",
            ]
    });
    assert!(good, "the child told of its own zone only");
    scenario();
    another_comes();
    drop(zone);
    message!("next");
    assert_eq!(scenario(), ["attached 0", "AsyncEnd", "message next color 000000"]);
}

fn another_comes() -> u32 {
    Drain::open().unwrap().header().attached.fetch_add(1, Ordering::Relaxed)
}

/// A thread's fork, and a fork's fork, and the parent's other threads' rings stay theirs.
fn children_of_threads_and_of_children() {
    let tid = std::thread::spawn(|| {
        drop(zone!("thread"));
        let good = in_child(|| {
            drop(zone!("child"));
            in_child(|| {
                drop(zone!("grandchild"));
                scenario() == ["attached 0", "begin grandchild at 0", "end 0"]
            }) && scenario() == ["attached 0", "begin child at 0", "end 0"]
        });
        assert!(good);
        thread_id()
    });
    let tid = tid.join().unwrap();
    let drain = Drain::open().expect("an arena");
    let number = ring_of(&drain, tid).unwrap();
    assert_eq!(drain.ring(number).state.load(Ordering::Relaxed), RingState::Ended as u32);
    assert_eq!(scenario_of(tid), ["attached 0", "begin thread at 0", "end 0", "ThreadEnd"]);
}

fn inode(descriptor: i32) -> u64 {
    use std::os::linux::fs::MetadataExt;
    std::fs::metadata(format!("/proc/self/fd/{descriptor}")).unwrap().st_ino()
}

/// Descriptors of arenas that this process has, a reader's lock not counted.
fn arenas() -> usize {
    common::stop_reading();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.to_string_lossy().contains("syscollect-zones"))
        .count()
}
