//! How many snapshots are written and named at one time, and whose.

use super::asked::Asker;
use syscollect_triggers::Payer;

/// Snapshots of one kind of asker that are written at one time: whoever asks for many keeps nobody
/// else from having one. So many are named at one time, too.
const MOST_OF_EACH: usize = 2;
/// Of triggers' snapshots so many are written at one time where each beyond the others is of a user
/// of whom none is written.
const MOST_WRITTEN_OF_TRIGGERS: usize = 4;
/// Snapshots of one kind of asker that are not complete: beyond those that are written, the others
/// have what they hold in their files, and wait for their names.
const MOST_INCOMPLETE_OF_EACH: usize = 10;
/// The same of what one user causes of one trigger: a trigger that fires without end writes no more
/// than is named meanwhile, and one that fires now and then does not wait for that.
const MOST_INCOMPLETE_OF_SHARE: usize = 4;

/// What one user causes of one trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TriggerShare {
    /// The trigger's number.
    pub(super) trigger: u32,
    /// Who pays for it.
    pub(super) payer: Payer,
}

/// For whom a snapshot is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// Root, or the user who runs the recorder.
    Owner,
    /// A member of the group: this user.
    Member(u32),
    /// A trigger, for what a user caused.
    Trigger(TriggerShare),
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
            Self::Trigger(_) => MOST_INCOMPLETE_OF_SHARE,
        }
    }

    /// Who pays for a trigger's.
    pub(super) fn payer(self) -> Option<Payer> {
        match self {
            Self::Trigger(share) => Some(share.payer),
            Self::Owner | Self::Member(_) => None,
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

/// Which of the places that are taken it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlaceNumber(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TakenPlace {
    /// The later it was taken, the higher.
    number: PlaceNumber,
    requester: Requester,
    stage: SnapshotStage,
    /// It does without names, and is complete soon: another one has its place already.
    gives_way: bool,
}

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Vec<TakenPlace>,
    next: u64,
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
    pub(super) fn take(&mut self, requester: Requester) -> Result<PlaceNumber, String> {
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
        if self.is_full(requester)
            && let Some(of_most) = self.who_gives_way(requester)
        {
            self.taken[of_most].gives_way = true;
        }
        let number = PlaceNumber(self.next);
        self.next += 1;
        let stage = SnapshotStage::Writing;
        self.taken.push(TakenPlace { number, requester, stage, gives_way: false });
        Ok(number)
    }

    /// Whether there is one, or one that waits for its names gives way.
    pub(super) fn has_one_for(&self, requester: Requester) -> bool {
        self.may_write(requester)
            && self.count_of_same(requester) < requester.most_incomplete()
            && (!self.is_full(requester) || self.who_gives_way(requester).is_some())
    }

    /// Whether one more may be written now.
    fn may_write(&self, requester: Requester) -> bool {
        let written = self.count(requester, Some(SnapshotStage::Writing));
        let is_first = requester.payer().is_some_and(|payer| {
            let of_payer = self.taken.iter().filter(|taken| taken.requester.payer() == Some(payer));
            of_payer.filter(|taken| taken.stage == SnapshotStage::Writing).count() == 0
        });
        written < if is_first { MOST_WRITTEN_OF_TRIGGERS } else { MOST_OF_EACH }
    }

    /// Whether there are as many that are not complete as there may be.
    fn is_full(&self, requester: Requester) -> bool {
        self.incomplete().filter(|taken| taken.requester.is_of_kind(requester)).count()
            >= MOST_INCOMPLETE_OF_EACH
    }

    /// Which snapshot of a trigger does without names for this one: the last of the user with most
    /// of them, if that user has clearly more than this one's, and else of that user's trigger with
    /// most. `None` for others than triggers, and where too many do already.
    fn who_gives_way(&self, requester: Requester) -> Option<usize> {
        let payer = requester.payer()?;
        let giving = self.taken.iter().filter(|taken| taken.gives_way).count();
        if giving >= MOST_INCOMPLETE_OF_EACH {
            return None;
        }
        let of_payer =
            |payer| self.incomplete().filter(|of| of.requester.payer() == Some(payer)).count();
        let own = of_payer(payer);
        let has_clearly_more = |most: usize, own: usize| most > 0 && (own == 0 || most > own + 1);
        let waiting = self.taken.iter().enumerate().filter_map(|(index, taken)| {
            let waits = taken.stage == SnapshotStage::Written && !taken.gives_way;
            Some((index, taken, taken.requester.payer().filter(|_| waits)?))
        });
        let gives_way = waiting.filter(|(_, taken, of)| match *of == payer {
            // Triggers that each fire once wait for each other: none of their snapshots lacks
            // names.
            true => self.count_of_same(taken.requester) > self.count_of_same(requester) + 1,
            false => has_clearly_more(of_payer(*of), own),
        });
        let last_of_most = gives_way.max_by_key(|(_, taken, of)| {
            (of_payer(*of), self.count_of_same(taken.requester), taken.number)
        });
        last_of_most.map(|(index, ..)| index)
    }

    /// Whether it does without names, so that another one is written.
    pub(super) fn gives_way(&self, number: PlaceNumber) -> bool {
        self.taken.iter().any(|taken| taken.number == number && taken.gives_way)
    }

    /// Whether one that was written may be named now.
    pub(super) fn may_name(&self, number: PlaceNumber) -> bool {
        let Some(place) = self.taken.iter().find(|taken| taken.number == number) else {
            return false;
        };
        let naming = Some(SnapshotStage::Naming);
        let is_free = match self.named_one_by_one {
            true => !self.taken.iter().any(|taken| taken.stage == SnapshotStage::Naming),
            false => self.count(place.requester, naming) < MOST_OF_EACH,
        };
        is_free && (!place.requester.is_trigger() || self.next_to_name() == Some(number))
    }

    /// The snapshot of a trigger that is named next: of the user of whom fewest are.
    fn next_to_name(&self) -> Option<PlaceNumber> {
        let waiting = self.taken.iter().filter(|taken| {
            taken.stage == SnapshotStage::Written
                && taken.requester.is_trigger()
                && !taken.gives_way
        });
        let named_of = |payer| {
            let named = self.taken.iter().filter(|taken| taken.stage == SnapshotStage::Naming);
            named.filter(|taken| taken.requester.payer() == payer).count()
        };
        waiting
            .min_by_key(|taken| (named_of(taken.requester.payer()), taken.number))
            .map(|taken| taken.number)
    }

    /// A snapshot goes on to that stage.
    pub(super) fn pass(&mut self, number: PlaceNumber, to: SnapshotStage) {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.number == number) {
            taken.stage = to;
        }
    }

    /// Gives one back.
    pub(super) fn give_back(&mut self, number: PlaceNumber) {
        self.taken.retain(|taken| taken.number != number);
    }

    /// Those that are not complete, and have not given way.
    fn incomplete(&self) -> impl Iterator<Item = &TakenPlace> {
        self.taken.iter().filter(|taken| !taken.gives_way)
    }

    fn count_of_same(&self, requester: Requester) -> usize {
        self.incomplete().filter(|taken| taken.requester == requester).count()
    }

    /// How many of that kind of asker there are, at that stage or at any.
    fn count(&self, requester: Requester, stage: Option<SnapshotStage>) -> usize {
        let of_kind = self.taken.iter().filter(|taken| taken.requester.is_of_kind(requester));
        of_kind.filter(|taken| stage.is_none_or(|stage| taken.stage == stage)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::SnapshotStage::{Naming, Written};
    use super::*;

    fn of(trigger: u32, user: u32) -> Requester {
        Requester::Trigger(TriggerShare { trigger, payer: Payer::User(user) })
    }

    /// As many as there is a place for, of so many triggers of this user, all of them written.
    fn fill(places: &mut Places, triggers: u32, user: u32) -> Vec<PlaceNumber> {
        let mut taken = Vec::new();
        for requester in (0..triggers).map(|trigger| of(trigger, user)) {
            while places.has_one_for(requester) && taken.len() < 100 {
                let number = places.take(requester).unwrap();
                places.pass(number, Written);
                taken.push(number);
            }
        }
        taken
    }

    #[test]
    fn whoever_asks_for_many_leaves_places_to_the_others() {
        let (alice, bob, carol) =
            (Requester::Member(1), Requester::Member(2), Requester::Member(3));
        let mut places = Places::default();
        let of_alice = places.take(alice).unwrap();
        assert!(places.take(alice).unwrap_err().contains("of yours"));
        places.take(bob).unwrap();
        assert!(places.take(carol).unwrap_err().contains("2 snapshots for members"));
        for requester in [of(0, 0), Requester::Owner] {
            let taken = [0; MOST_OF_EACH].map(|_| places.take(requester).unwrap());
            assert!(!places.has_one_for(requester) && places.take(requester).is_err());
            places.give_back(taken[0]);
            assert!(places.has_one_for(requester));
        }
        places.give_back(of_alice);
        places.take(carol).unwrap();
        assert!(places.take(alice).is_err());
    }

    #[test]
    fn what_is_written_waits_for_names_and_keeps_nobody_from_writing() {
        let (mut places, root) = (Places::default(), Requester::Owner);
        let taken = [0; MOST_INCOMPLETE_OF_EACH].map(|_| {
            let number = places.take(root).unwrap();
            places.pass(number, Written);
            number
        });
        assert!(places.take(root).unwrap_err().contains("10 snapshots for root"));
        for number in &taken[..MOST_OF_EACH] {
            assert!(places.may_name(*number));
            places.pass(*number, Naming);
        }
        let trigger = places.take(of(0, 0)).unwrap();
        places.pass(trigger, Written);
        assert!(!places.may_name(taken[5]) && places.may_name(trigger));
        places.give_back(taken[0]);
        assert!(places.may_name(taken[5]) && places.has_one_for(root));
        places.named_one_by_one();
        assert!(!places.may_name(taken[5]) && !places.may_name(trigger));
    }

    #[test]
    fn a_trigger_that_fires_without_end_leaves_places_to_one_that_is_rare() {
        let mut places = Places::default();
        assert_eq!(fill(&mut places, 1, 1001).len(), MOST_INCOMPLETE_OF_SHARE);
        assert!(places.has_one_for(of(1, 1001)));
    }

    #[test]
    fn however_many_triggers_a_user_keeps_busy_what_another_causes_has_its_place_at_once() {
        for (rare, busy) in [(of(3, 1002), 30), (of(40, 1001), 3)] {
            let mut places = Places::default();
            let taken = fill(&mut places, busy, 1001);
            assert_eq!(places.incomplete().count(), MOST_INCOMPLETE_OF_EACH);
            // Those that gave way are complete soon.
            let gone: Vec<_> = taken.iter().copied().filter(|of| places.gives_way(*of)).collect();
            gone.into_iter().for_each(|number| places.give_back(number));
            let number = places.take(rare).unwrap();
            let giving = taken.iter().filter(|of| places.gives_way(**of)).count();
            assert_eq!(giving, 1, "one does without names");
            places.pass(number, Written);
            let naming = taken.iter().find(|of| places.may_name(**of));
            if let Some(naming) = naming.copied() {
                places.pass(naming, Naming);
                // The next one is of whom none is named.
                assert_eq!(places.may_name(number), rare == of(3, 1002));
            }
        }
    }

    #[test]
    fn triggers_of_one_user_that_each_fire_once_wait_for_each_others_names() {
        let mut places = Places::default();
        let taken = (0..MOST_INCOMPLETE_OF_EACH as u32).map(|trigger| {
            let number = places.take(of(trigger, 0)).unwrap();
            places.pass(number, Written);
            number
        });
        let first = taken.collect::<Vec<_>>()[0];
        assert!(!places.has_one_for(of(99, 0)));
        places.give_back(first);
        assert!(places.has_one_for(of(99, 0)));
    }

    #[test]
    fn while_one_users_are_written_another_has_one_written_too() {
        let mut places = Places::default();
        for trigger in 0..MOST_OF_EACH as u32 {
            places.take(of(trigger, 1001)).unwrap();
        }
        assert!(!places.has_one_for(of(9, 1001)));
        places.take(of(0, 1002)).unwrap();
        assert!(!places.has_one_for(of(1, 1002)));
        places.take(of(0, 0)).unwrap();
        assert!(!places.has_one_for(of(0, 1003)), "there is an end to it");
    }

    #[test]
    fn a_member_has_one_until_it_is_complete() {
        let (mut places, alice) = (Places::default(), Requester::Member(1));
        let number = places.take(alice).unwrap();
        for stage in [Written, Naming] {
            places.pass(number, stage);
            assert!(places.take(alice).is_err());
        }
        places.give_back(number);
        places.take(alice).unwrap();
    }
}
