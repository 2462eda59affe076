//! Symbol servers of Windows.

use super::find;
use crate::download::{DownloadLimits, Refusal, download};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a server may send next to nothing, and how long a file may take.
const STALL: Duration = Duration::from_secs(30);
const TIME: Duration = Duration::from_secs(3600);

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
    #[expect(clippy::disallowed_methods, reason = "a draft in the store, which the user names")]
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
        fs::create_dir_all(store).map_err(|error| cannot_write(&place, &error))?;
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let draft = DraftFile(store.join(format!("{name}.{}-{number}.part", std::process::id())));
        let mut file = File::create_new(&draft.0).map_err(|error| cannot_write(&place, &error))?;
        let address = format!("{url}/{0}/{1}/{0}", escaped(name), escaped(key));
        let limits = DownloadLimits { bytes: bytes_max, stall: STALL, time: TIME };
        let fetched = download(&address, &mut file, limits, &|| false);
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
            .map_err(|error| cannot_write(&place, &error))?;
        Ok(place)
    }
}

/// A file that is removed unless it gets another name.
struct DraftFile(PathBuf);

impl Drop for DraftFile {
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

fn cannot_write(place: &Path, error: &io::Error) -> Refusal {
    Refusal::Failed(format!("cannot write to {}: {error}", place.display()))
}

/// Bytes that mean something in addresses, as their numbers.
fn escaped(name: &str) -> String {
    name.bytes()
        .map(
            |byte| {
                if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
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
