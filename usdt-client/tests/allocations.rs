//! A program whose allocator is reported.
#![allow(clippy::unwrap_used)] // the helpers of tests, too

mod common;

use common::{record, scenario, thread_id};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use syscollect_usdt_client::alloc::ProfiledAllocator;
use syscollect_usdt_client::testing::{self, Drain};
use syscollect_usdt_client::zone;
use syscollect_zone_protocol::ItemKind;
use syscollect_zone_protocol::arena::RingState;

/// An allocator that refuses to grow blocks when it is told to.
struct Reluctant;

static REFUSE: AtomicBool = AtomicBool::new(false);

// SAFETY: the system's allocator, or a refusal.
unsafe impl GlobalAlloc for Reluctant {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if REFUSE.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller says.
        unsafe { System.realloc(address, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: ProfiledAllocator = ProfiledAllocator::system();
static POOL: ProfiledAllocator<Reluctant> = ProfiledAllocator::pool(Reluctant, "pool");

/// Tests here read all rings: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Alloc { address: u64, bytes: u64 },
    Free { address: u64 },
}

/// Allocations with their ticks that a ring holds, of the heap or of the pool.
fn events(drain: &mut Drain, ring: usize, pool: bool) -> Vec<(u64, Event)> {
    drain.take(ring).iter().filter_map(|item| event(item, pool)).collect()
}

fn event(item: &[u64], pool: bool) -> Option<(u64, Event)> {
    let (kind, ticks, address) =
        (ItemKind::from_number(item[0] as u8)?, item[0] >> 8, item.get(1).copied()?);
    match kind {
        ItemKind::Alloc if (item[3] != 0) == pool => {
            Some((ticks, Event::Alloc { address, bytes: item[2] }))
        }
        ItemKind::Free if (item[2] != 0) == pool => Some((ticks, Event::Free { address })),
        _ => None,
    }
}

fn own_events(pool: bool) -> Vec<Event> {
    let mut drain = Drain::open().unwrap();
    let ring = common::ring_of(&drain, thread_id()).unwrap();
    events(&mut drain, ring, pool).into_iter().map(|(_, event)| event).collect()
}

#[test]
fn a_block_is_told_of_when_it_comes_when_it_grows_and_when_it_goes() {
    let _alone = ALONE.lock().unwrap();
    record();
    scenario();
    let mut block = Vec::<u8>::with_capacity(1000);
    let first = block.as_ptr() as u64;
    block.reserve_exact(100_000);
    let second = block.as_ptr() as u64;
    drop(block);
    let reported = own_events(false);
    let reported: Vec<_> = reported
        .iter()
        .filter(|event| match event {
            Event::Alloc { bytes, .. } => [1000, 100_000].contains(bytes),
            Event::Free { address } => [first, second].contains(address),
        })
        .collect();
    assert_eq!(
        reported,
        [
            &Event::Alloc { address: first, bytes: 1000 },
            &Event::Free { address: first },
            &Event::Alloc { address: second, bytes: 100_000 },
            &Event::Free { address: second },
        ]
    );
}

#[test]
fn a_block_that_was_not_allowed_to_grow_is_still_there() {
    let _alone = ALONE.lock().unwrap();
    record();
    scenario();
    let layout = Layout::from_size_align(64, 8).unwrap();
    // SAFETY: the layout is not empty, and the block is freed once.
    let address = unsafe {
        let block = POOL.alloc_zeroed(layout);
        REFUSE.store(true, Ordering::Relaxed);
        assert!(POOL.realloc(block, layout, 128).is_null());
        POOL.dealloc(block, layout);
        block as u64
    };
    let alloc = Event::Alloc { address, bytes: 64 };
    let free = Event::Free { address };
    assert_eq!(own_events(true), [alloc, free, alloc, free]);
}

#[test]
fn blocks_that_threads_hand_to_each_other_have_one_order() {
    let _alone = ALONE.lock().unwrap();
    record();
    // One thread allocates, the other frees: an address is had again and again.
    let (give, take) = std::sync::mpsc::sync_channel::<Box<[u8; 200]>>(1);
    std::thread::scope(|scope| {
        scope.spawn(move || (0..2000).for_each(|_| give.send(Box::new([1; 200])).unwrap()));
        scope.spawn(move || take.into_iter().for_each(drop));
    });

    let mut drain = Drain::open().unwrap();
    let mut all: Vec<_> =
        (0..drain.rings()).flat_map(|ring| events(&mut drain, ring, false)).collect();
    all.sort_by_key(|(ticks, _)| *ticks);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "no two stamps are equal");
    let mut live = std::collections::HashSet::new();
    let mut blocks = 0;
    for (_, event) in all {
        match event {
            Event::Alloc { address, bytes: 200 } => {
                blocks += 1;
                assert!(live.insert(address), "block {blocks} was given twice");
            }
            Event::Alloc { .. } => {}
            Event::Free { address } => _ = live.remove(&address),
        }
    }
    assert_eq!((blocks, live.len()), (2000, 0));
}

#[test]
fn a_block_freed_in_a_destructor_of_the_thread_is_told_of() {
    struct Last(Cell<Option<Box<[u8; 300]>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _zone = zone!("at the thread's end");
            drop(self.0.take());
        }
    }
    thread_local! { static LAST: Last = const { Last(Cell::new(None)) }; }

    let _alone = ALONE.lock().unwrap();
    record();
    let (tid, address) = std::thread::spawn(|| {
        let block = Box::new([0; 300]);
        let address = block.as_ptr() as u64;
        LAST.with(|last| last.0.set(Some(block)));
        (thread_id(), address)
    })
    .join()
    .unwrap();
    let mut drain = Drain::open().unwrap();
    let ring = common::ring_of(&drain, tid).unwrap();
    while drain.ring(ring).state.load(Ordering::Acquire) != RingState::Ended as u32 {
        std::thread::yield_now();
    }
    let reported = events(&mut drain, ring, false);
    assert!(reported.iter().any(|(_, event)| *event == Event::Free { address }), "{reported:?}");
}

#[test]
fn while_nobody_records_nothing_is_told() {
    let _alone = ALONE.lock().unwrap();
    record();
    scenario();
    testing::lower();
    drop(std::hint::black_box(vec![0_u8; 5000]));
    testing::raise();
    assert_eq!(
        own_events(false)
            .iter()
            .filter(|event| matches!(event, Event::Alloc { bytes: 5000, .. }))
            .count(),
        0
    );
}
