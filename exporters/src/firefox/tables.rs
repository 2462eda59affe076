//! What all threads of a profile share: strings, libraries, functions, frames, stacks.

use rustc_hash::FxHashMap;
use serde::Serialize;
use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::Deref;
use syscollect_model::{
    BuildId, FrameId, ModuleId, ModuleKind, OffCpu, SleepState, StackId, StringId, StringTable,
    Tables,
};

/// Categories of frames and markers, in the order of [`categories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Category {
    Other,
    User,
    Kernel,
    OffCpu,
    Scheduling,
    Loss,
    Lock,
    Crash,
    Python,
    Gpu,
}

impl Category {
    /// The row in the list of categories.
    pub(super) fn index(self) -> u16 {
        self as u16
    }
}

/// Why a thread is not on a CPU: the subcategories of [`Category::OffCpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OffReason {
    Sleeping = 1,
    IoWait,
    Blocked,
    Runnable,
    Stopped,
}

impl OffReason {
    const ALL: [Self; 5] =
        [Self::Sleeping, Self::IoWait, Self::Blocked, Self::Runnable, Self::Stopped];

    /// `None` for a thread that will not come back.
    pub(super) fn of(off_cpu: &OffCpu) -> Option<Self> {
        Some(match off_cpu.state {
            _ if off_cpu.preempted => Self::Runnable,
            SleepState::Dead | SleepState::Zombie => return None,
            _ if off_cpu.io_wait => Self::IoWait,
            SleepState::Runnable => Self::Runnable,
            SleepState::Interruptible | SleepState::Idle | SleepState::Parked => Self::Sleeping,
            SleepState::Uninterruptible => Self::Blocked,
            SleepState::Stopped | SleepState::Traced => Self::Stopped,
        })
    }

    /// What the viewer shows, as a subcategory and as the innermost function of off-CPU stacks.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sleeping => "sleeps",
            Self::IoWait => "waits for I/O",
            Self::Blocked => "blocked",
            Self::Runnable => "waits for a CPU",
            Self::Stopped => "stopped",
        }
    }
}

/// Categories that programs may bring; the markers of further ones have none.
const MAX_CATEGORIES: usize = 64;
/// Their colours, in turn.
const COLORS: [&str; 6] = ["lightblue", "green", "magenta", "brown", "lightred", "yellow"];

#[derive(Debug, Serialize)]
pub(super) struct CategoryRow<'a> {
    name: &'a str,
    color: &'static str,
    subcategories: Vec<&'static str>,
}

/// The list of categories, with those of programs; a grey one is required, and the first
/// subcategory stands for none.
pub(super) fn categories(programs: &[Box<str>]) -> Vec<CategoryRow<'_>> {
    let mut off_cpu = row("Off-CPU", "blue");
    off_cpu.subcategories.extend(OffReason::ALL.map(OffReason::name));
    let mut rows = vec![
        row("Other", "grey"),
        row("User", "yellow"),
        row("Kernel", "orange"),
        off_cpu,
        row("Scheduling", "purple"),
        row("Loss", "red"),
        row("Lock", "brown"),
        row("Crash", "red"),
        row("Python", "magenta"),
        row("GPU", "green"),
    ];
    rows.extend(programs.iter().zip(COLORS.iter().cycle()).map(|(name, color)| row(name, color)));
    rows
}

fn row<'a>(name: &'a str, color: &'static str) -> CategoryRow<'a> {
    CategoryRow { name, color, subcategories: vec!["Other"] }
}

/// A library as the viewer's symbol servers know it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib {
    arch: String,
    name: String,
    path: String,
    debug_name: String,
    debug_path: String,
    breakpad_id: String,
    code_id: Option<String>,
}

/// A row of the function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Func {
    pub(super) name: u32,
    /// An interpreter runs it: the viewer can show these alone, and all else alone.
    pub(super) interpreted: bool,
    pub(super) lib: Option<u32>,
    pub(super) source: Option<u32>,
}

/// A row of the frame table.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRow {
    /// Relative to the library; -1 where that is not known.
    pub(super) address: i64,
    pub(super) inline_depth: u8,
    pub(super) category: Category,
    pub(super) subcategory: u8,
    pub(super) func: u32,
    pub(super) native_symbol: Option<u32>,
    pub(super) line: Option<u32>,
}

