//! Names of code addresses, and the frames made of them.

use crate::code_addresses::{CodeAddress, CodeAddressId, CodeAddresses, ModuleKey};
use crate::python::PythonCodes;
use rustc_hash::FxHashMap;
use std::ops::Range;
use syscollect_model::{
    BuildId, Frame, FrameId, KernelModule, MemoryAt, Module, ModuleId, ModuleKind, SessionInfo,
    Strings, Symbol, SymbolFrame, SymbolTable, Tables, Ticks,
};

/// All names of a session, by module and offset.
#[derive(Debug, Default)]
pub struct Names {
    modules: FxHashMap<ModuleKey, SymbolList>,
    /// Of code that programs made while they ran: by process, with the times at which these were
    /// its names, the latest last.
    generated: FxHashMap<u32, Vec<(Ticks, SymbolList)>>,
}

/// Symbols of one module, sorted by offset, then by time, without duplicates.
#[derive(Debug, Default)]
struct SymbolList(Vec<Symbol>);

/// From when until when something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first ticks.
    pub from: Ticks,
    /// The first ticks at which it is not; the greatest if it stays so.
    pub until: Ticks,
}

impl Validity {
    /// At any time.
    pub const ALWAYS: Self = Self { from: Ticks(0), until: Ticks(u64::MAX) };

    /// Whether it is so then.
    #[inline]
    pub fn at(self, ticks: Ticks) -> bool {
        self.from <= ticks && ticks < self.until
    }

    /// While both are so.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { from: self.from.max(other.from), until: self.until.min(other.until) }
    }
}

impl SymbolList {
    /// Adds symbols; the later of two for one offset counts, but a range never replaces a name.
    fn add(&mut self, symbols: Vec<Symbol>) {
        // Reversed and before the old ones: the stable sort and dedup keep the latest.
        let mut all: Vec<Symbol> =
            symbols.into_iter().filter(|symbol| !symbol.frames.is_empty()).collect();
        all.reverse();
        all.append(&mut self.0);
        all.sort_by_key(|symbol| (symbol.offset, symbol.range_only, symbol.since));
        all.dedup_by(|next, kept| {
            next.offset == kept.offset && (next.since == kept.since || next.range_only)
        });
        self.0 = all;
    }

    /// The first at the offset.
    fn get(&self, offset: u64) -> Option<&Symbol> {
        self.of(offset).first()
    }

    /// What lay at the offset, in order of time.
    fn of(&self, offset: u64) -> &[Symbol] {
        let first = self.0.partition_point(|symbol| symbol.offset < offset);
        let rest = &self.0[first..];
        // Nearly always it is one.
        let count = rest.iter().take_while(|symbol| symbol.offset == offset).count();
        &rest[..count]
    }

    /// What lay at the offset at that time, and from when until when.
    fn get_at(&self, offset: u64, at: Ticks) -> Option<(&Symbol, Validity)> {
        let all = self.of(offset);
        let index = all.partition_point(|symbol| symbol.since <= at).saturating_sub(1);
        let from = if index == 0 { Ticks(0) } else { all[index].since };
        let until = all.get(index + 1).map_or(Validity::ALWAYS.until, |next| next.since);
        Some((all.get(index)?, Validity { from, until }))
    }
}

impl Names {
    /// Adds names; the later of two for one code address counts, but a range never replaces a name.
    pub fn add(&mut self, tables: Vec<SymbolTable>) {
        for table in tables {
            let list = match table.memory {
                Some(memory) => self.list_of(memory),
                None => {
                    let key = ModuleKey::named_by(&table);
                    self.modules.entry(key).or_default()
                }
            };
            list.add(table.symbols);
        }
    }

    fn list_of(&mut self, MemoryAt { pid, at }: MemoryAt) -> &mut SymbolList {
        let lists = self.generated.entry(pid).or_default();
        let index = lists.partition_point(|(time, _)| *time < at);
        if lists.get(index).is_none_or(|(time, _)| *time != at) {
            lists.insert(index, (at, SymbolList::default()));
        }
        &mut lists[index].1
    }

    /// Whether the function at an offset of a module has a name; a range alone is none.
    pub fn has_name(&self, module: &ModuleKey, offset: u64) -> bool {
        self.get(module, offset).is_some_and(|symbol| !symbol.range_only)
    }

    /// The symbol at an offset of a module; of several that lay there the first.
    pub fn get(&self, module: &ModuleKey, offset: u64) -> Option<&Symbol> {
        self.lists(module).find_map(|list| list.get(offset))
    }

    /// The symbol at an offset of a module at a time, and from when until when it lay there.
    fn get_at(&self, module: &ModuleKey, offset: u64, at: Ticks) -> Option<(&Symbol, Validity)> {
        self.lists(module).find_map(|list| list.get_at(offset, at))
    }

