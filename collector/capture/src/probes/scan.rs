//! Looking into files and attaching to what was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_elf::ReadCache;
use syscollect_model::BuildId;
use syscollect_probes::{
    FileSelector, Function, FunctionSpec, Functions, ProbeError, ProbeSelector, Returns, Spec,
    UsdtProbe, UsdtProbes, did_you_mean, nearest, soname, usdt_probes_of,
};
use syscollect_store::Definition;
use syscollect_untrusted_files::{FileLocation, Reader};
use syscollect_zone_protocol::PROVIDER;

use super::attach::Point;
use super::attaching::{Attaching, NO_ROOM};
use super::bounded_notes::UNKNOWN;
use super::companion;
use super::cost::{AttachScope, Mapper};
use super::counting::{CountRequest, Counting};
use super::files::{FileKey, MappedFile, OpenFile, mapping_of};
use super::found_functions::{AddedFunction, FoundFunctions, InProcess};
use super::keeper::{OneProcess, UprobeKeeper};
use super::known_file::{AttachOutcome, KnownFile};
use super::launch::files_of;
use super::lookups::FoundFunction;
use super::manager::{AttachContext, ManagerReport};
use super::plan::{Plan, Planned, Planner, SpecPart};
use super::presets::{installed_libraries, preset_of};
use super::process_slots::SLOTS_MAX;
use super::program::HitStack;
use super::semaphores;
use super::single::{FileToAttach, begin_of};
use super::single_attaches::{Added, Attacher, SingleAttaches};
use crate::fair_queue::payer_of;

/// Rows of one definition, so that no chunk grows beyond what the store takes.
const DEFINITIONS_AT_ONCE: usize = 4096;
/// Names of probes that are remembered, to tell what is near to one that is not there.
const NAMES_MAX: usize = 20_000;
const NEAREST: usize = 3;
/// Files that are known; beyond that only those are that something is attached to.
const KNOWN_MAX: usize = 131_072;

/// What selectors may name a file by.
struct FileNames<'a> {
    key: FileKey,
    path: &'a Path,
    soname: Option<&'a str>,
    /// The files that specs name by their path.
    named: &'a [(PathBuf, FileKey)],
}

impl FileNames<'_> {
    /// Whether the selector means this file.
    fn is(&self, selector: &FileSelector) -> bool {
        selector.matches(self.path, self.soname)
            || matches!(selector, FileSelector::Path(path) if self.is_named(path))
    }

    /// Whether the selector of probes means this file.
    fn is_of(&self, selector: &ProbeSelector) -> bool {
        selector.file.as_ref().is_none_or(|file| self.is(file))
    }

    fn is_named(&self, path: &Path) -> bool {
        self.named.iter().any(|(own, key)| own == path && *key == self.key)
    }
}

