//! Code addresses: module and offset, before they have names.

use crate::Names;
use crate::python::PythonCodes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syscollect_model::{
    AddressSpaces, BuildId, Mapping, ModuleKind, ProgramMemory, SymbolTable, Ticks,
};

/// A row of [`CodeAddresses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeAddressId(pub u32);

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeAddress {
    /// Index of the module; `None` where no mapping is known.
    pub module: Option<u32>,
    /// Offset in the module's file; the address for the kernel, for anonymous
    /// memory and without a module.
    pub offset: u64,
}

/// A file of code, as mappings name it, or the memory of a program that made code itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModuleKey {
    /// What it is.
    pub kind: ModuleKind,
    /// Its path, or that [of its kind](ModuleKind::path).
    pub path: String,
    /// Its identity; empty where it has none.
    pub build_id: BuildId,
    /// Whose memory it is: one address is another function in each.
    pub memory: Option<ProgramMemory>,
}

impl ModuleKey {
    /// What was mapped under that path, with that build id.
    pub fn mapped(path: &str, build_id: &BuildId) -> Self {
        let (path, build_id) = (path.to_owned(), build_id.clone());
        Self { kind: ModuleKind::of_mapping(&path), path, build_id, memory: None }
    }

    /// What a table of symbols names, if it is not of a program's memory. All kernel code is one
    /// module here, whatever its build id.
    pub fn named_by(table: &SymbolTable) -> Self {
        match ModuleKind::of_symbols(&table.path) {
            ModuleKind::Kernel => Self::only(ModuleKind::Kernel),
            kind => Self { kind, ..Self::mapped(&table.path, &table.build_id) },
        }
    }

    /// The module of a kind of which there is one, that has a [path](ModuleKind::path) of its own.
    pub fn only(kind: ModuleKind) -> Self {
        let path = kind.path().unwrap_or_default().to_owned();
        Self { kind, path, build_id: BuildId::default(), memory: None }
    }

    /// Code that a program made while it ran.
    pub fn generated(memory: ProgramMemory) -> Self {
        Self { memory: Some(memory), ..Self::only(ModuleKind::Generated) }
    }

    /// Whether it is code that Python's interpreter reads.
    pub fn is_python(&self) -> bool {
        self.kind == ModuleKind::Python
    }

    /// Whether it is all code of Linux' kernel.
    pub fn is_kernel(&self) -> bool {
        self.kind == ModuleKind::Kernel
    }
}

/// Code of a module that has no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedCode<'m> {
    /// The module.
    pub module: &'m ModuleKey,
    /// Where, the most used first.
    pub offsets: Vec<u64>,
    /// In how many stacks these are, one by one, as far as that is counted.
    pub uses: u64,
}

/// Deduplicated code addresses and modules.
#[derive(Debug, Default)]
pub struct CodeAddresses {
    rows: Vec<CodeAddress>,
    /// In how many stacks each is, as far as that is counted.
    uses: Vec<u32>,
    ids: FxHashMap<CodeAddress, CodeAddressId>,
    modules: Vec<ModuleKey>,
    module_ids: FxHashMap<ModuleKey, u32>,
    /// Files that are kernel code.
    kernel: FxHashSet<u32>,
    /// Functions of Python programs: their offsets in the module of
    /// [their kind](ModuleKind::Python).
    pub python: PythonCodes,
}

impl CodeAddresses {
    /// A code address's row.
    pub fn get(&self, id: CodeAddressId) -> CodeAddress {
        self.rows[id.0 as usize]
    }

    /// Whether it is a place in a function of a Python program.
    pub fn is_python(&self, id: CodeAddressId) -> bool {
        self.get(id).module.is_some_and(|module| self.module(module).is_python())
    }

    /// All code addresses.
    pub fn rows(&self) -> &[CodeAddress] {
        &self.rows
    }

    /// A module's row.
    pub fn module(&self, index: u32) -> &ModuleKey {
        &self.modules[index as usize]
    }

    /// The module is kernel code: a driver, a kernel that is a file like others.
    pub fn mark_kernel(&mut self, module: u32) {
        self.kernel.insert(module);
    }

    /// Whether a module is kernel code: Linux' kernel, or [marked](Self::mark_kernel).
    pub fn is_kernel(&self, module: &ModuleKey) -> bool {
        module.is_kernel()
            || self.module_ids.get(module).is_some_and(|index| self.kernel.contains(index))
    }

    /// One more stack has this code address.
    pub fn count_use(&mut self, id: CodeAddressId) {
        if let Some(uses) = self.uses.get_mut(id.0 as usize) {
            *uses = uses.saturating_add(1);
        }
    }

