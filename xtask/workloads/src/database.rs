//! A program with probes of its own, as databases have them: transactions that end in one of
//! several ways.
//!
//! Every transaction has one query. One of three commits, one aborts, and of one neither is told:
//! its end and that of its query are never reached, as when an error takes another way out.

use std::arch::asm;
use std::hint::black_box;

use anyhow::Result;

/// A USDT probe of the provider `database` with one number: a nop, and a note as `sys/sdt.h` of
/// SystemTap lays it out.
macro_rules! probe {
    ($name:literal, $value:expr) => {
        // SAFETY: the code is one nop; everything else goes to other sections.
        unsafe {
            asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", @note",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte 0",
                ".asciz \"database\"",
                concat!(".asciz \"", $name, "\""),
                ".asciz \"8@%rdi\"",
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

#[inline(never)]
fn transaction_start(id: u64) {
    probe!("transaction__start", id);
}

#[inline(never)]
fn transaction_commit(id: u64) {
    probe!("transaction__commit", id);
}

#[inline(never)]
fn transaction_abort(id: u64) {
    probe!("transaction__abort", id);
}

#[inline(never)]
fn query_start(id: u64) {
    probe!("query__start", id);
}

#[inline(never)]
fn query_done(id: u64) {
    probe!("query__done", id);
}

/// So many calls of itself within itself, as an interpreter's functions.
#[inline(never)]
fn call(depth: u64) {
    probe!("call__entry", depth);
    if black_box(depth) > 1 {
        call(depth - 1);
    }
    probe!("call__return", depth);
}

/// Calls within a call, at the end of each round.
const DEPTH: u64 = 3;

/// `count` rounds of three transactions and [`DEPTH`] calls.
pub(crate) fn run(count: u64) -> Result<()> {
    for round in 0..count {
        for id in 3 * round..3 * round + 3 {
            transaction_start(black_box(id));
            query_start(id);
            match id % 3 {
                0 => {
                    query_done(id);
                    transaction_commit(id);
                }
                1 => {
                    query_done(id);
                    transaction_abort(id);
                }
                _ => {}
            }
        }
        call(DEPTH);
    }
    println!(
        "{{\"transactions\": {}, \"committed\": {count}, \"aborted\": {count}, \"left\": {count}, \
         \"calls\": {}}}",
        3 * count,
        DEPTH * count
    );
    Ok(())
}
