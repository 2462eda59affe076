//! What the running kernel offers of the tracepoints that are wanted.

#![expect(clippy::disallowed_methods, reason = "what the kernel has in tracefs")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::format::Format;
use super::selector::TracepointSelector;
use super::tracefs::private_events;

/// Where tracefs is mounted (from 4.1 on, and before as part of debugfs).
const FOLDERS: [&str; 2] = ["sys/kernel/tracing/events", "sys/kernel/debug/tracing/events"];

/// A tracepoint that can be attached to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offer {
    /// The subsystem.
    pub(crate) system: String,
    /// The event.
    pub(crate) name: String,
    /// Where its fields lie.
    pub(crate) format: Format,
}

/// What is offered, and the events whose description cannot be understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Offers {
    /// In the order in which they are wanted, by name within a subsystem.
    pub(crate) offers: Vec<Offer>,
    /// `system/event` of those that are there and cannot be used.
    pub(crate) unreadable: Vec<String>,
}

impl Offers {
    /// Whether this tracepoint is offered already.
    fn has(&self, system: &str, name: &str) -> bool {
        self.offers.iter().any(|offer| offer.system == system && offer.name == name)
    }
}

/// What this kernel offers.
///
/// # Errors
///
/// There is no tracefs, or this process may not read it: it is root's.
pub(crate) fn offered(wanted: &[TracepointSelector<'_>]) -> io::Result<Offers> {
    offered_below(Path::new("/"), wanted)
}

/// What the kernel of a machine offers whose /sys lies below `root`.
///
/// # Errors
///
/// As of [`offered`].
pub(crate) fn offered_below(root: &Path, wanted: &[TracepointSelector<'_>]) -> io::Result<Offers> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for folder in folders(root) {
        match fs::read_dir(&folder) {
            // Some kernels show the folder to everybody and what is in it to root.
            Ok(_) => match offered_at(&folder, wanted) {
                (offers, Some(error)) if offers.offers.is_empty() => refused = error,
                (offers, _) => return Ok(offers),
            },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Where the events of a machine may be found. Where nobody has mounted tracefs, this process
/// mounts it for itself.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    if root == Path::new("/") && !folders.iter().any(|folder| folder.exists()) {
        // Who may not do that is told what is not there.
        folders.extend(private_events());
    }
    folders
}

/// Mounts tracefs for this process where nobody has mounted it. That needs more rights than all
/// else that a recording does, so it comes before these are given up; later it is there for whoever
/// asks what is offered.
pub fn mount_tracepoints() {
    folders(Path::new("/"));
}

/// All tracepoints of this kernel as users name them, subsystems included.
pub(super) fn names() -> Vec<String> {
    let Some(events) = folders(Path::new("/")).into_iter().find(|folder| folder.exists()) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for system in names_in(&events) {
        names.extend(
            names_in(&events.join(&system)).into_iter().map(|name| format!("{system}:{name}")),
        );
        names.push(system);
    }
    names
}

/// What is offered, and with what the kernel refused to tell of something.
fn offered_at(events: &Path, wanted: &[TracepointSelector<'_>]) -> (Offers, Option<io::Error>) {
    let (mut offers, mut refused) = (Offers::default(), None);
    for TracepointSelector { system, event } in wanted {
        let mut names = match event {
            Some(event) => vec![(*event).to_owned()],
            None => {
                let folder = events.join(system);
                permitted(fs::read_dir(&folder), &mut refused);
                names_in(&folder)
            }
        };
        names.sort_unstable();
        for name in names {
            if offers.has(system, &name) {
                continue;
            }
            let format = events.join(system).join(&name).join("format");
            let Some(text) = permitted(fs::read_to_string(format), &mut refused) else { continue };
            match Format::parse(&text) {
                Some(format) => {
                    offers.offers.push(Offer { system: (*system).to_owned(), name, format });
                }
                None => offers.unreadable.push(format!("{system}/{name}")),
            }
        }
    }
    (offers, refused)
}

/// What the kernel told; why not goes to `refused`, if it did not permit it.
fn permitted<T>(result: io::Result<T>, refused: &mut Option<io::Error>) -> Option<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            *refused = Some(error);
            None
        }
        result => result.ok(),
    }
}

/// Folders of a subsystem; none where it is not loaded.
fn names_in(system: &Path) -> Vec<String> {
    let entries = fs::read_dir(system).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path: &PathBuf| path.is_dir());
    folders.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_offers_what_it_describes() {
        let tracefs = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("dma_fence/signaled", "ID: 2\n\tfield:int seqno;\toffset:8;\tsize:4;\tsigned:1;\n"),
            ("dma_fence/emit", "ID: 1\n"),
            ("drm/vblank", "of another shape"),
            ("sched/sched_switch", "ID: 3\n"),
        ] {
            let folder = tracefs.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("format"), text).unwrap();
        }
        fs::write(tracefs.path().join("dma_fence/enable"), "0").unwrap();
        let again = one("dma_fence", "emit");
        let wanted = [all("drm"), all("i915"), all("dma_fence"), one("sched", "missing"), again];
        let (found, refused) = offered_at(tracefs.path(), &wanted);
        assert!(refused.is_none(), "what is not there is not refused");
        let names: Vec<_> =
            found.offers.iter().map(|offer| (offer.name.as_str(), offer.format.id)).collect();
        assert_eq!(names, [("emit", 1), ("signaled", 2)]);
        assert_eq!(found.unreadable, ["drm/vblank"]);
    }

    fn all(system: &str) -> TracepointSelector<'_> {
        TracepointSelector { system, event: None }
    }

    fn one<'a>(system: &'a str, event: &'a str) -> TracepointSelector<'a> {
        TracepointSelector { system, event: Some(event) }
    }
}
