//! A program that looks like a Java virtual machine, and is asked as one is.
//!
//! It has HotSpot's library mapped as a loaded one is, several threads, and a function for SIGQUIT.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

const LIBRARY_BYTES: usize = 8192;
const THREADS: usize = 8;

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn is_asked(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Does what its part is for so long, with files in `folder` and `/tmp`.
pub(crate) fn run(part: &str, folder: &str, seconds: u64) -> Result<()> {
    let folder = PathBuf::from(folder);
    let library = folder.join("libjvm.so");
    fs::write(&library, [0; LIBRARY_BYTES])?;
    map(&library, libc::PROT_READ | libc::PROT_WRITE)?;
    map(&library, libc::PROT_READ | libc::PROT_EXEC)?;
    for _ in 0..THREADS {
        std::thread::spawn(|| std::thread::sleep(Duration::MAX));
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let pid = std::process::id();
    let socket = PathBuf::from(format!("/tmp/.java_pid{pid}"));
    let request = PathBuf::from(format!("/tmp/.attach_pid{pid}"));
    if part != "deaf" {
        // SAFETY: the function only stores to an atomic.
        unsafe { libc::signal(libc::SIGQUIT, is_asked as *const () as libc::sighandler_t) };
    }
    let result = play(part, &socket, &request, &folder, end);
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(&request);
    result
}

fn play(part: &str, socket: &Path, request: &Path, folder: &Path, end: Instant) -> Result<()> {
    match part {
        "silent" | "deaf" => print_ready(),
        "stops" => {
            print_ready();
            while Instant::now() < end {
                stop_askers();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "fifo" => {
            for place in [socket, request] {
                let place = CString::new(place.as_os_str().as_bytes())?;
                // SAFETY: the path is a C string.
                let made = unsafe { libc::mkfifo(place.as_ptr(), 0o666) };
                ensure!(made == 0, "no FIFO: {}", io::Error::last_os_error());
            }
            print_ready();
        }
        "link" => {
            let elsewhere = folder.join("socket");
            let listener = UnixListener::bind(&elsewhere)?;
            symlink(&elsewhere, socket)?;
            symlink("/etc/passwd", request)?;
            listener.set_nonblocking(true)?;
            print_ready();
            wait_until(end);
            ensure!(listener.accept().is_err(), "somebody followed the link");
        }
        "endless" => {
            print_ready();
            while !ASKED.load(Ordering::Relaxed) {
                ensure!(Instant::now() < end, "nobody asked");
                std::thread::sleep(Duration::from_millis(1));
            }
            let (mut stream, _) = UnixListener::bind(socket)?.accept()?;
            while Instant::now() < end && stream.write_all(&[b'0'; 4096]).is_ok() {}
        }
        _ => bail!("no part is called {part}"),
    }
    wait_until(end);
    Ok(())
}

/// Stops whoever asks machines of this user: what they are then is this user's process.
fn stop_askers() {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let is_asker =
            fs::read(process.path().join("comm")).is_ok_and(|name| name == b"jvm-asker\n");
        let pid = process.file_name().to_str().and_then(|pid| pid.parse().ok());
        if let Some(pid) = pid.filter(|_| is_asker) {
            // SAFETY: numbers only. It is refused where it is another user's.
            unsafe { libc::kill(pid, libc::SIGSTOP) };
        }
    }
}

fn print_ready() {
    println!("{{\"pid\":{}}}", std::process::id());
}

fn wait_until(end: Instant) {
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
}

/// Maps all of the file, for good.
fn map(file: &Path, rights: libc::c_int) -> Result<()> {
    let open = File::open(file)?;
    // SAFETY: the kernel chooses the place, and nothing is read or written there.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            LIBRARY_BYTES,
            rights,
            libc::MAP_PRIVATE,
            open.as_raw_fd(),
            0,
        )
    };
    ensure!(place != libc::MAP_FAILED, "no mapping: {}", io::Error::last_os_error());
    Ok(())
}
