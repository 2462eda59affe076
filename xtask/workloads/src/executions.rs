//! Programs that begin, map much code and end, so many a second: what a recorder keeps of lifetimes
//! grows by all of them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

const PAGE: usize = 4096;

/// Begins `rate` programs a second, each of which has so many mappings; how many in all.
pub(crate) fn run(rate: u64, mappings: u64, seconds: u64) -> Result<()> {
    let program = std::env::current_exe()?;
    let (began, mut begun, mut running) = (Instant::now(), 0, Vec::<Child>::new());
    while began.elapsed() < Duration::from_secs(seconds) {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while begun < due {
            let mut command = Command::new(&program);
            command.args(["mapped-code", &mappings.to_string()]);
            running.push(command.spawn().context("cannot begin a program")?);
            begun += 1;
        }
        running.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        std::thread::sleep(Duration::from_millis(2));
    }
    for mut child in running {
        child.wait()?;
    }
    println!(r#"{{"programs":{begun}}}"#);
    Ok(())
}

/// Maps so many places of this program's file as code, and ends.
pub(crate) fn map_code(mappings: u64) -> Result<()> {
    let file = File::open("/proc/self/exe")?;
    let pages = file.metadata()?.len() as usize / PAGE;
    for number in 0..mappings as usize {
        // Not one behind the other in the file, which would be one mapping.
        let offset = number * 2 % pages * PAGE;
        // SAFETY: the kernel chooses the place, nobody reads it, and it is gone with the process.
        let mapped = unsafe {
            let code = libc::PROT_READ | libc::PROT_EXEC;
            let place = offset as libc::off_t;
            libc::mmap(null_mut(), PAGE, code, libc::MAP_PRIVATE, file.as_raw_fd(), place)
        };
        ensure!(mapped != libc::MAP_FAILED, "cannot map {offset}");
    }
    Ok(())
}
