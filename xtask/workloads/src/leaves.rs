//! Functions that call nothing, each with one caller, which are hard to find a caller of.
//!
//! Written in assembly, so that no compiler's choice makes a test easier. What is called
//! `calls_NAME` calls `NAME`, and keeps no frame pointer: rbp is its caller's, and leads past it. A
//! timer's signal interrupts them now and then, and its handler burns time, too.

use std::arch::global_asm;
use std::hint::black_box;

use anyhow::{Result, ensure};

use crate::system::clock_ns;

global_asm!(
    r#"
    .macro leaf_begin name
    .globl \name
    .type \name, @function
    \name:
    .endm

    .macro leaf_end name
    .size \name, . - \name
    .endm

    # About 100 microseconds.
    .macro leaf_burn
    mov ecx, 200000
    77:
    dec ecx
    jnz 77b
    .endm

    .macro leaf_caller name
    leaf_begin calls_\name
    .cfi_startproc
    sub rsp, 8
    .cfi_adjust_cfa_offset 8
    call \name
    add rsp, 8
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    leaf_end calls_\name
    .endm

    .text
    # Nothing says where its caller is. Less code than this is taken for padding of what comes before.
    leaf_begin leaf_bare
    leaf_burn
    ret
    .skip 32, 0x90
    leaf_end leaf_bare
    leaf_caller leaf_bare

    # Nor of this one, but it has a frame pointer, which is right. The last word of its stack looks
    # as if another function had called it.
    leaf_begin leaf_framed
    nop
    push rbp
    mov rbp, rsp
    sub rsp, 16
    lea rax, [rip + 88f]
    mov [rsp], rax
    leaf_burn
    leave
    ret
    leaf_end leaf_framed
    leaf_caller leaf_framed

    leaf_begin leaf_never_runs
    call leaf_framed
    88:
    ret
    leaf_end leaf_never_runs

    # As of functions that align their stack.
    leaf_begin leaf_by_register
    .cfi_startproc
    lea r10, [rsp + 8]
    .cfi_def_cfa r10, 0
    and rsp, -64
    sub rsp, 64
    leaf_burn
    lea rsp, [r10 - 8]
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    leaf_end leaf_by_register
    leaf_caller leaf_by_register

    # As vfork.
    leaf_begin leaf_returns_by_register
    .cfi_startproc
    pop rdi
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rdi
    leaf_burn
    push rdi
    .cfi_adjust_cfa_offset 8
    ret
    .cfi_endproc
    leaf_end leaf_returns_by_register
    leaf_caller leaf_returns_by_register

    # rsp + 8 + 0, in words that no compiler uses.
    leaf_begin leaf_inexpressible
    .cfi_startproc
    .cfi_escape 0x0f, 0x04, 0x77, 0x08, 0x30, 0x22
    leaf_burn
    ret
    .cfi_endproc
    leaf_end leaf_inexpressible
    leaf_caller leaf_inexpressible

    # The child sleeps for a millisecond and ends; until then this one waits.
    leaf_begin calls_vfork
    .cfi_startproc
    sub rsp, 24
    .cfi_adjust_cfa_offset 24
    mov qword ptr [rsp], 0
    mov qword ptr [rsp + 8], 1000000
    call qword ptr [rip + vfork@GOTPCREL]
    test eax, eax
    jnz 99f
    mov eax, 35
    mov rdi, rsp
    xor esi, esi
    syscall
    mov eax, 60
    xor edi, edi
    syscall
    99:
    add rsp, 24
    .cfi_adjust_cfa_offset -24
    ret
    .cfi_endproc
    leaf_end calls_vfork
    "#
);

unsafe extern "C" {
    fn calls_leaf_bare();
    fn calls_leaf_framed();
    fn calls_leaf_by_register();
    fn calls_leaf_returns_by_register();
    fn calls_leaf_inexpressible();
    /// The child's number.
    fn calls_vfork() -> i32;
}

/// How often the signal comes.
const SIGNAL_US: libc::suseconds_t = 5_000;

/// Calls them in turn for so many seconds; prints the process's id.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let handler: extern "C" fn(i32) = leaf_handler;
    // SAFETY: the handler burns time only.
    let before = unsafe { libc::signal(libc::SIGALRM, handler as libc::sighandler_t) };
    ensure!(before != libc::SIG_ERR, "cannot handle a signal");
    let every = libc::timeval { tv_sec: 0, tv_usec: SIGNAL_US };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: an initialized timer, and nowhere for the one before.
    let set = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    ensure!(set == 0, "cannot set a timer");
    let end = clock_ns(libc::CLOCK_MONOTONIC) + seconds * 1_000_000_000;
    while clock_ns(libc::CLOCK_MONOTONIC) < end {
        // SAFETY: they keep to the C calling convention, and touch no memory but their stack.
        let child = unsafe {
            calls_leaf_bare();
            calls_leaf_framed();
            calls_leaf_by_register();
            calls_leaf_returns_by_register();
            calls_leaf_inexpressible();
            calls_vfork()
        };
        ensure!(child > 0, "cannot make a process");
        // SAFETY: a child of this process; nobody asks how it ended.
        while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0 {}
    }
    println!("{{\"pid\":{}}}", std::process::id());
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn leaf_handler(_: i32) {
    let mut value = 1u64;
    for round in 0..200_000 {
        value = (value ^ value >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd).wrapping_add(round);
    }
    black_box(value);
}
