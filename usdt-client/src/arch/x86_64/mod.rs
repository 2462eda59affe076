//! x86-64.

pub(crate) mod probe_site;
pub(crate) mod registers;

/// Whether the counter runs at one rate on all CPUs: CPUID 0x80000007, EDX bit 8.
pub(crate) fn has_invariant_counter() -> bool {
    use core::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 CPU has the instruction. (A safe function for newer compilers.)
    #[allow(unused_unsafe)]
    unsafe {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
    }
}

/// The time stamp counter as it is read where speed counts: without a fence.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    // SAFETY: rdtsc has no preconditions on x86-64.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What comes after it is not read before what comes before it, the counter included.
#[inline(always)]
pub(crate) fn load_fence() {
    // SAFETY: lfence has no preconditions on x86-64.
    unsafe { core::arch::x86_64::_mm_lfence() };
}

/// Whether the kernel says that it can read the word at an address, which is a multiple of 8. Where
/// it is not the kernel that answers (a filter of system calls), that is no for most answers.
pub(crate) fn can_be_read(address: u64) -> bool {
    let mut result = libc::SYS_rt_sigprocmask;
    // SAFETY: asks to change the blocked signals in a way that there is none: what is read at the
    // address is not used, and nothing is written. Done by hand, so that errno is left alone.
    unsafe {
        core::arch::asm!(
            "syscall",
            inout("rax") result,
            in("rdi") u64::from(u32::MAX),
            in("rsi") address,
            in("rdx") 0,
            in("r10") 8,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    // It reads first, and then refuses the change.
    result == -i64::from(libc::EINVAL)
}

/// Calls a function on another stack, which ends at `top`.
///
/// # Safety
/// `top` is a multiple of 16, nobody else is on that stack, and the function's size fits it. The
/// function may be called with `data`, and returns.
pub(crate) unsafe fn call_on_stack(
    top: *mut u8,
    function: unsafe extern "C" fn(*mut core::ffi::c_void),
    data: *mut core::ffi::c_void,
) {
    // SAFETY: as the caller says; r12 is kept by the function.
    unsafe {
        core::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") data,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}
