//! An instrumented program that cannot share memory, so that its marks go through probes.

use std::io::Error;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use syscollect_usdt_client::zone;

use crate::instrumented::wait_for_recorder;
use crate::system::tid;

/// Zones between two rests, in which the recorder fetches what they left.
const BURST: u64 = 50;

/// Marks `count` zones on each of `threads` threads, having had itself refused either way to share
/// memory.
pub(crate) fn run(refused: &str, threads: u64, count: u64) -> Result<()> {
    match refused {
        "memfd" => forbid_memfd().context("cannot forbid memfd_create")?,
        "files" => forbid_files().context("cannot forbid files")?,
        _ => bail!("`{refused}` is no way to be refused memory"),
    }
    wait_for_recorder()?;
    let running: Vec<_> =
        (0..threads).map(|_| std::thread::spawn(move || mark_zones(count))).collect();
    if running.into_iter().any(|thread| thread.join().is_err()) {
        bail!("a thread panicked");
    }
    Ok(())
}

fn mark_zones(count: u64) {
    for index in 0..count {
        let _zone = zone!("alone");
        if index % BURST == BURST - 1 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    println!(r#"{{"tid":{},"zones":{count}}}"#, tid());
}

/// As a sandbox does: the system call fails for this process and its threads.
fn forbid_memfd() -> Result<()> {
    let load_number = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut instructions = [
        // The number is the first word of struct seccomp_data.
        step(load_number, 0, 0, 0),
        step(compare, 0, 1, libc::SYS_memfd_create as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program =
        libc::sock_fprog { len: instructions.len() as u16, filter: instructions.as_mut_ptr() };
    // SAFETY: prctl takes plain numbers here, and a program that lives through the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(Error::last_os_error().into()) }
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// As `ulimit -f` does: no file may become as large as the memory that would be shared.
fn forbid_files() -> Result<()> {
    let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
    // SAFETY: the limit lives through the call.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) == 0 };
    if done { Ok(()) } else { Err(Error::last_os_error().into()) }
}
