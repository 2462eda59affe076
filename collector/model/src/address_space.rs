//! Which file lay where in whose memory, and when.

use crate::{BuildId, ModuleKind, Ticks};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An executable mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The process.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file that `start` shows, bytes.
    pub file_offset: u64,
    /// The file's path as the process saw it, or `[vdso]`, `//anon`, ...
    pub path: String,
    /// The file's identity, where it is known.
    #[serde(default, skip_serializing_if = "BuildId::is_empty")]
    pub build_id: BuildId,
    /// When it was mapped; 0 for those that were there before the recording.
    pub since: Ticks,
}

impl Mapping {
    /// Whether what lies there was made by the process itself while it ran, by a compiler for
    /// example: no file has its code, so offsets in one say nothing.
    ///
    /// .NET writes code through one mapping of a file in memory and runs it in another, and so does
    /// who makes it with AsmJit, as Erlang.
    pub fn is_generated(&self) -> bool {
        const GENERATED: [&str; 4] = ["[heap]", "[stack]", "/dev/zero", "/memfd:vmem"];
        let path = self.path.trim_end_matches(" (deleted)");
        !self.path.starts_with(['/', '['])
            || path.starts_with("//")
            || path.starts_with("[anon")
            || path.starts_with("/memfd:doublemapper")
            || GENERATED.contains(&path)
    }
}

/// The memory of a process while it ran one program: from an exec, or the fork that made it, to the
/// next exec, or to the next process of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramMemory {
    /// The process.
    pub pid: u32,
    /// When it began; 0 where that was before the recording.
    pub since: Ticks,
    /// When it was gone, as far as that was recorded.
    pub until: Option<Ticks>,
}

impl ProgramMemory {
    /// Whether it was the memory of process `pid` at `at`.
    pub fn was_of(&self, pid: u32, at: Ticks) -> bool {
        self.pid == pid && self.since <= at && self.until.is_none_or(|until| at < until)
    }
}

/// The executable mappings of all processes over time.
///
/// Filled in any order, then [sealed](Self::seal), then asked; and again, as a recording goes on.
#[derive(Clone, Debug, Default)]
pub struct AddressSpaces {
    /// By process, in order of `since`.
    mappings: FxHashMap<u32, Vec<Mapping>>,
    /// By process: when it got an empty address space (exec) or the copy of another (fork).
    resets: FxHashMap<u32, Vec<(Ticks, Option<u32>)>>,
    /// By process, what it was found to have mapped while the recording went on.
    listed: FxHashMap<u32, Vec<Mapping>>,
    /// Processes of which something was added that is not the latest.
    unsorted: FxHashSet<u32>,
    /// See [`Self::mark_incomplete`].
    incomplete: bool,
    vdso: Vdso,
}

/// The kernel's library in programs of 64 bits, which all have the same; its records of what is
/// mapped (`PERF_RECORD_MMAP2`, up to Linux 6.18) do not have its build id.
#[derive(Clone, Debug, Default)]
struct Vdso {
    build_id: BuildId,
    /// Processes that have a mapping of it without its build id.
    to_be_completed: FxHashSet<u32>,
}

impl Vdso {
    /// Those of 32 bits have another one, which they can address.
    fn is(mapping: &Mapping) -> bool {
        mapping.path == ModuleKind::VDSO_PATH && mapping.start > u64::from(u32::MAX)
    }

    fn note(&mut self, mapping: &Mapping) {
        if mapping.build_id.is_empty() {
            self.to_be_completed.insert(mapping.pid);
        } else if self.build_id.is_empty() {
            self.build_id = mapping.build_id.clone();
        }
    }
}

/// Mappings that processes are given of others that are forgotten, at a time.
const MOST_COPIED: usize = 1 << 18;

/// What a process has of the one that forked it.
struct Inherited {
    pid: u32,
    /// When it was forked.
    at: Ticks,
    mappings: Vec<Mapping>,
    is_complete: bool,
}

