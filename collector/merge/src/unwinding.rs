//! Stacks that were cut because an unwind table was not made yet, walked on when the recording has
//! ended.

use std::collections::hash_map::Entry;
use std::fmt::Debug;

use rustc_hash::FxHashMap;
use syscollect_model::{Lane, Ticks};
use syscollect_playback::{Locator, ModuleKey};
use syscollect_records::stack_ending;
use syscollect_store::UnwoundStack;

/// Walks stacks that a recording has just brought.
pub trait Unwinder: Debug {
    /// The callers of the last frame of a stack that was cut because a table was not made yet;
    /// `None` where no more is known of it than the recording has.
    fn callers(&mut self, stack: UserStack<'_>, code: ProcessCode<'_>) -> Option<UnwoundStack>;

    /// A stack that ended in any other way: for who walks it again, to compare.
    fn check(&mut self, stack: UserStack<'_>, code: ProcessCode<'_>) {
        let _ = (stack, code);
    }
}

/// A user stack as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The lane of its definition.
    pub lane: Lane,
    /// Its id there.
    pub id: u32,
    /// Where its frames are, the innermost first.
    pub addresses: &'a [u64],
    /// Why it lacks its outer frames, one of `syscollect_records::stack_ending`, or 0.
    pub truncated: u32,
}

/// What a process had mapped as code when a stack was recorded.
#[derive(Debug)]
pub struct ProcessCode<'a> {
    pub(crate) locator: &'a mut Locator,
    pub(crate) pid: u32,
    pub(crate) at: Ticks,
    pub(crate) epoch: usize,
}

impl ProcessCode<'_> {
    /// The module at an address, and the offset in its file.
    pub fn at(&mut self, address: u64) -> Option<(&ModuleKey, u64)> {
        let located = self.locator.user(self.pid, self.at, self.epoch, address);
        Some((self.locator.code.module(located.module?), located.offset))
    }

    /// Whose code it is.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process has mapped a file at such a path. Looks at all mappings.
    pub fn has_mapped(&self, is_it: impl Fn(&str) -> bool) -> bool {
        let mut mappings = self.locator.spaces.iter();
        mappings.any(|mapping| mapping.pid == self.pid && is_it(&mapping.path))
    }

    /// Whether all that was mapped is known, so that an address without a module is no code.
    pub fn knows_all(&self) -> bool {
        self.locator.knows_all(self.pid, self.at)
    }
}

/// What was found of stacks that were cut, by the lane of their definition and their id there.
#[derive(Debug, Default)]
pub(crate) struct UnwoundStacks {
    known: FxHashMap<(Lane, u32), UnwoundStack>,
    /// What the capture does not say yet.
    new: Vec<(Lane, u32)>,
}

impl UnwoundStacks {
    /// Adds what a capture says.
    pub(crate) fn add(&mut self, definitions: Vec<UnwoundStack>) {
        let known = definitions.into_iter();
        self.known.extend(known.filter_map(|stack| Some(((stack.lane()?, stack.id), stack))));
    }

