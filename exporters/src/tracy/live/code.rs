//! Stacks, and the functions at their addresses.

use super::names::{CodeToName, LiveNames, ModuleToName};
use super::recording_frames::RecordingFrames;
use crate::tracy::strings::clean;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_model::{
    BuildId, Frame, FrameId, ModuleId, ModuleKind, StackId, Symbol, SymbolFrame, SymbolTable,
    Tables,
};
use syscollect_tracy_protocol as tracy;
use syscollect_tracy_protocol::{Catalogue, FrameRow, LineRow, Session};

/// Where addresses begin that stand for places in programs, and for functions; those of the kernel
/// have the highest bit. They are none of any process: each stands for a row.
const PLACES: u64 = 0x1000_0000_0000;
const FUNCTIONS: u64 = 0x2000_0000_0000;
const KERNEL: u64 = 0xffff_8000_0000_0000;
/// From one to the next.
const STEP: u64 = 16;

/// Places that are known by what lies there: where there are more, all begin anew.
const MOST_PLACES: usize = 1 << 17;

/// A file of code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CodeFile {
    image: Arc<str>,
    build_id: BuildId,
}

/// A file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CodeFileId(u32);

/// What a function is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FunctionKey {
    file: CodeFileId,
    start: u64,
    name: Option<Arc<str>>,
    inlined: bool,
}

/// What a function is known by that was found when a viewer asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FoundFunction {
    image: Arc<str>,
    start: u64,
    name: Arc<str>,
}

/// What a place is known by: rows of frames may go and come again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PlaceKey {
    file: CodeFileId,
    offset: u64,
    /// The functions there.
    symbols: Box<[u64]>,
}

/// What of a stack is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldPart {
    /// All of it.
    Whole,
    /// Without what recording puts on top where a thread leaves its CPU.
    WithoutRecording,
}

/// The viewer's numbers of stacks, by the model's; `None` where there is no room for one.
#[derive(Debug, Default)]
struct KnownStacks(Vec<Option<Option<tracy::StackId>>>);

impl KnownStacks {
    #[inline]
    fn get(&self, stack: StackId) -> Option<Option<tracy::StackId>> {
        self.0.get(stack.index()).copied().flatten()
    }

    fn add(&mut self, stack: StackId, known: Option<tracy::StackId>) {
        if stack.index() >= self.0.len() {
            self.0.resize(stack.index() + 1, None);
        }
        self.0[stack.index()] = Some(known);
    }
}

/// Texts that many places have, each there once.
#[derive(Debug, Default)]
struct SharedTexts(FxHashSet<Arc<str>>);

