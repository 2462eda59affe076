//! The thread that packs images and writes them into its ring.
//!
//! It is started by the first image and stays, asleep while none comes: then whoever hands the next
//! one over wakes it. While images come it looks for them by itself, so that a frame costs no call
//! into the kernel.

use super::handover::{self, Details, Handover};
use super::pixels::ScaledImage;
use crate::{clock, emit, thread};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use syscollect_zone_protocol::{Attribute, Event, FrameImage, ITEM_BLOCKS, ImageBlocks};

/// Nobody has started the thread.
const NONE: u32 = 0;
/// It looks for images.
const AWAKE: u32 = 1;
/// It waits to be woken.
const ASLEEP: u32 = 2;
/// The library is about to be unloaded: it ends.
const STOPPED: u32 = 3;

/// How long it sleeps between two looks.
const PAUSE_NS: u64 = 4_000_000;
/// How long it goes on looking after the last image.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How long an image waits for room in the ring.
const ROOM_NS: u64 = 250_000_000;
/// How much it gives way to other threads.
const NICE: libc::c_int = 10;

/// Blocks in one group: 3 KiB of them, so that what a collector reads at a time need not be cut in
/// the middle.
const GROUP_BLOCKS: usize = 128 * ITEM_BLOCKS;
/// Bytes of such a group.
const GROUP_BYTES: u64 = 32 + 128 * 32;

/// After an image was handed over, or left out: there is a sender, and it is awake.
pub(super) fn wake(handover: &'static Handover) {
    // What was handed over comes before the question whether somebody looks at it: see `sleep`.
    fence(Ordering::SeqCst);
    match handover.sender.load(Ordering::Relaxed) {
        NONE => start(handover),
        ASLEEP => {
            let state = &handover.sender;
            let woken = state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
            if woken.is_ok() {
                futex(state, libc::FUTEX_WAKE, 1);
            }
        }
        _ => {}
    }
}

/// Starts the thread, on which none of the program's signals are handled.
fn start(handover: &'static Handover) {
    let state = &handover.sender;
    if state.compare_exchange(NONE, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the sets may be written; `run` takes the address that it is given, which lasts as
    // long as the process.
    let failed = unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let address = core::ptr::from_ref(handover).cast_mut().cast();
        let failed = libc::pthread_create(&raw mut thread, core::ptr::null(), run, address) != 0;
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        failed
    };
    if failed {
        // The next image asks again. Those that wait meanwhile are not counted before.
        state.store(NONE, Ordering::Relaxed);
    } else {
        handover.thread.store(thread, Ordering::Release);
    }
}

extern "C" fn run(handover: *mut core::ffi::c_void) -> *mut core::ffi::c_void {
    // SAFETY: what `start` gave: it is mapped as long as the process lives.
    let handover = unsafe { &*handover.cast::<Handover>() };
    thread::remember_name("syscollect images");
    // SAFETY: plain calls; of a thread's own name and priority. A refusal does no harm.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"syscollect-img".as_ptr());
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
    let mut last = clock::monotonic();
    loop {
        // What was handed over before the end is sent, too.
        let stopped = is_stopped(handover);
        while handover.take(|number, details, rgba| send(handover, number, details, rgba)) {
            last = clock::monotonic();
        }
        (0..handover.take_dropped()).for_each(|_| emit::count_lost());
        if stopped {
            return null_mut();
        }
        if clock::monotonic().saturating_sub(last) < PATIENCE_NS {
            pause();
        } else {
            sleep(handover);
            last = clock::monotonic();
        }
    }
}

fn is_stopped(handover: &Handover) -> bool {
    handover.sender.load(Ordering::Relaxed) == STOPPED
}

/// Packs an image and writes it, group by group.
fn send(handover: &Handover, number: u16, details: Details, rgba: &[u8]) {
    let Details { taken, width, height, frames_ago, is_flipped } = details;
    let scaled = ScaledImage::new(rgba, width, height);
    let (Ok(width), Ok(height)) = (u16::try_from(scaled.width), u16::try_from(scaled.height))
    else {
        return emit::count_lost();
    };
    let image = FrameImage { image: number, frames_ago, is_flipped, taken, width, height };
    for first in (0..scaled.blocks()).step_by(GROUP_BLOCKS) {
        let mut blocks = [0; GROUP_BLOCKS];
        let blocks = &mut blocks[..GROUP_BLOCKS.min(scaled.blocks() - first)];
        for (index, block) in (first..).zip(blocks.iter_mut()) {
            *block = scaled.block(index);
        }
        if !wait_for_room(handover) {
            return emit::count_lost();
        }
        // What is refused here is counted there.
        let Ok(mut group) = emit::group(GROUP_BYTES) else { return };
        group.event(Event::FrameImage(image));
        for (index, blocks) in blocks.chunks(ITEM_BLOCKS).enumerate() {
            let first = (first + index * ITEM_BLOCKS) as u32;
            group.attribute(Attribute::ImageBlocks(ImageBlocks::new(number, first, blocks)));
        }
    }
}

/// Whether the ring has room for a group, after some time at most.
fn wait_for_room(handover: &Handover) -> bool {
    let since = clock::monotonic();
    while !emit::has_room(GROUP_BYTES) {
        let waited = clock::monotonic().saturating_sub(since);
        if !crate::enabled() || is_stopped(handover) || waited > ROOM_NS {
            return false;
        }
        pause();
    }
    true
}

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS as libc::c_long };
    // SAFETY: `time` may be read; nobody asks how much of it was left.
    unsafe { libc::nanosleep(&raw const time, null_mut()) };
}

/// Until the next image is handed over, or left out.
fn sleep(handover: &Handover) {
    let state = &handover.sender;
    if state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    // Who hands over looks at the state behind it: one of both sees what the other did.
    fence(Ordering::SeqCst);
    if handover.has_work() {
        let _ = state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
        return;
    }
    while state.load(Ordering::Relaxed) == ASLEEP {
        futex(state, libc::FUTEX_WAIT, ASLEEP);
    }
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let no_timeout = core::ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the call; a wait without a time ends when it is woken.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_timeout) };
}

/// Before a library with this code is unloaded: the thread may not be in it any more.
extern "C" fn stop() {
    let Some(handover) = handover::existing() else { return };
    if handover.sender.swap(STOPPED, Ordering::Relaxed) == ASLEEP {
        futex(&handover.sender, libc::FUTEX_WAKE, 1);
    }
    let thread = handover.thread.swap(0, Ordering::Acquire);
    if thread != 0 {
        // SAFETY: it was started here, and is joined once.
        unsafe { libc::pthread_join(thread, null_mut()) };
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static STOP: extern "C" fn() = stop;
