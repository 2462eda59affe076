//! The folder of snapshots that nobody brings a file for.
//!
//! So many of them are kept, those of earlier recorders too. Where there are more, the oldest goes
//! of the trigger that has most: what fires often takes no other's.
//!
//! Others may be able to make files in it, too. Theirs do not count, and are left alone; names that
//! they have taken are as many as they like, so that the last ones that are tried cannot be
//! guessed.

use super::places::Requester;
use crate::output::{DraftFile, Target};
use crate::owner::Owner;
use crate::record::backend::files::local_time;
use crate::record::files::{KeepCapture, OutputFiles, is_existing};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
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
/// The last number behind a time, when there are several of one second.
const LAST_NUMBER: u32 = 9;
/// Names that nobody can guess are tried so often.
const UNGUESSED: usize = 8;

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
        // Without a name it leaves nothing, whatever happens; where files have one from the
        // beginning, nobody has taken this.
        let trial = target.draft_to_appear(format!("{PREFIX}trial-{}", unguessable()).into());
        drop(trial.with_context(|| {
            format!("snapshots could not be written into {}: see --folder", folder.display())
        })?);
        if let Some(who) = target.folder_changed_by() {
            eprint_line!(
                "syscollect: snapshots in {} can be taken away, moved and replaced by {who}: a \
                 --folder of your own is safe from that",
                folder.display()
            );
        }
        let mut kept = KeptSnapshots::new(most);
        let names = target.names_in_folder();
        let names = names.with_context(|| format!("cannot look into {}", folder.display()))?;
        let mut names: Vec<_> =
            names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        for name in names {
            let Some(trigger) = trigger_of(&name) else { continue };
            let file = target.beside_unchecked(&name);
            if file.own_size().is_some() {
                kept.add(trigger, file).iter().for_each(remove_old);
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
        self.draft_at(&local_time(), trigger, requester)
    }

    fn draft_at(
        &self,
        time: &str,
        trigger: &str,
        requester: Requester,
    ) -> Result<(OutputFiles, DraftFile)> {
        let trigger = plain(trigger);
        // Until it is there: others look for a free name, too.
        let mut kept = self.kept();
        let stem = match trigger.is_empty() {
            true => format!("{PREFIX}{time}"),
            false => format!("{PREFIX}{time}-{trigger}"),
        };
        for stem in stems(&stem) {
            let capture = self.target.beside_unchecked(format!("{stem}{}", ENDS[0]));
            let keep = KeepCapture::Always;
            let files =
                OutputFiles { export: None, capture, keep, standard_output: None, force: false };
            if !files.capture.is_free() {
                continue;
            }
            match files.capture.draft_named(files.draft_name()) {
                Err(error) if is_existing(&error) => {}
                Err(error) => return Err(error),
                Ok(draft) => {
                    let share = share_of(&trigger, requester);
                    kept.add(&share, files.capture.clone()).iter().for_each(remove_old);
                    return Ok((files, draft));
                }
            }
        }
        bail!("all names like {stem}.2.syscap are taken")
    }

    /// Looks after one that came to nothing: nothing is left of one that is empty, and one that
    /// kept its draft's name, as where somebody has taken its own, counts under that.
    pub(super) fn settle(&self, files: &OutputFiles) {
        let draft = files.capture.beside_unchecked(files.draft_name());
        if files.capture.own_size() == Some(0) {
            remove(&files.capture);
        } else if draft.own_size().is_some() {
            self.kept().replace(|file| file.name() == files.capture.name(), draft);
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptSnapshots<Target>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names without their ends, in the order in which they are tried.
fn stems(stem: &str) -> impl Iterator<Item = String> {
    let numbered = (2..=LAST_NUMBER).map(move |number| format!("{stem}.{number}"));
    let unguessed = (0..UNGUESSED).map(move |_| format!("{stem}.{}", unguessable()));
    std::iter::once(stem.to_owned()).chain(numbered).chain(unguessed)
}

/// Sixteen digits that nobody else knows before: keys that the standard library has of the kernel.
fn unguessable() -> String {
    format!("{:016x}", RandomState::new().hash_one(0))
}

/// Deletes one of more than are kept, and says so. What somebody else has put in its place stays.
fn remove_old(target: &Target) {
    if target.own_size().is_some() && remove(target) {
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

    /// One has become another file.
    fn replace(&mut self, is_it: impl Fn(&T) -> bool, by: T) {
        let mut files = self.by_trigger.values_mut().flatten();
        if let Some((_, file)) = files.find(|(_, file)| is_it(file)) {
            *file = by;
        }
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
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

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

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let files = std::fs::read_dir(folder.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }

    /// What lies there that others have made: folders and links, which are never ours, and as root
    /// files of another user.
    fn plant(folder: &tempfile::TempDir, name: &str, number: u32) {
        let path = folder.path().join(name);
        match number % 3 {
            0 => std::fs::create_dir(path).unwrap(),
            1 => symlink("/etc/passwd", path).unwrap(),
            _ => {
                std::fs::write(&path, "x").unwrap();
                if chown(&path, Some(12_345), None).is_err() {
                    std::fs::remove_file(path).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_others_put_into_the_folder_takes_no_snapshot_of_ours() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("snapshot-trial"), "x").unwrap();
        let own = [1, 2, 3].map(|day| format!("snapshot-2026112{day}-000000-old.syscap"));
        own.iter().for_each(|name| std::fs::write(place.path().join(name), "x").unwrap());
        for number in 0..60 {
            let name = format!("snapshot-20270101-0000{number:02}-t{number}.syscap");
            plant(&place, &name, number);
        }
        let before = names(&place);
        let folder = SnapshotFolder::open(place.path(), 3, None).unwrap();
        assert_eq!(names(&place), before, "nothing is deleted");
        let (_, draft) = folder.draft("new", Requester::Owner).unwrap();
        drop(draft);
        let left = names(&place);
        assert_eq!(before.len() - left.len(), 1);
        assert!(!left.contains(&own[0]), "the oldest of three went for the new one");
    }

    #[test]
    fn what_somebody_puts_in_the_place_of_a_snapshot_is_not_deleted() {
        let place = tempfile::tempdir().unwrap();
        let folder = SnapshotFolder::open(place.path(), 1, None).unwrap();
        let (files, draft) = folder.draft("", Requester::Owner).unwrap();
        symlink("/etc/passwd", files.capture.path()).unwrap();
        let error = draft.publish(&files.capture).unwrap_err();
        folder.settle(&files);
        let [link, partial] = names(&place).try_into().unwrap();
        assert!(format!("{error:#}").contains(&partial), "{error:#}");
        drop(folder.draft("", Requester::Owner).unwrap());
        assert_eq!(names(&place), [link], "the draft counts and went, the link stays");
    }

    #[test]
    fn names_that_somebody_takes_in_advance_do_not_run_out() {
        let place = tempfile::tempdir().unwrap();
        let folder = SnapshotFolder::open(place.path(), 20, None).unwrap();
        let stem = "snapshot-20261128-045303";
        for number in std::iter::once(String::new()).chain((2..1000).map(|n| format!(".{n}"))) {
            symlink("/etc/passwd", place.path().join(format!("{stem}{number}.syscap"))).unwrap();
        }
        let taken =
            [0; 3].map(|_| folder.draft_at("20261128-045303", "", Requester::Owner).unwrap());
        for (files, draft) in taken {
            let path = draft.publish(&files.capture).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(trigger_of(name), Some(""), "{name}");
            assert_eq!(name.len(), "snapshot-20261128-045303.0123456789abcdef.syscap".len());
        }
        assert!(std::fs::symlink_metadata("/etc/passwd").unwrap().is_file());
    }

    #[test]
    fn whose_folder_it_is_decides_who_may_change_what_lies_there() {
        let place = tempfile::tempdir().unwrap();
        let changed_by = || {
            let target = Target::new(&place.path().join("snapshot"), true, None).unwrap();
            target.folder_changed_by()
        };
        let mode = |mode| {
            std::fs::set_permissions(place.path(), Permissions::from_mode(mode)).unwrap();
        };
        for (rights, who) in [
            (0o700, None),
            (0o755, None),
            (0o775, None),
            (0o777, Some("everybody")),
            (0o1777, None),
        ] {
            mode(rights);
            assert_eq!(changed_by().as_deref(), who, "{rights:o}");
        }
        // Only root can give it away.
        if chown(place.path(), None, Some(12_345)).is_ok() {
            mode(0o775);
            assert_eq!(changed_by().unwrap(), "members of group 12345");
            chown(place.path(), Some(12_345), None).unwrap();
            mode(0o1700);
            assert_eq!(changed_by().unwrap(), "user 12345");
        }
    }

    #[test]
    fn snapshots_of_earlier_recorders_count() {
        let place = tempfile::tempdir().unwrap();
        let hours = ["20261128-01", "20261128-02", "20261128-03"];
        for name in hours.map(|time| format!("snapshot-{time}0000-crash.syscap")) {
            std::fs::write(place.path().join(name), "x").unwrap();
        }
        std::fs::write(place.path().join("mine.syscap"), "x").unwrap();
        let folder = SnapshotFolder::open(place.path(), 2, None).unwrap();
        let (files, _draft) = folder.draft("crash", Requester::Owner).unwrap();
        assert!(files.capture.is_free(), "it has its name when it is complete");
        let mut left = names(&place);
        left.retain(|name| !name.contains("partial"));
        assert_eq!(left, ["mine.syscap", "snapshot-20261128-030000-crash.syscap"]);
    }
}