/// Looks into each file once. Dropping it detaches everything.
pub(super) struct Scanner<'a> {
    work: AttachContext,
    reported: &'a ManagerReport,
    planner: Planner,
    known: FxHashMap<FileKey, KnownFile>,
    /// The files that specs name by their path.
    named: Vec<(PathBuf, FileKey)>,
    matched: BTreeSet<SpecPart>,
    /// Of specs of functions whose library was found, why it has none.
    without: BTreeMap<usize, String>,
    names: BTreeSet<String>,
    attaching: Attaching,
    singly: SingleAttaches,
    found: FoundFunctions,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(
        mut work: AttachContext,
        keeper: UprobeKeeper,
        reported: &'a ManagerReport,
    ) -> Self {
        let counting = Counting::new(work.tree.take(), work.asked_by);
        Self {
            work,
            reported,
            planner: Planner::default(),
            known: FxHashMap::default(),
            named: Vec::new(),
            matched: BTreeSet::new(),
            without: BTreeMap::new(),
            names: BTreeSet::new(),
            attaching: Attaching::new(keeper),
            singly: SingleAttaches::new(counting),
            found: FoundFunctions::new(),
        }
    }

    /// The files that specs name by their path, whether or not they run.
    pub(super) fn asked_for_by_path(&mut self) {
        let paths: BTreeSet<PathBuf> =
            self.work.specs.iter().flat_map(Spec::files).filter_map(named_path).collect();
        let mut opened = Vec::new();
        for path in paths {
            match OpenFile::at(&FileLocation::Said(&path), None) {
                Ok(file) => {
                    self.named.push((path.clone(), file.key));
                    opened.push((path, file));
                }
                Err(error) => self.reported.note(format!(
                    "probes in {}: {error}; they are recorded when a program maps a file of that \
                     path",
                    path.display()
                )),
            }
        }
        for (path, file) in opened {
            let path = file.real_path(&path);
            self.file(file, &path.to_string_lossy());
        }
    }

    /// The GPU libraries of this machine, if their calls are recorded: programs load them when they
    /// need them.
    pub(super) fn gpu_libraries(&mut self) {
        if !self.work.gpu {
            return;
        }
        for (_, path) in installed_libraries(Path::new("/")) {
            // What cannot be opened here may be there when it is mapped.
            if let Ok(file) = OpenFile::at(&FileLocation::Named(&path), None) {
                let path = file.real_path(&path);
                self.file(file, &path.to_string_lossy());
            }
        }
    }

    /// A program that will be run, with what belongs to it.
    pub(super) fn program(&mut self, program: &Path) {
        for path in files_of(program, std::env::var_os("PATH").as_deref()) {
            // What is not there will not be run either.
            if let Ok(file) = OpenFile::at(&FileLocation::Named(&path), None) {
                let path = file.real_path(&path);
                self.file(file, &path.to_string_lossy());
            }
        }
    }

    /// A file that a process has mapped; `None` if it cannot be looked into.
    pub(super) fn mapped(&mut self, mapped: &MappedFile) -> Option<KnownFile> {
        // A file that is attached to in single processes is opened for each of them.
        if let Some((key, changed)) = mapped.identity()
            && !self.singly.lacks(key, mapped.pid)
            && let Some(known) = self.known.get(&key).filter(|known| known.holds(changed))
        {
            return Some(known.later());
        }
        match mapped.open() {
            Ok(file) => Some(self.file(file, &mapped.path)),
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied && !self.work.specs.is_empty() {
                    self.reported.note(format!(
                        "files of other users' programs are not searched for probes: {error}"
                    ));
                }
                if error.kind() == io::ErrorKind::TimedOut {
                    let user = payer_of(mapped.pid).unwrap_or(UNKNOWN);
                    self.reported.note_of(
                        user,
                        format!("{} is not searched for probes: {error}", mapped.path),
                    );
                }
                None
            }
        }
    }

    /// A file that a process had mapped which has ended since: the file of that
    /// path here, if its contents are the same. Programs that live shorter than
    /// their mapping events take would never be found otherwise.
    pub(super) fn was_mapped(&mut self, path: &str, build_id: &BuildId) -> Option<KnownFile> {
        OpenFile::of_contents(Path::new(path), build_id).map(|file| self.file(file, path))
    }

    /// A function whose address a program was given. It is attached to in that process alone: the
    /// answer came from its own memory, and a probe that lies wrong would break whoever runs the
    /// file.
    pub(super) fn found(&mut self, found: &FoundFunction) {
        let Some(known) = found.known() else { return };
        let Some((mapped, offset)) = mapping_of(Path::new("/"), found.pid, found.address) else {
            return;
        };
        let Ok(file) = mapped.open() else { return };
        // What a library exports is attached to already.
        let exported = self.planner.is_preset(file.key, offset);
        // Who has ended needs no more of it.
        let (Some(began), Some(user)) = (begin_of(found.pid), payer_of(found.pid)) else { return };
        if exported {
            return;
        }
        let (pid, lease) = (found.pid, self.singly.lease());
        let function = InProcess { file: file.key, offset, pid, began };
        let AddedFunction { is_new, over } =
            self.found.add(function, user, lease, |of| begin_of(of.pid) != Some(of.began));
        self.attaching.let_go(&over, self.reported);
        if !is_new {
            return;
        }
        let mut plan = Plan::default();
        self.planner.found_function(known, &mapped.path, offset, &mut plan);
        self.attach(&file, &mapped.path, plan, Some(OneProcess { pid, lease }));
    }

    fn file(&mut self, file: OpenFile, path: &str) -> KnownFile {
        let looks = match self.known.get(&file.key) {
            Some(known) if known.holds(file.changed) => {
                let known = known.later();
                let Self { singly, attaching, work, reported, .. } = self;
                let mut attacher = Attacher { attaching, work, reported };
                let pid = file.mapped_by_process();
                let is_new = pid.is_some_and(|pid| singly.maps_now(file.key, pid, &mut attacher));
                return KnownFile { is_new, ..known };
            }
            known => KnownFile::next_looks(known),
        };
        self.reported.scanned.fetch_add(1, Ordering::Relaxed);
        let (plan, is_client) = self.plan(&file, path);
        let outcome = self.attach(&file, path, plan, None);
        let (is_new, had_no_room) =
            (outcome == AttachOutcome::Begun, outcome == AttachOutcome::NoRoom);
        if self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, known| known.attached);
        }
        let OpenFile { key, of_root, changed, .. } = file;
        // Processes that map it later may be attached to by themselves.
        let attached = is_new || self.singly.has(key);
        let looked = Instant::now();
        let known = KnownFile {
            is_client,
            attached,
            is_new,
            key,
            of_root,
            looks,
            looked,
            changed,
            had_no_room,
        };
        self.known.insert(key, known);
        known
    }

    /// What to attach in a file, and whether it belongs to an instrumented program.
    fn plan(&mut self, file: &OpenFile, path: &str) -> (Plan, bool) {
        let (cache, owner) = (ReadCache::new(file.file.reader()), file.file.data().uid);
        let mut plan = Plan::default();
        // Whatever else a file has many of is not read where nobody asked for it.
        let UsdtProbes { probes, warnings } = match usdt_probes_of(&cache, |provider| {
            !self.work.specs.is_empty() || provider == PROVIDER.as_bytes()
        }) {
            Ok(found) => found,
            Err(error) => {
                // What is wrong with a file that nobody asked for is of no interest.
                if self.named.iter().any(|(_, key)| *key == file.key) {
                    self.reported.note_of(owner, format!("no probes in {path}: {error}"));
                }
                return (plan, false);
            }
        };
        let is_client = probes.iter().any(|probe| probe.provider == PROVIDER);
        if is_client {
            self.planner.client(path, &probes, &mut plan);
        }
        if !self.work.specs.is_empty() {
            if self.names.len() < NAMES_MAX {
                self.names.extend(
                    probes.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)),
                );
            }
            self.asked_for((file.key, owner), &cache, path, &probes, &mut plan);
        }
        if self.work.gpu
            && let Some(preset) =
                preset_of(Path::new(path), soname(&cache).ok().flatten().as_deref())
            && let Some(note) = self.planner.preset(preset, (file.key, path), &cache, &mut plan)
        {
            self.reported.note_of(owner, note);
        }
        if !plan.matched.is_empty() {
            warnings
                .into_iter()
                .for_each(|warning| self.reported.note_of(owner, format!("{path}: {warning}")));
        }
        if let Some(note) = plan.limit() {
            self.reported.note_of(owner, format!("{path}: {note}"));
        }
        if !plan.matched.is_empty() {
            self.matched.extend(&plan.matched);
            self.reported.set_unmatched(self.unmatched().map(|unmatched| unmatched.what).collect());
        }
        (plan, is_client)
    }

    /// Adds what the specs ask for in a file.
    fn asked_for(
        &mut self,
        (key, owner): (FileKey, u32),
        cache: &ReadCache<Reader>,
        path: &str,
        probes: &[UsdtProbe],
        plan: &mut Plan,
    ) {
        let soname = soname(cache).ok().flatten();
        let Self { work, planner, named, .. } = self;
        let file = FileNames { key, path: Path::new(path), soname: soname.as_deref(), named };
        for (index, spec) in work.specs.iter().enumerate() {
            planner.usdt((index, spec), path, probes, &|selector| file.is_of(selector), plan);
            let Spec::Function(function) = spec else { continue };
            if !file.is(&function.library) {
                continue;
            }
            match functions_of(function, cache) {
                Ok((functions, note)) => {
                    if let Some(note) = note.as_ref().filter(|_| functions.is_empty()) {
                        self.without
                            .entry(index)
                            .or_insert_with(|| format!("{spec}: {path}: {note}"));
                    }
                    note.into_iter().for_each(|note| {
                        self.reported.note_of(owner, format!("{spec}: {path}: {note}"));
                    });
                    planner.functions(index, path, &functions, plan);
                }
                Err(error) => {
                    let why = format!("{spec}: {path}: {error}");
                    self.reported.note_of(owner, why.clone());
                    self.without.entry(index).or_insert(why);
                }
            }
        }
        plan.points.extend(companion::for_python(probes, &plan.points));
    }

    /// Attaches, in all processes or in one.
    fn attach(
        &mut self,
        file: &OpenFile,
        path: &str,
        plan: Plan,
        process: Option<OneProcess>,
    ) -> AttachOutcome {
        if plan.points.is_empty() && plan.rings.is_empty() {
            return AttachOutcome::Nothing;
        }
        if file.may_stop_the_machine(self.work.asked_by) {
            let user = file.file.data().uid;
            self.reported.note_of(user, format!(
                "{path} lies in a file system that a user mounted, and this user could stop the \
                 machine while it is attached to: neither its zones nor its probes are recorded"
            ));
            return AttachOutcome::Nothing;
        }
        let owner = file.file.data().uid;
        if !self.work.awaits(owner) && !self.attaching.has_room(owner) {
            self.reported.unattached().refuse(owner, path, NO_ROOM.to_owned());
            return AttachOutcome::NoRoom;
        }
        let whom = match process {
            Some(_) => AttachScope::Everybody,
            None => self.whom(file, &plan),
        };
        if let AttachScope::Nobody(mapper) = whom {
            self.reported.unattached().refuse(owner, path, excess(&mapper));
            return AttachOutcome::Nothing;
        }
        for some in plan.definitions.chunks(DEFINITIONS_AT_ONCE) {
            self.work.sink.define(&Definition::Probes(some.to_vec()));
        }
        if let Some(note) =
            semaphores::trouble(file.file.reader(), plan.points.iter().chain(&plan.rings))
        {
            self.reported.note_of(owner, format!("{path}: {note}"));
        }
        // Each place that is attached raises the semaphore: where rings are announced comes first,
        // for what is marked from then on is in rings, and nobody would hear of them.
        let what = FileToAttach {
            file: file.clone(),
            path: path.to_owned(),
            owner,
            rings: self.points(owner, path, &plan, plan.rings.iter()),
            hits: self.points(owner, path, &plan, plan.ends_first()),
            is_asked_for: !plan.matched.is_empty(),
        };
        match whom {
            AttachScope::Only(mappers) => self.attach_singly(what, &plan, &mappers),
            _ => {
                let payer = process.and_then(|one| payer_of(one.pid)).unwrap_or(owner);
                // Without descriptors nothing can be attached to either.
                let job = what.job(payer, process);
                AttachOutcome::of_begin(
                    job.is_some_and(|job| self.attaching.begin(job, &self.work, self.reported)),
                )
            }
        }
    }

    /// In whom to attach, as far as the kernel can do that in a time that others can wait for.
    fn whom(&mut self, file: &OpenFile, plan: &Plan) -> AttachScope {
        let wanted = wanted_of(file, plan);
        let census = self.singly.census(&wanted, file.file.file(), file.mapped_by_process());
        let how = if census.by_lists { &self.reported.by_lists } else { &self.reported.by_tree };
        how.fetch_add(1, Ordering::Relaxed);
        self.attaching.used(wanted.owner, census.took);
        census.whom(wanted.owner, has_semaphore(plan))
    }

    /// Attaches in these processes, and in those to come one by one.
    fn attach_singly(
        &mut self,
        what: FileToAttach,
        plan: &Plan,
        mappers: &[Mapper],
    ) -> AttachOutcome {
        let (owner, path, wanted) = (what.owner, what.path.clone(), wanted_of(&what.file, plan));
        let Self { singly, attaching, work, reported, .. } = self;
        let mut attacher = Attacher { attaching, work, reported };
        let added = singly.add(what, wanted, has_semaphore(plan), mappers, &mut attacher);
        let Ok(Added { is_begun, instead_of }) = added else {
            self.reported.unattached().refuse(owner, &path, NO_ROOM.to_owned());
            return AttachOutcome::NoRoom;
        };
        // Who runs that one next has it looked into anew.
        instead_of.map(|idle| self.known.remove(&idle));
        let why = format!(
            "other processes have it mapped so often, or keep their mappings from being counted, \
             that it is recorded only in processes that are attached to one by one, at most \
             {SLOTS_MAX}, and for a while not in what these fork"
        );
        self.reported.unattached().refuse(owner, &path, why);
        AttachOutcome::of_begin(is_begun)
    }

    fn points<'p>(
        &mut self,
        owner: u32,
        path: &str,
        plan: &Plan,
        planned: impl Iterator<Item = &'p Planned>,
    ) -> Vec<Point> {
        let arguments = &mut self.work.arguments;
        let definitions = plan.definitions.iter();
        let stacks: FxHashMap<u32, HitStack> =
            definitions.map(|one| (one.probe, HitStack::of(one.role))).collect();
        planned
            .map(|planned| {
                let stack = stacks.get(&planned.probe).copied().unwrap_or(HitStack::None);
                let cookie = arguments.cookie(owner, (planned.probe, stack), &planned.arguments)?;
                Ok::<_, io::Error>(Point {
                    offset: planned.offset,
                    semaphore: planned.semaphore,
                    cookie,
                    at_return: planned.at_return,
                })
            })
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| {
                self.reported.unattached().refuse(owner, path, error.to_string());
                Vec::new()
            })
    }

    /// How long until something that waits is to be attached to; `None` if nothing waits.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        let count = self.singly.next_count(Instant::now());
        self.attaching.next_turn().into_iter().chain(count).min()
    }

    /// Goes on with what waits, if it is time.
    pub(super) fn attach_waiting(&mut self) {
        self.attaching.go_on(&self.work, self.reported);
        let Self { singly, attaching, work, reported, .. } = self;
        let mut attacher = Attacher { attaching, work, reported };
        // Who maps that one next has it looked into anew.
        if let Some(key) = singly.recount(Instant::now(), &mut attacher) {
            self.known.remove(&key);
        }
    }

    /// Whether somebody took away all that is attached, which is then said.
    pub(super) fn is_detached(&self) -> bool {
        let has_ended = self.attaching.keeper.has_ended();
        if has_ended {
            self.reported.note(format!(
                "process {} (uprobe-keeper), which held what was attached to programs, was killed: \
                 neither zones nor probes are recorded from then on",
                self.attaching.keeper.pid()
            ));
        }
        has_ended
    }

    /// Says which specs match nothing in all that was looked at, and which of them never will.
    pub(super) fn report_unmatched(&self) {
        self.reported.set_unmatched(self.unmatched().map(|unmatched| unmatched.what).collect());
        for Unmatched { what, near, why_never } in self.unmatched() {
            match why_never {
                Some(why) => self.reported.never(why),
                None => {
                    let note = format!(
                        "{what} matched nothing when the recording began{near}; programs that \
                         start later are watched"
                    );
                    self.reported.note_unmatched(what, note);
                }
            }
        }
    }

    /// What matches nothing so far.
    fn unmatched(&self) -> impl Iterator<Item = Unmatched> {
        self.work.specs.iter().enumerate().filter_map(|(index, spec)| {
            let parts = match spec {
                Spec::Usdt(probe) => vec![spelled(probe)],
                Spec::Zone(zone) => {
                    std::iter::once(&zone.begin).chain(&zone.ends).map(spelled).collect()
                }
                Spec::Function(_) => vec![String::new()],
            };
            let is_missing =
                |probe: usize| !self.matched.contains(&SpecPart { spec: index, probe });
            let missing: Vec<&str> = parts
                .iter()
                .zip(0..)
                .filter(|(_, probe)| is_missing(*probe))
                .map(|(name, _)| name.as_str())
                .collect();
            if missing.is_empty() {
                return None;
            }
            let near = did_you_mean(&nearest(missing[0], &self.names, NEAREST));
            let what = match missing.len() < parts.len() {
                true => format!("{} of {spec}", missing.join(" and ")),
                false => spec.to_string(),
            };
            let why_never = match spec {
                Spec::Function(_) => self.without.get(&index).cloned(),
                // Of several ends one may be absent.
                _ if !is_missing(0) && missing.len() + 1 < parts.len() => None,
                _ => self.has_all_files(spec).then(|| format!("{what} matches nothing{near}")),
            };
            Some(Unmatched { what, near, why_never })
        })
    }

    /// Whether the spec names its files by their paths, and all of them were looked into.
    fn has_all_files(&self, spec: &Spec) -> bool {
        spec.files().into_iter().all(|selector| match selector {
            Some(FileSelector::Path(path)) => self.named.iter().any(|(known, _)| known == path),
            _ => false,
        })
    }
}