    /// Modules in which something could be named, with the offsets of their
    /// code addresses that have no name, the most used first; by path, build id and memory. A
    /// function that is known by its range alone has none. Python's have theirs from the program,
    /// or none at all.
    pub fn unnamed(&self, names: &Names) -> Vec<UnnamedCode<'_>> {
        let mut by_module: BTreeMap<u32, Vec<(Reverse<u32>, u64)>> = BTreeMap::new();
        for (located, uses) in self.rows.iter().zip(&self.uses) {
            let Some(module) = located.module else { continue };
            let key = self.module(module);
            if !key.is_python() && !names.has_name(key, located.offset) {
                by_module.entry(module).or_default().push((Reverse(*uses), located.offset));
            }
        }
        let modules = by_module.into_iter().map(|(module, mut code)| {
            code.sort_unstable();
            let uses = code.iter().map(|(Reverse(uses), _)| u64::from(*uses)).sum();
            let offsets = code.into_iter().map(|(_, offset)| offset).collect();
            UnnamedCode { module: self.module(module), offsets, uses }
        });
        let mut modules: Vec<_> = modules.collect();
        modules.sort_by_cached_key(|unnamed| order(unnamed.module));
        modules
    }

    /// The id of a code address, if it has one.
    pub fn find(&self, located: CodeAddress) -> Option<CodeAddressId> {
        self.ids.get(&located).copied()
    }

    /// The id of a code address, added if it is new.
    pub fn intern(&mut self, located: CodeAddress) -> CodeAddressId {
        *self.ids.entry(located).or_insert_with(|| {
            self.rows.push(located);
            self.uses.push(0);
            CodeAddressId(self.rows.len() as u32 - 1)
        })
    }

    /// The row of the Python function at a code address, if one lies there.
    pub fn python_row(&self, id: CodeAddressId) -> Option<u32> {
        self.is_python(id).then(|| PythonCodes::row(self.get(id).offset)).flatten()
    }

    /// Interns a code address of others, whose rows of Python functions have these numbers here.
    pub fn intern_as(
        &mut self,
        others: &Self,
        id: CodeAddressId,
        rows: &FxHashMap<u32, u32>,
    ) -> CodeAddressId {
        let CodeAddress { module, offset } = others.get(id);
        let is_python = others.is_python(id);
        let offset = if is_python { PythonCodes::renumbered(offset, rows) } else { offset };
        let module = module.map(|index| {
            let key = others.module(index);
            let new = self.intern_module(key.clone());
            if others.kernel.contains(&index) {
                self.kernel.insert(new);
            }
            new
        });
        let new = self.intern(CodeAddress { module, offset });
        self.count_use(new);
        new
    }

    /// The index of a module, added if it is new.
    pub fn intern_module(&mut self, key: ModuleKey) -> u32 {
        if let Some(index) = self.module_ids.get(&key) {
            return *index;
        }
        let index = self.modules.len() as u32;
        self.modules.push(key.clone());
        self.module_ids.insert(key, index);
        index
    }
}

fn order(key: &'_ ModuleKey) -> (String, BuildId, Option<ProgramMemory>) {
    (key.path.clone(), key.build_id.clone(), key.memory)
}

/// Answers that are remembered: as many as there are code addresses in a busy recording, and no
/// more.
const KNOWN_MAX: usize = 1 << 18;

/// Turns addresses into code addresses, at the time they were seen.
#[derive(Debug, Default)]
pub struct Locator {
    /// What was mapped where. What is asked for must be there, and [sealed](AddressSpaces::seal).
    pub spaces: AddressSpaces,
    /// Answers by process, epoch of its mappings, and address: the same few
    /// addresses come again in thousands of stacks.
    known: FxHashMap<(u32, usize, u64), CodeAddress>,
    /// Where the code addresses go.
    pub code: CodeAddresses,
}

impl Locator {
    /// With what was mapped where.
    pub fn new(spaces: AddressSpaces) -> Self {
        Self { spaces, ..Self::default() }
    }

    /// Forgets what helps to find further code addresses.
    pub fn forget(&mut self) {
        self.known = FxHashMap::default();
    }

    /// The code address of a kernel address.
    pub fn kernel(&mut self, address: u64) -> CodeAddress {
        let module = self.code.intern_module(ModuleKey::only(ModuleKind::Kernel));
        CodeAddress { module: Some(module), offset: address }
    }

    /// A place in a function of a Python program, as [`PythonCodes::offset`] says.
    pub fn python(&mut self, offset: u64) -> CodeAddress {
        let module = self.code.intern_module(ModuleKey::only(ModuleKind::Python));
        CodeAddress { module: Some(module), offset }
    }

    /// The number to give to [`Self::user`] for addresses of one stack.
    pub fn epoch(&self, pid: u32, at: Ticks) -> usize {
        self.spaces.epoch(pid, at)
    }