/// A function of a library, at its address there.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeSymbol {
    pub(super) lib: u32,
    pub(super) address: u64,
    pub(super) name: u32,
    pub(super) size: Option<u64>,
}

/// A row of the stack table: the frame, and the row of what called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StackRow {
    pub(super) prefix: Option<u32>,
    pub(super) frame: u32,
}

/// Rows that are only ever added, each found by its key.
#[derive(Debug)]
pub(super) struct Interned<K, R> {
    rows: Vec<R>,
    ids: FxHashMap<K, u32>,
}

impl<K, R> Default for Interned<K, R> {
    fn default() -> Self {
        Self { rows: Vec::new(), ids: FxHashMap::default() }
    }
}

impl<K, R> Deref for Interned<K, R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.rows
    }
}

impl<K: Hash + Eq, R> Interned<K, R> {
    /// The number of the row of that key, if it has one.
    #[inline]
    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.ids.get(key).copied()
    }

    /// The number of the row of that key, which becomes `row` if it has none. Tables cannot come
    /// near the limit: each row takes several bytes of memory.
    #[inline]
    fn intern(&mut self, key: K, row: R) -> u32 {
        let new = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let found = *self.ids.entry(key).or_insert(new);
        if found == new {
            self.rows.push(row);
        }
        found
    }
}

/// Libraries, and their names as string rows.
#[derive(Default)]
pub(super) struct Libs {
    /// The machine's type.
    pub(super) arch: String,
    pub(super) rows: Interned<ModuleId, Lib>,
    pub(super) names: Vec<u32>,
}

/// What a row of the frame table is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FrameKey {
    Frame(FrameId),
    /// It stands in for frames that are not known, and says why.
    Label(&'static str, Category),
}

/// All shared tables.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) strings: StringTable,
    pub(super) libs: Libs,
    /// File names of the sources, as string rows.
    pub(super) sources: Interned<StringId, u32>,
    pub(super) funcs: Interned<Func, Func>,
    pub(super) natives: Interned<(u32, u64), NativeSymbol>,
    pub(super) frames: Interned<FrameKey, FrameRow>,
    pub(super) stacks: Interned<StackRow, StackRow>,
    model_stacks: FxHashMap<StackId, Option<u32>>,
    /// Names of the categories that programs brought; they follow the others.
    pub(super) categories: Vec<Box<str>>,
}

impl Shared {
    /// The row of a string.
    pub(super) fn string(&mut self, text: &str) -> u32 {
        self.strings.intern(text)
    }

    /// The row of a category of a program.
    pub(super) fn category(&mut self, name: Option<&str>) -> u16 {
        let Some(name) = name else { return Category::Other.index() };
        let known = self.categories.iter().position(|category| **category == *name);
        let index = known.or_else(|| {
            let room = self.categories.len() < MAX_CATEGORIES;
            room.then(|| self.categories.push(name.into()));
            room.then(|| self.categories.len() - 1)
        });
        index.map_or(Category::Other.index(), |index| Category::Gpu.index() + 1 + index as u16)
    }

    /// The stack of the model; `None` if it has no frames.
    #[inline]
    pub(super) fn stack(&mut self, id: StackId, tables: &Tables) -> Option<u32> {
        if let Some(row) = self.model_stacks.get(&id) {
            return *row;
        }
        let row = self.add_stack(tables.stack(id), tables);
        self.model_stacks.insert(id, row);
        row
    }

    /// The stack with a frame of its own as the innermost one, which says why there is no other.
    pub(super) fn labelled(
        &mut self,
        prefix: Option<u32>,
        label: &'static str,
        category: Category,
        sub: u8,
    ) -> u32 {
        let key = FrameKey::Label(label, category);
        let frame = self.frames.find(&key).unwrap_or_else(|| {
            let name = self.string(label);
            let func = Func { name, interpreted: false, lib: None, source: None };
            let row = FrameRow {
                address: -1,
                inline_depth: 0,
                category,
                subcategory: sub,
                func: self.funcs.intern(func, func),
                native_symbol: None,
                line: None,
            };
            self.frames.intern(key, row)
        });
        self.stack_row(StackRow { prefix, frame })
    }