fn named_path(selector: Option<&FileSelector>) -> Option<PathBuf> {
    match selector {
        Some(FileSelector::Path(path)) => Some(path.clone()),
        _ => None,
    }
}

fn spelled(selector: &ProbeSelector) -> String {
    format!("{}:{}", selector.provider, selector.name)
}

/// What is to be counted before a file is attached to.
fn wanted_of(file: &OpenFile, plan: &Plan) -> CountRequest {
    let offsets = plan.points.iter().chain(&plan.rings).map(|place| place.offset);
    let (first, last) = (offsets.clone().min().unwrap_or(0), offsets.max().unwrap_or(0));
    CountRequest {
        file: file.key,
        bytes: first..last.saturating_add(1),
        owner: file.file.data().uid,
    }
}

fn has_semaphore(plan: &Plan) -> bool {
    plan.points.iter().chain(&plan.rings).any(|place| place.semaphore != 0)
}

fn excess(Mapper { pid, mappings, .. }: &Mapper) -> String {
    format!(
        "process {pid} of the same user has it mapped at least {mappings} times, and nobody could \
         fork while the kernel attaches to each"
    )
}

/// A spec, or a part of one, that matches nothing so far.
struct Unmatched {
    /// As the user is told of it.
    what: String,
    /// What is near to it, in words.
    near: String,
    /// Why it will match nothing in what is there, if that is known.
    why_never: Option<String>,
}

/// Functions, and how they return.
type Returning = Vec<(Function, Returns)>;

/// The functions of a file that a spec asks for, with how they return, and what to say of those
/// that are left out.
fn functions_of(
    spec: &FunctionSpec,
    cache: &ReadCache<Reader>,
) -> Result<(Returning, Option<String>), ProbeError> {
    let all = Functions::read(cache)?;
    let (mut functions, mut left_out) = (Vec::new(), Vec::new());
    for function in all.matching(&spec.function, spec.limit)? {
        match all.returns(cache, &function) {
            Ok(returns) => functions.push((function.past_callable_nop(cache), returns)),
            Err(why) => left_out.push((function.name, why)),
        }
    }
    let note = left_out.first().map(|(name, why)| match left_out.len() {
        1 => format!("{name} is left out: {why}"),
        many => format!("{many} functions are left out, of {name} for this reason: {why}"),
    });
    Ok((functions, note))
}
