//! Two processes that wake each other over pipes.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use anyhow::{Context, Result, bail};

use crate::system::{clock_ns, pin, sleep_until, switches_now, usage_ns};

/// How often a paced load begins its next rounds.
const TURN_NS: u64 = 1_000_000;

/// Sends a byte there and back `rounds` times, or so often that there are `rate` context switches
/// a second; each process prints its own context switches between two moments, the first one also
/// the CPU time of both.
pub(crate) fn run(rounds: u64, cpu: Option<usize>, rate: Option<u64>) -> Result<()> {
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
            play("pong", rounds, from_ping, to_ping, None)
        }
        child => {
            drop((to_ping, from_ping));
            let wall = clock_ns(libc::CLOCK_MONOTONIC);
            play("ping", rounds, from_pong, to_pong, Some(Pace::new(rate)))?;
            wait(child)?;
            let wall = clock_ns(libc::CLOCK_MONOTONIC) - wall;
            let cpu = usage_ns(libc::RUSAGE_SELF) + usage_ns(libc::RUSAGE_CHILDREN);
            println!("{{\"cpu_ns\":{cpu},\"wall_ns\":{wall}}}");
            Ok(())
        }
    }
}

/// How fast rounds begin.
struct Pace {
    /// Switches a second; each round has two.
    rate: Option<u64>,
    began_ns: u64,
    /// Rounds that may be begun before it waits.
    due: u64,
}

impl Pace {
    fn new(rate: Option<u64>) -> Self {
        Self { rate, began_ns: clock_ns(libc::CLOCK_MONOTONIC), due: 0 }
    }

    /// Waits until so many rounds are due. One that is late makes up for it.
    fn wait(&mut self, rounds: u64) {
        let Some(rate) = self.rate else { return };
        while rounds >= self.due {
            let passed = clock_ns(libc::CLOCK_MONOTONIC) - self.began_ns;
            let turns = passed / TURN_NS + 1;
            let due = u128::from(turns) * u128::from(TURN_NS) * u128::from(rate) / 2_000_000_000;
            self.due = due as u64;
            if rounds >= self.due {
                sleep_until(self.began_ns + turns * TURN_NS);
            }
        }
    }
}

/// Whoever has a pace serves.
fn play(
    name: &str,
    rounds: u64,
    mut from: PipeReader,
    mut to: PipeWriter,
    mut pace: Option<Pace>,
) -> Result<()> {
    let (begin, before) = switches_now()?;
    let mut ball = [0u8];
    for round in 0..rounds {
        if let Some(pace) = &mut pace {
            pace.wait(round);
            to.write_all(&ball)?;
        }
        from.read_exact(&mut ball)?;
        if pace.is_none() {
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