    /// The callers of a stack's last frame, if it was cut and they are known or can be found.
    pub(crate) fn callers(
        &mut self,
        stack: UserStack<'_>,
        unwinder: Option<&mut dyn Unwinder>,
        code: ProcessCode<'_>,
    ) -> Option<&UnwoundStack> {
        if stack.truncated != stack_ending::NO_TABLE_YET {
            unwinder?.check(stack, code);
            return None;
        }
        let key = (stack.lane, stack.id);
        match self.known.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(unknown) => {
                let found = unwinder?.callers(stack, code)?;
                self.new.push(key);
                Some(unknown.insert(found))
            }
        }
    }

    /// What the capture does not say; nothing of it is needed any more.
    pub(crate) fn take_new(&mut self) -> Vec<UnwoundStack> {
        let new = std::mem::take(&mut self.new);
        let mut known = std::mem::take(&mut self.known);
        new.iter().filter_map(|key| known.remove(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::Stacks;
    use syscollect_model::{AddressSpaces, BuildId, LaneKind, Mapping};
    use syscollect_records::{StackHeader, Stamp};

    const LANE: Lane = Lane::new(LaneKind::SampleStack, 0);

    /// Process 1 with code from 0x1000 on.
    fn spaces() -> AddressSpaces {
        let mut spaces = AddressSpaces::default();
        spaces.map(Mapping {
            pid: 1,
            start: 0x1000,
            end: 0x9000,
            file_offset: 0x1000,
            path: "/bin/program".to_owned(),
            build_id: BuildId::default(),
            since: Ticks(0),
        });
        spaces.seal();
        spaces
    }

    /// A chunk with a stack of process 1 that ended in this way.
    fn chunk(id: u32, addresses: &[u64], truncated: u32) -> Vec<u8> {
        let header = StackHeader {
            stamp: Stamp(100),
            id,
            tgid: 1,
            frames: addresses.len() as u16,
            truncated,
            ..StackHeader::default()
        };
        let words = addresses.iter().flat_map(|address| address.to_ne_bytes());
        header.as_bytes().iter().copied().chain(words).collect()
    }

    /// Has one caller for each stack, if its code is known.
    #[derive(Debug, Default)]
    struct OneCaller {
        asked: Vec<u32>,
        checked: Vec<u32>,
        modules: Vec<(String, u64)>,
    }

    impl Unwinder for OneCaller {
        fn callers(
            &mut self,
            stack: UserStack<'_>,
            mut code: ProcessCode<'_>,
        ) -> Option<UnwoundStack> {
            assert_eq!((stack.lane, stack.truncated), (LANE, stack_ending::NO_TABLE_YET));
            self.asked.push(stack.id);
            let (module, offset) = code.at(0x2345)?;
            self.modules.push((module.path.clone(), offset));
            assert!(code.at(0x99_0000).is_none() && code.knows_all());
            let (kind, index) = (stack.lane.kind as u16, stack.lane.index);
            let (id, addresses) = (stack.id, vec![0x3001]);
            Some(UnwoundStack { kind, index, id, addresses, ..UnwoundStack::default() })
        }

        fn check(&mut self, stack: UserStack<'_>, _: ProcessCode<'_>) {
            self.checked.push(stack.id);
        }
    }

    fn frames(stacks: &Stacks, id: u32) -> Vec<u64> {
        let code = stacks.code_at(LANE, id).into_iter().flatten();
        code.map(|id| stacks.code().get(*id).offset).collect()
    }

    #[test]
    fn a_stack_whose_table_was_missing_is_walked_on_and_others_are_not() {
        let (mut stacks, mut unwinder) = (Stacks::new(spaces(), Vec::new()), OneCaller::default());
        let data = [
            chunk(1, &[0x1500, 0x2001], stack_ending::NO_TABLE_YET),
            chunk(2, &[0x1600], stack_ending::UNREADABLE),
            chunk(3, &[0x1700], 0),
        ]
        .concat();
        let read = stacks.read(LANE, Ticks(0), &data, Ticks(u64::MAX), Some(&mut unwinder));
        assert_eq!((read.stacks, read.cut), (3, false));
        assert_eq!((&unwinder.asked[..], &unwinder.checked[..]), (&[1][..], &[2, 3][..]));
        assert_eq!(unwinder.modules, [("/bin/program".to_owned(), 0x2345)]);
        assert_eq!(frames(&stacks, 1), [0x1500, 0x2000, 0x3000]);
        assert_eq!(frames(&stacks, 2), [0x1600]);
    }

    #[test]
    fn what_was_found_is_in_the_capture_from_then_on() {
        let data = chunk(7, &[0x1500], stack_ending::NO_TABLE_YET);
        let mut stacks = Stacks::new(spaces(), Vec::new());
        let unwinder = &mut OneCaller::default();
        stacks.read(LANE, Ticks(0), &data, Ticks(u64::MAX), Some(unwinder));
        let found = stacks.unwound.take_new();
        assert_eq!((found.len(), stacks.unwound.take_new().len()), (1, 0));
        let mut later = Stacks::new(spaces(), found);
        later.read(LANE, Ticks(0), &data, Ticks(u64::MAX), None);
        assert_eq!(frames(&later, 7), [0x1500, 0x3000]);
        assert!(later.unwound.take_new().is_empty(), "nothing of it is new");
    }
}
