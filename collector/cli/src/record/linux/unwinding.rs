//! Stacks whose unwind tables were not made when they were recorded, walked on when the recording
//! has ended: now all tables can be made.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use syscollect_capture::StacksInMemory;
use syscollect_hotspot::may_hold_machine;
use syscollect_merge::{ProcessCode, Unwinder, UserStack};
use syscollect_model::ModuleKind;
use syscollect_playback::ModuleKey;
use syscollect_records::stack_ending;
use syscollect_store::UnwoundStack;
use syscollect_symbolize::PinnedFiles;
use syscollect_untrusted_files::payer;
use syscollect_unwind::{Callers, CodeAt, RowCache, UnwindFile, UnwindRow};

/// How long the tables for one user's stacks take together, at most: unwind information can be made
/// to be costly, and a program can go through all code of the machine. Root has what all have.
const LONGEST_OF_USER: Duration = Duration::from_millis(500);
/// And those for all stacks.
const LONGEST: Duration = Duration::from_secs(3);
/// Rows that are kept; when they are more, all are made anew.
const ROWS_MAX: usize = 2 << 20;

/// Walks on stacks by the pinned files.
#[derive(Debug)]
pub(super) struct LateUnwinder<'a> {
    stacks: StacksInMemory,
    tables: LateTables<'a>,
    /// Stacks that came with their memory though they are whole (`--cross-check`), and those of
    /// them that are walked otherwise here.
    checked: u64,
    different: u64,
}

impl<'a> LateUnwinder<'a> {
    pub(super) fn new(stacks: StacksInMemory, files: &'a PinnedFiles) -> Self {
        let (modules, took, machines) = (HashMap::new(), HashMap::new(), HashMap::new());
        let tables = LateTables { files, modules, rows: 0, took, machines };
        Self { stacks, tables, checked: 0, different: 0 }
    }

    /// How many stacks were walked again, and how many of them otherwise, by name.
    pub(super) fn statistics(&self) -> [(String, u64); 2] {
        let counts = [self.checked, self.different];
        let names = ["user_stacks_cross_checked", "user_stacks_different"];
        std::array::from_fn(|index| (names[index].to_owned(), counts[index]))
    }
}

impl Unwinder for LateUnwinder<'_> {
    fn callers(&mut self, stack: UserStack<'_>, mut code: ProcessCode<'_>) -> Option<UnwoundStack> {
        let UserStack { lane, id, addresses: known, .. } = stack;
        let copy = self.stacks.remove(&(lane, id))?;
        let (tables, user) = (&mut self.tables, payer(copy.user));
        let memory = copy.memory();
        let Callers { addresses, truncated } =
            memory.callers(known.len(), |address| tables.code_at(address, &mut code, user));
        let (machine, kind, index) = (lane.machine, lane.kind as u16, lane.index);
        Some(UnwoundStack { machine, kind, index, id, addresses, truncated })
    }

    /// The kernel programs and this walk go by the same tables: what differs is how they are read.
    fn check(&mut self, stack: UserStack<'_>, mut code: ProcessCode<'_>) {
        let found = self.stacks.remove(&(stack.lane, stack.id));
        let Some(copy) = found else { return };
        let (tables, user) = (&mut self.tables, payer(copy.user));
        let memory = copy.memory();
        let Callers { addresses, truncated } =
            memory.callers(1, |address| tables.code_at(address, &mut code, user));
        let recorded = stack.addresses.get(1..).unwrap_or_default();
        // What lies further up than what was sent is not walked here.
        let is_same = match truncated {
            stack_ending::NO_TABLE_YET | stack_ending::BEYOND_MEMORY => {
                recorded.starts_with(&addresses)
            }
            _ => recorded == addresses && stack.truncated == truncated,
        };
        self.checked += 1;
        self.different += u64::from(!is_same);
    }
}

/// Rows of code, made when they are asked for.
#[derive(Debug)]
struct LateTables<'a> {
    files: &'a PinnedFiles,
    modules: HashMap<ModuleKey, LateModule>,
    /// Rows of all of them.
    rows: usize,
    /// How long tables took so far, by the users for whose stacks they were made.
    took: HashMap<u32, Duration>,
    /// Whether a process is a Java virtual machine.
    machines: HashMap<u32, bool>,
}

/// What a module's file has to unwind by.
#[derive(Debug)]
enum LateModule {
    /// It is not there.
    Missing,
    /// Nothing: its code is walked by frame pointers, as the kernel programs do.
    WithoutTables,
    Rows(RowCache),
}

impl LateModule {
    fn open(files: &PinnedFiles, key: &ModuleKey) -> Self {
        let Some(opened) = files.opened(&key.path, &key.build_id) else { return Self::Missing };
        let file = UnwindFile::read(opened.reader());
        file.map_or(Self::WithoutTables, |file| Self::Rows(RowCache::new(file)))
    }

