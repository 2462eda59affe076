//! Attaching to files in single processes, and back in all: who has one mapped, who gets a place,
//! and when it is counted again.

use std::fs::File;
use std::time::{Duration, Instant};

use super::attaching::{AttachJob, Attaching};
use super::cost::{AttachScope, Census, Mapper};
use super::counting::{CountRequest, Counting};
use super::files::FileKey;
use super::keeper::OneProcess;
use super::manager::{AttachContext, ManagerReport};
use super::process_slots::SlotHolder;
use super::single::{Admitted, FileToAttach, NoRoom, SingleFiles};

/// What attaches, as far as it is needed here.
pub(super) trait Attaches {
    /// Attaches, or has it done later; whether anything is attached or will be.
    fn begin(&mut self, job: AttachJob) -> bool;

    /// Has what was attached under these leases taken out.
    fn let_go(&mut self, leases: &[u64]);

    /// Whether a file of this owner would be attached to at once.
    fn is_free_for(&self, owner: u32) -> bool;
}

/// What attaches to programs.
pub(super) struct Attacher<'a> {
    pub(super) attaching: &'a mut Attaching,
    pub(super) work: &'a AttachContext,
    pub(super) reported: &'a ManagerReport,
}

impl Attaches for Attacher<'_> {
    fn begin(&mut self, job: AttachJob) -> bool {
        self.attaching.begin(job, self.work, self.reported)
    }

    fn let_go(&mut self, leases: &[u64]) {
        self.attaching.let_go(leases, self.reported);
    }

    fn is_free_for(&self, owner: u32) -> bool {
        self.work.awaits(owner) || self.attaching.has_share(owner)
    }
}

/// Files that are attached to in single processes, and what counts those.
pub(super) struct SingleAttaches {
    files: SingleFiles,
    counting: Counting,
}

/// What became of a file that is to be attached to in single processes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Added {
    /// It is attached to in some.
    pub(super) is_begun: bool,
    /// The file that it took the place of: whoever runs that next has it looked into anew.
    pub(super) instead_of: Option<FileKey>,
}

impl SingleAttaches {
    pub(super) fn new(counting: Counting) -> Self {
        Self { files: SingleFiles::new(), counting }
    }

    /// A lease that nobody has.
    pub(super) fn lease(&mut self) -> u64 {
        self.files.lease()
    }

    /// Whether the file is attached to so.
    pub(super) fn has(&self, key: FileKey) -> bool {
        self.files.get(key).is_some()
    }

    /// Whether it is, and not yet in this process.
    pub(super) fn lacks(&self, key: FileKey, pid: u32) -> bool {
        self.files.lacks(key, pid)
    }

    /// Who has a file mapped that is not attached to yet; `first` runs it just now.
    pub(super) fn census(
        &mut self,
        wanted: &CountRequest,
        file: &File,
        first: Option<u32>,
    ) -> Census {
        self.counting.all(wanted, file, first)
    }

    /// Attaches to a file in these processes, and in those to come one by one.
    pub(super) fn add(
        &mut self,
        what: FileToAttach,
        wanted: CountRequest,
        with_semaphore: bool,
        mappers: &[Mapper],
        attaches: &mut impl Attaches,
    ) -> Result<Added, NoRoom> {
        let key = what.file.key;
        let idle = self.files.add(what, wanted, with_semaphore)?;
        let instead_of = idle.map(|(idle, leases)| {
            attaches.let_go(&leases);
            idle
        });
        Ok(Added { is_begun: self.in_processes(key, mappers, attaches), instead_of })
    }

    /// Attaches in single processes, as far as there are places for them; whether in any.
    fn in_processes(
        &mut self,
        key: FileKey,
        mappers: &[Mapper],
        attaches: &mut impl Attaches,
    ) -> bool {
        let Admitted { new, over } = self.files.admit(key, mappers);
        attaches.let_go(&over);
        let Some(single) = self.files.get(key) else { return false };
        let (attached, not): (Vec<SlotHolder>, Vec<SlotHolder>) =
            new.into_iter().partition(|holder| {
                let process = OneProcess { pid: holder.pid, lease: holder.lease };
                let job = single.what.job(holder.user, Some(process));
                job.is_some_and(|job| attaches.begin(job))
            });
        not.iter().for_each(|holder| self.files.take_back(key, holder.lease));
        !attached.is_empty()
    }

