//! A chain of functions that only unwind tables lead through.
//!
//! Its frames are written in assembly, so that no compiler's choice makes a test easier: each puts
//! a number into rbp, which a walk by frame pointers takes for the end, and says so where compilers
//! do. One aligns its stack as code with vectors does. Below them the C library calls back
//! (`qsort`, through the PLT), and every so often a signal is handled. At the end the program burns
//! CPU time or sleeps.

use std::arch::global_asm;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};

use crate::system::clock_ns;

// What both kinds of frames keep: rbp is their caller's when they return. The stack is aligned to
// 16 bytes at each call: `bytes` are a multiple of 16.
global_asm!(
    r#"
    .macro unwound_frame number, next, bytes
    .globl unwound_\number
    .type unwound_\number, @function
    unwound_\number:
    .cfi_startproc
    push rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    mov rbp, \bytes
    sub rsp, \bytes
    .cfi_adjust_cfa_offset \bytes
    call \next
    add rsp, \bytes
    .cfi_adjust_cfa_offset -\bytes
    pop rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    ret
    .cfi_endproc
    .size unwound_\number, . - unwound_\number
    .endm

    .text
    .globl unwound_aligned
    .type unwound_aligned, @function
    unwound_aligned:
    .cfi_startproc
    lea r10, [rsp + 8]
    .cfi_def_cfa r10, 0
    and rsp, -64
    push qword ptr [r10 - 8]
    push rbp
    .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
    mov rbp, rsp
    push r10
    .cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06
    sub rsp, 40
    call unwound_11
    add rsp, 40
    pop r10
    .cfi_def_cfa r10, 0
    pop rbp
    lea rsp, [r10 - 8]
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    .size unwound_aligned, . - unwound_aligned

    unwound_frame 00, unwound_leaf, 16
    unwound_frame 01, unwound_00, 32
    unwound_frame 02, unwound_01, 48
    unwound_frame 03, unwound_02, 2048
    unwound_frame 04, unwound_03, 16
    unwound_frame 05, unwound_04, 96
    unwound_frame 06, unwound_05, 16
    unwound_frame 07, unwound_06, 512
    unwound_frame 08, unwound_07, 16
    unwound_frame 09, unwound_08, 8192
    unwound_frame 10, unwound_09, 16
    unwound_frame 11, unwound_10, 32
    unwound_frame 12, unwound_aligned, 16
    unwound_frame 13, unwound_12, 64
    unwound_frame 14, unwound_13, 16
    unwound_frame 15, unwound_14, 128
    unwound_frame 16, unwound_15, 16
    unwound_frame 17, unwound_16, 1024
    unwound_frame 18, unwound_17, 16
    unwound_frame 19, unwound_18, 48
    "#
);

unsafe extern "C" {
    /// The outermost of them.
    fn unwound_19();
}

static END: AtomicU64 = AtomicU64::new(0);
static ROUND: AtomicU64 = AtomicU64::new(0);
static IN_HANDLER: AtomicBool = AtomicBool::new(false);

/// Goes down the chain again and again for so many seconds; prints the process's id.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let handler: extern "C" fn(i32) = handled_signal;
    // SAFETY: the handler burns time and sets an atomic.
    let before = unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    ensure!(before != libc::SIG_ERR, "cannot handle a signal");
    END.store(clock_ns(libc::CLOCK_MONOTONIC) + seconds * 1_000_000_000, Ordering::Relaxed);
    while clock_ns(libc::CLOCK_MONOTONIC) < END.load(Ordering::Relaxed) {
        // SAFETY: it keeps to the C calling convention, and calls `unwound_leaf`.
        unsafe { unwound_19() };
    }
    println!("{{\"pid\":{}}}", std::process::id());
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn unwound_leaf() {
    let mut numbers = [2u64, 1];
    let (base, size) = (numbers.as_mut_ptr().cast::<c_void>(), size_of::<u64>());
    // SAFETY: an array of so many elements of this size, which nobody else has.
    unsafe { libc::qsort(base, numbers.len(), size, Some(called_back)) };
    black_box(numbers);
}

unsafe extern "C" fn called_back(_: *const c_void, _: *const c_void) -> i32 {
    match ROUND.fetch_add(1, Ordering::Relaxed) % 8 {
        0 => sleep_unwound(),
        1 => {
            IN_HANDLER.store(true, Ordering::Relaxed);
            // SAFETY: the signal is handled on this thread before the call returns.
            unsafe { libc::raise(libc::SIGUSR1) };
            black_box(IN_HANDLER.load(Ordering::Relaxed));
        }
        round => {
            black_box(burn_unwound(round));
        }
    }
    0
}

extern "C" fn handled_signal(_: i32) {
    black_box(burn_unwound(1));
    IN_HANDLER.store(false, Ordering::Relaxed);
}

#[inline(never)]
fn sleep_unwound() {
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// Burns a few hundred microseconds.
#[inline(never)]
fn burn_unwound(mut value: u64) -> u64 {
    for round in 0..200_000 {
        value = (value ^ value >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd).wrapping_add(round);
    }
    value
}
