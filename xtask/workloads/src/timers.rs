//! A thread that a timer wakes, while the CPU is busy with a program's own code, or with what the
//! kernel does for it; and threads that wake each other through sockets.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
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

/// On one CPU a thread sleeps `rounds` times, while this thread is in the kernel nearly always.
pub(crate) fn run_in_kernel(rounds: u64, cpu: usize) -> Result<()> {
    pin(cpu)?;
    let mut zeros = File::open("/dev/zero")?;
    let mut buffer = vec![0; 1 << 20];
    thread::scope(|scope| {
        let timed = scope.spawn(move || {
            (0..rounds).for_each(|_| thread::sleep(SLEEP));
            tid()
        });
        while !timed.is_finished() {
            zeros.read_exact(&mut buffer)?;
        }
        let timed = timed.join().ok().context("a thread panicked")?;
        println!("{{\"timed\":{timed},\"calling\":{},\"rounds\":{rounds}}}", tid());
        Ok(())
    })
}

/// On one CPU a thread sends a byte to this one `rounds` times, through the network of this
/// machine, and waits for the answer.
pub(crate) fn send(rounds: u64, cpu: usize) -> Result<()> {
    pin(cpu)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut asks = TcpStream::connect(listener.local_addr()?)?;
    let (mut answers, _) = listener.accept()?;
    for stream in [&asks, &answers] {
        stream.set_nodelay(true)?;
    }
    let asking = thread::spawn(move || -> io::Result<i32> {
        let mut byte = [0];
        for _ in 0..rounds {
            asks.write_all(&byte)?;
            asks.read_exact(&mut byte)?;
        }
        Ok(tid())
    });
    let mut byte = [0];
    while answers.read(&mut byte)? == 1 {
        answers.write_all(&byte)?;
    }
    let asking = asking.join().ok().context("a thread panicked")??;
    println!("{{\"asking\":{asking},\"answering\":{},\"rounds\":{rounds}}}", tid());
    Ok(())
}