/// Forgets mappings of before a time behind which another lies by then, in the same place or a
/// larger one. They are in order of time.
fn forget_hidden(list: &mut Vec<Mapping>, until: Ticks) {
    if list.len() < 2 {
        return;
    }
    // The end of what lies over each beginning, the later ones first.
    let mut above = BTreeMap::<u64, u64>::new();
    let mut stays = vec![true; list.len()];
    for (mapping, stays) in list.iter().zip(&mut stays).rev() {
        if mapping.since > until {
            continue;
        }
        let hides = |(_, end): (&u64, &u64)| *end >= mapping.end;
        *stays = !above.range(..=mapping.start).next_back().is_some_and(hides);
        if *stays {
            let end = above.entry(mapping.start).or_default();
            *end = mapping.end.max(*end);
        }
    }
    let mut stays = stays.into_iter();
    list.retain(|_| stays.next().unwrap_or(true));
    if list.capacity() > 4 * list.len() {
        list.shrink_to_fit();
    }
}

impl AddressSpaces {
    /// Adds a mapping; one that is empty is left out.
    pub fn map(&mut self, mapping: Mapping) {
        if mapping.start >= mapping.end {
            return;
        }
        if Vdso::is(&mapping) {
            self.vdso.note(&mapping);
        }
        let list = self.mappings.entry(mapping.pid).or_default();
        if list.last().is_some_and(|last| last.since > mapping.since) {
            self.unsorted.insert(mapping.pid);
        }
        list.push(mapping);
    }

    /// Adds a mapping of a list that was read at `since`: at 0, when the recording began. One that
    /// was read later, because records had been lost, may have been there before.
    pub fn map_listed(&mut self, mapping: Mapping) {
        if mapping.since > Ticks(0) && mapping.start < mapping.end {
            self.listed.entry(mapping.pid).or_default().push(mapping.clone());
        }
        self.map(mapping);
    }

    /// From `at` on, `pid` runs another program: what was mapped before is gone.
    pub fn exec(&mut self, pid: u32, at: Ticks) {
        self.reset(pid, at, None);
    }

    /// From `at` on, `child` begins with what `parent` has mapped.
    pub fn fork(&mut self, parent: u32, child: u32, at: Ticks) {
        self.reset(child, at, Some(parent));
    }

    fn reset(&mut self, pid: u32, at: Ticks, from: Option<u32>) {
        let list = self.resets.entry(pid).or_default();
        if list.last().is_some_and(|(last, _)| *last > at) {
            self.unsorted.insert(pid);
        }
        list.push((at, from));
    }

    /// Sorts what was added; to be called before it is looked for.
    pub fn seal(&mut self) {
        for pid in self.unsorted.drain() {
            if let Some(list) = self.mappings.get_mut(&pid) {
                list.sort_by_key(|mapping| mapping.since);
            }
            if let Some(list) = self.resets.get_mut(&pid) {
                list.sort_by_key(|(at, _)| *at);
            }
        }
        self.complete_vdsos();
    }

    fn complete_vdsos(&mut self) {
        let Vdso { build_id, to_be_completed } = &mut self.vdso;
        if build_id.is_empty() {
            return;
        }
        for pid in to_be_completed.drain() {
            let mappings = self.mappings.get_mut(&pid).into_iter().flatten();
            for mapping in mappings.filter(|mapping| Vdso::is(mapping)) {
                mapping.build_id = build_id.clone();
            }
        }
    }

    /// The mapping that showed `address` in process `pid` at `at`: the newest
    /// one not newer than `at`, since the process's last exec, or what it
    /// inherited from the process that forked it. Where none is known, and its
    /// record was lost, the first one that the same program was found to have later.
    pub fn lookup(&self, pid: u32, at: Ticks, address: u64) -> Option<&Mapping> {
        self.known(pid, at, address).or_else(|| {
            let listed = self.listed.get(&pid)?;
            let memory = self.memory(pid, at);
            listed.iter().find(|m| {
                m.since > at
                    && memory.until.is_none_or(|until| m.since < until)
                    && (m.start..m.end).contains(&address)
            })
        })
    }

