//! Every order in which a writer and a reader of a ring can meet.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p syscollect-usdt-client --release --test loom`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use syscollect_usdt_client::ring::{Producer, Shared};

/// A tiny ring: two words of data and one of slack. Loom reports any access
/// to a word that is not ordered with the other side's.
struct Ring {
    head: AtomicU64,
    tail: AtomicU64,
    words: [UnsafeCell<u64>; 3],
}

// SAFETY: what loom is to check.
unsafe impl Sync for Ring {}

impl Shared for Ring {
    fn capacity(&self) -> u64 {
        16
    }

    fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    fn publish_head(&self, head: u64) {
        self.head.store(head, Ordering::Release);
    }

    fn count_lost(&self, _items: u64) {}

    unsafe fn write(&self, offset: u64, word: u64) {
        // SAFETY: loom checks that nobody else accesses it meanwhile.
        self.words[offset as usize / 8].with_mut(|place| unsafe { *place = word });
    }
}

impl Ring {
    fn new() -> Self {
        let words = [(); 3].map(|()| UnsafeCell::new(0));
        Self { head: AtomicU64::new(0), tail: AtomicU64::new(0), words }
    }

    /// What a collector does: takes all items up to head; an item's first word is its number of
    /// words.
    fn take(&self, items: &mut Vec<u64>) {
        let head = self.head.load(Ordering::Acquire);
        let mut position = self.tail.load(Ordering::Relaxed);
        while position < head {
            let index = (position % 16) as usize / 8;
            // SAFETY: loom checks that nobody writes meanwhile.
            let first = self.words[index].with(|place| unsafe { *place });
            let (words, number) = (first & 0xff, first >> 8);
            assert!(words == 1 || words == 2, "an item that was never written: {first:#x}");
            if words == 2 {
                // SAFETY: as above.
                assert_eq!(self.words[index + 1].with(|place| unsafe { *place }), number);
            }
            items.push(number);
            position += words * 8;
        }
        self.tail.store(position, Ordering::Release);
    }
}

/// Items of one and two words, so that some end in the slack; returns how many were lost.
fn write(ring: &Ring, count: u64) -> u64 {
    let producer = Producer::new();
    producer.start(ring, 0);
    let mut lost = 0;
    for number in 1..=count {
        let words = 1 + number % 2;
        let mut entered = producer.enter();
        if entered.room() < words * 8 {
            entered.refresh(ring);
        }
        if entered.room() < words * 8 {
            lost += 1;
            producer.leave_full(entered);
            continue;
        }
        let item = [number << 8 | words, number];
        // SAFETY: there is room, and two words are no more than slack and data.
        unsafe { entered.write(ring, item[0], &item[1..words as usize]) };
        producer.leave(ring, entered);
    }
    lost
}

#[test]
fn a_reader_sees_whole_items_in_order_and_none_twice_whatever_the_order() {
    loom::model(|| {
        let ring = Arc::new(Ring::new());
        let writer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || write(&ring, 4)
        });
        let mut items = Vec::new();
        ring.take(&mut items);
        ring.take(&mut items);
        let lost = writer.join().unwrap();
        ring.take(&mut items);
        assert!(items.is_sorted_by(|one, next| one < next), "{items:?}");
        assert_eq!(items.len() as u64 + lost, 4);
    });
}
