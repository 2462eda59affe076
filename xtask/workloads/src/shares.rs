//! Threads that use known shares of a CPU, and say what the kernel counted of each.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::system::tid;

/// A thread begins one piece of work so often.
const PERIOD: Duration = Duration::from_millis(50);

/// For so many seconds one thread works three tenths of the time, one sleeps but for a moment each
/// period, and two share the CPU that both are bound to by turns of the kernel's. Before each ends
/// it says what the kernel counted of it.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let works = [("works", PERIOD * 3 / 10), ("sleeps", Duration::ZERO)];
    let mut threads = Vec::new();
    for (name, work) in works {
        threads.push(named(name, move || take_turns(name, work, end))?);
    }
    for name in ["crowds", "crowds-too"] {
        threads.push(named(name, move || {
            crate::system::pin(0)?;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            tell(name)
        })?);
    }
    for thread in threads {
        thread.join().ok().context("a thread failed")??;
    }
    Ok(())
}

fn named(
    name: &str,
    work: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<std::thread::JoinHandle<Result<()>>> {
    Ok(std::thread::Builder::new().name(name.into()).spawn(work)?)
}

fn take_turns(name: &str, work: Duration, end: Instant) -> Result<()> {
    while Instant::now() < end {
        let turn = Instant::now();
        while turn.elapsed() < work {
            std::hint::spin_loop();
        }
        std::thread::sleep(PERIOD.saturating_sub(turn.elapsed()));
    }
    tell(name)
}

/// What the kernel has counted of this thread.
fn tell(name: &str) -> Result<()> {
    let counted = fs::read_to_string("/proc/thread-self/schedstat")?;
    let mut fields = counted.split_ascii_whitespace().map(str::parse::<u64>);
    let mut field = || fields.next().and_then(Result::ok).context("schedstat has no such field");
    let (running, waiting) = (field()?, field()?);
    println!(
        "{{\"name\": \"{name}\", \"tid\": {}, \"running_ns\": {running}, \"waiting_ns\": {waiting}}}",
        tid()
    );
    Ok(())
}