    fn known(&self, pid: u32, at: Ticks, address: u64) -> Option<&Mapping> {
        let (mut pid, mut at) = (pid, at);
        // A chain of forks is as long as the tree is deep; the limit ends a
        // cycle that damaged input could describe.
        for _ in 0..64 {
            let reset = self
                .resets
                .get(&pid)
                .and_then(|list| list.iter().rev().find(|(since, _)| *since <= at));
            let since = reset.map_or(Ticks(0), |(since, _)| *since);
            let found = self.mappings.get(&pid).and_then(|list| {
                list.iter().rev().find(|m| {
                    m.since <= at && m.since >= since && (m.start..m.end).contains(&address)
                })
            });
            if found.is_some() {
                return found;
            }
            match reset {
                Some((forked, Some(parent))) => (pid, at) = (*parent, *forked),
                _ => return None,
            }
        }
        None
    }

    /// The memory that `pid` had at `at`.
    pub fn memory(&self, pid: u32, at: Ticks) -> ProgramMemory {
        let resets = self.resets.get(&pid).map_or(&[][..], Vec::as_slice);
        let next = resets.partition_point(|(since, _)| *since <= at);
        let since = next.checked_sub(1).map_or(Ticks(0), |last| resets[last].0);
        ProgramMemory { pid, since, until: resets.get(next).map(|(until, _)| *until) }
    }

    /// Some of what was mapped is not known, whose is not known either.
    pub fn mark_incomplete(&mut self) {
        self.incomplete = true;
    }

    /// Whether every executable mapping of process `pid` at `at` is known, so
    /// that what lies outside of them is no code: since it runs its program
    /// (exec), or from what was noted of it, or of the process that forked it,
    /// when the recording began.
    ///
    /// What was mapped and is gone again counts as known and mapped.
    pub fn is_complete(&self, pid: u32, at: Ticks) -> bool {
        let (mut pid, mut at) = (pid, at);
        // As in a look-up.
        for _ in 0..64 {
            if self.incomplete {
                break;
            }
            let reset = self
                .resets
                .get(&pid)
                .and_then(|list| list.iter().rev().find(|(since, _)| *since <= at));
            match reset {
                Some((forked, Some(parent))) => (pid, at) = (*parent, *forked),
                Some((_, None)) => return true,
                None => {
                    return self
                        .mappings
                        .get(&pid)
                        .is_some_and(|list| list.iter().any(|m| m.since == Ticks(0)));
                }
            }
        }
        false
    }

    /// A number that changes whenever `pid`'s own mappings do: two look-ups of
    /// one address in the same epoch have the same answer.
    pub fn epoch(&self, pid: u32, at: Ticks) -> usize {
        let mappings =
            self.mappings.get(&pid).map_or(0, |list| list.partition_point(|m| m.since <= at));
        let resets =
            self.resets.get(&pid).map_or(0, |list| list.partition_point(|(since, _)| *since <= at));
        mappings + resets
    }

    /// Nobody asks for a time before `until` any more, nor for processes that are not `held`:
    /// forgets what these had, and what others had before. Epochs count anew.
    pub fn forget_before(&mut self, until: Ticks, held: impl Fn(u32) -> bool) {
        let inherited = self.inherited_by(until, &held);
        let Self { mappings, resets, listed, .. } = self;
        resets.retain(|pid, list| {
            let last = list.partition_point(|(at, _)| *at <= until);
            list.drain(..last.saturating_sub(1));
            held(*pid)
        });
        mappings.retain(|pid, list| {
            let began = resets.get(pid).and_then(|list| list.first());
            if let Some((began, _)) = began.filter(|(began, _)| *began <= until) {
                list.retain(|mapping| mapping.since >= *began);
            }
            forget_hidden(list, until);
            held(*pid) && !list.is_empty()
        });
        listed.retain(|pid, list| {
            list.retain(|mapping| mapping.since > until);
            held(*pid) && !list.is_empty()
        });
        self.vdso.to_be_completed.retain(|pid| held(*pid));
        for Inherited { pid, at, mappings, is_complete } in inherited {
            // Those that a process noted at the beginning are of 0.
            let since = if is_complete { Ticks(0) } else { at };
            let own = self.mappings.entry(pid).or_default();
            let copied = mappings.into_iter().map(|mapping| Mapping { pid, since, ..mapping });
            own.splice(0..0, copied);
            if let Some(list) = self.resets.get_mut(&pid) {
                list.remove(0);
            }
        }
        self.resets.retain(|_, list| !list.is_empty());
    }

