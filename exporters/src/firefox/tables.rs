//! What all threads of a profile share: strings, libraries, functions, frames, stacks.

use rustc_hash::FxHashMap;
use serde::Serialize;
use syscollect_model::{BuildId, FrameId, ModuleId, OffCpu, SleepState, StackId, StringId, Tables};

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
    let row = |name, color| CategoryRow { name, color, subcategories: vec!["Other"] };
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
        row("GPU", "green"),
    ];
    rows.extend(programs.iter().zip(COLORS.iter().cycle()).map(|(name, color)| row(name, color)));
    rows
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

/// All shared tables; rows are only ever added.
#[derive(Default)]
pub(super) struct Shared {
    /// The machine's type, for the libraries.
    pub(super) arch: String,
    pub(super) strings: Vec<Box<str>>,
    string_ids: FxHashMap<Box<str>, u32>,
    pub(super) libs: Vec<Lib>,
    /// The names of the libraries, as string rows.
    pub(super) lib_names: Vec<u32>,
    modules: FxHashMap<ModuleId, u32>,
    /// File names of the sources, as string rows.
    pub(super) sources: Vec<u32>,
    source_ids: FxHashMap<StringId, u32>,
    pub(super) funcs: Vec<Func>,
    func_ids: FxHashMap<Func, u32>,
    pub(super) natives: Vec<NativeSymbol>,
    native_ids: FxHashMap<(u32, u64), u32>,
    pub(super) frames: Vec<FrameRow>,
    frame_ids: FxHashMap<FrameId, u32>,
    label_ids: FxHashMap<(&'static str, Category), u32>,
    pub(super) stacks: Vec<StackRow>,
    stack_ids: FxHashMap<StackRow, u32>,
    model_stacks: FxHashMap<StackId, Option<u32>>,
    /// Names of the categories that programs brought; they follow the others.
    pub(super) categories: Vec<Box<str>>,
}

/// The next row's number. Tables cannot come near the limit: each row takes several bytes of
/// memory.
fn next<T>(rows: &[T]) -> u32 {
    u32::try_from(rows.len()).unwrap_or(u32::MAX)
}

impl Shared {
    /// The row of a string.
    pub(super) fn string(&mut self, text: &str) -> u32 {
        if let Some(row) = self.string_ids.get(text) {
            return *row;
        }
        let row = next(&self.strings);
        self.strings.push(text.into());
        self.string_ids.insert(text.into(), row);
        row
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
        let frame = match self.label_ids.get(&(label, category)) {
            Some(frame) => *frame,
            None => {
                let name = self.string(label);
                let func = self.func(Func { name, lib: None, source: None });
                let row = FrameRow {
                    address: -1,
                    inline_depth: 0,
                    category,
                    subcategory: sub,
                    func,
                    native_symbol: None,
                    line: None,
                };
                let frame = next(&self.frames);
                self.frames.push(row);
                self.label_ids.insert((label, category), frame);
                frame
            }
        };
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
        let new = next(&self.stacks);
        let found = *self.stack_ids.entry(row).or_insert(new);
        if found == new {
            self.stacks.push(row);
        }
        found
    }

    /// `native` is the function that an inlined frame is part of.
    fn frame(
        &mut self,
        id: FrameId,
        inline_depth: u8,
        native: Option<u32>,
        tables: &Tables,
    ) -> u32 {
        if let Some(row) = self.frame_ids.get(&id) {
            return *row;
        }
        let frame = tables.frame(id);
        let lib = frame.module.map(|module| self.lib(module, tables));
        let kernel = match frame.module {
            Some(module) => tables.module(module).kernel,
            None => frame.offset >> 63 == 1,
        };
        let name = match frame.function {
            Some(function) => self.string(tables.strings.get(function)),
            // As the viewer names addresses itself; it shows the library beside it.
            None => self.string(&format!("{:#x}", frame.offset)),
        };
        let source = frame.file.map(|file| self.source(file, tables));
        let func = self.func(Func { name, lib, source });
        // Kernel addresses are absolute and none of a library.
        let address = if kernel || lib.is_none() { -1 } else { relative(frame.offset) };
        let native_symbol = match lib {
            _ if inline_depth > 0 => native,
            Some(lib) if address >= 0 && frame.function.is_some() && frame.function_start > 0 => {
                let size = (frame.function_size > 0).then_some(frame.function_size);
                Some(self.native(NativeSymbol { lib, address: frame.function_start, name, size }))
            }
            _ => None,
        };
        let row = FrameRow {
            address,
            inline_depth,
            category: if kernel { Category::Kernel } else { Category::User },
            subcategory: 0,
            func,
            native_symbol,
            line: (frame.line > 0).then_some(frame.line),
        };
        let index = next(&self.frames);
        self.frames.push(row);
        self.frame_ids.insert(id, index);
        index
    }

    fn func(&mut self, func: Func) -> u32 {
        let new = next(&self.funcs);
        let found = *self.func_ids.entry(func).or_insert(new);
        if found == new {
            self.funcs.push(func);
        }
        found
    }

    fn native(&mut self, symbol: NativeSymbol) -> u32 {
        let new = next(&self.natives);
        let found = *self.native_ids.entry((symbol.lib, symbol.address)).or_insert(new);
        if found == new {
            self.natives.push(symbol);
        }
        found
    }

    fn source(&mut self, file: StringId, tables: &Tables) -> u32 {
        if let Some(row) = self.source_ids.get(&file) {
            return *row;
        }
        let (name, row) = (self.string(tables.strings.get(file)), next(&self.sources));
        self.sources.push(name);
        self.source_ids.insert(file, row);
        row
    }

    fn lib(&mut self, module: ModuleId, tables: &Tables) -> u32 {
        if let Some(row) = self.modules.get(&module) {
            return *row;
        }
        let (info, row) = (tables.module(module), next(&self.libs));
        let path = tables.strings.get(info.path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let name_row = self.string(name);
        self.lib_names.push(name_row);
        self.libs.push(Lib {
            arch: self.arch.clone(),
            name: name.to_owned(),
            path: path.to_owned(),
            debug_name: name.to_owned(),
            debug_path: path.to_owned(),
            breakpad_id: breakpad_id(&info.build_id),
            code_id: (!info.build_id.is_empty()).then(|| info.build_id.to_string()),
        });
        self.modules.insert(module, row);
        row
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