impl SharedTexts {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

/// All that stacks refer to.
#[derive(Debug, Default)]
pub(super) struct LiveCode {
    texts: SharedTexts,
    files: FxHashMap<CodeFile, CodeFileId>,
    whole: KnownStacks,
    without_recording: KnownStacks,
    /// By the model's numbers.
    places: FxHashMap<Box<[FrameId]>, u64>,
    known: FxHashMap<PlaceKey, u64>,
    functions: FxHashMap<FunctionKey, u64>,
    /// How many places and functions there were.
    place_count: u64,
    function_count: u64,
    /// Functions that were found when a viewer asked.
    found_functions: FxHashMap<FoundFunction, u64>,
    /// Where somebody finds names.
    names: Option<LiveNames>,
    recording_frames: Option<RecordingFrames>,
    nowhere: Option<tracy::StackId>,
}

impl LiveCode {
    /// The viewer's number of a part of a stack.
    #[inline]
    pub(super) fn stack(
        &mut self,
        stack: StackId,
        part: ToldPart,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> Option<tracy::StackId> {
        match self.known_stacks(part).get(stack) {
            Some(known) => known,
            None => self.new_stack(stack, part, catalogue, tables),
        }
    }

    #[inline]
    fn known_stacks(&mut self, part: ToldPart) -> &mut KnownStacks {
        match part {
            ToldPart::Whole => &mut self.whole,
            ToldPart::WithoutRecording => &mut self.without_recording,
        }
    }

    /// The model's numbers of stacks, frames and modules mean others from now on.
    pub(super) fn forget(&mut self, catalogue: &mut Catalogue) {
        self.whole = KnownStacks::default();
        self.without_recording = KnownStacks::default();
        self.places = FxHashMap::default();
        let begins_anew = self.known.len() > MOST_PLACES || self.functions.len() > MOST_PLACES;
        if catalogue.forget_stacks() || begins_anew {
            self.nowhere = None;
        }
        if begins_anew {
            self.known = FxHashMap::default();
            self.functions = FxHashMap::default();
            self.found_functions = FxHashMap::default();
            self.files = FxHashMap::default();
            self.texts = SharedTexts::default();
            catalogue.forget_frames();
            self.names.iter_mut().for_each(LiveNames::forget);
            self.recording_frames.iter_mut().for_each(RecordingFrames::forget);
        }
    }

    #[cold]
    fn new_stack(
        &mut self,
        stack: StackId,
        part: ToldPart,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> Option<tracy::StackId> {
        let addresses = self.addresses(stack, catalogue, tables);
        let own = match (part, &mut self.recording_frames) {
            (ToldPart::WithoutRecording, Some(frames)) => {
                let kernel = addresses.partition_point(|address| address & KERNEL == KERNEL);
                frames.count(&addresses[..kernel], catalogue)
            }
            _ => 0,
        };
        let known = match (part, own) {
            // It is the same one.
            (ToldPart::WithoutRecording, 0) => {
                self.stack(stack, ToldPart::Whole, catalogue, tables)
            }
            _ => catalogue.stack(&addresses[own..]),
        };
        self.known_stacks(part).add(stack, known);
        known
    }

    /// What stands for the places of a stack.
    fn addresses(
        &mut self,
        stack: StackId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> Vec<u64> {
        // The innermost function of an address comes first and the one that is not inlined last.
        let places = tables.stack(stack).chunk_by(|before, _| tables.frame(*before).inlined);
        places.map(|frames| self.place(frames, catalogue, tables)).collect()
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
            let lines = [line].into();
            catalogue.frame(PLACES - STEP, FrameRow { image: "".into(), lines });
            // There is room for the first.
            catalogue.stack(&[PLACES - STEP]).unwrap_or(tracy::StackId(0))
        })
    }

    fn place(&mut self, frames: &[FrameId], catalogue: &mut Catalogue, tables: &Tables) -> u64 {
        if let Some(address) = self.places.get(frames) {
            return *address;
        }
        let Some(outer) = frames.last().map(|frame| tables.frame(*frame)) else { return PLACES };
        let kernel = if is_kernel(outer.module, tables) { KERNEL } else { 0 };
        let lines: Box<[LineRow]> =
            frames.iter().map(|frame| self.line(*frame, kernel, tables)).collect();
        let symbols = lines.iter().map(|line| line.symbol).collect();
        let file = self.file(outer, tables);
        let key = PlaceKey { file: self.file_id(&file), offset: outer.offset, symbols };
        if let Some(address) = self.known.get(&key) {
            self.places.insert(frames.into(), *address);
            return *address;
        }
        let address = (PLACES + STEP * self.place_count) | kernel;
        self.place_count += 1;
        catalogue.frame(address, FrameRow { image: file.image, lines });
        self.known.insert(key, address);
        self.places.insert(frames.into(), address);
        if let (Some(names), Some(module)) = (&mut self.names, to_name(outer, tables)) {
            names.add(address, module, outer.offset);
            catalogue.may_be_named(address);
        }
        address
    }

    /// From now on somebody finds names; this says which are of functions of the recording.
    pub(super) fn find_names(&mut self, is_of_recording: fn(&str) -> bool) {
        self.names.get_or_insert_default();
        self.recording_frames = Some(RecordingFrames::new(is_of_recording));
    }

    /// Places whose names the session's viewer waits for: of files so many at most.
    pub(super) fn take_to_name(&mut self, session: &mut Session, most: usize) -> Vec<CodeToName> {
        let Some(names) = &mut self.names else { return Vec::new() };
        if !session.is_watched() {
            names.forget_wanted();
        }
        let of_recording = self.recording_frames.iter_mut().map(RecordingFrames::take_wanted);
        of_recording.for_each(|places| names.want(places));
        names.want(session.take_to_name());
        names.ask(most)
    }

    /// What was found in some of the modules of what was to be named.
    pub(super) fn add_names(&mut self, session: &mut Session, tables: &[SymbolTable]) {
        let Some(names) = &mut self.names else { return };
        for (address, symbol) in names.found(tables) {
            self.found(session, address, symbol);
        }
    }

    /// What else was to be named has no name.
    pub(super) fn end_names(&mut self, session: &mut Session) {
        let Some(names) = &mut self.names else { return };
        for address in names.not_found() {
            self.found(session, address, None);
        }
    }

    fn found(&mut self, session: &mut Session, address: u64, symbol: Option<&Symbol>) {
        let function = symbol.and_then(|symbol| symbol.frames.last());
        let function = function.map(|frame| &*frame.function);
        let frames = self.recording_frames.as_mut();
        if frames.is_some_and(|frames| frames.found(address, function)) {
            self.without_recording = KnownStacks::default();
        }
        let row = symbol.and_then(|symbol| self.found_row(address, symbol, session));
        session.named(address, row);
    }

    /// What waits for names gets none.
    pub(super) fn give_up_names(&mut self, session: &mut Session) {
        let Some(names) = &mut self.names else { return };
        names.want(session.take_to_name());
        names.give_up().into_iter().for_each(|address| session.named(address, None));
    }

    /// What stands at an address, now that it has a name.
    fn found_row(
        &mut self,
        address: u64,
        symbol: &Symbol,
        session: &mut Session,
    ) -> Option<FrameRow> {
        let mut image = session.catalogue.image(address)?;
        if !symbol.kernel_module.is_empty() {
            image = self.texts.get(&clean(&format!("[{}]", symbol.kernel_module)));
        }
        let kernel = address & KERNEL;
        let length = u32::try_from(symbol.size).unwrap_or(0);
        let line = |frame: &SymbolFrame| {
            let name = self.texts.get(&clean(&frame.function));
            let (start, image) = (symbol.start, Arc::clone(&image));
            let key = FoundFunction { image, start, name: Arc::clone(&name) };
            let count = &mut self.function_count;
            let entry = self.found_functions.entry(key);
            let number = *entry.or_insert_with(|| new_function(count) | kernel);
            let file = match &*frame.file {
                "" if kernel != 0 => self.texts.get("<kernel>"),
                file => self.texts.get(&clean(file)),
            };
            LineRow { name, file, line: frame.line, symbol: number, length }
        };
        let lines: Box<[LineRow]> = symbol.frames.iter().map(line).collect();
        (!lines.is_empty()).then_some(FrameRow { image, lines })
    }

    /// The file of code of a frame.
    fn file(&mut self, frame: &Frame, tables: &Tables) -> CodeFile {
        let Some(module) = frame.module.map(|id| tables.module(id)) else {
            return CodeFile { image: self.texts.get("[unknown]"), build_id: BuildId::default() };
        };
        let image = match module.kind {
            ModuleKind::Kernel => self.texts.get("<kernel>"),
            _ => self.texts.get(&clean(tables.strings.get(module.path))),
        };
        CodeFile { image, build_id: module.build_id.clone() }
    }

    fn file_id(&mut self, file: &CodeFile) -> CodeFileId {
        if let Some(known) = self.files.get(file) {
            return *known;
        }
        let id = CodeFileId(self.files.len() as u32);
        self.files.insert(file.clone(), id);
        id
    }

    fn line(&mut self, frame: FrameId, kernel: u64, tables: &Tables) -> LineRow {
        let row = tables.frame(frame);
        let name: Arc<str> = match row.function {
            Some(name) => self.texts.get(&clean(tables.strings.get(name))),
            None => (&*clean(&tables.frame_label(frame))).into(),
        };
        let file = self.file(row, tables);
        let start = if row.function_start == 0 { row.offset } else { row.function_start };
        let key = FunctionKey {
            file: self.file_id(&file),
            // All addresses without a name are of one function.
            start: if row.function.is_some() { start } else { 0 },
            name: row.function.map(|_| Arc::clone(&name)),
            inlined: row.inlined,
        };
        let count = &mut self.function_count;
        let symbol = *self.functions.entry(key).or_insert_with(|| new_function(count) | kernel);
        let file = match row.file {
            Some(file) => self.texts.get(&clean(tables.strings.get(file))),
            None if kernel != 0 => self.texts.get("<kernel>"),
            None => self.texts.get(""),
        };
        let length = u32::try_from(row.function_size).unwrap_or(0);
        LineRow { name, file, line: row.line, symbol, length }
    }
}

/// What stands for one more function.
fn new_function(count: &mut u64) -> u64 {
    *count += 1;
    FUNCTIONS + STEP * (*count - 1)
}

/// The module of a place in which somebody may find its function.
fn to_name(frame: &Frame, tables: &Tables) -> Option<ModuleToName> {
    if !frame.is_unnamed() || frame.inlined {
        return None;
    }
    let module = tables.module(frame.module?);
    let path = tables.strings.get(module.path).to_owned();
    let build_id = match module.kind {
        ModuleKind::Kernel => BuildId::default(),
        ModuleKind::File | ModuleKind::MemoryFile | ModuleKind::Vdso => module.build_id.clone(),
        _ => return None,
    };
    Some(ModuleToName { path, build_id })
}

fn is_kernel(module: Option<ModuleId>, tables: &Tables) -> bool {
    module.is_some_and(|id| tables.module(id).kind.is_kernel())
}
