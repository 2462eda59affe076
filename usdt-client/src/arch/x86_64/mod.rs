//! x86-64.

pub(crate) mod probe_site;

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

/// The frame pointer of the function into which this is inlined.
#[inline(always)]
pub(crate) fn frame_pointer() -> u64 {
    let frame: u64;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags));
    };
    frame
}
