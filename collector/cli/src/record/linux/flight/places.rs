//! How many snapshots are written at one time, and whose.

use super::asked::Asker;

/// Snapshots that are written at one time: each holds what the buffer had when it was taken.
const MOST_AT_ONCE: usize = 3;
/// Those of members of the group: one place stays for root's and the recorder's own.
const MOST_OF_MEMBERS: usize = MOST_AT_ONCE - 1;

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Vec<Asker>,
}

impl Places {
    /// Takes one.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    pub(super) fn take(&mut self, asker: Asker) -> Result<(), String> {
        let of_members = self.taken.iter().filter(|taken| **taken != Asker::Owner).count();
        if asker != Asker::Owner && self.taken.contains(&asker) {
            return Err(
                "a snapshot of yours is being written: ask again when it is complete".into()
            );
        }
        let is_too_much = asker != Asker::Owner && of_members >= MOST_OF_MEMBERS;
        if is_too_much || self.taken.len() >= MOST_AT_ONCE {
            let count = self.taken.len();
            return Err(format!(
                "{count} snapshots are being written: ask again when one is complete"
            ));
        }
        self.taken.push(asker);
        Ok(())
    }

    /// Whether the recorder itself would get one.
    pub(super) fn has_one_for_owner(&self) -> bool {
        self.taken.len() < MOST_AT_ONCE
    }

    /// Gives it back.
    pub(super) fn give_back(&mut self, asker: Asker) {
        if let Some(at) = self.taken.iter().position(|taken| *taken == asker) {
            self.taken.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_one_snapshot_at_a_time_and_a_place_stays_for_the_owner() {
        let (alice, bob, carol) = (Asker::Member(1), Asker::Member(2), Asker::Member(3));
        let mut places = Places::default();
        places.take(alice).unwrap();
        assert!(places.take(alice).unwrap_err().contains("of yours"));
        places.take(bob).unwrap();
        assert!(places.take(carol).unwrap_err().contains("2 snapshots are being written"));
        places.take(Asker::Owner).unwrap();
        assert!(places.take(Asker::Owner).unwrap_err().contains("3 snapshots"));
        assert!(!places.has_one_for_owner());
        places.give_back(alice);
        places.take(carol).unwrap();
        assert!(places.take(alice).is_err());
        places.give_back(Asker::Owner);
        places.take(Asker::Owner).unwrap();
    }

    #[test]
    fn the_owner_may_have_all_of_them() {
        let mut places = Places::default();
        (0..MOST_AT_ONCE).for_each(|_| places.take(Asker::Owner).unwrap());
        assert!(places.take(Asker::Owner).is_err() && places.take(Asker::Member(1)).is_err());
    }
}
