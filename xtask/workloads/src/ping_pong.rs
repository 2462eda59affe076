//! Two processes that wake each other over pipes.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use anyhow::{Context, Result, bail};

use crate::system::{clock_ns, pin, switches_now, usage_ns};

/// Sends a byte there and back `rounds` times; each process prints its own
/// context switches between two moments, the first one also the CPU time of both.
pub(crate) fn run(rounds: u64, cpu: Option<usize>) -> Result<()> {
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let (from_ping, to_pong) = io::pipe().context("cannot make a pipe")?;
    let (from_pong, to_ping) = io::pipe().context("cannot make a pipe")?;
    // SAFETY: the process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot fork"),
        0 => {
            drop((to_pong, from_pong));
            play("pong", rounds, from_ping, to_ping, false)
        }
        child => {
            drop((to_ping, from_ping));
            let wall = clock_ns(libc::CLOCK_MONOTONIC);
            play("ping", rounds, from_pong, to_pong, true)?;
            wait(child)?;
            let wall = clock_ns(libc::CLOCK_MONOTONIC) - wall;
            let cpu = usage_ns(libc::RUSAGE_SELF) + usage_ns(libc::RUSAGE_CHILDREN);
            println!("{{\"cpu_ns\":{cpu},\"wall_ns\":{wall}}}");
            Ok(())
        }
    }
}

fn play(
    name: &str,
    rounds: u64,
    mut from: PipeReader,
    mut to: PipeWriter,
    serves: bool,
) -> Result<()> {
    let (begin, before) = switches_now()?;
    let mut ball = [0u8];
    for _ in 0..rounds {
        if serves {
            to.write_all(&ball)?;
        }
        from.read_exact(&mut ball)?;
        if !serves {
            to.write_all(&ball)?;
        }
    }
    let (end, after) = switches_now()?;
    let (pid, switches) = (std::process::id(), after - before);
    println!(
        "{{\"name\":\"{name}\",\"pid\":{pid},\"begin\":{begin},\"end\":{end},\"switches\":{switches}}}"
    );
    Ok(())
}

fn wait(child: libc::pid_t) -> Result<()> {
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    if waited != child || status != 0 {
        bail!("the other process failed with wait status {status}");
    }
    Ok(())
}
