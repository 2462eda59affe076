//! Names of code addresses, and the frames made of them.

use crate::code_addresses::{CodeAddress, CodeAddressId, CodeAddresses, KERNEL, ModuleKey};
use rustc_hash::FxHashMap;
use std::ops::Range;
use syscollect_model::{
    BuildId, Frame, FrameId, KernelModule, Module, ModuleId, SessionInfo, Symbol, SymbolFrame,
    SymbolTable, Tables,
};

/// All names of a session, by module and offset.
#[derive(Debug, Default)]
pub struct Names {
    /// Each list sorted by offset, without duplicates.
    modules: FxHashMap<ModuleKey, Vec<Symbol>>,
}

impl Names {
    /// Adds names; the later of two for one code address counts, but a range never replaces a name.
    pub fn add(&mut self, tables: Vec<SymbolTable>) {
        for table in tables {
            let list =
                self.modules.entry(ModuleKey::new(&table.path, &table.build_id)).or_default();
            // Reversed and before the old ones: the stable sort and dedup keep the latest.
            let mut all: Vec<Symbol> =
                table.symbols.into_iter().filter(|s| !s.frames.is_empty()).collect();
            all.reverse();
            all.append(list);
            all.sort_by_key(|symbol| (symbol.offset, symbol.range_only));
            all.dedup_by_key(|symbol| symbol.offset);
            *list = all;
        }
    }

    /// Whether the function at an offset of a module has a name; a range alone is none.
    pub fn has_name(&self, module: &ModuleKey, offset: u64) -> bool {
        self.get(module, offset).is_some_and(|symbol| !symbol.range_only)
    }

    /// The symbol at an offset of a module.
    pub fn get(&self, module: &ModuleKey, offset: u64) -> Option<&Symbol> {
        let list = self.modules.get(module)?;
        list.binary_search_by_key(&offset, |symbol| symbol.offset).ok().map(|index| &list[index])
    }
}

/// Makes rows of the frames table, once per code address.
#[derive(Debug, Default)]
pub struct Framer {
    /// First row and number of rows by code address.
    frames: Vec<Option<(u32, u32)>>,
    /// By path and build id, and whether it is kernel code.
    modules: FxHashMap<(ModuleKey, bool), ModuleId>,
    kernel_modules: Vec<KernelModule>,
    kernel_build_id: BuildId,
}

impl Framer {
    /// With the kernel modules that the recording names.
    pub fn new(info: &SessionInfo) -> Self {
        let mut kernel_modules = info.kernel_modules.clone();
        kernel_modules.sort_by_key(|module| module.address);
        let kernel_build_id = BuildId::try_from(info.kernel_build_id.clone()).unwrap_or_default();
        Self { kernel_modules, kernel_build_id, ..Self::default() }
    }

    /// Forgets the rows made so far: names have changed.
    pub fn renew(&mut self) {
        self.frames.clear();
    }

    /// The frames of a code address, innermost first.
    pub fn frames(
        &mut self,
        id: CodeAddressId,
        code: &CodeAddresses,
        names: &Names,
        tables: &mut Tables,
    ) -> impl Iterator<Item = FrameId> + use<> {
        let index = id.0 as usize;
        if self.frames.len() <= index {
            self.frames.resize(code.rows().len(), None);
        }
        let (start, count) = match self.frames[index] {
            Some(rows) => rows,
            None => {
                let rows = self.add(code.get(id), code, names, tables);
                let rows = (rows.start as u32, rows.len() as u32);
                self.frames[index] = Some(rows);
                rows
            }
        };
        (start..start + count).map(FrameId)
    }

    fn add(
        &mut self,
        located: CodeAddress,
        code: &CodeAddresses,
        names: &Names,
        tables: &mut Tables,
    ) -> Range<usize> {
        let first = tables.frames.len();
        let key = located.module.map(|index| code.module(index));
        let symbol = key.and_then(|key| names.get(key, located.offset));
        let module =
            key.map(|key| self.module(key, code.is_kernel(key), (located, symbol), tables));
        let unnamed = [SymbolFrame::default()];
        let frames = symbol.map_or(&unnamed[..], |symbol| &symbol.frames);
        for (index, frame) in frames.iter().enumerate() {
            let mut intern = |text: &str| (!text.is_empty()).then(|| tables.strings.intern(text));
            let (function, file) = (intern(&frame.function), intern(&frame.file));
            tables.frames.push(Frame {
                module,
                offset: located.offset,
                function,
                function_start: symbol.map_or(0, |symbol| symbol.start),
                function_size: symbol.map_or(0, |symbol| symbol.size),
                range_only: symbol.is_some_and(|symbol| symbol.range_only),
                file,
                line: frame.line,
                inlined: index + 1 < frames.len(),
            });
        }
        first..tables.frames.len()
    }

