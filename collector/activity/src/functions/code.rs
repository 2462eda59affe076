//! Places in code that stacks lead through, and the names of their functions, as far as somebody
//! has found them.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_model::{BuildId, Mapping, ModuleKind, SymbolTable};
use syscollect_store::{Producer, ProducerShares};

/// Places that are told apart; of more only the module is known.
pub(super) const MOST_ADDRESSES: usize = 1 << 17;
/// Modules.
const MOST_MODULES: usize = 1 << 14;
/// From a name so many bytes are kept.
const LONGEST_NAME: usize = 200;

/// A function: of a module, by its name, or by a place where that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeFunction {
    module: u32,
    code: FunctionCode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum FunctionCode {
    /// A row of the names.
    Named(u32),
    /// A place that has no name, or none yet.
    At(u64),
}

/// Code of one module that nobody was asked to name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedAddresses {
    /// The module's path as in its mappings; that of all kernel code for the kernel.
    pub path: String,
    /// Its build id.
    pub build_id: BuildId,
    /// It is the kernel.
    pub is_kernel: bool,
    /// Where.
    pub offsets: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Module {
    path: Arc<str>,
    build_id: BuildId,
    kind: CodeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CodeKind {
    Kernel,
    File,
    /// Code that a program made while it ran, or what lies in no known file: its places are one.
    Other,
}

#[derive(Clone, Copy, Debug)]
struct CodeAddress {
    module: u32,
    offset: u64,
    name: AddressName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressName {
    /// Nobody was asked.
    NotAsked,
    Asked,
    Found(u32),
}

/// Places, by their numbers.
#[derive(Debug)]
pub(super) struct Code {
    modules: Vec<Module>,
    module_ids: FxHashMap<Module, u32>,
    places: Vec<CodeAddress>,
    ids: FxHashMap<(u32, u64), u32>,
    names: Vec<Arc<str>>,
    name_ids: FxHashMap<Arc<str>, u32>,
    /// Names of functions in which every thread stands that waits.
    in_every_wait: FxHashSet<u32>,
    shares: ProducerShares,
}

/// All kernel code.
const KERNEL: u32 = 0;
/// What lies in no known file.
pub(super) const UNKNOWN: u32 = 1;
/// Code that programs made.
const GENERATED: u32 = 2;

impl Default for Code {
    fn default() -> Self {
        let mut code = Self {
            modules: Vec::new(),
            module_ids: FxHashMap::default(),
            places: Vec::new(),
            ids: FxHashMap::default(),
            names: Vec::new(),
            name_ids: FxHashMap::default(),
            in_every_wait: FxHashSet::default(),
            shares: ProducerShares::default(),
        };
        let kernel = ModuleKind::Kernel.path().unwrap_or_default();
        code.intern_module(kernel, &BuildId::default(), CodeKind::Kernel);
        code.intern_module("(not in a known file)", &BuildId::default(), CodeKind::Other);
        code.intern_module("(made by the program)", &BuildId::default(), CodeKind::Other);
        code
    }
}

impl Code {
    /// The same modules, by the same numbers.
    pub(super) fn without_places(&self) -> Self {
        let Self { modules, module_ids, .. } = self;
        Self { modules: modules.clone(), module_ids: module_ids.clone(), ..Self::default() }
    }

    /// How many places there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The module of which something is mapped.
    pub(super) fn module_of(&mut self, mapping: &Mapping) -> u32 {
        match mapping.is_generated() {
            true => GENERATED,
            false => self.intern_module(&mapping.path, &mapping.build_id, CodeKind::File),
        }
    }

    fn intern_module(&mut self, path: &str, build_id: &BuildId, kind: CodeKind) -> u32 {
        let module = Module { path: path.into(), build_id: build_id.clone(), kind };
        if let Some(known) = self.module_ids.get(&module) {
            return *known;
        }
        if self.modules.len() >= MOST_MODULES {
            return UNKNOWN;
        }
        let number = self.modules.len() as u32;
        self.modules.push(module.clone());
        self.module_ids.insert(module, number);
        number
    }

    /// The number of a place in a module; of one beyond the process's share, that of all of the
    /// module.
    pub(super) fn place(&mut self, pid: u32, module: u32, offset: u64) -> u32 {
        let is_one = self.modules[module as usize].kind == CodeKind::Other;
        let offset = if is_one { 0 } else { offset };
        if let Some(known) = self.ids.get(&(module, offset)) {
            return *known;
        }
        let payer = Producer { user: pid, program: pid };
        let free = MOST_ADDRESSES.saturating_sub(self.shares.of_all());
        if self.shares.room_for(payer, free) > 0 {
            self.shares.add(payer, 1);
            return self.add(module, offset);
        }
        // There are no more modules than that.
        self.ids.get(&(module, 0)).copied().unwrap_or_else(|| self.add(module, 0))
    }

    pub(super) fn kernel_place(&mut self, address: u64) -> u32 {
        self.place(0, KERNEL, address)
    }

    fn add(&mut self, module: u32, offset: u64) -> u32 {
        let number = self.places.len() as u32;
        self.places.push(CodeAddress { module, offset, name: AddressName::NotAsked });
        self.ids.insert((module, offset), number);
        number
    }

    /// The function at a place.
    pub(super) fn function(&self, place: u32) -> Option<CodeFunction> {
        let CodeAddress { module, offset, name } = *self.places.get(place as usize)?;
        let code = match name {
            AddressName::Found(name) => FunctionCode::Named(name),
            AddressName::NotAsked | AddressName::Asked => FunctionCode::At(offset),
        };
        Some(CodeFunction { module, code })
    }

    /// What says how much of a wait: 2 for programs' own code, 1 for the kernel's, 0 for what
    /// stands in every wait.
    pub(super) fn rank(&self, function: CodeFunction) -> u8 {
        let is_kernel = function.module == KERNEL;
        match function.code {
            FunctionCode::Named(name) if is_kernel && self.in_every_wait.contains(&name) => 0,
            _ if is_kernel => 1,
            _ => 2,
        }
    }

    /// What a function is called: of any kind, whoever shows it has to escape what a terminal
    /// obeys.
    pub(super) fn name(&self, function: CodeFunction) -> String {
        let Some(module) = self.modules.get(function.module as usize) else { return "?".into() };
        let file = file_name(module);
        match function.code {
            FunctionCode::Named(name) => self.names[name as usize].to_string(),
            FunctionCode::At(_) if module.kind == CodeKind::Other => module.path.to_string(),
            // Beyond a share, or where a file begins: no code is there.
            FunctionCode::At(0) => file.to_owned(),
            FunctionCode::At(offset) => format!("{file}+{offset:#x}"),
        }
    }

    /// The file that it is in, or `kernel`.
    pub(super) fn module(&self, function: CodeFunction) -> String {
        self.modules.get(function.module as usize).map_or("", file_name).to_owned()
    }

    /// What of these places nobody was asked to name, now asked; of no more than so many.
    pub(super) fn ask(
        &mut self,
        places: impl Iterator<Item = u32>,
        most: usize,
    ) -> Vec<UnnamedAddresses> {
        let mut asked = FxHashMap::<u32, Vec<u64>>::default();
        let mut count = 0;
        for number in places {
            let Some(place) = self.places.get_mut(number as usize) else { continue };
            let kind = self.modules[place.module as usize].kind;
            if place.name != AddressName::NotAsked || place.offset == 0 || kind == CodeKind::Other {
                continue;
            }
            if count >= most {
                break;
            }
            count += 1;
            place.name = AddressName::Asked;
            asked.entry(place.module).or_default().push(place.offset);
        }
        let unnamed = |(number, offsets): (u32, Vec<u64>)| {
            let Module { path, build_id, kind } = &self.modules[number as usize];
            UnnamedAddresses {
                path: path.to_string(),
                build_id: build_id.clone(),
                is_kernel: *kind == CodeKind::Kernel,
                offsets,
            }
        };
        asked.into_iter().map(unnamed).collect()
    }

    /// Names were found.
    pub(super) fn add_names(&mut self, table: &SymbolTable) {
        let is_kernel = Some(&*table.path) == ModuleKind::Kernel.path();
        let module = match is_kernel {
            true => Some(KERNEL),
            false => {
                let (path, build_id) = ((&*table.path).into(), table.build_id.clone());
                let key = Module { path, build_id, kind: CodeKind::File };
                self.module_ids.get(&key).copied()
            }
        };
        let Some(module) = module else { return };
        for symbol in &table.symbols {
            let Some(place) = self.ids.get(&(module, symbol.offset)).copied() else { continue };
            // The last is the function itself; what is inlined in it counts as it.
            let Some(frame) = symbol.frames.last() else { continue };
            let name = cut(&frame.function);
            let number = match self.name_ids.get(name) {
                Some(known) => *known,
                None => {
                    let number = self.names.len() as u32;
                    self.names.push(name.into());
                    self.name_ids.insert(name.into(), number);
                    number
                }
            };
            if is_kernel && syscollect_merge::is_in_every_wait(name) {
                self.in_every_wait.insert(number);
            }
            self.places[place as usize].name = AddressName::Found(number);
        }
    }
}

/// A file's name without its folders.
fn file_name(module: &Module) -> &str {
    match module.kind {
        CodeKind::Kernel => "kernel",
        CodeKind::Other => "",
        CodeKind::File => module.path.rsplit('/').next().unwrap_or(&module.path),
    }
}

fn cut(name: &str) -> &str {
    let end = (0..=name.len().min(LONGEST_NAME)).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{Symbol, SymbolFrame, Ticks};

    fn mapping(path: &str) -> Mapping {
        let build_id = BuildId::from_bytes(&[7; 20]);
        let path = path.into();
        Mapping { pid: 1, start: 0, end: 9, file_offset: 0, path, build_id, since: Ticks(0) }
    }

    fn table(path: &str, symbols: &[(u64, &str)]) -> SymbolTable {
        let symbol = |(offset, name): &(u64, &str)| {
            let function = (*name).to_owned();
            let frames = vec![SymbolFrame { function, ..SymbolFrame::default() }];
            Symbol { offset: *offset, frames, ..Symbol::default() }
        };
        let build_id = mapping(path).build_id;
        let symbols = symbols.iter().map(symbol).collect();
        SymbolTable { path: path.into(), build_id, symbols, ..SymbolTable::default() }
    }

    #[test]
    fn a_place_is_its_module_and_offset_until_its_name_is_found() {
        let mut code = Code::default();
        let module = code.module_of(&mapping("/usr/bin/server"));
        let places = [0x120, 0x140].map(|offset| code.place(1, module, offset));
        let name = |code: &Code, place| code.name(code.function(place).unwrap());
        assert_eq!(name(&code, places[0]), "server+0x120");
        let asked = code.ask(places.into_iter(), 10);
        assert_eq!(
            (asked.len(), &*asked[0].path, &asked[0].offsets[..]),
            (1, "/usr/bin/server", &[0x120, 0x140][..])
        );
        assert!(code.ask(places.into_iter(), 10).is_empty(), "they are asked for once");
        code.add_names(&table("/usr/bin/server", &[(0x120, "serve"), (0x140, "serve")]));
        code.add_names(&table("/usr/bin/other", &[(0x120, "wrong")]));
        assert_eq!(name(&code, places[0]), "serve");
        assert_eq!(code.function(places[0]), code.function(places[1]));
        assert_eq!(code.module(code.function(places[0]).unwrap()), "server");
    }

    #[test]
    fn in_a_wait_what_the_kernel_always_does_says_least_and_programs_code_most() {
        let mut code = Code::default();
        let module = code.module_of(&mapping("/bin/a"));
        let places = [code.kernel_place(1), code.kernel_place(2), code.place(1, module, 3)];
        let kernel = ModuleKind::Kernel.path().unwrap();
        code.add_names(&table(kernel, &[(1, "schedule"), (2, "pipe_read")]));
        assert_eq!(places.map(|place| code.rank(code.function(place).unwrap())), [0, 1, 2]);
    }

    #[test]
    fn who_has_endless_places_leaves_room_for_others_and_has_its_modules() {
        let mut code = Code::default();
        let module = code.module_of(&mapping("/bin/a"));
        for offset in 1..2 * MOST_ADDRESSES as u64 {
            code.place(1, module, offset);
        }
        assert!(code.len() < MOST_ADDRESSES / 4 * 3, "{}", code.len());
        let beyond = code.place(1, module, u64::MAX);
        assert_eq!(code.name(code.function(beyond).unwrap()), "a");
        let other = code.place(2, module, u64::MAX - 1);
        assert!(code.name(code.function(other).unwrap()).starts_with("a+0x"));
        // Code that a program makes is one place, however much that is.
        let path = "//anon".into();
        let made = code.module_of(&Mapping { path, ..mapping("") });
        assert_eq!(code.place(3, made, 5), code.place(3, made, 6));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut(&"é".repeat(150)).len(), 200);
        assert_eq!(cut(&format!("a{}", "é".repeat(150))).len(), 199);
    }
}
