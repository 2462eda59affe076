//! The folder of snapshots that nobody brings a file for.
//!
//! So many of them are kept, those of earlier recorders too. Where there are more, the oldest goes
//! of the trigger that has most: what fires often takes no other's.

use super::places::Requester;
use crate::output::{DraftFile, Target};
use crate::owner::Owner;
use crate::record::backend::files::local_time;
use crate::record::files::{KeepCapture, OutputFiles};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use syscollect_triggers::Payer;

/// How much of a trigger's name the file of its snapshot has.
const LONGEST_TRIGGER: usize = 48;
const PREFIX: &str = "snapshot-";
const ENDS: [&str; 2] = [".syscap", ".syscap.partial"];
/// Digits of the time in a name, and what stands between them.
const TIME: &str = "dddddddd-dddddd";

/// The folder.
#[derive(Clone)]
pub(super) struct SnapshotFolder {
    /// A name in it.
    target: Target,
    kept: Arc<Mutex<KeptSnapshots<Target>>>,
}

impl SnapshotFolder {
    /// Checks that it is there and takes files: who finds out at the first stall has lost it. It
    /// keeps so many snapshots, of which those that root takes are the user's behind sudo.
    pub(super) fn open(folder: &Path, most: usize, owner: Option<Owner>) -> Result<Self> {
        let target = Target::new(&folder.join("snapshot"), true, owner)
            .with_context(|| format!("{} is no folder for snapshots", folder.display()))?;
        // Without a name it leaves nothing, whatever happens.
        let trial = target.draft_to_appear(format!("{PREFIX}trial").into());
        drop(trial.with_context(|| {
            format!("snapshots could not be written into {}: see --folder", folder.display())
        })?);
        let mut kept = KeptSnapshots::new(most);
        #[expect(clippy::disallowed_methods, reason = "a folder that root names for snapshots")]
        let files = std::fs::read_dir(folder)
            .with_context(|| format!("cannot look into {}", folder.display()))?;
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        for name in names {
            if let Some(trigger) = trigger_of(&name) {
                kept.add(trigger, target.beside_unchecked(&name)).iter().for_each(remove_old);
            }
        }
        Ok(Self { target, kept: Arc::new(Mutex::new(kept)) })
    }

    /// A file for a snapshot that a trigger takes, or somebody else if its name is empty; the
    /// oldest go that are too many.
    pub(super) fn draft(
        &self,
        trigger: &str,
        requester: Requester,
    ) -> Result<(OutputFiles, DraftFile)> {
        let trigger = plain(trigger);
        // Until it is there: others look for a free name, too.
        let mut kept = self.kept();
        let stem = match trigger.is_empty() {
            true => format!("{PREFIX}{}", local_time()),
            false => format!("{PREFIX}{}-{trigger}", local_time()),
        };
        let numbered = (2..1000).map(|number| format!("{stem}.{number}"));
        let mut stems = std::iter::once(stem.clone()).chain(numbered);
        let capture = stems.find_map(|stem| {
            let [capture, draft] =
                ENDS.map(|end| self.target.beside_unchecked(format!("{stem}{end}")));
            (draft.is_free() && capture.is_free()).then_some(capture)
        });
        let Some(capture) = capture else { bail!("all names like {stem}.2.syscap are taken") };
        let keep = KeepCapture::Always;
        let files =
            OutputFiles { export: None, capture, keep, standard_output: None, force: false };
        let draft = files.capture.draft_named(files.draft_name())?;
        kept.add(&share_of(&trigger, requester), files.capture.clone()).iter().for_each(remove_old);
        Ok((files, draft))
    }

