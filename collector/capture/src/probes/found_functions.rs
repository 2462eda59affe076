//! Functions whose addresses programs were given, each of which is attached to in that process
//! alone: of each user's processes a share, as long as these are there.

use rustc_hash::FxHashMap;

use super::files::FileKey;
use crate::shares::Pool;

/// Functions, of all processes together.
const FOUND_MAX: u64 = 1024;

/// A function in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InProcess {
    pub(super) file: FileKey,
    pub(super) offset: u64,
    pub(super) pid: u32,
    /// When the process began, which another one of its number did not.
    pub(super) began: u64,
}

/// What is known of one.
#[derive(Clone, Copy, Debug)]
struct FunctionLease {
    user: u32,
    lease: u64,
}

/// All that were attached to.
#[derive(Debug)]
pub(super) struct FoundFunctions {
    known: FxHashMap<InProcess, FunctionLease>,
    room: Pool,
}

/// What became of one that was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AddedFunction {
    /// It is to be attached to.
    pub(super) is_new: bool,
    /// Leases of those whose processes have ended.
    pub(super) over: Vec<u64>,
}

impl FoundFunctions {
    pub(super) fn new() -> Self {
        Self { known: FxHashMap::default(), room: Pool::new(FOUND_MAX) }
    }

    /// One was found in a process of this user.
    pub(super) fn add(
        &mut self,
        found: InProcess,
        user: u32,
        lease: u64,
        has_ended: impl Fn(&InProcess) -> bool,
    ) -> AddedFunction {
        let mut taken = AddedFunction::default();
        if self.known.contains_key(&found) {
            return taken;
        }
        if self.room.room(user) == 0 {
            for (_, FunctionLease { user, lease }) in self.known.extract_if(|of, _| has_ended(of)) {
                self.room.give_back(user, 1);
                taken.over.push(lease);
            }
        }
        taken.is_new = self.room.take(user, 1);
        if taken.is_new {
            self.known.insert(found, FunctionLease { user, lease });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pid: u32) -> InProcess {
        InProcess { file: FileKey::of_test(1), offset: 7, pid, began: 1 }
    }

    #[test]
    fn each_user_has_room_and_what_has_ended_needs_none() {
        let mut functions = FoundFunctions::new();
        let of_hostile = (0..5_000).filter(|pid| add(&mut functions, *pid, 1001, 0).is_new).count();
        assert_eq!(of_hostile as u64, FOUND_MAX / 2);
        assert_eq!(
            add(&mut functions, 6_000, 1002, 0),
            AddedFunction { is_new: true, over: Vec::new() }
        );
        assert!(!add(&mut functions, 6_000, 1002, 0).is_new, "it is known");
        let mut taken = add(&mut functions, 7_000, 1001, 3);
        taken.over.sort_unstable();
        assert_eq!(taken, AddedFunction { is_new: true, over: vec![0, 1, 2] });
    }

    /// Adds one of a process, when those below `ended` have ended.
    fn add(functions: &mut FoundFunctions, pid: u32, user: u32, ended: u32) -> AddedFunction {
        functions.add(found(pid), user, u64::from(pid), |of| of.pid < ended)
    }
}