    /// Attaches in the process that maps a file now, if it is attached to in single processes and
    /// not yet in this one; whether it is from now on.
    pub(super) fn maps_now(
        &mut self,
        key: FileKey,
        pid: u32,
        attaches: &mut impl Attaches,
    ) -> bool {
        let lacks = self.lacks(key, pid);
        let Some(single) = self.files.get(key).filter(|_| lacks) else { return false };
        let census = self.counting.one(&single.wanted, single.what.file.file.file(), pid);
        self.in_processes(key, &census.modest(), attaches)
    }

    /// How long until a file is counted again; `None` where there are none.
    pub(super) fn next_count(&self, now: Instant) -> Option<Duration> {
        self.files.next_count(now)
    }

    /// Counts again who has a file mapped that is attached to in single processes, if it is time:
    /// in all, as soon as that can be, and in what others have forked meanwhile. The file that is
    /// attached to nowhere any more, to be looked into anew when somebody maps it.
    pub(super) fn recount(
        &mut self,
        now: Instant,
        attaches: &mut impl Attaches,
    ) -> Option<FileKey> {
        let key = self.files.next(now)?;
        let single = self.files.get(key)?;
        let began = Instant::now();
        let (owner, with_semaphore) = (single.what.owner, single.with_semaphore);
        let census = self.counting.all(&single.wanted, single.what.file.file.file(), None);
        if census.is_whole {
            attaches.let_go(&self.files.keep_only(key, &census.mappers));
        }
        let mut is_nowhere = false;
        match census.whom(owner, with_semaphore) {
            AttachScope::Everybody if attaches.is_free_for(owner) => {
                is_nowhere = !self.in_all(key, attaches);
            }
            // Processes that begin while all others wait would get nothing.
            AttachScope::Everybody => drop(self.in_processes(key, &census.modest(), attaches)),
            AttachScope::Only(mappers) => drop(self.in_processes(key, &mappers, attaches)),
            AttachScope::Nobody(_) => {}
        }
        self.files.took(began.elapsed());
        is_nowhere.then_some(key)
    }