    /// Nothing is left of one that came to nothing.
    pub(super) fn remove_if_empty(&self, files: &OutputFiles) {
        let is_empty = |data: std::fs::Metadata| data.is_file() && data.len() == 0;
        if std::fs::symlink_metadata(files.capture.path()).is_ok_and(is_empty) {
            remove(&files.capture);
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptSnapshots<Target>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes one of more than are kept, and says so.
fn remove_old(target: &Target) {
    if remove(target) {
        let path = target.path();
        eprint_line!("syscollect: deleted {}: there are more than --most keeps", path.display());
    }
}

/// Whether it was there and is gone.
fn remove(target: &Target) -> bool {
    match target.remove() {
        Ok(()) => true,
        // One that did not come about, or that somebody moved.
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            let path = target.path();
            eprint_line!("syscollect: cannot delete {}: {error}", path.display());
            false
        }
    }
}

/// A trigger's name as file names have it.
fn plain(trigger: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    let plain = trigger.chars().map(|char| if is_plain(char) { char } else { '_' });
    plain.take(LONGEST_TRIGGER).collect()
}

/// Whose share a file takes: what one user has a trigger take keeps those that it took for another.
/// Of those of earlier recorders only the trigger is known.
fn share_of(trigger: &str, requester: Requester) -> String {
    match requester.payer().and_then(Payer::user) {
        Some(user) => format!("{trigger} {user}"),
        None => trigger.to_owned(),
    }
}

/// The trigger of a snapshot by its file's name, empty for none; `None` of other files.
fn trigger_of(name: &str) -> Option<&str> {
    let stem = ENDS.iter().find_map(|end| name.strip_suffix(end))?;
    let rest = stem.strip_prefix(PREFIX)?;
    let (time, rest) = rest.split_at_checked(TIME.len())?;
    let is_time = time.chars().zip(TIME.chars()).all(|(char, of)| match of {
        'd' => char.is_ascii_digit(),
        of => char == of,
    });
    let (trigger, _) = rest.split_once('.').unwrap_or((rest, ""));
    match (is_time, trigger) {
        (true, "") => Some(""),
        (true, trigger) => trigger.strip_prefix('-'),
        (false, _) => None,
    }
}

/// Files, by whose they are.
#[derive(Debug)]
struct KeptSnapshots<T> {
    most: usize,
    count: usize,
    by_trigger: BTreeMap<String, VecDeque<(u64, T)>>,
    added: u64,
}

impl<T> KeptSnapshots<T> {
    fn new(most: usize) -> Self {
        Self { most, count: 0, by_trigger: BTreeMap::new(), added: 0 }
    }

    /// One more is there; those that are too many. The new one stays.
    fn add(&mut self, trigger: &str, file: T) -> Vec<T> {
        self.by_trigger.entry(trigger.to_owned()).or_default().push_back((self.added, file));
        (self.count, self.added) = (self.count + 1, self.added + 1);
        let mut gone = Vec::new();
        while self.count > self.most.max(1)
            && let Some(file) = self.take_oldest()
        {
            gone.push(file);
        }
        gone
    }

    /// The oldest of who has most; of several who do, the oldest of all.
    fn take_oldest(&mut self) -> Option<T> {
        let newest = self.added - 1;
        let oldest = |files: &VecDeque<(u64, T)>| files.front().map_or(u64::MAX, |file| file.0);
        let most = self.by_trigger.iter().filter(|(_, files)| oldest(files) != newest);
        let most = most.max_by_key(|(_, files)| (files.len(), std::cmp::Reverse(oldest(files))));
        let trigger = most?.0.clone();
        let files = self.by_trigger.get_mut(&trigger)?;
        let (_, file) = files.pop_front()?;
        if files.is_empty() {
            self.by_trigger.remove(&trigger);
        }
        self.count -= 1;
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_user_causes_takes_no_snapshot_that_another_caused() {
        use super::super::places::TriggerShare;
        let of = |user| {
            let payer = Payer::User(user);
            share_of("slow", Requester::Trigger(TriggerShare { trigger: 0, payer }))
        };
        let mut kept = KeptSnapshots::new(3);
        kept.add(&of(1001), 0);
        let gone: Vec<u32> = (1..10).flat_map(|number| kept.add(&of(1002), number)).collect();
        assert_eq!(gone, Vec::from_iter(1..8));
    }

    #[test]
    fn a_trigger_that_fires_often_takes_its_own_snapshots_only() {
        let mut kept = KeptSnapshots::new(3);
        assert!(kept.add("crash", 0).is_empty());
        let gone: Vec<u32> = (1..10).flat_map(|number| kept.add("noise", number)).collect();
        assert_eq!(gone, Vec::from_iter(1..8));
        assert_eq!(kept.add("", 10), [8]);
        assert_eq!(kept.add("other", 11), [0], "each has one: the oldest");
        assert_eq!(KeptSnapshots::new(0).add("crash", 0), [0; 0], "one is kept");
    }

    #[test]
    fn snapshots_are_known_by_their_names() {
        let time = "20261128-045303";
        for (name, trigger) in [
            (format!("snapshot-{time}.syscap"), Some("")),
            (format!("snapshot-{time}.2.syscap"), Some("")),
            (format!("snapshot-{time}-crash.syscap"), Some("crash")),
            (format!("snapshot-{time}-a-b_c.7.syscap.partial"), Some("a-b_c")),
            (format!("snapshot-{time}-crash.pftrace"), None),
            ("snapshot-mine.syscap".into(), None),
            (format!("other-{time}.syscap"), None),
        ] {
            assert_eq!(trigger_of(&name), trigger, "{name}");
        }
        assert_eq!(plain("a/b c\u{1b}.d"), "a_b_c__d");
    }

    #[test]
    fn snapshots_of_earlier_recorders_count() {
        let place = tempfile::tempdir().unwrap();
        let names = ["20261128-01", "20261128-02", "20261128-03"];
        for name in names.map(|time| format!("snapshot-{time}0000-crash.syscap")) {
            std::fs::write(place.path().join(name), "x").unwrap();
        }
        std::fs::write(place.path().join("mine.syscap"), "x").unwrap();
        let folder = SnapshotFolder::open(place.path(), 2, None).unwrap();
        let (files, _draft) = folder.draft("crash", Requester::Owner).unwrap();
        assert!(files.capture.is_free(), "it has its name when it is complete");
        let mut left: Vec<_> = std::fs::read_dir(place.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.contains("partial"))
            .collect();
        left.sort_unstable();
        assert_eq!(left, ["mine.syscap", "snapshot-20261128-030000-crash.syscap"]);
    }
}
