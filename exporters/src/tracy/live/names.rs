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

    /// What is to be looked for next: of files so many places at most, and all of the kernel, whose
    /// functions are found at once.
    pub(super) fn ask(&mut self, most: usize) -> Vec<CodeToName> {
        let Self { modules, unnamed, waiting, asked, .. } = self;
        let mut offsets = FxHashMap::<u32, Vec<u64>>::default();
        let mut room = most;
        waiting.retain(|address| {
            if let Some(place) = unnamed.get(address) {
                if !modules[place.module as usize].is_kernel() {
                    if room == 0 {
                        return true;
                    }
                    room -= 1;
                }
                offsets.entry(place.module).or_default().push(place.offset);
            }
            asked.push(*address);
            false
        });
        let code = |(module, offsets): (u32, Vec<u64>)| {
            let module = &modules[module as usize];
            let is_kernel = module.is_kernel();
            let ModuleToName { path, build_id } = module.clone();
            CodeToName { path, build_id, is_kernel, offsets }
        };
        offsets.into_iter().map(code).collect()
    }

    /// What was found of what was asked for in these modules: what is missing there has no name.
    /// What is of others is looked for still.
    pub(super) fn found<'t>(
        &mut self,
        tables: &'t [SymbolTable],
    ) -> Vec<(u64, Option<&'t Symbol>)> {
        let mut of_module = FxHashMap::<u32, Vec<&'t SymbolTable>>::default();
        for table in tables {
            let (path, mut build_id) = (table.path.clone(), table.build_id.clone());
            if Some(&*path) == ModuleKind::Kernel.path() {
                build_id = BuildId::default();
            }
            if let Some(module) = self.module_ids.get(&ModuleToName { path, build_id }) {
                of_module.entry(*module).or_default().push(table);
            }
        }
        let Self { asked, unnamed, .. } = self;
        let mut answered = Vec::new();
        asked.retain(|address| {
            // What was found before, or forgotten, is nowhere any more.
            let Some(place) = unnamed.get(address) else {
                answered.push((*address, None));
                return false;
            };
            let Some(tables) = of_module.get(&place.module) else { return true };
            let symbol = |table: &&'t SymbolTable| {
                let at = table.symbols.binary_search_by_key(&place.offset, |one| one.offset);
                at.ok().map(|at| &table.symbols[at])
            };
            answered.push((*address, tables.iter().find_map(symbol)));
            unnamed.remove(address);
            false
        });
        answered
    }

    /// Whoever looked has told all that was found: the rest of what was asked for has no names.
    pub(super) fn not_found(&mut self) -> Vec<u64> {
        for address in &self.asked {
            self.unnamed.remove(address);
        }
        std::mem::take(&mut self.asked)
    }

    /// Nobody finds what is asked for, and what waits: these.
    pub(super) fn give_up(&mut self) -> Vec<u64> {
        self.waiting.extend(self.asked.drain(..));
        self.waiting.drain(..).collect()
    }
}
