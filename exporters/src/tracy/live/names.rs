//! Functions that a viewer asks for and that somebody finds meanwhile.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use syscollect_model::{BuildId, ModuleKind, Symbol, SymbolTable};

/// Code of one module whose functions a viewer waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeToName {
    /// The module's path as in its mappings; that of all kernel code for the kernel.
    pub path: String,
    /// Its build id.
    pub build_id: BuildId,
    /// It is the kernel.
    pub is_kernel: bool,
    /// Where.
    pub offsets: Vec<u64>,
}

/// A module, as tables of symbols say which they are of: the kernel has no build id there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModuleToName {
    pub(super) path: String,
    pub(super) build_id: BuildId,
}

impl ModuleToName {
    pub(super) fn is_kernel(&self) -> bool {
        Some(&*self.path) == ModuleKind::Kernel.path()
    }
}

/// A place that may get a name.
#[derive(Clone, Copy, Debug)]
struct Unnamed {
    module: u32,
    offset: u64,
}

/// Places without names, and for which of them somebody looks.
#[derive(Debug, Default)]
pub(super) struct LiveNames {
    modules: Vec<ModuleToName>,
    module_ids: FxHashMap<ModuleToName, u32>,
    unnamed: FxHashMap<u64, Unnamed>,
    /// What the viewer asked for and nobody looks for yet.
    waiting: VecDeque<u64>,
    /// What somebody looks for.
    asked: Vec<u64>,
}

impl LiveNames {
    /// Adds a place.
    pub(super) fn add(&mut self, address: u64, module: ModuleToName, offset: u64) {
        let next = self.modules.len() as u32;
        let number = *self.module_ids.entry(module.clone()).or_insert(next);
        if number == next {
            self.modules.push(module);
        }
        self.unnamed.insert(address, Unnamed { module: number, offset });
    }

    /// Places have other numbers from now on: nobody finds what stands at those of before.
    pub(super) fn forget(&mut self) {
        *self = Self { asked: std::mem::take(&mut self.asked), ..Self::default() };
    }

    /// A viewer asks for these.
    pub(super) fn want(&mut self, addresses: Vec<u64>) {
        self.waiting.extend(addresses);
    }

    /// Nobody waits for what nobody looks for yet.
    pub(super) fn forget_wanted(&mut self) {
        self.waiting.clear();
    }

    /// What is to be looked for next.
    pub(super) fn ask(&mut self, most: usize) -> Vec<CodeToName> {
        let count = self.waiting.len().min(most);
        let mut offsets = FxHashMap::<u32, Vec<u64>>::default();
        for address in self.waiting.drain(..count) {
            if let Some(place) = self.unnamed.get(&address) {
                offsets.entry(place.module).or_default().push(place.offset);
            }
            self.asked.push(address);
        }
        let code = |(module, offsets): (u32, Vec<u64>)| {
            let module = &self.modules[module as usize];
            let is_kernel = module.is_kernel();
            let ModuleToName { path, build_id } = module.clone();
            CodeToName { path, build_id, is_kernel, offsets }
        };
        offsets.into_iter().map(code).collect()
    }

    /// What was found of all that was asked for.
    pub(super) fn found<'t>(
        &mut self,
        tables: &'t [SymbolTable],
    ) -> Vec<(u64, Option<&'t Symbol>)> {
        let mut of_module = FxHashMap::<u32, Vec<&SymbolTable>>::default();
        for table in tables {
            let (path, mut build_id) = (table.path.clone(), table.build_id.clone());
            if Some(&*path) == ModuleKind::Kernel.path() {
                build_id = BuildId::default();
            }
            if let Some(module) = self.module_ids.get(&ModuleToName { path, build_id }) {
                of_module.entry(*module).or_default().push(table);
            }
        }
        let (asked, unnamed) = (std::mem::take(&mut self.asked), &mut self.unnamed);
        let mut find = |address: u64| {
            let place = unnamed.remove(&address)?;
            let symbols = |table: &&'t SymbolTable| {
                let table: &'t SymbolTable = table;
                let at = table.symbols.binary_search_by_key(&place.offset, |one| one.offset);
                at.ok().map(|at| &table.symbols[at])
            };
            of_module.get(&place.module)?.iter().find_map(symbols)
        };
        asked.into_iter().map(|address| (address, find(address))).collect()
    }

    /// Nobody finds what is asked for, and what waits: these.
    pub(super) fn give_up(&mut self) -> Vec<u64> {
        self.waiting.extend(self.asked.drain(..));
        self.waiting.drain(..).collect()
    }
}
