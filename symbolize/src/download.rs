//! Files of servers, fetched by the program `curl`.
//!
//! A program rather than a library: it comes with Windows and with nearly every
//! other system, it knows the proxies and certificates of the machine, and its
//! encryption is kept up to date by the system. syscollect gets no TLS, and
//! needs no C compiler, for the sake of an option.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What curl ends with when the server says that it does not have the file, or something else than
/// yes.
const REFUSED: i32 = 22;
/// As much of curl's explanation as is repeated, bytes.
const EXPLANATION_MAX: u64 = 4096;
/// Bytes that are taken at once, between two looks at whether anybody still wants them.
const BLOCK: usize = 64 << 10;

/// Why a server did not send a file.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It does not have it.
    Absent,
    /// Something else, in words.
    Failed(String),
}

/// What a file may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DownloadLimits {
    /// Bytes.
    pub(crate) bytes: u64,
    /// How long a server may send next to nothing.
    pub(crate) stall: Duration,
    /// How long all of it may take.
    pub(crate) time: Duration,
}

/// Writes what lies at `address` to `file`, until `unwanted` says that nobody waits for it.
///
/// # Errors
///
/// The server does not have it, did not answer in time, or sent too much.
pub(crate) fn download(
    address: &str,
    file: &mut File,
    limits: DownloadLimits,
    unwanted: &dyn Fn() -> bool,
) -> Result<(), Refusal> {
    let bytes_max = limits.bytes;
    let mut child = curl(address, limits).spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Refusal::Failed("downloading needs the program curl, which is not installed".into())
        }
        _ => Refusal::Failed(format!("curl cannot be started: {error}")),
    })?;
    let copied = copy(&mut child, file, bytes_max, unwanted);
    if !matches!(copied, Ok(length) if length <= bytes_max) {
        // It waits for whoever takes its output.
        let _ = child.kill();
    }
    let mut explanation = String::new();
    let errors = child
        .stderr
        .take()
        .map(|errors| errors.take(EXPLANATION_MAX).read_to_string(&mut explanation));
    let status = child.wait().map_err(|error| Refusal::Failed(error.to_string()))?;
    let explanation = explanation.trim();
    match copied {
        Err(error) => Err(Refusal::Failed(error.to_string())),
        Ok(length) if length > bytes_max => {
            Err(Refusal::Failed(format!("{address} has more than {bytes_max} bytes, the limit")))
        }
        Ok(_) if status.success() => Ok(()),
        Ok(_) if status.code() == Some(REFUSED) && explanation.contains("404") => {
            Err(Refusal::Absent)
        }
        Ok(_) if errors.is_some() && !explanation.is_empty() => {
            Err(Refusal::Failed(explanation.into()))
        }
        Ok(_) => Err(Refusal::Failed(format!("curl ended with {status}"))),
    }
}

/// Takes what curl writes, up to one byte over the limit.
fn copy(
    child: &mut Child,
    file: &mut File,
    bytes_max: u64,
    unwanted: &dyn Fn() -> bool,
) -> io::Result<u64> {
    let Some(output) = child.stdout.take() else { return Ok(0) };
    let (mut output, mut length) = (output.take(bytes_max.saturating_add(1)), 0);
    let mut block = vec![0; BLOCK];
    loop {
        if unwanted() {
            return Err(io::Error::other("abandoned"));
        }
        let read = output.read(&mut block)?;
        if read == 0 {
            break;
        }
        file.write_all(&block[..read])?;
        length += read as u64;
    }
    file.flush()?;
    Ok(length)
}

/// Whoever asked for an encrypted connection is not led to another one.
fn curl(address: &str, limits: DownloadLimits) -> Command {
    let schemes =
        if address[..6].eq_ignore_ascii_case("https:") { "=https" } else { "=http,https" };
    let mut command = Command::new("curl");
    command
        // First, so that no other options come from a file.
        .arg("--disable")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--globoff",
            "--location",
            "--max-redirs",
            "5",
        ])
        .args(["--proto", schemes, "--proto-redir", schemes])
        .args(["--connect-timeout", "15", "--speed-limit", "1024"])
        .args(["--speed-time", &seconds(limits.stall), "--max-time", &seconds(limits.time)])
        .args(["--user-agent", concat!("syscollect/", env!("CARGO_PKG_VERSION"))])
        .args(["--url", address])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// At least one: 0 is no limit.
fn seconds(time: Duration) -> String {
    time.as_secs().max(1).to_string()
}