    /// The row of a code address's module; kernel modules have rows of their own.
    fn module(
        &mut self,
        key: &ModuleKey,
        kernel: bool,
        (located, symbol): (CodeAddress, Option<&Symbol>),
        tables: &mut Tables,
    ) -> ModuleId {
        let key = match self.kernel_module(key, located, symbol) {
            Some(name) => ModuleKey { path: format!("[{name}]"), build_id: BuildId::default() },
            None => key.clone(),
        };
        let key = (key, kernel);
        if let Some(id) = self.modules.get(&key) {
            return *id;
        }
        let build_id = if key.0.path == KERNEL {
            self.kernel_build_id.clone()
        } else {
            key.0.build_id.clone()
        };
        let path = tables.strings.intern(&key.0.path);
        tables.modules.push(Module { path, build_id, kernel });
        let id = ModuleId(tables.modules.len() as u32 - 1);
        self.modules.insert(key, id);
        id
    }

    fn kernel_module<'a>(
        &'a self,
        key: &ModuleKey,
        located: CodeAddress,
        symbol: Option<&'a Symbol>,
    ) -> Option<&'a str> {
        if !key.is_kernel() {
            return None;
        }
        if let Some(symbol) = symbol.filter(|symbol| !symbol.kernel_module.is_empty()) {
            return Some(&symbol.kernel_module);
        }
        let before = self.kernel_modules.partition_point(|module| module.address <= located.offset);
        let module = &self.kernel_modules[before.checked_sub(1)?];
        (located.offset - module.address < module.size).then_some(&module.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(offset: u64, name: &str) -> Symbol {
        Symbol {
            offset,
            frames: vec![SymbolFrame { function: name.into(), ..SymbolFrame::default() }],
            ..Symbol::default()
        }
    }

    #[test]
    fn tables_of_one_module_add_up_and_the_later_name_counts() {
        let table =
            |symbols| SymbolTable { path: "/bin/a".into(), symbols, ..SymbolTable::default() };
        let mut names = Names::default();
        names.add(vec![
            table(vec![symbol(1, "one"), symbol(2, "two")]),
            table(vec![symbol(2, "zwei"), symbol(3, "three")]),
        ]);
        let key = ModuleKey::new("/bin/a", &BuildId::default());
        let name =
            |offset| names.get(&key, offset).map(|symbol| symbol.frames[0].function.as_str());
        assert_eq!([1, 2, 3, 4].map(name), [Some("one"), Some("zwei"), Some("three"), None]);
    }

    #[test]
    fn a_range_gives_way_to_a_name_and_never_replaces_one() {
        let table = |name: &str, range_only| SymbolTable {
            path: "/bin/a".into(),
            symbols: vec![Symbol { range_only, ..symbol(1, name) }],
            ..SymbolTable::default()
        };
        let key = ModuleKey::new("/bin/a", &BuildId::default());
        for order in [[("main", false), ("a+0x10", true)], [("a+0x10", true), ("main", false)]] {
            let mut names = Names::default();
            order.iter().for_each(|(name, range_only)| names.add(vec![table(name, *range_only)]));
            assert_eq!(names.get(&key, 1).map(|symbol| &*symbol.frames[0].function), Some("main"));
            assert!(names.has_name(&key, 1));
        }
        let mut names = Names::default();
        names.add(vec![table("a+0x10", true)]);
        assert!(names.get(&key, 1).is_some() && !names.has_name(&key, 1));
    }

    #[test]
    fn a_symbol_without_frames_names_nothing() {
        let mut names = Names::default();
        let empty = Symbol { offset: 1, ..Symbol::default() };
        names.add(vec![SymbolTable {
            path: "/bin/a".into(),
            symbols: vec![empty],
            ..SymbolTable::default()
        }]);
        assert_eq!(names.get(&ModuleKey::new("/bin/a", &BuildId::default()), 1), None);
    }
}
