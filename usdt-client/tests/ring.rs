//! The ring against a plain list, for any sequence of writes, reads and nested events.

use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use syscollect_usdt_client::ring::{Producer, Shared};

const CAPACITY: u64 = 64;
const SLACK: u64 = 32;

struct Ring {
    head: Cell<u64>,
    tail: Cell<u64>,
    lost: Cell<u64>,
    words: RefCell<[u64; ((CAPACITY + SLACK) / 8) as usize]>,
}

impl Shared for Ring {
    fn capacity(&self) -> u64 {
        CAPACITY
    }

    fn tail(&self) -> u64 {
        self.tail.get()
    }

    fn publish_head(&self, head: u64) {
        self.head.set(head);
    }

    fn count_lost(&self, items: u64) {
        self.lost.set(self.lost.get() + items);
    }

    unsafe fn write(&self, offset: u64, word: u64) {
        self.words.borrow_mut()[offset as usize / 8] = word;
    }
}

impl Ring {
    /// The words of the item at `tail`, as many as it should have.
    fn take(&self, words: usize) -> Vec<u64> {
        let start = (self.tail.get() % CAPACITY) as usize / 8;
        self.tail.set(self.tail.get() + words as u64 * 8);
        self.words.borrow()[start..start + words].to_vec()
    }
}

#[derive(Clone, Debug)]
enum RingOperation {
    /// An event of so many words; during it, another comes in between if `nested`.
    Write { words: usize, nested: bool },
    /// The reader takes so many items.
    Read { items: usize },
}

fn operations() -> impl Strategy<Value = Vec<RingOperation>> {
    let operation = prop_oneof![
        3 => (1_usize..=4, any::<bool>()).prop_map(|(words, nested)| RingOperation::Write { words, nested }),
        1 => (0_usize..6).prop_map(|items| RingOperation::Read { items }),
    ];
    proptest::collection::vec(operation, 0..200)
}

/// Writes an event as the client does; false if it was lost.
fn event(producer: &Producer, ring: &Ring, item: &[u64], nested: bool) -> bool {
    let bytes = item.len() as u64 * 8;
    if producer.is_busy() {
        ring.count_lost(1);
        return false;
    }
    let mut entered = producer.try_enter(bytes).unwrap_or_else(|| {
        let mut entered = producer.enter();
        entered.refresh(ring);
        entered
    });
    if entered.room() < bytes {
        ring.count_lost(1);
        producer.leave_full(entered);
        return false;
    }
    if nested {
        assert!(!event(producer, ring, &[0xbad], false), "an event within another is lost");
    }
    // SAFETY: there is room, and no item is longer than the slack.
    unsafe { entered.write(ring, item[0], &item[1..]) };
    producer.leave(ring, entered);
    true
}

proptest! {
    #[test]
    fn items_come_out_as_they_went_in_and_the_rest_is_counted(
        start in 0_u64..1000,
        operations in operations(),
    ) {
        let start = start * 8;
        let words = RefCell::new([0; ((CAPACITY + SLACK) / 8) as usize]);
        let ring =
            Ring { head: Cell::new(start), tail: Cell::new(start), lost: Cell::new(0), words };
        let producer = Producer::new();
        producer.start(&ring, start);
        let mut model: VecDeque<Vec<u64>> = VecDeque::new();
        let (mut next, mut lost) = (1, 0);
        for operation in operations {
            match operation {
                RingOperation::Write { words, nested } => {
                    let item: Vec<u64> = (0..words as u64).map(|word| next << 8 | word).collect();
                    next += 1;
                    let used: u64 = model.iter().map(|item| item.len() as u64 * 8).sum();
                    let fits = used + words as u64 * 8 <= CAPACITY;
                    prop_assert_eq!(event(&producer, &ring, &item, nested), fits);
                    lost += u64::from(!fits || nested);
                    if fits {
                        model.push_back(item);
                    }
                }
                RingOperation::Read { items } => {
                    for _ in 0..items {
                        let Some(expected) = model.pop_front() else { break };
                        prop_assert_eq!(ring.take(expected.len()), expected);
                    }
                }
            }
            prop_assert_eq!(ring.lost.get(), lost);
            prop_assert!(ring.head.get() - ring.tail.get() <= CAPACITY);
        }
    }

    #[test]
    fn a_reader_that_claims_to_be_ahead_of_the_writer_makes_no_room(ahead in any::<u64>()) {
        let words = RefCell::new([0; ((CAPACITY + SLACK) / 8) as usize]);
        let ring = Ring { head: Cell::new(0), tail: Cell::new(ahead), lost: Cell::new(0), words };
        let producer = Producer::new();
        producer.start(&ring, 0);
        prop_assert!(producer.try_enter(CAPACITY + 8).is_none());
        prop_assert!(producer.try_enter(CAPACITY).is_some());
    }
}