    fn rows(&mut self) -> Option<&mut RowCache> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Missing | Self::WithoutTables => None,
        }
    }
}

impl LateTables<'_> {
    fn code_at(&mut self, address: u64, code: &mut ProcessCode<'_>, user: u32) -> CodeAt {
        let knows_all = code.knows_all();
        match code.at(address) {
            // Code that is made at run time has frame pointers, if anything; of Java's only the
            // machine knows, while it runs.
            Some((module, _)) if module.kind == ModuleKind::Generated => {
                let is_machine = self.machines.entry(code.pid());
                match is_machine.or_insert_with(|| code.has_mapped(may_hold_machine)) {
                    true => CodeAt::Unknown,
                    false => CodeAt::Row(UnwindRow::default()),
                }
            }
            Some((module, offset)) => {
                self.row(module, offset, user).map_or(CodeAt::Unknown, CodeAt::Row)
            }
            None if knows_all => CodeAt::Nothing,
            None => CodeAt::Unknown,
        }
    }

    /// The row for an offset in a module's file; `None` if the file cannot be asked, or tables for
    /// this user's stacks have taken their time.
    fn row(&mut self, key: &ModuleKey, offset: u64, user: u32) -> Option<UnwindRow> {
        if self.rows > ROWS_MAX {
            self.rows = 0;
            self.modules.values_mut().filter_map(LateModule::rows).for_each(RowCache::clear);
        }
        if !self.modules.contains_key(key) {
            self.modules.insert(key.clone(), LateModule::open(self.files, key));
        }
        let module = match self.modules.get_mut(key)? {
            LateModule::Missing => return None,
            LateModule::WithoutTables => return Some(UnwindRow::default()),
            LateModule::Rows(rows) => rows,
        };
        if module.has(offset) {
            return Some(module.row(offset));
        }
        if !may_take_time(&self.took, user) {
            return None;
        }
        let (began, before) = (Instant::now(), module.rows());
        let row = module.row(offset);
        self.rows += module.rows() - before;
        *self.took.entry(user).or_default() += began.elapsed();
        Some(row)
    }
}

/// Whether tables may be made for this user's stacks, after what all and its own took.
fn may_take_time(took: &HashMap<u32, Duration>, user: u32) -> bool {
    let of_user = took.get(&user).copied().unwrap_or_default();
    (user == 0 || of_user < LONGEST_OF_USER) && took.values().sum::<Duration>() < LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{BuildId, Mapping, Ticks};
    use syscollect_unwind::PAGE_BYTES;

    /// The file of this test, pinned as a recording pins it, and where its code lies.
    fn own_program() -> (PinnedFiles, ModuleKey, u64) {
        let path = std::env::current_exe().unwrap();
        let path = path.to_str().unwrap().to_owned();
        let mut mapping = Mapping {
            pid: std::process::id(),
            start: 0,
            end: 0,
            file_offset: 0,
            path: path.clone(),
            build_id: BuildId::default(),
            since: Ticks(0),
        };
        let mut files = PinnedFiles::new();
        assert!(files.pin(&mut mapping, None));
        let file = UnwindFile::from_bytes(std::fs::read(&path).unwrap()).unwrap();
        let code = file.code().iter().map(|range| range.start).max().unwrap();
        (files, ModuleKey::mapped(&path, &mapping.build_id), code)
    }

    #[test]
    fn rows_are_made_of_files_that_are_held() {
        let (files, key, code) = own_program();
        let mut tables = LateUnwinder::new(StacksInMemory::default(), &files).tables;
        assert!(tables.row(&key, code + 64, 1000).is_some());
        let other = ModuleKey { path: "/nowhere".to_owned(), ..key.clone() };
        assert_eq!(tables.row(&other, code, 1000), None);
        assert_eq!(tables.modules.len(), 2);
        let made = tables.modules.get_mut(&key).unwrap().rows().unwrap();
        assert!(made.has(code + 64) && !made.has(code + 64 + PAGE_BYTES));
    }

    #[test]
    fn whose_files_took_their_time_waits_and_nobody_else() {
        let took = HashMap::from([(1001, LONGEST_OF_USER), (1002, Duration::from_millis(1))]);
        assert!(!may_take_time(&took, 1001));
        assert!(may_take_time(&took, 1002) && may_take_time(&took, 1003));
        let all: HashMap<u32, Duration> =
            (1001..1010).map(|user| (user, Duration::from_millis(400))).collect();
        assert!(!may_take_time(&all, 2000), "all together have taken theirs");
        assert!(!may_take_time(&all, 0), "whoever records waits for the end");
    }
}
