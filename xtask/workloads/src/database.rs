//! A program with probes of its own, as databases have them: transactions that end in one of
//! several ways.
//!
//! Every transaction has one query. One of three commits, one aborts, and of one neither is told:
//! its end and that of its query are never reached, as when an error takes another way out.

use std::hint::black_box;

use anyhow::Result;

use crate::usdt::probe;

#[inline(never)]
fn transaction_start(id: u64) {
    probe!("database", "transaction__start", "8@%rdi", id);
}

#[inline(never)]
fn transaction_commit(id: u64) {
    probe!("database", "transaction__commit", "8@%rdi", id);
}

#[inline(never)]
fn transaction_abort(id: u64) {
    probe!("database", "transaction__abort", "8@%rdi", id);
}

#[inline(never)]
fn query_start(id: u64) {
    probe!("database", "query__start", "8@%rdi", id);
}

#[inline(never)]
fn query_done(id: u64) {
    probe!("database", "query__done", "8@%rdi", id);
}

/// So many calls of itself within itself, as an interpreter's functions.
#[inline(never)]
fn call(depth: u64) {
    probe!("database", "call__entry", "8@%rdi", depth);
    if black_box(depth) > 1 {
        call(depth - 1);
    }
    probe!("database", "call__return", "8@%rdi", depth);
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
