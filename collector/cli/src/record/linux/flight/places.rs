//! How many snapshots are written at one time, and whose.

use super::asked::Asker;

/// Snapshots of one kind of asker that are written at one time: whoever asks for many keeps nobody
/// else from having one.
const MOST_OF_EACH: usize = 2;

/// For whom a snapshot is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// Root, or the user who runs the recorder.
    Owner,
    /// A member of the group: this user.
    Member(u32),
    /// A trigger.
    Trigger,
}

impl From<Asker> for Requester {
    fn from(asker: Asker) -> Self {
        match asker {
            Asker::Owner => Self::Owner,
            Asker::Member(user) => Self::Member(user),
        }
    }
}

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Vec<Requester>,
}

impl Places {
    /// Takes one.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    pub(super) fn take(&mut self, requester: Requester) -> Result<(), String> {
        if matches!(requester, Requester::Member(_)) && self.taken.contains(&requester) {
            return Err(
                "a snapshot of yours is being written: ask again when it is complete".into()
            );
        }
        if !self.has_one_for(requester) {
            let whose = match requester {
                Requester::Owner => "root",
                Requester::Member(_) => "members of its group",
                Requester::Trigger => "its triggers",
            };
            return Err(format!(
                "{MOST_OF_EACH} snapshots for {whose} are being written: ask again when one is \
                 complete"
            ));
        }
        self.taken.push(requester);
        Ok(())
    }

    /// Whether there is one.
    pub(super) fn has_one_for(&self, requester: Requester) -> bool {
        let kind = std::mem::discriminant(&requester);
        let of_kind = self.taken.iter().filter(|taken| std::mem::discriminant(*taken) == kind);
        of_kind.count() < MOST_OF_EACH
    }

    /// Gives it back.
    pub(super) fn give_back(&mut self, requester: Requester) {
        if let Some(at) = self.taken.iter().position(|taken| *taken == requester) {
            self.taken.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
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
        for requester in [Requester::Trigger, Requester::Owner] {
            (0..MOST_OF_EACH).for_each(|_| places.take(requester).unwrap());
            assert!(!places.has_one_for(requester) && places.take(requester).is_err());
            places.give_back(requester);
            assert!(places.has_one_for(requester));
        }
        places.give_back(alice);
        places.take(carol).unwrap();
        assert!(places.take(alice).is_err());
    }
}
