//! A thread that renames itself as fast as it can.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::system::tid;

/// Its name when it is done.
const LAST: &std::ffi::CStr = c"renamed-last";

/// Renames the thread for so many seconds; a last name stays for two more.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let (begun, mut count) = (Instant::now(), 0u64);
    let mut name = *b"renamed-00000000";
    name[15] = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..1000 {
            count += 1;
            // Six digits that change each time.
            (8..14).fold(count, |rest, at| {
                name[at] = b'0' + (rest % 10) as u8;
                rest / 10
            });
            // SAFETY: the name ends with a zero, and PR_SET_NAME copies it.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        }
    }
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_NAME, LAST.as_ptr()) };
    println!(r#"{{"tid":{},"renames":{count},"last":"{}"}}"#, tid(), LAST.to_string_lossy());
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}
