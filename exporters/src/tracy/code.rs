//! Call stacks, frames and symbols.
//!
//! The viewer knows one address space and names what lies in it. The model has
//! offsets in modules, which any number of processes map anywhere. So each
//! module gets an address of its own in which its offsets lie; the kernel and
//! code without a module keep their addresses. Where two frames would get one
//! address, the second gets another one.

use super::strings::FileStrings;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{Frame, FrameId, ModuleId, ModuleKind, StackId, StringId, Tables};

/// A frame's id has 62 bits; the viewer copies bits 60 and 61 to the two above.
const ID_MASK: u64 = (1 << 62) - 1;
/// Modules lie above all user space, 4 GiB apart, and below bit 60.
const MODULES: u64 = 1 << 47;
const MODULE_BITS: u32 = 32;
const MAX_PLACED_MODULES: u32 = 1 << 20;
/// Addresses for what finds none where it belongs.
const SPARE: u64 = 1 << 59;
/// The index of a call stack has 24 bits, and 0 is none.
const MAX_CALLSTACKS: usize = (1 << 24) - 1;
const MAX_FRAMES: usize = u16::MAX as usize;
const MAX_INLINED: usize = u8::MAX as usize;

/// A function, perhaps inlined, in a frame.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) symbol: u64,
}

/// A frame: the functions at one address, innermost first.
#[derive(Debug)]
pub(crate) struct CodeFrame {
    pub(crate) id: u64,
    pub(crate) image: u32,
    pub(crate) lines: Vec<Line>,
}

/// A function, or what is inlined of it into another.
#[derive(Debug)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) name: u32,
    pub(crate) file: u32,
    /// The lowest line that was met: where the function begins is not known.
    pub(crate) line: u32,
    pub(crate) image: u32,
    /// Where it is called, if it is inlined.
    pub(crate) call: Option<(u32, u32)>,
    pub(crate) size: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum SymbolKey {
    Function { module: Option<ModuleId>, start: u64, name: StringId },
    Inlined { outer: u64, name: Option<StringId>, file: Option<StringId> },
    Unnamed { module: Option<ModuleId> },
}

/// A set of addresses that are taken.
#[derive(Default)]
struct Addresses {
    taken: FxHashSet<u64>,
    spare: u64,
}

impl Addresses {
    /// `wanted`, or one soon after it, or a spare one.
    fn take(&mut self, wanted: u64) -> u64 {
        for address in wanted..wanted.saturating_add(64) {
            if address & ID_MASK != 0 && self.taken.insert(address & ID_MASK) {
                return address;
            }
        }
        loop {
            let address = SPARE + self.spare;
            self.spare += 1;
            if self.taken.insert(address) {
                return address;
            }
        }
    }
}

/// Call stacks, as indices of their frames.
#[derive(Default)]
struct CallStacks {
    /// Of all call stacks, one after the other.
    frames: Vec<u32>,
    ends: Vec<usize>,
    /// By [`StackId`]: the index of the call stack, from 1; 0 is not yet.
    by_stack: Vec<u32>,
    /// That of samples without one.
    none: u32,
}

impl CallStacks {
    /// The frames since the last one are a call stack: its index, from 1.
    fn end(&mut self) -> u32 {
        self.ends.push(self.frames.len());
        self.ends.len() as u32
    }
}

/// Rows that are found by a key, each with an address of its own.
struct AddressedRows<K, R> {
    rows: Vec<R>,
    ids: FxHashMap<K, u32>,
    addresses: Addresses,
}

impl<K, R> Default for AddressedRows<K, R> {
    fn default() -> Self {
        Self { rows: Vec::new(), ids: FxHashMap::default(), addresses: Addresses::default() }
    }
}

/// All code that samples point to.
pub(crate) struct Code {
    stacks: CallStacks,
    frames: AddressedRows<Box<[FrameId]>, CodeFrame>,
    symbols: AddressedRows<SymbolKey, Symbol>,
    unknown: u32,
    pub(crate) kernel: u32,
    /// Samples whose call stack found no room.
    pub(crate) refused: u64,
    /// Call stacks that were cut.
    pub(crate) cut: u64,
}

impl Code {
    /// With one call stack: that of samples that have none, which the format does not know.
    pub(crate) fn new(strings: &mut FileStrings) -> Self {
        let mut code = Self {
            stacks: CallStacks::default(),
            frames: AddressedRows::default(),
            symbols: AddressedRows::default(),
            unknown: strings.intern("[unknown]"),
            kernel: strings.intern("<kernel>"),
            refused: 0,
            cut: 0,
        };
        code.stacks.none = code.pseudo_stack(strings.intern("[no stack]"));
        code
    }