    /// The code address of an address of process `pid`.
    pub fn user(&mut self, pid: u32, at: Ticks, epoch: usize, address: u64) -> CodeAddress {
        if let Some(located) = self.known.get(&(pid, epoch, address)) {
            return *located;
        }
        let located = match self.spaces.lookup(pid, at, address) {
            Some(mapping) if mapping.is_generated() => {
                // A forked process has its parent's code, until it makes its own.
                let memory = self.spaces.memory(mapping.pid, mapping.since);
                let module = self.code.intern_module(ModuleKey::generated(memory));
                CodeAddress { module: Some(module), offset: address }
            }
            Some(mapping) => self.code.in_file(mapping, address),
            None => CodeAddress { module: None, offset: address },
        };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((pid, epoch, address), located);
        located
    }

    /// Whether all code of process `pid` at `at` is known, so that a code address
    /// without a module is none.
    pub fn knows_all(&self, pid: u32, at: Ticks) -> bool {
        self.spaces.is_complete(pid, at)
    }
}

impl CodeAddresses {
    fn in_file(&mut self, mapping: &Mapping, address: u64) -> CodeAddress {
        let offset = (address - mapping.start).wrapping_add(mapping.file_offset);
        let module = self.intern_module(ModuleKey::mapped(&mapping.path, &mapping.build_id));
        CodeAddress { module: Some(module), offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{Symbol, SymbolFrame};

    fn spaces() -> AddressSpaces {
        let mut spaces = AddressSpaces::default();
        spaces.map(mapping("/bin/old", 0x1000, 0));
        spaces.map(mapping("/bin/new", 0x1000, 50));
        spaces.map(mapping("//anon", 0x9000, 0));
        spaces.seal();
        spaces
    }

    fn mapping(path: &str, start: u64, since: u64) -> Mapping {
        Mapping {
            pid: 1,
            start,
            end: start + 0x1000,
            file_offset: 0x400,
            path: path.into(),
            build_id: BuildId::default(),
            since: Ticks(since),
        }
    }

    #[test]
    fn an_address_is_an_offset_in_the_file_of_its_time() {
        let mut locator = Locator::new(spaces());
        // The answer of another epoch is not remembered.
        for (ticks, path) in [(10, "/bin/old"), (60, "/bin/new")] {
            let epoch = locator.epoch(1, Ticks(ticks));
            let located = locator.user(1, Ticks(ticks), epoch, 0x1010);
            let module = locator.code.module(located.module.unwrap());
            assert_eq!((module.path.as_str(), located.offset), (path, 0x410));
        }
    }

    #[test]
    fn memory_without_a_file_keeps_its_addresses() {
        let mut locator = Locator::new(spaces());
        let (anonymous, unmapped) =
            (locator.user(1, Ticks(1), 0, 0x9abc), locator.user(1, Ticks(1), 0, 0x5555));
        assert_eq!(
            (anonymous.offset, locator.code.module(anonymous.module.unwrap()).kind),
            (0x9abc, ModuleKind::Generated)
        );
        assert_eq!(unmapped, CodeAddress { module: None, offset: 0x5555 });
    }

    #[test]
    fn one_address_is_different_code_in_each_programs_own_memory() {
        let mut spaces = spaces();
        spaces.fork(1, 2, Ticks(10));
        spaces.exec(1, Ticks(20));
        spaces.map(anonymous(1, 25));
        spaces.map(anonymous(3, 0));
        spaces.seal();
        let mut locator = Locator::new(spaces);
        let addresses = [(1, 5), (2, 15), (1, 25), (3, 5)].map(|(pid, ticks)| {
            let epoch = locator.epoch(pid, Ticks(ticks));
            locator.user(pid, Ticks(ticks), epoch, 0x9abc)
        });
        let [first, of_a_fork, of_another_program, of_another_process] = addresses;
        assert_eq!(of_a_fork, first, "a fork has its parent's code");
        assert_ne!(of_another_program, first);
        assert_ne!(of_another_process, first);
    }

    fn anonymous(pid: u32, since: u64) -> Mapping {
        Mapping {
            pid,
            start: 0x9000,
            end: 0xa000,
            file_offset: 0,
            path: "//anon".into(),
            build_id: BuildId::default(),
            since: Ticks(since),
        }
    }

    #[test]
    fn what_most_stacks_have_is_named_first() {
        let mut code = CodeAddresses::default();
        let module = code.intern_module(ModuleKey::mapped("/bin/a", &BuildId::default()));
        for (offset, uses) in [(1, 1), (2, 5), (3, 0), (4, 5)] {
            let id = code.intern(CodeAddress { module: Some(module), offset });
            (0..uses).for_each(|_| code.count_use(id));
        }
        assert_eq!(code.unnamed(&Names::default())[0].offsets, [2, 4, 1, 3]);
        let mut names = Names::default();
        names.add(vec![SymbolTable {
            path: "/bin/a".into(),
            symbols: vec![symbol(2, false), symbol(4, true)],
            ..SymbolTable::default()
        }]);
        assert_eq!(code.unnamed(&names)[0].offsets, [4, 1, 3], "a range is not a name");
    }

    fn symbol(offset: u64, range_only: bool) -> Symbol {
        Symbol { offset, range_only, frames: vec![SymbolFrame::default()], ..Symbol::default() }
    }
}
