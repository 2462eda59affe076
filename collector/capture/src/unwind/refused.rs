//! Files of which no table could be made, and why: for whoever asks what cuts stacks.

use std::sync::{Arc, Mutex, PoisonError};

use syscollect_model::RefusedTable;

use crate::shares::Pool;

/// Files that are kept by name; of a user's programs as many as are left to others.
const FILES_MAX: u64 = 64;

/// Shared by who makes tables and who says what was missing.
#[derive(Clone, Debug)]
pub(crate) struct RefusedTables(Arc<Mutex<Refused>>);

#[derive(Debug)]
struct Refused {
    files: Vec<RefusedTable>,
    room: Pool,
}

impl Default for RefusedTables {
    fn default() -> Self {
        let refused = Refused { files: Vec::new(), room: Pool::new(FILES_MAX) };
        Self(Arc::new(Mutex::new(refused)))
    }
}

impl RefusedTables {
    /// Of this file, which a user's program has mapped, there is no table.
    pub(super) fn add(&self, path: &str, user: u32, reason: &dyn std::fmt::Display) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = refused.files.iter().any(|known| known.path == path);
        if !is_known && refused.room.take(user, 1) {
            refused.files.push(RefusedTable { path: path.to_owned(), reason: reason.to_string() });
        }
    }

    /// All that are kept.
    pub(crate) fn all(&self) -> Vec<RefusedTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).files.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once_and_a_user_with_many_leaves_room_for_others() {
        let refused = RefusedTables::default();
        for number in 0..1_000 {
            refused.add(&format!("/home/a/{number}"), 1001, &"it has no unwind information");
        }
        for _ in 0..3 {
            refused.add("/usr/bin/b", 1002, &"it cannot be read");
        }
        let all = refused.all();
        assert_eq!(all.len() as u64, FILES_MAX / 2 + 1);
        assert_eq!(all.iter().filter(|file| file.path == "/usr/bin/b").count(), 1);
    }
}