    /// The frames.
    pub(crate) fn frames(&self) -> &[CodeFrame] {
        &self.frames.rows
    }

    /// The functions.
    pub(crate) fn symbols(&self) -> &[Symbol] {
        &self.symbols.rows
    }

    fn pseudo_stack(&mut self, name: u32) -> u32 {
        let address = self.symbols.addresses.take(SPARE);
        let (file, image) = (self.unknown, self.unknown);
        self.symbols.rows.push(Symbol { address, name, file, line: 0, image, call: None, size: 0 });
        let id = self.frames.addresses.take(SPARE);
        self.frames.rows.push(CodeFrame {
            id,
            image,
            lines: vec![Line { name, file, line: 0, symbol: address }],
        });
        self.stacks.frames.push(self.frames.rows.len() as u32 - 1);
        self.stacks.end()
    }

    /// The index of a stack's call stack.
    pub(crate) fn callstack(
        &mut self,
        stack: Option<StackId>,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> u32 {
        let Some(stack) = stack else { return self.stacks.none };
        match self.stacks.by_stack.get(stack.index()) {
            Some(index) if *index != 0 => *index,
            _ => self.new_callstack(stack, strings, tables),
        }
    }

    /// The same, but 0 where there is no stack.
    pub(crate) fn callstack_or_none(
        &mut self,
        stack: Option<StackId>,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> u32 {
        stack.map_or(0, |stack| self.callstack(Some(stack), strings, tables))
    }

    #[cold]
    fn new_callstack(&mut self, stack: StackId, strings: &mut FileStrings, tables: &Tables) -> u32 {
        let frames = tables.stack(stack);
        if self.stacks.ends.len() >= MAX_CALLSTACKS {
            self.refused += 1;
            return self.stacks.none;
        }
        if frames.is_empty() {
            return self.stacks.none;
        }
        let begin = self.stacks.frames.len();
        // The innermost function of an address comes first and the one that is not inlined last.
        for frames in frames.chunk_by(|before, _| tables.frame(*before).inlined) {
            if self.stacks.frames.len() - begin == MAX_FRAMES {
                self.cut += 1;
                break;
            }
            let frame = match self.frames.ids.get(frames) {
                Some(frame) => *frame,
                None => self.new_code_frame(frames, strings, tables),
            };
            self.stacks.frames.push(frame);
        }
        let index = self.stacks.end();
        let by_stack = &mut self.stacks.by_stack;
        if stack.index() >= by_stack.len() {
            by_stack.resize(stack.index() + 1, 0);
        }
        by_stack[stack.index()] = index;
        index
    }

    fn new_code_frame(
        &mut self,
        frames: &[FrameId],
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> u32 {
        let outer = tables.frame(frames[frames.len() - 1]);
        let wanted = address(outer.module, outer.offset, tables);
        let id = self.frames.addresses.take(wanted & ID_MASK) & ID_MASK;
        let image = self.image(outer.module, strings, tables);
        let function = self.function(outer, image, strings, tables);
        let mut lines = vec![self.line(frames[frames.len() - 1], function, strings, tables)];
        // Outwards in, since an inlined function is told by the one around it.
        for inner in frames[..frames.len() - 1].iter().rev().take(MAX_INLINED - 1) {
            let around = &lines[lines.len() - 1];
            let call = (around.file, around.line);
            let symbol = self.inlined(
                tables.frame(*inner),
                (function, wanted, image),
                call,
                strings,
                tables,
            );
            lines.push(self.line(*inner, symbol, strings, tables));
        }
        lines.reverse();
        self.frames.rows.push(CodeFrame { id, image, lines });
        let index = self.frames.rows.len() as u32 - 1;
        self.frames.ids.insert(frames.into(), index);
        index
    }

    fn line(
        &self,
        frame: FrameId,
        symbol: u64,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> Line {
        let row = tables.frame(frame);
        let name = match row.function {
            Some(name) => strings.intern(tables.strings.get(name)),
            None => strings.intern(&tables.frame_label(frame)),
        };
        Line { name, file: self.file(row, strings, tables), line: row.line, symbol }
    }

    /// The source file. Where it is not known, kernel code is told as the
    /// viewer's own recordings tell it, and other code gets no name: with
    /// `[unknown]` the viewer would take it for external and hide it.
    fn file(&self, frame: &Frame, strings: &mut FileStrings, tables: &Tables) -> u32 {
        match frame.file {
            Some(file) => strings.intern(tables.strings.get(file)),
            None if is_kernel(frame.module, tables) => self.kernel,
            None => strings.intern(""),
        }
    }

    fn image(&self, module: Option<ModuleId>, strings: &mut FileStrings, tables: &Tables) -> u32 {
        let Some(module) = module.map(|id| tables.module(id)) else { return self.unknown };
        match module.kind {
            ModuleKind::Kernel => self.kernel,
            _ => strings.intern(tables.strings.get(module.path)),
        }
    }

    /// The symbol of a function that is not inlined.
    fn function(
        &mut self,
        frame: &Frame,
        image: u32,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> u64 {
        let module = frame.module;
        let (key, name, start) = match frame.function {
            Some(name) => {
                // Where a function begins is not always known; each of its addresses is then a
                // function.
                let start =
                    if frame.function_start == 0 { frame.offset } else { frame.function_start };
                (
                    SymbolKey::Function { module, start, name },
                    strings.intern(tables.strings.get(name)),
                    start,
                )
            }
            None => (
                SymbolKey::Unnamed { module },
                strings.intern(&unnamed(module, tables)),
                frame.offset,
            ),
        };
        let file = self.file(frame, strings, tables);
        let size = u32::try_from(frame.function_size).unwrap_or(u32::MAX);
        let wanted = address(module, start, tables);
        self.symbol(
            key,
            wanted,
            Symbol { address: 0, name, file, line: frame.line, image, call: None, size },
        )
    }

    /// The symbol of an inlined function. The viewer finds what is inlined into
    /// a function by addresses within it.
    fn inlined(
        &mut self,
        frame: &Frame,
        (outer, wanted, image): (u64, u64, u32),
        call: (u32, u32),
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> u64 {
        let name = frame.function.map_or("[unknown]", |name| tables.strings.get(name));
        let (name, file) = (strings.intern(name), self.file(frame, strings, tables));
        let key = SymbolKey::Inlined { outer, name: frame.function, file: frame.file };
        let symbol =
            Symbol { address: 0, name, file, line: frame.line, image, call: Some(call), size: 0 };
        self.symbol(key, wanted, symbol)
    }

    fn symbol(&mut self, key: SymbolKey, wanted: u64, symbol: Symbol) -> u64 {
        if let Some(index) = self.symbols.ids.get(&key) {
            let known = &mut self.symbols.rows[*index as usize];
            if symbol.line != 0 && (known.line == 0 || symbol.line < known.line) {
                known.line = symbol.line;
            }
            return known.address;
        }
        let address = self.symbols.addresses.take(wanted);
        self.symbols.ids.insert(key, self.symbols.rows.len() as u32);
        self.symbols.rows.push(Symbol { address, ..symbol });
        address
    }

    /// The ids of the frames of every call stack, in order.
    pub(crate) fn callstacks(
        &self,
    ) -> impl ExactSizeIterator<Item = impl ExactSizeIterator<Item = u64>> {
        self.stacks.ends.iter().enumerate().map(|(index, end)| {
            let begin = index.checked_sub(1).map_or(0, |before| self.stacks.ends[before]);
            self.stacks.frames[begin..*end].iter().map(|frame| self.frames.rows[*frame as usize].id)
        })
    }
}

fn is_kernel(module: Option<ModuleId>, tables: &Tables) -> bool {
    module.is_some_and(|id| tables.module(id).kind.is_kernel())
}

/// Where code lies in the file's one address space.
fn address(module: Option<ModuleId>, offset: u64, tables: &Tables) -> u64 {
    match module {
        Some(id) if !tables.module(id).kind.is_kernel() => {
            if id.0 < MAX_PLACED_MODULES && offset >> MODULE_BITS == 0 {
                MODULES + (u64::from(id.0) << MODULE_BITS) + offset
            } else {
                SPARE
            }
        }
        _ => offset,
    }
}

/// The one symbol for all addresses of a module that have no name.
fn unnamed(module: Option<ModuleId>, tables: &Tables) -> String {
    match module {
        Some(id) => {
            let path = tables.strings.get(tables.module(id).path);
            format!("[unknown in {}]", path.rsplit('/').next().unwrap_or(path))
        }
        None => "[unknown]".into(),
    }
}
