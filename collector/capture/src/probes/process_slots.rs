//! Places for the processes that a file is attached to one by one.
//!
//! There are few: the kernel asks each of them at every hit of any. So each user has as many as any
//! other who wants them: whoever has more gives way. Of a user's processes those come first that
//! run the file as their program; not of all, for who may map a library can often run it, too.

/// Places of a file.
pub(super) const SLOTS_MAX: usize = 64;

/// A process that has a place, or wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotHolder {
    pub(super) pid: u32,
    /// The user who pays for it.
    pub(super) user: u32,
    /// The file is its program.
    pub(super) runs_it: bool,
    /// When it began, which another process of its number did not.
    pub(super) began: u64,
    /// Stands for what is attached to it.
    pub(super) lease: u64,
}

/// Who has a place.
#[derive(Debug, Default)]
pub(super) struct ProcessSlots {
    holders: Vec<SlotHolder>,
}

impl ProcessSlots {
    /// The process of this number, if it has one.
    pub(super) fn of(&self, pid: u32) -> Option<&SlotHolder> {
        self.holders.iter().find(|holder| holder.pid == pid)
    }

    /// Whether all that have one are such.
    pub(super) fn are_all(&self, is_such: impl Fn(&SlotHolder) -> bool) -> bool {
        self.holders.iter().all(is_such)
    }

    pub(super) fn are_full(&self) -> bool {
        self.holders.len() >= SLOTS_MAX
    }

    /// Gives a process a place; whose place it was, if it was another's. Gives it back where it
    /// gets none.
    pub(super) fn admit(&mut self, new: SlotHolder) -> Result<Option<SlotHolder>, SlotHolder> {
        if !self.are_full() {
            self.holders.push(new);
            return Ok(None);
        }
        // Of those who have most, the one that came last, and of those the file is not the program
        // of.
        let all = self.holders.iter().enumerate();
        let of_most = all
            .clone()
            .max_by_key(|(index, holder)| (self.of_user(holder.user), !holder.runs_it, *index));
        let of_most =
            of_most.filter(|(_, last)| self.of_user(last.user) > self.of_user(new.user) + 1);
        let Some((index, _)) = of_most.or_else(|| {
            all.clone()
                .rfind(|(_, holder)| new.runs_it && holder.user == new.user && !holder.runs_it)
        }) else {
            return Err(new);
        };
        let last = self.holders.remove(index);
        self.holders.push(new);
        Ok(Some(last))
    }

    fn of_user(&self, user: u32) -> usize {
        self.holders.iter().filter(|other| other.user == user).count()
    }

    /// Takes places back that are needed no more.
    pub(super) fn remove(&mut self, is_over: impl Fn(&SlotHolder) -> bool) -> Vec<SlotHolder> {
        let (over, stay) = std::mem::take(&mut self.holders).into_iter().partition(is_over);
        self.holders = stay;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: u32 = 1001;
    const HONEST: u32 = 1002;

    fn maps(user: u32, pid: u32) -> SlotHolder {
        SlotHolder { pid, user, runs_it: false, began: 0, lease: 0 }
    }

    fn runs(user: u32, pid: u32) -> SlotHolder {
        SlotHolder { runs_it: true, ..maps(user, pid) }
    }

    fn admitted(slots: &mut ProcessSlots, all: impl Iterator<Item = SlotHolder>) -> usize {
        all.filter(|holder| slots.admit(*holder).is_ok()).count()
    }

    fn of(slots: &ProcessSlots, user: u32) -> usize {
        slots.holders.iter().filter(|holder| holder.user == user).count()
    }

    #[test]
    fn of_a_users_processes_those_come_first_that_run_the_file() {
        let mut slots = ProcessSlots::default();
        admitted(&mut slots, (0..1_000).map(|pid| maps(HONEST, pid)));
        assert_eq!(of(&slots, HONEST), SLOTS_MAX);
        let programs = (2_000..2_200).map(|pid| runs(HONEST, pid));
        assert_eq!(admitted(&mut slots, programs), SLOTS_MAX);
        assert_eq!(admitted(&mut slots, (0..1_000).map(|pid| maps(HONEST, pid))), 0);
    }

    #[test]
    fn who_runs_a_library_leaves_those_their_places_who_map_it() {
        let mut slots = ProcessSlots::default();
        admitted(&mut slots, (0..1_000).map(|pid| runs(HOSTILE, pid)));
        let half = SLOTS_MAX as u32 / 2;
        assert_eq!(
            admitted(&mut slots, (2_000..2_000 + half).map(|pid| maps(HONEST, pid))),
            half as usize
        );
        assert_eq!(admitted(&mut slots, (3_000..4_000).map(|pid| runs(HOSTILE, pid))), 0);
        assert_eq!(of(&slots, HONEST), half as usize);
    }

    #[test]
    fn each_user_has_as_many_as_any_other_who_wants_them() {
        let mut slots = ProcessSlots::default();
        admitted(&mut slots, (0..1_000).map(|pid| runs(HOSTILE, pid)));
        assert_eq!(admitted(&mut slots, (2_000..2_010).map(|pid| runs(HONEST, pid))), 10);
        let gone = slots.admit(runs(HONEST + 1, 3_000)).unwrap().unwrap();
        assert_eq!((gone.user, gone.pid), (HOSTILE, SLOTS_MAX as u32 - 11), "what came last");
        admitted(&mut slots, (2_010..2_200).map(|pid| runs(HONEST, pid)));
        assert!(of(&slots, HONEST).abs_diff(of(&slots, HOSTILE)) <= 1);
        assert!(slots.of(3_000).is_some() && slots.of(2_199).is_none());
    }

    #[test]
    fn places_of_processes_that_ended_are_free() {
        let mut slots = ProcessSlots::default();
        for start in 0..100 {
            if slots.admit(runs(HONEST, start)).is_err() {
                assert_eq!(slots.remove(|_| true).len(), SLOTS_MAX);
                slots.admit(runs(HONEST, start)).unwrap();
            }
        }
        assert_eq!(slots.holders.len(), 100 - SLOTS_MAX);
    }
}
