//! Notes of what was found in files: few, so that they can be read, and of each user's files a
//! share.

use crate::shares::Pool;

/// Notes about nobody's files; and about files of users, of all of them together.
const OF_NOBODY_MAX: usize = 32;
const OF_USERS_MAX: u64 = 32;
/// Under this number of no user are those of whom nothing is known.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// The first that came, each once.
#[derive(Debug)]
pub(super) struct BoundedNotes {
    notes: Vec<String>,
    of_nobody: usize,
    room: Pool,
    left_out: u64,
}

impl Default for BoundedNotes {
    fn default() -> Self {
        let (notes, room) = (Vec::new(), Pool::new(OF_USERS_MAX));
        Self { notes, of_nobody: 0, room, left_out: 0 }
    }
}

impl BoundedNotes {
    /// One more, about a file or a process of a user, or about nobody's.
    pub(super) fn add(&mut self, user: Option<u32>, note: String) {
        if self.notes.contains(&note) {
            return;
        }
        let has_room = match user {
            Some(user) => self.room.take(user, 1),
            None => self.of_nobody < OF_NOBODY_MAX,
        };
        match has_room {
            true => self.notes.push(note),
            false => self.left_out += 1,
        }
        self.of_nobody += usize::from(has_room && user.is_none());
    }

    pub(super) fn all(&self) -> &[String] {
        &self.notes
    }

    /// How many there was no room for.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_about_a_user_s_files_leave_room_for_those_about_others_and_nobody_s() {
        let mut notes = BoundedNotes::default();
        (0..1_000).for_each(|note| notes.add(Some(1001), format!("hostile {note}")));
        assert_eq!((notes.all().len(), notes.left_out()), (16, 984));
        notes.add(Some(1001), "hostile 0".to_owned());
        notes.add(Some(1002), "honest".to_owned());
        (0..10).for_each(|note| notes.add(Some(0), format!("root's {note}")));
        (0..32).for_each(|note| notes.add(None, format!("nobody's {note}")));
        assert_eq!((notes.all().len(), notes.left_out()), (16 + 1 + 10 + 32, 984));
        notes.add(None, "one more".to_owned());
        assert_eq!(notes.left_out(), 985);
    }
}
