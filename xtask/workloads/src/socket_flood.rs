//! Somebody who sends a flight recorder's socket as much as it takes: requests, long ones, what is
//! none, and descriptors without end.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::descriptors::send_with;

/// What is asked for.
const REQUEST: &[u8] = br#"{"ask":"status"}"#;
const SNAPSHOT: &[u8] = br#"{"ask":"snapshot","reason":"a flood"}"#;
/// Bytes of a long message: less than the kernel lets anybody have on its way.
const LONG: usize = 100_000;
/// Most descriptors that the kernel takes with a message.
const DESCRIPTORS: usize = 253;
/// Answers that nobody has read yet.
const UNREAD: usize = 64;

/// Sends for so long; prints how many messages went, and how many found no room at first.
pub(crate) fn run(socket: &str, what: &str, seconds: u64) -> Result<()> {
    let long = vec![b'x'; LONG];
    let message: &[u8] = match what {
        "requests" | "descriptors" => REQUEST,
        "snapshots" => SNAPSHOT,
        "long" => &long,
        "nonsense" => b"nonsense",
        _ => bail!("there is no flood of {what}"),
    };
    let to = UnixDatagram::unbound()?;
    to.connect(socket).with_context(|| format!("cannot reach {socket}"))?;
    to.set_nonblocking(true)?;
    let file = tempfile()?;
    let (mut sent, mut refused, mut answers) = (0u64, 0u64, Vec::new());
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let (ours, theirs) = UnixStream::pair()?;
        let count = if what == "descriptors" { DESCRIPTORS } else { 2 };
        let mut descriptors: Vec<RawFd> = vec![file.as_raw_fd(); count];
        descriptors[0] = theirs.as_raw_fd();
        match send_with(&to, message, &descriptors) {
            Ok(()) => {
                sent += 1;
                // Nobody reads it, so what is answered lies there.
                answers.push(ours);
            }
            Err(error) if is_full(&error) => {
                refused += 1;
                std::thread::yield_now();
            }
            Err(error) => return Err(error).context("sendmsg"),
        }
        if answers.len() > UNREAD {
            answers.clear();
        }
    }
    println!(r#"{{"sent":{sent},"refused":{refused}}}"#);
    Ok(())
}

/// The kernel has no room for more, of messages or of descriptors on their way.
fn is_full(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
        || matches!(error.raw_os_error(), Some(libc::ETOOMANYREFS | libc::ENOBUFS))
}

fn tempfile() -> Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    Ok(options.open(std::env::temp_dir())?)
}