    /// Attaches in all processes instead of single ones; whether it is attached to.
    fn in_all(&mut self, key: FileKey, attaches: &mut impl Attaches) -> bool {
        let Some((what, replaces)) = self.files.remove(key) else { return false };
        let job = what.job(what.owner, None);
        let job = job.map(|job| AttachJob { replaces: replaces.clone(), ..job });
        let is_begun = job.is_some_and(|job| attaches.begin(job));
        if !is_begun {
            attaches.let_go(&replaces);
        }
        is_begun
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::ops::Range;
    use std::path::Path;
    use std::rc::Rc;

    use super::super::files::mapped_files;
    use super::super::mapping_tree::FindMappers;
    use super::*;

    const HONEST: u32 = 1002;
    const HOSTILE: u32 = 1001;
    const LONG: Duration = Duration::from_secs(60);

    /// What attaches, but does not: it remembers what it was asked for.
    struct Kernel {
        is_free: bool,
        refuses: bool,
        /// Of whom, or of all.
        attached: Vec<Option<u32>>,
        let_go: Vec<u64>,
    }

    impl Attaches for Kernel {
        fn begin(&mut self, job: AttachJob) -> bool {
            self.attached.extend((!self.refuses).then_some(job.process.map(|one| one.pid)));
            if !self.refuses {
                self.let_go.extend(job.replaces);
            }
            !self.refuses
        }

        fn let_go(&mut self, leases: &[u64]) {
            self.let_go.extend(leases);
        }

        fn is_free_for(&self, _: u32) -> bool {
            self.is_free
        }
    }

    /// Who has the file mapped, as the kernel says when it is asked.
    type Mapped = Rc<RefCell<Vec<Mapper>>>;

    struct Tree(Mapped);

    impl FindMappers for Tree {
        fn mappers(&self, _: &File, _: &Range<u64>) -> io::Result<Option<Vec<Mapper>>> {
            Ok(Some(self.0.borrow().clone()))
        }
    }

    /// A file that somebody else has mapped again and again, and this process as usual.
    struct SingleScenario {
        singly: SingleAttaches,
        mapped: Mapped,
        kernel: Kernel,
        key: FileKey,
        now: Instant,
    }

    fn mapper(user: u32, pid: u32, mappings: u64) -> Mapper {
        Mapper { pid, user, runs_it: true, mappings, all: mappings }
    }

    fn own() -> Mapper {
        mapper(HONEST, std::process::id(), 1)
    }

    impl SingleScenario {
        fn new() -> Self {
            let mapped = Mapped::default();
            let counting = Counting::of_tree(Box::new(Tree(mapped.clone())));
            let kernel =
                Kernel { is_free: true, refuses: false, attached: Vec::new(), let_go: Vec::new() };
            let mut files = mapped_files(Path::new("/"), std::process::id());
            let key = files.remove(0).1.open().unwrap().key;
            Self { singly: SingleAttaches::new(counting), mapped, kernel, key, now: Instant::now() }
        }

        /// It is attached to in these processes.
        fn attached_in(mappers: &[Mapper]) -> Self {
            let mut world = Self::new();
            *world.mapped.borrow_mut() = mappers.to_vec();
            let mut files = mapped_files(Path::new("/"), std::process::id());
            let file = files.remove(0).1.open().unwrap();
            let (path, rings, hits) = ("/a".to_owned(), Vec::new(), Vec::new());
            let wanted = CountRequest { file: file.key, bytes: 0..1, owner: HONEST };
            let is_asked_for = false;
            let what = FileToAttach { file, path, owner: HONEST, rings, hits, is_asked_for };
            let Self { singly, kernel, .. } = &mut world;
            singly.add(what, wanted, true, mappers, kernel).unwrap();
            world
        }

        fn recount(&mut self) -> Option<FileKey> {
            self.now += LONG;
            self.singly.recount(self.now, &mut self.kernel)
        }
    }

    #[test]
    fn a_process_that_comes_is_attached_to_by_itself_and_once() {
        let mut world = SingleScenario::attached_in(&[]);
        let (key, pid) = (world.key, std::process::id());
        assert!(world.singly.has(key) && world.singly.lacks(key, pid));
        *world.mapped.borrow_mut() = vec![mapper(HOSTILE, 1, 20_000), own()];
        assert!(world.singly.maps_now(key, pid, &mut world.kernel));
        assert!(!world.singly.maps_now(key, pid, &mut world.kernel));
        assert_eq!(world.kernel.attached, [Some(pid)]);
    }

    #[test]
    fn what_is_attached_to_in_all_replaces_what_was_in_single_processes() {
        let mut world = SingleScenario::attached_in(&[own()]);
        assert_eq!(world.recount(), None);
        assert_eq!(world.kernel.attached, [Some(std::process::id()), None]);
        assert_eq!(world.kernel.let_go.len(), 1);
        assert!(!world.singly.has(world.key));
    }

    #[test]
    fn while_all_others_wait_whoever_comes_is_attached_to_by_itself() {
        let mut world = SingleScenario::attached_in(&[]);
        world.kernel.is_free = false;
        world.mapped.borrow_mut().push(own());
        assert_eq!(world.recount(), None);
        assert!(
            world.singly.has(world.key),
            "it is not given up before the others are attached to"
        );
        assert_eq!(world.kernel.attached, [Some(std::process::id())]);
        world.kernel.is_free = true;
        world.recount();
        assert_eq!(world.kernel.attached.last(), Some(&None));
    }

    #[test]
    fn a_file_that_cannot_be_attached_to_in_all_is_looked_into_anew() {
        let mut world = SingleScenario::attached_in(&[own()]);
        world.kernel.refuses = true;
        assert_eq!(world.recount(), Some(world.key));
        assert_eq!(world.kernel.let_go.len(), 1, "nothing stays behind");
    }

    #[test]
    fn a_process_in_which_nothing_could_be_attached_keeps_no_place() {
        let mut world = SingleScenario::attached_in(&[]);
        world.kernel.refuses = true;
        *world.mapped.borrow_mut() = vec![mapper(HOSTILE, 1, 20_000), own()];
        let (key, pid) = (world.key, std::process::id());
        assert!(!world.singly.maps_now(key, pid, &mut world.kernel));
        world.kernel.refuses = false;
        assert!(world.singly.maps_now(key, pid, &mut world.kernel), "it is tried again");
    }

    #[test]
    fn who_maps_the_file_no_more_is_let_go() {
        let mut world = SingleScenario::attached_in(&[own()]);
        *world.mapped.borrow_mut() = vec![mapper(HOSTILE, 1, 20_000)];
        world.recount();
        assert_eq!(world.kernel.let_go.len(), 1);
        assert!(world.singly.lacks(world.key, std::process::id()));
    }
}
