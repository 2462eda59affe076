//! How many snapshots are written and named at one time, and whose.

use super::asked::Asker;

/// Snapshots of one kind of asker that are written at one time: whoever asks for many keeps nobody
/// else from having one. So many are named at one time, too.
const MOST_OF_EACH: usize = 2;
/// Snapshots of one kind of asker that are not complete: beyond those that are written, the others
/// have what they hold in their files, and wait for their names.
const MOST_INCOMPLETE_OF_EACH: usize = 10;
/// The same of one trigger.
const MOST_INCOMPLETE_OF_TRIGGER: usize = 2;

/// For whom a snapshot is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// Root, or the user who runs the recorder.
    Owner,
    /// A member of the group: this user.
    Member(u32),
    /// The trigger of that number.
    Trigger(u32),
}

impl Requester {
    /// Nobody waits for it.
    pub(super) fn is_trigger(self) -> bool {
        matches!(self, Self::Trigger(_))
    }

    /// Snapshots of the same that are not complete: a trigger that fires without end leaves places
    /// to those that are rare.
    fn most_incomplete(self) -> usize {
        match self {
            Self::Owner => MOST_INCOMPLETE_OF_EACH,
            Self::Member(_) => 1,
            Self::Trigger(_) => MOST_INCOMPLETE_OF_TRIGGER,
        }
    }

    fn is_of_kind(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl From<Asker> for Requester {
    fn from(asker: Asker) -> Self {
        match asker {
            Asker::Owner => Self::Owner,
            Asker::Member(user) => Self::Member(user),
        }
    }
}

/// What is done with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnapshotStage {
    /// What is held goes to its file.
    Writing,
    /// It has all that was held, and names are not looked for yet.
    Written,
    /// Names are looked for.
    Naming,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TakenPlace {
    requester: Requester,
    stage: SnapshotStage,
}

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Vec<TakenPlace>,
    /// One is named at a time, whoever wants it.
    named_one_by_one: bool,
}

impl Places {
    /// What is read of a snapshot to name it may be as much as the buffer has: one is named at a
    /// time, so that all together take no more memory than the largest.
    pub(super) fn named_one_by_one(&mut self) {
        self.named_one_by_one = true;
    }

    /// Takes one, to write a snapshot.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    pub(super) fn take(&mut self, requester: Requester) -> Result<(), String> {
        let is_members = matches!(requester, Requester::Member(_));
        if is_members && self.count_of_same(requester) >= requester.most_incomplete() {
            return Err(
                "a snapshot of yours is being written: ask again when it is complete".into()
            );
        }
        if !self.has_one_for(requester) {
            let whose = match requester {
                Requester::Owner => "root",
                Requester::Member(_) => "members of its group",
                Requester::Trigger(_) => "its triggers",
            };
            let many = self.count(requester, None);
            return Err(format!(
                "{many} snapshots for {whose} are being written: ask again when one is complete"
            ));
        }
        self.taken.push(TakenPlace { requester, stage: SnapshotStage::Writing });
        Ok(())
    }

    /// Whether there is one.
    pub(super) fn has_one_for(&self, requester: Requester) -> bool {
        self.count(requester, Some(SnapshotStage::Writing)) < MOST_OF_EACH
            && self.count(requester, None) < MOST_INCOMPLETE_OF_EACH
            && self.count_of_same(requester) < requester.most_incomplete()
    }

    /// Whether one that was written may be named now.
    pub(super) fn may_name(&self, requester: Requester) -> bool {
        let naming = Some(SnapshotStage::Naming);
        match self.named_one_by_one {
            true => !self.taken.iter().any(|taken| taken.stage == SnapshotStage::Naming),
            false => self.count(requester, naming) < MOST_OF_EACH,
        }
    }

    /// A snapshot of that requester goes from one stage to the next.
    pub(super) fn pass(&mut self, requester: Requester, from: SnapshotStage, to: SnapshotStage) {
        if let Some(at) = self.position(requester, from) {
            self.taken[at].stage = to;
        }
    }

    /// Gives one back.
    pub(super) fn give_back(&mut self, requester: Requester, stage: SnapshotStage) {
        if let Some(at) = self.position(requester, stage) {
            self.taken.swap_remove(at);
        }
    }

    fn position(&self, requester: Requester, stage: SnapshotStage) -> Option<usize> {
        self.taken.iter().position(|taken| *taken == TakenPlace { requester, stage })
    }

    fn count_of_same(&self, requester: Requester) -> usize {
        self.taken.iter().filter(|taken| taken.requester == requester).count()
    }

    /// How many of that kind of asker there are, at that stage or at any.
    fn count(&self, requester: Requester, stage: Option<SnapshotStage>) -> usize {
        let of_kind = self.taken.iter().filter(|taken| taken.requester.is_of_kind(requester));
        of_kind.filter(|taken| stage.is_none_or(|stage| taken.stage == stage)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::SnapshotStage::{Naming, Writing, Written};
    use super::*;

    #[test]
    fn whoever_asks_for_many_leaves_places_to_the_others() {
        let (alice, bob, carol) =
            (Requester::Member(1), Requester::Member(2), Requester::Member(3));
        let mut places = Places::default();
        places.take(alice).unwrap();
        assert!(places.take(alice).unwrap_err().contains("of yours"));
        places.take(bob).unwrap();
        assert!(places.take(carol).unwrap_err().contains("2 snapshots for members"));
        for requester in [Requester::Trigger(0), Requester::Owner] {
            (0..MOST_OF_EACH).for_each(|_| places.take(requester).unwrap());
            assert!(!places.has_one_for(requester) && places.take(requester).is_err());
            places.give_back(requester, Writing);
            assert!(places.has_one_for(requester));
        }
        places.give_back(alice, Writing);
        places.take(carol).unwrap();
        assert!(places.take(alice).is_err());
    }

    #[test]
    fn what_is_written_waits_for_names_and_keeps_nobody_from_writing() {
        let (mut places, root) = (Places::default(), Requester::Owner);
        for _ in 0..MOST_INCOMPLETE_OF_EACH {
            places.take(root).unwrap();
            places.pass(root, Writing, Written);
        }
        assert!(places.take(root).unwrap_err().contains("10 snapshots for root"));
        for _ in 0..MOST_OF_EACH {
            assert!(places.may_name(root));
            places.pass(root, Written, Naming);
        }
        assert!(!places.may_name(root) && places.may_name(Requester::Trigger(0)));
        places.give_back(root, Naming);
        assert!(places.may_name(root) && places.has_one_for(root));
        places.named_one_by_one();
        assert!(!places.may_name(root) && !places.may_name(Requester::Trigger(0)));
    }

    #[test]
    fn a_trigger_that_fires_without_end_leaves_places_to_one_that_is_rare() {
        let mut places = Places::default();
        let [often, rare] = [0, 1].map(Requester::Trigger);
        while places.has_one_for(often) {
            places.take(often).unwrap();
            places.pass(often, Writing, Written);
        }
        assert!(places.has_one_for(rare));
    }

    #[test]
    fn a_member_has_one_until_it_is_complete() {
        let (mut places, alice) = (Places::default(), Requester::Member(1));
        places.take(alice).unwrap();
        for (from, to) in [(Writing, Written), (Written, Naming)] {
            places.pass(alice, from, to);
            assert!(places.take(alice).is_err());
        }
        places.give_back(alice, Naming);
        places.take(alice).unwrap();
    }
}
