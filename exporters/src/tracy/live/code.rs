//! Stacks, and the functions at their addresses.

use crate::tracy::strings::clean;
use rustc_hash::FxHashMap;
use syscollect_model::{Frame, FrameId, ModuleId, ModuleKind, StackId, StringId, Tables};
use syscollect_tracy_protocol as tracy;
use syscollect_tracy_protocol::{Catalogue, FrameRow, LineRow};

/// Where addresses begin that stand for places in programs, and for functions; those of the kernel
/// have the highest bit. They are none of any process: each stands for a row.
const PLACES: u64 = 0x1000_0000_0000;
const FUNCTIONS: u64 = 0x2000_0000_0000;
const KERNEL: u64 = 0xffff_8000_0000_0000;
/// From one to the next.
const STEP: u64 = 16;

/// What a function is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FunctionKey {
    module: Option<ModuleId>,
    start: u64,
    name: Option<StringId>,
    inlined: bool,
}

/// All that stacks refer to.
#[derive(Debug, Default)]
pub(super) struct LiveCode {
    /// By the model's number.
    stacks: Vec<Option<Option<tracy::StackId>>>,
    places: FxHashMap<Box<[FrameId]>, u64>,
    functions: FxHashMap<FunctionKey, u64>,
    nowhere: Option<tracy::StackId>,
}

impl LiveCode {
    /// The viewer's number of a stack.
    #[inline]
    pub(super) fn stack(
        &mut self,
        stack: StackId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> Option<tracy::StackId> {
        match self.stacks.get(stack.index()) {
            Some(Some(known)) => *known,
            _ => self.new_stack(stack, catalogue, tables),
        }
    }

    #[cold]
    fn new_stack(
        &mut self,
        stack: StackId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> Option<tracy::StackId> {
        // The innermost function of an address comes first and the one that is not inlined last.
        let places = tables.stack(stack).chunk_by(|before, _| tables.frame(*before).inlined);
        let addresses: Box<[u64]> =
            places.map(|frames| self.place(frames, catalogue, tables)).collect();
        let known = catalogue.stack(addresses);
        if stack.index() >= self.stacks.len() {
            self.stacks.resize(stack.index() + 1, None);
        }
        self.stacks[stack.index()] = Some(known);
        known
    }

    /// The stack of samples without one.
    pub(super) fn no_stack(&mut self, catalogue: &mut Catalogue) -> tracy::StackId {
        *self.nowhere.get_or_insert_with(|| {
            let line = LineRow {
                name: "[no stack]".into(),
                file: "".into(),
                line: 0,
                symbol: FUNCTIONS - STEP,
                length: 0,
            };
            catalogue.frame(PLACES - STEP, FrameRow { image: "".into(), lines: vec![line] });
            // There is room for the first.
            catalogue.stack([PLACES - STEP].into()).unwrap_or(tracy::StackId(0))
        })
    }

    fn place(&mut self, frames: &[FrameId], catalogue: &mut Catalogue, tables: &Tables) -> u64 {
        if let Some(address) = self.places.get(frames) {
            return *address;
        }
        let Some(outer) = frames.last().map(|frame| tables.frame(*frame)) else { return PLACES };
        let kernel = if is_kernel(outer.module, tables) { KERNEL } else { 0 };
        let address = (PLACES + STEP * self.places.len() as u64) | kernel;
        let lines = frames.iter().map(|frame| self.line(*frame, kernel, tables)).collect();
        catalogue.frame(address, FrameRow { image: image(outer, tables), lines });
        self.places.insert(frames.into(), address);
        address
    }

    fn line(&mut self, frame: FrameId, kernel: u64, tables: &Tables) -> LineRow {
        let row = tables.frame(frame);
        let name = match row.function {
            Some(name) => clean(tables.strings.get(name)).into(),
            None => clean(&tables.frame_label(frame)).into(),
        };
        let start = if row.function_start == 0 { row.offset } else { row.function_start };
        let key = FunctionKey {
            module: row.module,
            // All addresses without a name are of one function.
            start: if row.function.is_some() { start } else { 0 },
            name: row.function,
            inlined: row.inlined,
        };
        let next = (FUNCTIONS + STEP * self.functions.len() as u64) | kernel;
        let symbol = *self.functions.entry(key).or_insert(next);
        let file: Box<str> = match row.file {
            Some(file) => clean(tables.strings.get(file)).into(),
            None if kernel != 0 => "<kernel>".into(),
            None => "".into(),
        };
        let length = u32::try_from(row.function_size).unwrap_or(0);
        LineRow { name, file, line: row.line, symbol, length }
    }
}

fn image(frame: &Frame, tables: &Tables) -> Box<str> {
    let Some(module) = frame.module.map(|id| tables.module(id)) else {
        return "[unknown]".into();
    };
    match module.kind {
        ModuleKind::Kernel => "<kernel>".into(),
        _ => clean(tables.strings.get(module.path)).into(),
    }
}

fn is_kernel(module: Option<ModuleId>, tables: &Tables) -> bool {
    module.is_some_and(|id| tables.module(id).kind.is_kernel())
}
