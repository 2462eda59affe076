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

use crate::frames::hidden_frame;
use crate::system::clock_ns;

global_asm!(
    hidden_frame!(),
    r#"
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

    hidden_frame unwound_00, unwound_leaf, 16
    hidden_frame unwound_01, unwound_00, 32
    hidden_frame unwound_02, unwound_01, 48
    hidden_frame unwound_03, unwound_02, 2048
    hidden_frame unwound_04, unwound_03, 16
    hidden_frame unwound_05, unwound_04, 96
    hidden_frame unwound_06, unwound_05, 16
    hidden_frame unwound_07, unwound_06, 512
    hidden_frame unwound_08, unwound_07, 16
    hidden_frame unwound_09, unwound_08, 8192
    hidden_frame unwound_10, unwound_09, 16
    hidden_frame unwound_11, unwound_10, 32
    hidden_frame unwound_12, unwound_aligned, 16
    hidden_frame unwound_13, unwound_12, 64
    hidden_frame unwound_14, unwound_13, 16
    hidden_frame unwound_15, unwound_14, 128
    hidden_frame unwound_16, unwound_15, 16
    hidden_frame unwound_17, unwound_16, 1024
    hidden_frame unwound_18, unwound_17, 16
    hidden_frame unwound_19, unwound_18, 48
    .purgem hidden_frame
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
