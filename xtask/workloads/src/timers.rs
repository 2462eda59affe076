//! A thread that a timer wakes, while the CPU is busy with a program's own code.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::system::{pin, tid};

const SLEEP: Duration = Duration::from_micros(700);

/// On one CPU a thread sleeps `rounds` times, while this thread computes and, after each such
/// sleep, wakes a third one by a system call.
pub(crate) fn run(rounds: u64, cpu: usize) -> Result<()> {
    pin(cpu)?;
    let (mut calls, mut caller) = io::pipe().context("cannot make a pipe")?;
    let slept = AtomicBool::new(false);
    let slept = &slept;
    thread::scope(|scope| {
        let timed = scope.spawn(move || {
            for _ in 0..rounds {
                thread::sleep(SLEEP);
                slept.store(true, Ordering::Release);
            }
            tid()
        });
        let called = scope.spawn(move || {
            let mut call = [0u8];
            while calls.read(&mut call).is_ok_and(|bytes| bytes == 1) {}
            tid()
        });
        let mut calls = 0u64;
        while !timed.is_finished() {
            if slept.swap(false, Ordering::Acquire) {
                caller.write_all(&[0])?;
                calls += 1;
            }
            std::hint::spin_loop();
        }
        drop(caller);
        let [timed, called] =
            [timed, called].map(|thread| thread.join().ok().context("a thread panicked"));
        println!(
            "{{\"timed\":{},\"called\":{},\"calling\":{},\"rounds\":{rounds},\"calls\":{calls}}}",
            timed?,
            called?,
            tid()
        );
        Ok(())
    })
}