    /// Lists of what lies in a module, the one that counts first.
    fn lists(&self, module: &ModuleKey) -> impl Iterator<Item = &SymbolList> {
        let of_file = module.memory.is_none().then(|| self.modules.get(module)).flatten();
        let of_memory = module.memory.and_then(|memory| {
            let lists = self.generated.get(&memory.pid)?.iter().rev();
            let of_it = lists.filter(move |(at, _)| memory.was_of(memory.pid, *at));
            Some(of_it.map(|(_, list)| list))
        });
        of_file.into_iter().chain(of_memory.into_iter().flatten())
    }
}

/// Makes rows of the frames table, once per code address.
#[derive(Debug, Default)]
pub struct Framer {
    /// First row and number of rows by code address.
    frames: Vec<Option<(u32, u32)>>,
    /// The same where other code lay there at another time, by that time's beginning.
    changing: FxHashMap<(CodeAddressId, Ticks), (u32, u32)>,
    modules: FxHashMap<ModuleKey, ModuleId>,
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
        self.changing.clear();
    }

    /// The same where those of frames and modules are gone, too.
    pub fn forget(&mut self) {
        self.renew();
        self.modules.clear();
    }

    /// The frames of a code address at a time, innermost first, and from when until when they are
    /// these.
    pub fn frames(
        &mut self,
        (id, at): (CodeAddressId, Ticks),
        code: &CodeAddresses,
        names: &Names,
        tables: &mut Tables,
    ) -> (impl Iterator<Item = FrameId> + use<>, Validity) {
        let index = id.0 as usize;
        if self.frames.len() <= index {
            self.frames.resize(code.rows().len(), None);
        }
        if let Some(rows) = self.frames[index] {
            return (frame_ids(rows), Validity::ALWAYS);
        }
        let located = code.get(id);
        let key = located.module.map(|index| code.module(index));
        let found = key.and_then(|key| names.get_at(key, located.offset, at));
        let holds = found.map_or(Validity::ALWAYS, |(_, holds)| holds);
        if let Some(rows) =
            self.changing.get(&(id, holds.from)).filter(|_| holds != Validity::ALWAYS)
        {
            return (frame_ids(*rows), holds);
        }
        let rows = self.add(located, found.map(|(symbol, _)| symbol), code, tables);
        let rows = (rows.start as u32, rows.len() as u32);
        match holds == Validity::ALWAYS {
            true => self.frames[index] = Some(rows),
            false => _ = self.changing.insert((id, holds.from), rows),
        }
        (frame_ids(rows), holds)
    }

    fn add(
        &mut self,
        located: CodeAddress,
        symbol: Option<&Symbol>,
        code: &CodeAddresses,
        tables: &mut Tables,
    ) -> Range<usize> {
        let first = tables.frames.len();
        let key = located.module.map(|index| code.module(index));
        if let Some(key) = key.filter(|key| key.is_python()) {
            let module = self.module(key, false, (located, None), tables);
            tables.frames.push(python_frame(module, located, code, &mut tables.strings));
            return first..tables.frames.len();
        }
        let module =
            key.map(|key| self.module(key, code.is_kernel(key), (located, symbol), tables));
        let unnamed = [SymbolFrame::default()];
        let frames = symbol.map_or(&unnamed[..], |symbol| &symbol.frames);
        for (index, frame) in frames.iter().enumerate() {
            let [function, file] = [&frame.function, &frame.file]
                .map(|text| (!text.is_empty()).then(|| tables.strings.intern_passing(text)));
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
            Some(name) => {
                let path = format!("[{name}]");
                ModuleKey { path, ..ModuleKey::only(ModuleKind::KernelModule) }
            }
            // Whose memory it is says the thread that runs it.
            None if key.memory.is_some() => {
                let path = symbol.map_or(&*key.path, |_| SymbolTable::GENERATED).to_owned();
                ModuleKey { path, memory: None, ..key.clone() }
            }
            None if kernel && !key.kind.is_kernel() => {
                ModuleKey { kind: ModuleKind::KernelModule, ..key.clone() }
            }
            None => key.clone(),
        };
        if let Some(id) = self.modules.get(&key) {
            return *id;
        }
        let build_id = match key.is_kernel() {
            true => self.kernel_build_id.clone(),
            false => key.build_id.clone(),
        };
        let path = tables.strings.intern_passing(&key.path);
        tables.modules.push(Module { path, build_id, kind: key.kind });
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

/// The frame of a place in a function of a Python program.
fn python_frame(
    module: ModuleId,
    located: CodeAddress,
    code: &CodeAddresses,
    strings: &mut Strings,
) -> Frame {
    let place = code.python.place(located.offset);
    let (function_start, function_size) = PythonCodes::extent(located.offset);
    let file = place.as_ref().filter(|place| !place.file.is_empty());
    Frame {
        module: Some(module),
        offset: located.offset,
        function: place.as_ref().map(|place| strings.intern_passing(&place.function)),
        function_start,
        function_size,
        range_only: false,
        file: file.map(|place| strings.intern_passing(&place.file)),
        line: place.as_ref().map_or(0, |place| place.line),
        inlined: false,
    }
}

/// The frames of so many rows from the first one on.
fn frame_ids((start, count): (u32, u32)) -> impl Iterator<Item = FrameId> {
    (start..start + count).map(FrameId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::ProgramMemory;

    fn symbol(offset: u64, name: &str) -> Symbol {
        Symbol {
            offset,
            frames: vec![SymbolFrame { function: name.into(), ..SymbolFrame::default() }],
            ..Symbol::default()
        }
    }

    #[test]
    fn tables_of_one_module_add_up_and_the_later_name_counts() {
        let mut names = Names::default();
        names.add(vec![
            table(vec![symbol(1, "one"), symbol(2, "two")]),
            table(vec![symbol(2, "zwei"), symbol(3, "three")]),
        ]);
        let key = ModuleKey::mapped("/bin/a", &BuildId::default());
        let name =
            |offset| names.get(&key, offset).map(|symbol| symbol.frames[0].function.as_str());
        assert_eq!([1, 2, 3, 4].map(name), [Some("one"), Some("zwei"), Some("three"), None]);
    }

    fn table(symbols: Vec<Symbol>) -> SymbolTable {
        SymbolTable { path: "/bin/a".into(), symbols, ..SymbolTable::default() }
    }

    #[test]
    fn a_range_gives_way_to_a_name_and_never_replaces_one() {
        let key = ModuleKey::mapped("/bin/a", &BuildId::default());
        for order in [[("main", false), ("a+0x10", true)], [("a+0x10", true), ("main", false)]] {
            let mut names = Names::default();
            order
                .iter()
                .for_each(|(name, range_only)| names.add(vec![table_of(name, *range_only)]));
            assert_eq!(names.get(&key, 1).map(|symbol| &*symbol.frames[0].function), Some("main"));
            assert!(names.has_name(&key, 1));
        }
        let mut names = Names::default();
        names.add(vec![table_of("a+0x10", true)]);
        assert!(names.get(&key, 1).is_some() && !names.has_name(&key, 1));
    }

    fn table_of(name: &str, range_only: bool) -> SymbolTable {
        SymbolTable {
            path: "/bin/a".into(),
            symbols: vec![Symbol { range_only, ..symbol(1, name) }],
            ..SymbolTable::default()
        }
    }

    #[test]
    fn names_of_generated_code_are_of_one_program_of_one_process() {
        let tables =
            [(7, 50, "second"), (7, 10, "first"), (8, 10, "other"), (7, 60, "second, later")];
        let [second, first, other, later] = tables.map(|(pid, at, name)| SymbolTable {
            path: SymbolTable::GENERATED.into(),
            memory: Some(MemoryAt { pid, at: Ticks(at) }),
            symbols: vec![symbol(1, name)],
            ..SymbolTable::default()
        });
        let mut names = Names::default();
        names.add(vec![second, first, other]);
        names.add(vec![later]);
        for (pid, since, until, name) in [
            (7, 0, Some(20), Some("first")),
            (7, 20, Some(55), Some("second")),
            (7, 20, None, Some("second, later")),
            (7, 61, None, None),
            (9, 0, None, None),
        ] {
            let memory = ProgramMemory { pid, since: Ticks(since), until: until.map(Ticks) };
            let symbol = names.get(&ModuleKey::generated(memory), 1);
            assert_eq!(symbol.map(|symbol| symbol.frames[0].function.as_str()), name);
        }
        assert_eq!(
            names.get(&ModuleKey::mapped(SymbolTable::GENERATED, &BuildId::default()), 1),
            None
        );
    }

    #[test]
    fn code_has_the_name_of_its_time() {
        let memory = Some(MemoryAt { pid: 7, at: Ticks(90) });
        let mut names = Names::default();
        // As a capture may have them: in parts.
        for part in [&[(20, "second")][..], &[(10, "first"), (60, "third")]] {
            let symbols = part
                .iter()
                .map(|(since, name)| Symbol { since: Ticks(*since), ..symbol(1, name) })
                .collect();
            names.add(vec![SymbolTable { memory, symbols, ..SymbolTable::default() }]);
        }
        let key = ModuleKey::generated(ProgramMemory { pid: 7, since: Ticks(0), until: None });
        // Before the first one nothing was told of.
        for (at, name, from, until) in [
            (0, "first", 0, 20),
            (19, "first", 0, 20),
            (20, "second", 20, 60),
            (1000, "third", 60, u64::MAX),
        ] {
            let (symbol, holds) = names.get_at(&key, 1, Ticks(at)).unwrap();
            assert!(holds.at(Ticks(at)), "{holds:?}");
            assert_eq!(symbol.frames[0].function, name, "at {at}");
            assert_eq!((holds.from.0, holds.until.0), (from, until), "at {at}");
        }
        assert!(names.get_at(&key, 2, Ticks(5)).is_none());
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
        assert_eq!(names.get(&ModuleKey::mapped("/bin/a", &BuildId::default()), 1), None);
    }
}