    /// What processes that are held have of others, of which that is going to be forgotten.
    fn inherited_by(&self, until: Ticks, held: &impl Fn(u32) -> bool) -> Vec<Inherited> {
        let last_reset = |pid: u32| {
            let list = self.resets.get(&pid)?;
            list.iter().rev().find(|(at, _)| *at <= until).copied()
        };
        let forked = self.resets.keys().filter(|pid| held(**pid)).filter_map(|pid| {
            let (at, from) = last_reset(*pid)?;
            let parent = from?;
            // As long as the other runs the same program, it is looked for there.
            let is_there = held(parent) && last_reset(parent).is_none_or(|(reset, _)| reset <= at);
            (!is_there).then_some((*pid, at, parent))
        });
        let mut forked: Vec<(u32, Ticks, u32)> = forked.collect();
        // Where there is no room for all, those with most have nothing.
        forked.sort_by_key(|(_, _, parent)| self.mappings.get(parent).map_or(0, Vec::len));
        let mut copied = 0;
        let inherited = forked.into_iter().map(|(pid, at, parent)| {
            let room = copied < MOST_COPIED;
            let mappings = if room { self.mapped_at(parent, at) } else { Vec::new() };
            copied += mappings.len();
            Inherited { pid, at, mappings, is_complete: room && self.is_complete(pid, at) }
        });
        inherited.collect()
    }

    /// All that a process had mapped at a time, what it has of others first.
    fn mapped_at(&self, pid: u32, at: Ticks) -> Vec<Mapping> {
        let (mut of, mut pieces) = ((pid, at), Vec::new());
        // As in a look-up.
        for _ in 0..64 {
            let (pid, at) = of;
            let resets = self.resets.get(&pid).map_or(&[][..], Vec::as_slice);
            let reset = resets.iter().rev().find(|(since, _)| *since <= at);
            let since = reset.map_or(Ticks(0), |(since, _)| *since);
            let own = self.mappings.get(&pid).map_or(&[][..], Vec::as_slice);
            let own = own.iter().filter(|mapping| (since..=at).contains(&mapping.since));
            pieces.push(own.cloned().collect::<Vec<_>>());
            match reset {
                Some((forked, Some(parent))) => of = (*parent, *forked),
                _ => break,
            }
        }
        let mut all: Vec<Mapping> = pieces.into_iter().rev().flatten().collect();
        forget_hidden(&mut all, Ticks(u64::MAX));
        all
    }

    /// How many mappings, and beginnings of programs, are held.
    pub fn held(&self) -> usize {
        let mappings = self.mappings.values().chain(self.listed.values()).map(Vec::len);
        mappings.chain(self.resets.values().map(Vec::len)).sum()
    }

    /// How many mappings each process has.
    pub fn counts(&self) -> impl Iterator<Item = (u32, usize)> {
        self.mappings.iter().map(|(pid, list)| (*pid, list.len()))
    }

    /// Forgets the earliest half of what a process has mapped; how many these are.
    pub fn forget_half(&mut self, pid: u32) -> usize {
        let Some(list) = self.mappings.get_mut(&pid) else { return 0 };
        let gone = list.len().div_ceil(2);
        list.drain(..gone);
        list.shrink_to_fit();
        gone
    }