    /// From the outermost frame inwards, as the table stores it.
    fn add_stack(&mut self, frames: &[FrameId], tables: &Tables) -> Option<u32> {
        let (mut prefix, mut native, mut depth) = (None, None, 0u8);
        for id in frames.iter().rev() {
            // Inlined frames follow the function that they are part of.
            depth = if tables.frame(*id).inlined { depth.saturating_add(1) } else { 0 };
            let frame = self.frame(*id, depth, native, tables);
            native = self.frames[frame as usize].native_symbol;
            prefix = Some(self.stack_row(StackRow { prefix, frame }));
        }
        prefix
    }

    fn stack_row(&mut self, row: StackRow) -> u32 {
        self.stacks.intern(row, row)
    }

    /// `native` is the function that an inlined frame is part of.
    fn frame(
        &mut self,
        id: FrameId,
        inline_depth: u8,
        native: Option<u32>,
        tables: &Tables,
    ) -> u32 {
        let key = FrameKey::Frame(id);
        if let Some(row) = self.frames.find(&key) {
            return row;
        }
        let frame = tables.frame(id);
        let lib = frame.module.map(|module| self.lib(module, tables));
        let module = frame.module.map(|module| tables.module(module));
        let kernel = module.map_or(frame.offset >> 63 == 1, |module| module.kind.is_kernel());
        let interpreted = module.is_some_and(|module| module.kind == ModuleKind::Python);
        let name = match frame.function {
            Some(function) => self.string(tables.strings.get(function)),
            // As the viewer names addresses itself; it shows the library beside it.
            None => self.string(&format!("{:#x}", frame.offset)),
        };
        let source = frame.file.map(|file| self.source(file, tables));
        let func = Func { name, interpreted, lib, source };
        // Kernel addresses are absolute and none of a library.
        let address = if kernel || lib.is_none() { -1 } else { relative(frame.offset) };
        let native_symbol = match lib {
            _ if inline_depth > 0 => native,
            Some(lib) if address >= 0 && frame.function.is_some() && frame.function_start > 0 => {
                let size = (frame.function_size > 0).then_some(frame.function_size);
                let symbol = NativeSymbol { lib, address: frame.function_start, name, size };
                Some(self.natives.intern((lib, symbol.address), symbol))
            }
            _ => None,
        };
        let row = FrameRow {
            address,
            inline_depth,
            category: match (kernel, interpreted) {
                (true, _) => Category::Kernel,
                (_, true) => Category::Python,
                _ => Category::User,
            },
            subcategory: 0,
            func: self.funcs.intern(func, func),
            native_symbol,
            line: (frame.line > 0).then_some(frame.line),
        };
        self.frames.intern(key, row)
    }

    fn source(&mut self, file: StringId, tables: &Tables) -> u32 {
        if let Some(row) = self.sources.find(&file) {
            return row;
        }
        let name = self.string(tables.strings.get(file));
        self.sources.intern(file, name)
    }

    fn lib(&mut self, module: ModuleId, tables: &Tables) -> u32 {
        if let Some(row) = self.libs.rows.find(&module) {
            return row;
        }
        let info = tables.module(module);
        let path = tables.strings.get(info.path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let name_row = self.string(name);
        self.libs.names.push(name_row);
        let lib = Lib {
            arch: self.libs.arch.clone(),
            name: name.to_owned(),
            path: path.to_owned(),
            debug_name: name.to_owned(),
            debug_path: path.to_owned(),
            breakpad_id: breakpad_id(&info.build_id),
            code_id: (!info.build_id.is_empty()).then(|| info.build_id.to_string()),
        };
        self.libs.rows.intern(module, lib)
    }
}

/// The viewer keeps addresses in 32 signed bits.
fn relative(offset: u64) -> i64 {
    i32::try_from(offset).map_or(-1, i64::from)
}

/// A build id as Breakpad writes it: the first 16 bytes as a GUID, whose first
/// three fields are little-endian, and the age 0.
fn breakpad_id(id: &BuildId) -> String {
    if id.is_empty() {
        return String::new();
    }
    let mut bytes = [0u8; 16];
    bytes.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    text.push('0');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_becomes_the_guid_that_symbol_servers_ask_for() {
        let id = BuildId::from_bytes(&(1..=20).collect::<Vec<u8>>());
        assert_eq!(breakpad_id(&id), "0403020106050807090A0B0C0D0E0F100");
        assert_eq!(breakpad_id(&BuildId::from_bytes(&[1])), "000000010000000000000000000000000");
        assert_eq!(breakpad_id(&BuildId::default()), "");
    }
}
