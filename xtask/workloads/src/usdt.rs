//! USDT probes for the loads' own code.

/// A USDT probe of a provider with arguments that are all made of one value, which is in `rdi`: a
/// nop, and a note as `sys/sdt.h` of SystemTap lays it out.
macro_rules! probe {
    ($provider:literal, $name:literal, $arguments:literal, $value:expr) => {
        // SAFETY: the code is one nop; everything else goes to other sections.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", @note",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte 0",
                concat!(".asciz \"", $provider, "\""),
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                // Tools compare its address with the note's; whoever has probes in this program may
                // define it.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"axGR\", @progbits, .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                in("rdi") $value,
                options(readonly, nostack, preserves_flags)
            );
        }
    };
}

pub(crate) use probe;
