//! A program that hangs: threads that wait for a lock that nobody lets go.

use std::io::Read;
use std::sync::Mutex;

use anyhow::Result;

/// Says so when all threads wait, and ends when its standard input does.
pub(crate) fn run(threads: u64) -> Result<()> {
    let lock: &'static Mutex<()> = Box::leak(Box::default());
    let _held = lock.lock();
    for _ in 0..threads {
        std::thread::spawn(|| drop(lock.lock()));
    }
    while sleeping_threads()? < threads {
        std::thread::yield_now();
    }
    println!("{{\"pid\":{},\"waiting\":{threads}}}", std::process::id());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // Those that wait end with the program.
    std::process::exit(0)
}

/// How many threads of this process sleep.
fn sleeping_threads() -> Result<u64> {
    let mut sleeping = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        sleeping += u64::from(stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')));
    }
    Ok(sleeping)
}
