//! Symbol servers, asked through the program `curl`.
//!
//! A program rather than a library: it comes with Windows and with nearly every
//! other system, it knows the proxies and certificates of the machine, and its
//! encryption is kept up to date by the system. syscollect gets no TLS, and
//! needs no C compiler, for the sake of an option.

use super::find;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What curl ends with when the server says that it does not have the file, or something else than
/// yes.
const REFUSED: i32 = 22;
/// As much of curl's explanation as is repeated, bytes.
const EXPLANATION_MAX: u64 = 4096;

/// Why a server did not send a file.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It does not have it.
    Absent,
    /// Something else, in words.
    Failed(String),
}

/// Servers, and which of them do not answer.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    silent: Mutex<HashMap<String, String>>,
    drafts: AtomicU64,
}

impl Servers {
    /// Fetches `NAME/KEY/NAME` from a server into a store; the path of the file there.
    ///
    /// `wanted` looks at what was sent before it gets its place in the store, where
    /// other programs find it too. A server that could not be reached is not asked again.
    pub(crate) fn fetch(
        &self,
        (url, store): (&str, &Path),
        (name, key): (&str, &str),
        bytes_max: u64,
        wanted: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, Refusal> {
        if let Some(reason) = self.silent.lock().unwrap_or_else(PoisonError::into_inner).get(url) {
            return Err(Refusal::Failed(format!("{url} was given up: {reason}")));
        }
        let place = place(store, name, key);
        let fail = |error: io::Error| {
            Refusal::Failed(format!("cannot write to {}: {error}", place.display()))
        };
        fs::create_dir_all(store).map_err(fail)?;
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let draft = Draft(store.join(format!("{name}.{}-{number}.part", std::process::id())));
        let mut file = File::create_new(&draft.0).map_err(fail)?;
        let address = format!("{url}/{0}/{1}/{0}", escaped(name), escaped(key));
        let fetched = download(&address, &mut file, bytes_max);
        drop(file);
        if let Err(Refusal::Failed(reason)) = &fetched {
            let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
            silent.insert(url.into(), reason.clone());
        }
        fetched?;
        wanted(&draft.0).map_err(|reason| {
            Refusal::Failed(format!("{address} is not what was asked for: {reason}"))
        })?;
        place
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::rename(&draft.0, &place))
            .map_err(fail)?;
        Ok(place)
    }
}

/// A file that is removed unless it gets another name.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // It may have got its name.
        let _ = fs::remove_file(&self.0);
    }
}

fn place(store: &Path, name: &str, key: &str) -> PathBuf {
    let tier = name.get(..2).filter(|_| find::has_two_tiers(store));
    let folder = tier.map_or_else(|| store.to_path_buf(), |letters| store.join(letters));
    folder.join(name).join(key).join(name)
}

/// Bytes that mean something in addresses, as their numbers.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn download(address: &str, file: &mut File, bytes_max: u64) -> Result<(), Refusal> {
    let mut child = curl(address).spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Refusal::Failed("downloading needs the program curl, which is not installed".into())
        }
        _ => Refusal::Failed(format!("curl cannot be started: {error}")),
    })?;
    let copied = copy(&mut child, file, bytes_max);
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
fn copy(child: &mut Child, file: &mut File, bytes_max: u64) -> io::Result<u64> {
    let Some(output) = child.stdout.take() else { return Ok(0) };
    let length = io::copy(&mut output.take(bytes_max.saturating_add(1)), file)?;
    file.flush()?;
    Ok(length)
}

/// Whoever asked for an encrypted connection is not led to another one.
fn curl(address: &str) -> Command {
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
        .args([
            "--connect-timeout",
            "15",
            "--speed-limit",
            "1024",
            "--speed-time",
            "30",
            "--max-time",
            "3600",
        ])
        .args(["--user-agent", concat!("syscollect/", env!("CARGO_PKG_VERSION"))])
        .args(["--url", address])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_trace_cannot_become_another_address() {
        assert_eq!(escaped("app+x.pdb"), "app%2Bx.pdb");
        assert_eq!(escaped("a b#?&%ü.pdb"), "a%20b%23%3F%26%25%C3%BC.pdb");
    }

    #[test]
    fn a_store_of_two_tiers_stays_one() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(place(store.path(), "app.pdb", "K"), store.path().join("app.pdb/K/app.pdb"));
        fs::write(store.path().join("index2.txt"), "").unwrap();
        assert_eq!(place(store.path(), "app.pdb", "K"), store.path().join("ap/app.pdb/K/app.pdb"));
    }
}
