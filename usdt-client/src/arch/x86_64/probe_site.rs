//! The crate's own USDT probes: a nop each, and a note that tells tools
//! where it is, where its arguments are, and where its semaphore is.
//!
//! Each probe is a function that is never inlined, so that it is one site with
//! fixed argument registers. The notes refer to the functions and thereby keep
//! them where the linker drops unused sections.
//!
//! A nop of one byte: one of five is what Linux 6.18 replaces by a call to a page that a forked
//! child does not have, though it has the call, so that a child that comes by dies.

#[cfg(not(feature = "off"))]
use crate::semaphore::SEMAPHORE;
use core::ffi::c_char;

/// One probe: a nop, and a note as `sys/sdt.h` of SystemTap lays it out.
#[cfg(not(feature = "off"))]
macro_rules! probe {
    ($name:literal, $arguments:literal, $($register:tt = $value:expr),*) => {
        // SAFETY: the code is one nop; everything else goes to other sections.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", @note",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte {semaphore}",
                ".asciz \"syscollect\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                // Tools compare its address with the note's to undo prelinking; perf takes the
                // distance of its address and its place in the file for that of the code, so it
                // lies with the code ("x"). "R": nothing that is kept refers to it.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"axGR\", @progbits, .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                semaphore = sym SEMAPHORE,
                $(in($register) $value,)*
                options(readonly, nostack, preserves_flags)
            );
        }
    };
}

#[cfg(feature = "off")]
macro_rules! probe {
    ($name:literal, $arguments:literal, $($register:tt = $value:expr),*) => {
        $(let _ = $value;)*
    };
}

/// Tells the collector that a ring of this process's arena is used.
#[inline(never)]
pub(crate) extern "C" fn ring(descriptor: i32, ring: u32, arena_bytes: u64) {
    probe!("ring", "-4@%edi 4@%esi 8@%rdx", "edi" = descriptor, "esi" = ring, "rdx" = arena_bytes);
}

/// A zone begins; taken where there is no shared memory.
#[inline(never)]
pub(crate) extern "C" fn zone_begin(
    name: *const c_char,
    function: *const c_char,
    file: *const c_char,
    line: u32,
    color: u32,
) {
    probe!(
        "zone_begin",
        "8@%rdi 8@%rsi 8@%rdx 4@%ecx 4@%r8d",
        "rdi" = name,
        "rsi" = function,
        "rdx" = file,
        "ecx" = line,
        "r8d" = color
    );
}

/// A zone ends and leaves `depth` zones open.
#[inline(never)]
pub(crate) extern "C" fn zone_end(depth: u32) {
    probe!("zone_end", "4@%edi", "edi" = depth);
}

/// A message.
#[inline(never)]
pub(crate) extern "C" fn message(text: *const c_char, color: u32) {
    probe!("message", "8@%rdi 4@%esi", "rdi" = text, "esi" = color);
}

/// A value of a plot, as the bits of a double.
#[inline(never)]
pub(crate) extern "C" fn plot(name: *const c_char, bits: u64) {
    probe!("plot", "8@%rdi 8@%rsi", "rdi" = name, "rsi" = bits);
}

/// A frame of the set of that name ends; the empty name is the main set.
#[inline(never)]
pub(crate) extern "C" fn frame(name: *const c_char) {
    probe!("frame", "8@%rdi", "rdi" = name);
}
