//! Where pixels lie between the thread that has them and the one that packs them.
//!
//! A few places in memory that is mapped once. Whoever finds a place free takes it, writes, and
//! says that it is full; the sender takes the oldest that is. Nobody waits. The memory is wiped in
//! a forked child, in which there is neither the sender nor anybody who was writing.

use crate::memory;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Pixels of the largest image that a program may hand over: 960 x 540 and some more.
pub const MAX_IMAGE_PIXELS: usize = 1 << 19;
/// Images that wait at one time.
const PLACES: usize = 4;

const FREE: u32 = 0;
const WRITING: u32 = 1;
const FULL: u32 = 2;

/// What an image is beside its pixels.
#[derive(Clone, Copy)]
pub(super) struct Details {
    /// When it was handed over, in ticks.
    pub(super) taken: u64,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) frames_ago: u8,
    pub(super) is_flipped: bool,
}

#[repr(C)]
struct ImagePlace {
    /// Whose the rest is: anybody's who takes it, the writer's, or the sender's.
    state: AtomicU32,
    /// The image's number, in the order in which images were handed over.
    number: AtomicU64,
    details: UnsafeCell<Details>,
    rgba: UnsafeCell<[u8; MAX_IMAGE_PIXELS * 4]>,
}

/// All places, and what the sender and those who hand over tell each other.
#[repr(C)]
pub(super) struct Handover {
    /// What the sender does, see there.
    pub(super) sender: AtomicU32,
    /// The sender's thread, once it was started.
    pub(super) thread: AtomicU64,
    numbers: AtomicU64,
    dropped: AtomicU64,
    places: [ImagePlace; PLACES],
}

// SAFETY: details and pixels are touched only by whom the place's state says; the rest is atomic.
unsafe impl Sync for Handover {}

static HANDOVER: AtomicPtr<Handover> = AtomicPtr::new(null_mut());

/// The process's, if it has one.
pub(super) fn existing() -> Option<&'static Handover> {
    // SAFETY: null, or mapped as long as the process lives; all zeros are valid, and so is what a
    // fork leaves: all zeros.
    unsafe { HANDOVER.load(Ordering::Acquire).as_ref() }
}

/// The process's; maps it if need be.
pub(super) fn get() -> Option<&'static Handover> {
    if let Some(handover) = existing() {
        return Some(handover);
    }
    let new = memory::map_private(size_of::<Handover>())?.cast::<Handover>();
    let set =
        HANDOVER.compare_exchange(null_mut(), new.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
    if set.is_err() {
        // SAFETY: nobody else has seen it.
        unsafe { memory::unmap(new.as_ptr().cast(), size_of::<Handover>()) };
    }
    existing()
}

impl Handover {
    /// Copies an image to a free place; where there is none, it is counted. `rgba` has four bytes
    /// for each pixel, of at most [`MAX_IMAGE_PIXELS`].
    pub(super) fn put(&self, details: Details, rgba: &[u8]) {
        let take = |place: &&ImagePlace| {
            let taken =
                place.state.compare_exchange(FREE, WRITING, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        let Some(place) = self.places.iter().find(take) else { return self.count_dropped() };
        // SAFETY: the state says that both are this thread's alone.
        unsafe {
            *place.details.get() = details;
            (&mut *place.rgba.get())[..rgba.len()].copy_from_slice(rgba);
        }
        place.number.store(self.numbers.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        place.state.store(FULL, Ordering::Release);
    }

    /// Hands the oldest image to the sender, then frees its place. Only the sender calls it;
    /// `false` where no image waits.
    pub(super) fn take(&self, image: impl FnOnce(u16, Details, &[u8])) -> bool {
        let is_full = |place: &&ImagePlace| place.state.load(Ordering::Acquire) == FULL;
        let full = self.places.iter().filter(is_full);
        let Some(place) = full.min_by_key(|place| place.number.load(Ordering::Relaxed)) else {
            return false;
        };
        // SAFETY: a full place is the sender's alone until it says that it is free.
        let (details, rgba) = unsafe { (*place.details.get(), &*place.rgba.get()) };
        let bytes = details.width * details.height * 4;
        image(place.number.load(Ordering::Relaxed) as u16, details, &rgba[..bytes]);
        place.state.store(FREE, Ordering::Release);
        true
    }

    /// Whether an image waits, or one is to be counted.
    pub(super) fn has_work(&self) -> bool {
        let waits = |place: &ImagePlace| place.state.load(Ordering::Acquire) == FULL;
        self.places.iter().any(waits) || self.dropped.load(Ordering::Relaxed) > 0
    }

    /// An image is left out.
    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were left out since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// A handover of its own, which stays. Of the heap: Miri knows no `madvise`.
    fn handover() -> &'static Handover {
        let layout = std::alloc::Layout::new::<Handover>();
        // SAFETY: it has a size, and all zeros are a handover.
        unsafe { std::alloc::alloc_zeroed(layout).cast::<Handover>().as_ref().expect("memory") }
    }

    fn details(width: usize) -> Details {
        Details { taken: 0, width, height: 4, frames_ago: 0, is_flipped: false }
    }

    #[test]
    fn images_are_taken_in_their_order_and_one_too_many_is_counted() {
        let handover = handover();
        assert!(!handover.has_work() && !handover.take(|_, _, _| {}));
        for width in 1..=5 {
            handover.put(details(width * 4), &vec![width as u8; width * 64]);
        }
        let mut taken = Vec::new();
        while handover.take(|number, details, rgba| taken.push((number, details.width, rgba[0]))) {
            // A place that is free again comes before those that are full.
            if taken.len() == 1 {
                handover.put(details(24), &[6; 6 * 64]);
            }
        }
        assert_eq!(taken, [(0, 4, 1), (1, 8, 2), (2, 12, 3), (3, 16, 4), (4, 24, 6)]);
        assert!(handover.has_work(), "one is to be counted");
        assert_eq!((handover.take_dropped(), handover.take_dropped()), (1, 0));
    }

    #[test]
    fn threads_that_hand_over_together_tear_no_image() {
        const IMAGES: u64 = if cfg!(miri) { 12 } else { 500 };
        let (handover, is_over) = (handover(), AtomicBool::new(false));
        let taken = std::thread::scope(|scope| {
            let threads = [1_u8, 2, 3].map(|thread| {
                scope.spawn(move || {
                    for _ in 0..IMAGES {
                        let width = usize::from(thread) * 4;
                        handover.put(details(width), &vec![thread; width * 16]);
                    }
                })
            });
            let taker = scope.spawn(|| {
                let (mut taken, mut last) = (0, false);
                loop {
                    let found = handover.take(|_, details, rgba| {
                        let thread = details.width / 4;
                        assert_eq!(rgba.len(), thread * 64);
                        assert!(rgba.iter().all(|byte| usize::from(*byte) == thread));
                    });
                    taken += u64::from(found);
                    if !found && last {
                        return taken;
                    }
                    last = is_over.load(Ordering::Acquire);
                }
            });
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            is_over.store(true, Ordering::Release);
            taker.join().expect("no panic")
        });
        assert_eq!(taken + handover.take_dropped(), 3 * IMAGES);
    }
}