    /// Every mapping, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(pid: u32, start: u64, path: &str, since: u64) -> Mapping {
        Mapping {
            pid,
            start,
            end: start + 0x1000,
            file_offset: 0,
            path: path.into(),
            build_id: BuildId::default(),
            since: Ticks(since),
        }
    }

    #[test]
    fn what_a_program_was_found_to_have_later_was_there_where_nothing_else_is_known() {
        let mut spaces = AddressSpaces::default();
        spaces.exec(7, Ticks(10));
        spaces.map(mapping(7, 0x1000, "/bin/known", 11));
        spaces.exec(7, Ticks(100));
        for (start, path, since) in [(0x1000, "/bin/later", 50), (0x5000, "/lib/lost", 50)] {
            spaces.map_listed(mapping(7, start, path, since));
        }
        spaces.seal();
        let path =
            |at, address| spaces.lookup(7, Ticks(at), address).map(|mapping| mapping.path.as_str());
        assert_eq!(path(20, 0x1000), Some("/bin/known"));
        assert_eq!([20, 60].map(|at| path(at, 0x5000)), [Some("/lib/lost"); 2]);
        assert_eq!(path(120, 0x5000), None, "another program");
        assert_eq!(path(5, 0x5000), None, "the program before");
    }

    #[test]
    fn an_address_belongs_to_the_newest_mapping_of_its_time() {
        let mut spaces = AddressSpaces::default();
        spaces.map(mapping(1, 0x1000, "new", 50));
        spaces.map(mapping(1, 0x1000, "old", 0));
        spaces.seal();
        for (at, path) in [(49, "old"), (50, "new")] {
            assert_eq!(spaces.lookup(1, Ticks(at), 0x1800).unwrap().path, path);
        }
        assert_eq!(spaces.lookup(1, Ticks(60), 0x2000), None, "the end is not part of it");
    }

    #[test]
    fn the_vdso_of_programs_that_begin_later_is_that_of_all_of_64_bits() {
        let id = BuildId::from_bytes(&[7; 20]);
        let (wide, narrow) = (0x7fff_0000_1000, 0xf7f0_1000);
        let mut spaces = AddressSpaces::default();
        spaces.map(vdso(1, wide, 10));
        spaces.seal();
        spaces.map(vdso(2, narrow, 10));
        spaces.map(Mapping { build_id: id.clone(), ..vdso(3, wide, 20) });
        spaces.map(vdso(4, wide, 30));
        spaces.seal();
        for pid in [1, 3, 4] {
            assert_eq!(spaces.lookup(pid, Ticks(40), wide).unwrap().build_id, id, "process {pid}");
        }
        assert!(spaces.lookup(2, Ticks(40), narrow).unwrap().build_id.is_empty());
    }

    fn vdso(pid: u32, start: u64, since: u64) -> Mapping {
        mapping(pid, start, ModuleKind::VDSO_PATH, since)
    }

    #[test]
    fn a_child_sees_what_its_parent_had_until_it_runs_another_program() {
        let mut spaces = AddressSpaces::default();
        spaces.map(mapping(1, 0x1000, "parent", 0));
        spaces.map(mapping(1, 0x9000, "after the fork", 20));
        spaces.fork(1, 2, Ticks(10));
        spaces.exec(2, Ticks(30));
        spaces.map(mapping(2, 0x1000, "child", 31));
        spaces.seal();
        for (at, address, path) in [
            (15, 0x1000, Some("parent")),
            (25, 0x9000, None),
            (30, 0x1000, None),
            (31, 0x1000, Some("child")),
        ] {
            let found = spaces.lookup(2, Ticks(at), address);
            assert_eq!(found.map(|mapping| mapping.path.as_str()), path, "at {at}");
        }
        assert_eq!([9, 10, 29, 30, 31].map(|at| spaces.epoch(2, Ticks(at))), [0, 1, 1, 2, 3]);
    }

    #[test]
    fn mappings_are_complete_from_a_note_or_an_exec_on_and_through_forks() {
        let mut spaces = AddressSpaces::default();
        spaces.map(mapping(1, 0x1000, "noted", 0));
        spaces.fork(1, 2, Ticks(10));
        // Nobody said what began this one: it was there, and was not read.
        spaces.map(mapping(3, 0x1000, "mapped later", 20));
        spaces.fork(3, 4, Ticks(30));
        spaces.exec(4, Ticks(40));
        spaces.seal();
        assert_eq!(complete(&spaces), [true, true, false, false, true, false]);
        spaces.mark_incomplete();
        assert_eq!(complete(&spaces), [false; 6]);
    }

    fn complete(spaces: &AddressSpaces) -> [bool; 6] {
        [(1, 5), (2, 15), (3, 25), (4, 35), (4, 45), (5, 45)]
            .map(|(pid, at)| spaces.is_complete(pid, Ticks(at)))
    }

    #[test]
    fn memory_lasts_from_one_program_of_a_process_to_the_next() {
        let mut spaces = AddressSpaces::default();
        spaces.exec(1, Ticks(10));
        spaces.fork(7, 1, Ticks(30));
        spaces.seal();
        let memories = [9, 10, 29, 30].map(|at| spaces.memory(1, Ticks(at)));
        assert_eq!(
            memories.map(|memory| (memory.since.0, memory.until.map(|until| until.0))),
            [(0, Some(10)), (10, Some(30)), (10, Some(30)), (30, None)]
        );
        let [_, second, _, last] = memories;
        assert!(second.was_of(1, Ticks(29)) && !second.was_of(1, Ticks(30)));
        assert!(!second.was_of(2, Ticks(20)), "another process");
        assert!(last.was_of(1, Ticks(u64::MAX)));
    }

    #[test]
    fn what_no_file_holds_was_made_by_the_process() {
        let made = [
            "//anon",
            "",
            "[heap]",
            "[stack]",
            "[anon:v8]",
            "/memfd:doublemapper (deleted)",
            "/memfd:vmem (deleted)",
        ];
        let of_files = ["/bin/a", "/bin/a (deleted)", "[vdso]", "/memfd:runc (deleted)"];
        for path in made {
            assert!(mapping(1, 0, path, 0).is_generated(), "{path}");
        }
        for path in of_files {
            assert!(!mapping(1, 0, path, 0).is_generated(), "{path}");
        }
    }

    #[test]
    fn a_child_keeps_what_it_has_of_a_parent_that_is_forgotten() {
        let mut spaces = AddressSpaces::default();
        spaces.map(mapping(1, 0x1000, "grandparent", 0));
        spaces.fork(1, 2, Ticks(10));
        spaces.map(mapping(2, 0x3000, "parent", 15));
        spaces.map(mapping(2, 0x1000, "over it", 16));
        spaces.fork(2, 3, Ticks(20));
        spaces.map(mapping(2, 0x5000, "not the child's", 21));
        spaces.map(mapping(3, 0x7000, "child", 30));
        spaces.seal();
        spaces.forget_before(Ticks(50), |pid| pid == 3);
        let found = [0x1000, 0x3000, 0x5000, 0x7000].map(|address| {
            spaces.lookup(3, Ticks(60), address).map(|mapping| mapping.path.as_str())
        });
        assert_eq!(found, [Some("over it"), Some("parent"), None, Some("child")]);
        assert!(spaces.is_complete(3, Ticks(60)), "the first was noted at the beginning");
        assert_eq!((spaces.held(), spaces.lookup(2, Ticks(60), 0x3000)), (3, None));
    }

    #[test]
    fn a_process_that_maps_and_executes_without_end_has_what_it_has_now() {
        let mut spaces = AddressSpaces::default();
        for at in 1..10_000 {
            if at % 100 == 0 {
                spaces.exec(1, Ticks(at));
            }
            spaces.map(mapping(1, 0x1000 * (at % 10), "again", at));
            if at % 500 == 499 {
                spaces.forget_before(Ticks(at), |_| true);
                assert!(spaces.held() < 20, "{}", spaces.held());
            }
        }
        assert!(spaces.lookup(1, Ticks(10_000), 0x5800).is_some());
    }

    #[test]
    fn what_comes_later_than_what_is_forgotten_stays_as_it_was() {
        let mut spaces = AddressSpaces::default();
        spaces.map(mapping(1, 0x1000, "first", 5));
        spaces.exec(1, Ticks(10));
        spaces.map(mapping(1, 0x1000, "second", 11));
        spaces.map(mapping(1, 0x1000, "third", 40));
        spaces.exec(1, Ticks(60));
        spaces.seal();
        spaces.forget_before(Ticks(30), |_| true);
        let path = |at| spaces.lookup(1, Ticks(at), 0x1800).map(|mapping| mapping.path.as_str());
        assert_eq!([35, 50, 70].map(path), [Some("second"), Some("third"), None]);
    }

    #[test]
    fn a_circle_of_forks_ends() {
        let mut spaces = AddressSpaces::default();
        spaces.fork(1, 2, Ticks(1));
        spaces.fork(2, 1, Ticks(1));
        spaces.seal();
        assert_eq!(spaces.lookup(1, Ticks(5), 0), None);
        assert!(!spaces.is_complete(1, Ticks(5)));
    }
}
